// Uses of the JavaScript client that must type-check, and (behind @ts-expect-error) some that must not. Never run.
import { ask, follow, Problem, type Auth, type Envelope, type Gap } from "../../server/agentkit_server/inspector/agentkit-client.js";

const auth: Auth = async (refused) => (refused ? "new" : "old");

export async function read(): Promise<string[]> {
  const { events } = await ask("/v1/agents/a/threads/t/runs", { input: "hello" }, { auth, key: "k" });
  const feed = follow(events, {
    auth,
    transport: "websocket",
    types: ["text"],
    giveUp: ({ status }) => status === 404,
    onstate: (state) => {
      if (state.name === "waiting") console.log(state.until, state.error);
    },
  });
  const out: string[] = [];
  try {
    for await (const item of feed) {
      if (item.gap) out.push(lost(item.gap));
      else out.push(said(item.envelope), item.raw);
    }
  } catch (error) {
    if (error instanceof Problem) out.push(`${error.status} ${error.code} ${error.retryAfter}`);
  }
  feed.retry();
  feed.close();
  return [...out, feed.cursor];
}

function lost({ from, to, reason }: Gap): string {
  return `${from}-${to} ${reason}`;
}

function said(envelope: Envelope): string {
  return `${envelope.seq} ${envelope.type} ${envelope.run ?? ""}`;
}

// @ts-expect-error there is no such transport
follow("/v1/agents/a/threads/t", { transport: "pigeon" });
// @ts-expect-error a cursor is text, not a number
follow("/v1/agents/a/threads/t", { after: 3 });
