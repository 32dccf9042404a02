/**
 * Carry a feed over Server-Sent Events, read with fetch.
 *
 * The browser's own EventSource stops for ever on any status but 200 and does not tell why; this one leaves the decision
 * to `feed.js`. It does not reconnect and keeps no state between two calls.
 * Source: WHATWG HTML, server-sent events, parsing (LF and CRLF; this server never sends a lone CR).
 */

import { Problem, openEvents } from "./api.js";

/** Cut a text stream into events. `feed` returns those that the text completes. */
export class EventDecoder {
  #rest = "";
  #data = [];
  #id = null;
  #retry = null;

  feed(text) {
    const events = [];
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop();
    for (const raw of lines) {
      const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
      if (line === "") this.#dispatch(events);
      else if (!line.startsWith(":")) this.#field(line);
    }
    return events;
  }

  #field(line) {
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + (line[colon + 1] === " " ? 2 : 1));
    if (name === "data") this.#data.push(value);
    else if (name === "id" && !value.includes("\0")) this.#id = value;
    else if (name === "retry" && /^\d+$/.test(value)) this.#retry = Number(value);
  }

  #dispatch(events) {
    if (this.#data.length || this.#retry !== null) {
      events.push({ id: this.#id, data: this.#data.length ? this.#data.join("\n") : null, retry: this.#retry });
    }
    this.#data = [];
    this.#id = null;
    this.#retry = null;
  }
}

/**
 * Read one connection until it ends. Resolves at a clean end.
 *
 * `sink` gets `alive()` for any bytes, `hello(data, id)`, `records([{ raw, envelope }])`, `gap(data, id)`,
 * `position(id)` and `retry(ms)`.
 *
 * Throws a Problem with `status` where the server refuses, a TypeError where the link breaks.
 */
export async function carryEvents(topic, cursor, sink, signal) {
  const response = await openEvents(topic, cursor, signal);
  if (response.status === 204) throw new Problem("the feed has ended", { status: 204 });
  const decoder = new EventDecoder();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    sink.alive();
    hand(decoder.feed(value), sink);
  }
}

/** Hand on the events of one read: records together, control frames in their place between them. */
function hand(events, sink) {
  let batch = [];
  const flush = () => {
    if (batch.length) sink.records(batch);
    batch = [];
  };
  for (const event of events) {
    if (event.retry !== null) sink.retry(event.retry);
    if (event.data === null) continue;
    const envelope = JSON.parse(event.data);
    if (typeof envelope.seq === "number") {
      batch.push({ raw: event.data, envelope });
      continue;
    }
    flush();
    if (envelope.type === "stream.hello") sink.hello(envelope.data ?? {}, event.id);
    else if (envelope.type === "stream.gap") sink.gap(envelope.data ?? {}, event.id);
    else if (envelope.type === "stream.position") sink.position(event.id);
    else if (envelope.type === "stream.closing") sink.retry(envelope.data?.retry_ms ?? 0);
  }
  flush();
}
