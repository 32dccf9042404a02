/**
 * Carry a feed over a WebSocket (`agentkit.v1`).
 *
 * The same face as `sse.js`: one connection, no state between two calls. Runs are started and stopped over HTTP either way.
 * Grounds: design.md §7 (operations, close codes).
 */

import { Problem, socketAddress } from "./api.js";

const PING = 20_000; // ms; the page's watchdog gives up after 45 s without a sign of life

/** Read one connection until it ends; see `carryEvents`. Throws a Problem with the close `code`. */
export function carrySocket(topic, cursor, sink, signal) {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(socketAddress(), ["agentkit.v1"]);
    const say = (frame) => socket.readyState === WebSocket.OPEN && socket.send(JSON.stringify(frame));
    const pinger = setInterval(() => say({ op: "ping", t: Date.now() }), PING);
    const abort = () => socket.close(1000);
    let problem = null;

    signal.addEventListener("abort", abort, { once: true });
    socket.onopen = () => say({ op: "hello", v: 1 });
    socket.onmessage = ({ data }) => {
      sink.alive();
      const frame = JSON.parse(data);
      if (frame.op === "welcome") say({ op: "sub", rid: "feed", topic, after: cursor });
      else if (frame.op === "err") {
        problem = frame.problem;
        socket.close(1000);
      } else hand(frame, sink);
    };
    socket.onclose = ({ code, reason }) => {
      clearInterval(pinger);
      signal.removeEventListener("abort", abort);
      if (signal.aborted) reject(signal.reason);
      else if (problem) reject(new Problem(problem.detail ?? problem.title, { status: problem.status, code }));
      else if (code === 1000) resolve();
      else reject(new Problem(reason || `the socket was closed (${code})`, { code }));
    };
  });
}

function hand(frame, sink) {
  if (frame.op === "ok" && frame.rid === "feed") {
    sink.hello(frame, frame.epoch === undefined ? null : `${frame.epoch}-${frame.after}`);
  } else if (frame.op === "ev") {
    const records = frame.e.map((envelope) => ({ raw: JSON.stringify(envelope), envelope }));
    if (records.length) sink.records(records);
    else if (frame.id) sink.position(frame.id);
  } else if (frame.op === "gap") sink.gap(frame, frame.id ?? null);
  else if (frame.op === "bye") sink.retry(frame.retry_ms ?? 0);
}
