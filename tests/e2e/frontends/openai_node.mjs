// The real `openai` client for Node: each scenario as raw chunks and through `.stream()`. Prints one JSON line for each.
import OpenAI from "openai";

const [url, names, tools] = process.argv.slice(1);
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 });
const request = (model) => ({
  model,
  messages: [{ role: "user", content: "go" }],
  stream: true,
  stream_options: { include_usage: true },
  tools: JSON.parse(tools)[model],
});

async function raw(model) {
  const seen = { content: "", reasoning: "", refusal: "", finishes: [], calls: [], usage: null, error: null };
  try {
    for await (const chunk of await client.chat.completions.create(request(model))) {
      seen.usage = chunk.usage ?? seen.usage;
      for (const { delta, finish_reason } of chunk.choices) {
        seen.content += delta.content ?? "";
        seen.reasoning += delta.reasoning_content ?? "";
        seen.refusal += delta.refusal ?? "";
        for (const call of delta.tool_calls ?? []) seen.calls.push([call.id, call.function.name, call.function.arguments]);
        if (finish_reason) seen.finishes.push(finish_reason);
      }
    }
  } catch (error) {
    seen.error = [error.constructor.name, error.code ?? null, error.message];
  }
  return seen;
}

async function helper(model) {
  const seen = { deltas: "", content: null, refusal: null, calls: [], finish: null, total: null, error: null };
  const stream = client.chat.completions.stream(request(model));
  stream.on("content", (delta) => { seen.deltas += delta; });
  try {
    const { choices: [{ message, finish_reason }], usage } = await stream.finalChatCompletion();
    seen.content = message.content;
    seen.refusal = message.refusal;
    seen.calls = (message.tool_calls ?? []).map((call) => [call.id, call.function.name, call.function.arguments]);
    seen.finish = finish_reason;
    seen.total = usage.total_tokens;
  } catch (error) {
    seen.error = [error.constructor.name, error.code ?? null, error.message];
  }
  return seen;
}

for (const model of names.split(",")) {
  console.log(JSON.stringify({ model, raw: await raw(model), helper: await helper(model) }));
}
const models = [];
for await (const model of client.models.list()) models.push(model.id);
console.log(JSON.stringify({ models }));
