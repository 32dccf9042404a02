import { useChat } from "@ai-sdk/react";
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } from "ai";
import { useMemo, useState } from "react";
import { Part } from "./part.jsx";

export function Chat({ api, id, messages: saved }) {
  const transport = useMemo(
    () =>
      new DefaultChatTransport({
        api,
        // The server keeps the history: the last message is all it needs.
        prepareSendMessagesRequest: ({ id, messages, trigger, messageId }) => ({
          body: { id, message: messages.at(-1), trigger, messageId },
        }),
      }),
    [api],
  );
  const { messages, sendMessage, regenerate, addToolApprovalResponse, status, error } = useChat({
    id,
    messages: saved,
    transport,
    resume: true,
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
  });
  const [text, setText] = useState("");
  const busy = status === "submitted" || status === "streaming";
  // useChat's own stop() only closes the connection; the agent goes on until the server is asked.
  const stop = () => fetch(`${api}/${id}/stop`, { method: "POST" });

  return (
    <main data-status={status}>
      {messages.map((message) => (
        <article key={message.id} id={message.id} data-role={message.role}>
          {message.parts.map((part, place) => (
            <Part key={place} part={part} onDecide={addToolApprovalResponse} />
          ))}
        </article>
      ))}
      {error && <p role="alert">{error.message}</p>}
      <form
        onSubmit={(event) => {
          event.preventDefault();
          sendMessage({ text });
          setText("");
        }}
      >
        <input aria-label="Message" value={text} onChange={(event) => setText(event.target.value)} />
        {busy ? (
          <button key="stop" type="button" onClick={stop}>
            Stop
          </button>
        ) : (
          <button key="send" disabled={!text.trim()}>
            Send
          </button>
        )}
        <button type="button" disabled={busy || messages.length === 0} onClick={() => regenerate()}>
          Again
        </button>
      </form>
    </main>
  );
}
