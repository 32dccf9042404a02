// Chats of the AI SDK, driven by commands: a JSON value a line on standard input, its answer a line on standard output.
import { createInterface } from "node:readline";
import { Chat } from "@ai-sdk/react";
import * as five from "ai-5";
import {
  DefaultChatTransport,
  asSchema,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
  readUIMessageStream,
  uiMessageChunkSchema,
} from "ai";

const chats = new Map();
const NEW = { schema: asSchema(uiMessageChunkSchema), read: readUIMessageStream };

const transport = ({ api, body }) =>
  new DefaultChatTransport({
    api,
    ...(body === "last" && {
      prepareSendMessagesRequest: ({ id, messages, trigger, messageId }) => ({
        body: { id, message: messages.at(-1), trigger, messageId },
      }),
    }),
  });

// SDK 5, which reads chunks by older and narrower schemas
const FIVE = { schema: five.asSchema(five.uiMessageChunkSchema), read: five.readUIMessageStream };

const user = (text) => ({ id: crypto.randomUUID(), role: "user", parts: [{ type: "text", text }] });

async function fold(stream, { schema, read }) {
  const chunks = [];
  const wrong = [];
  const noted = stream.pipeThrough(
    new TransformStream({
      async transform(chunk, controller) {
        chunks.push(structuredClone(chunk));
        const checked = await schema.validate(chunk);
        if (!checked.success) wrong.push(String(checked.error));
        controller.enqueue(chunk);
      },
    }),
  );
  let message = null;
  let error = null;
  try {
    const messages = read({ stream: noted, terminateOnError: true });
    for await (const one of messages) message = structuredClone(one);
  } catch (failure) {
    error = String(failure.message);
  }
  return { chunks, message, error, wrong };
}

const look = ({ chat, finishes, data }) => ({
  messages: chat.messages,
  status: chat.status,
  error: chat.error?.message ?? null,
  finishes,
  data,
});

const note = (held, promise) => {
  held.pending = promise.catch((error) => held.finishes.push({ thrown: String(error) }));
};

const commands = {
  // the transport alone, to the end
  async stream(command) {
    const isFive = command.sdk === 5;
    const sender = isFive ? new five.DefaultChatTransport({ api: command.api }) : transport(command);
    const stream = await sender.sendMessages({
      chatId: command.chat,
      messages: [user(command.text)],
      trigger: "submit-message",
    });
    return fold(stream, isFive ? FIVE : NEW);
  },
  async reconnect(command) {
    const stream = await transport(command).reconnectToStream({ chatId: command.chat });
    return stream === null ? null : fold(stream, NEW);
  },
  // a chat with its state, as useChat has it
  async open({ name, chat: id, messages, tools, ...more }) {
    const held = { finishes: [], data: [], pending: Promise.resolve() };
    held.chat = new Chat({
      id,
      messages: messages ?? [],
      transport: transport(more),
      onFinish: ({ isAbort, isDisconnect, isError }) => held.finishes.push({ isAbort, isDisconnect, isError }),
      onData: (part) => held.data.push(part),
      sendAutomaticallyWhen: (state) =>
        lastAssistantMessageIsCompleteWithApprovalResponses(state) ||
        (tools != null && lastAssistantMessageIsCompleteWithToolCalls(state)),
      onToolCall: ({ toolCall }) => {
        const { toolName, toolCallId } = toolCall;
        if (tools && toolName in tools) {
          held.chat.addToolOutput({ tool: toolName, toolCallId, output: tools[toolName] });
        }
      },
    });
    chats.set(name, held);
    return true;
  },
  async say({ name, ...message }) {
    const held = chats.get(name);
    note(held, held.chat.sendMessage(message));
    return true;
  },
  async resume({ name }) {
    const held = chats.get(name);
    note(held, held.chat.resumeStream());
    return true;
  },
  async regenerate({ name, messageId }) {
    const held = chats.get(name);
    note(held, held.chat.regenerate({ messageId }));
    return true;
  },
  async approve({ name, id, approved, reason }) {
    await chats.get(name).chat.addToolApprovalResponse({ id, approved, reason });
    return true;
  },
  async stop({ name }) {
    await chats.get(name).chat.stop();
    return true;
  },
  // until the messages hold some words, or the chat has a status
  async until({ name, words, status }) {
    const { chat } = chats.get(name);
    const end = performance.now() + 20_000;
    const seen = () =>
      (words == null || JSON.stringify(chat.messages).includes(words)) && (status == null || chat.status === status);
    while (!seen()) {
      if (performance.now() > end) throw new Error(`waited for ${words ?? status}: ${JSON.stringify(chat.messages)}`);
      await new Promise((done) => setTimeout(done, 5));
    }
    return look(chats.get(name));
  },
  async settle({ name }) {
    await chats.get(name).pending;
    return look(chats.get(name));
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { op, ...command } = JSON.parse(line);
  let answer;
  try {
    answer = { ok: await commands[op](command) };
  } catch (error) {
    answer = { failed: String(error?.message ?? error), name: error?.name };
  }
  console.log(JSON.stringify(answer));
}
