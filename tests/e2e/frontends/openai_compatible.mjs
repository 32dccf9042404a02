// The AI SDK with `@ai-sdk/openai-compatible` as its provider: each scenario through `streamText` and `generateText`.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, jsonSchema, streamText, tool } from "ai";

const [url, names, tools] = process.argv.slice(1);
const provider = createOpenAICompatible({ name: "agentkit", baseURL: `${url}/v1`, includeUsage: true });
const declared = (model) =>
  Object.fromEntries(
    (JSON.parse(tools)[model] ?? []).map(({ function: one }) => [
      one.name,
      tool({ description: "Find.", inputSchema: jsonSchema(one.parameters) }),
    ]),
  );

async function streamed(name) {
  const seen = { text: "", reasoning: [], calls: [], errors: [], finish: null, usage: null, open: 0 };
  const result = streamText({
    model: provider(name), prompt: "go", tools: declared(name), maxRetries: 0, onError: () => {},
  });
  for await (const part of result.fullStream) {
    if (part.type === "text-delta") seen.text += part.text;
    if (part.type === "reasoning-start") { seen.reasoning.push(""); seen.open += 1; }
    if (part.type === "reasoning-delta") seen.reasoning[seen.reasoning.length - 1] += part.text;
    if (part.type === "reasoning-end") seen.open -= 1;
    if (part.type === "text-start") seen.open += 1;
    if (part.type === "text-end") seen.open -= 1;
    if (part.type === "tool-call") seen.calls.push([part.toolCallId, part.toolName, part.input]);
    if (part.type === "error") seen.errors.push(String(part.error?.message ?? part.error));
    if (part.type === "finish") { seen.finish = part.finishReason; seen.usage = part.totalUsage; }
  }
  return seen;
}

async function whole(name) {
  try {
    const result = await generateText({ model: provider(name), prompt: "go", tools: declared(name), maxRetries: 0 });
    return { text: result.text, reasoning: result.reasoningText ?? "", finish: result.finishReason };
  } catch (error) {
    return { error: String(error.message) };
  }
}

for (const name of names.split(",")) {
  console.log(JSON.stringify({ model: name, streamed: await streamed(name), whole: await whole(name) }));
}
