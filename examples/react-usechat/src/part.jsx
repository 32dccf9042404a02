// One part of a message. Reasoning is open while it is being thought, and folded afterwards.
export function Part({ part, onDecide }) {
  switch (part.type) {
    case "text":
      return <p>{part.text}</p>;
    case "reasoning":
      return (
        <details open={part.state === "streaming"}>
          <summary>{part.state === "streaming" ? "Thinking…" : "Thought"}</summary>
          {part.text || "The provider keeps this to itself."}
        </details>
      );
    case "dynamic-tool":
      return (
        <section data-state={part.state}>
          <b>{part.toolName}</b> <code>{JSON.stringify(part.input)}</code>
          {part.state === "output-available" && <pre>{show(part.output)}</pre>}
          {part.state === "output-error" && <pre role="alert">{part.errorText}</pre>}
          {part.state === "approval-requested" && <Decision id={part.approval.id} onDecide={onDecide} />}
        </section>
      );
    case "file":
      return part.mediaType.startsWith("image/") ? <img src={part.url} alt="" /> : <a href={part.url}>file</a>;
    default:
      return null;
  }
}

function Decision({ id, onDecide }) {
  return (
    <>
      <button onClick={() => onDecide({ id, approved: true })}>Allow</button>
      <button onClick={() => onDecide({ id, approved: false })}>Deny</button>
    </>
  );
}

const show = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));
