// AG-UI clients of one package, driven line by line: each line on stdin is a command, each line on stdout what happened to one client.
// Argument: the package.
//   {"client": key, "url", "thread", "say": [messages], "state": …, "run": {parameters of runAgent}, "stopAfter": an event's type}
// says what the user says, runs the client's agent, and prints {"client", "event"} for each event that has passed the client's own
// verification, then {"client", "done": {messages, state, pending, interrupts, warnings}} or {"client", "failed": text}.
import { createInterface } from "node:readline";

const { HttpAgent } = await import(process.argv[1]);
const agents = new Map();
let warnings = [];
console.warn = (...words) => warnings.push(words.map(String).join(" "));
console.error = () => {};
process.on("unhandledRejection", () => {}); // where a connection breaks, the clients let one go beside the error that they tell

async function run({ client, url, thread, say = [], state, run = {}, stopAfter }) {
  const print = (value) => process.stdout.write(JSON.stringify({ client, ...value }) + "\n");
  if (!agents.has(client)) agents.set(client, new HttpAgent({ url, threadId: thread }));
  const agent = agents.get(client);
  agent.messages.push(...say);
  if (state !== undefined) agent.state = state;
  let pending;
  try {
    await agent.runAgent(run, {
      onEvent({ event }) {
        print({ event });
        if (event.type === stopAfter) agent.abortRun();
      },
      onRunFinishedEvent(params) {
        pending = params.pendingToolCallIds;
      },
    });
    const { messages, state, pendingInterrupts } = agent;
    print({ done: { messages, state, pending, interrupts: pendingInterrupts, warnings } });
  } catch (error) {
    print({ failed: String(error?.message ?? error) });
  }
  warnings = [];
}

for await (const line of createInterface({ input: process.stdin })) void run(JSON.parse(line));
