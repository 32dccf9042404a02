/**
 * Ask the server: every request of the page is made here.
 *
 * All addresses are relative to the page's own, so that it works under any mount prefix and behind any proxy, and never
 * asks another host.
 */

const BASE = new URL("v1/", document.baseURI);
const TIMEOUT = 20_000; // ms; for everything but a feed

/** A refusal: an RFC 9457 problem, a bare HTTP status, or a socket's close code; `retryAfter` in seconds, or null. */
export class Problem extends Error {
  constructor(message, { status = 0, code = "", retryAfter = null } = {}) {
    super(message);
    Object.assign(this, { status, code, retryAfter });
  }
}

/** Return `agents/{agent}/threads/{thread}`: the name of a thread's feed on the wire. */
export function topicOf(agent, thread) {
  return `agents/${agent}/threads/${thread}`;
}

/** Return the agents: `[{ name, description, model, provider, default, available, note? }]`. */
export async function listAgents() {
  return (await ask("agents")).agents ?? [];
}

/** Return an agent's threads, as far as the first page names them. */
export async function listThreads(agent) {
  const answer = await ask(`agents/${agent}/threads`);
  return Array.isArray(answer) ? answer : answer.threads ?? [];
}

/** Return a thread's messages. */
export async function listMessages(topic) {
  const answer = await ask(`${topic}/messages`);
  return Array.isArray(answer) ? answer : answer.messages ?? [];
}

/** Start a run; returns `{ run, thread, events }`. */
export function startRun(topic, body) {
  return ask(`${topic}/runs`, body);
}

/** Ask a run to stop. The outcome is an event. */
export function cancelRun(topic, run) {
  return ask(`${topic}/runs/${encodeURIComponent(run)}/cancel`, {});
}

/** Put a message into a run that goes on. */
export function steerRun(topic, run, input) {
  return ask(`${topic}/runs/${encodeURIComponent(run)}/steer`, { input });
}

/** Decide a call that waits for a person. */
export function decideCall(topic, run, approval, decision) {
  return ask(`${topic}/runs/${encodeURIComponent(run)}/approvals/${encodeURIComponent(approval)}`, decision);
}

/** Open a feed behind `cursor` (an id, or `earliest`). Throws a Problem where the server refuses. */
export async function openEvents(topic, cursor, signal) {
  const address = new URL(`${topic}/events`, BASE);
  address.searchParams.set("after", cursor);
  const headers = { Accept: "text/event-stream" };
  if (cursor !== "earliest") headers["Last-Event-ID"] = cursor;
  const response = await fetch(address, { headers, signal, cache: "no-store" });
  if (response.ok) return response;
  throw await problemOf(response);
}

/** Return the address of the socket. */
export function socketAddress() {
  const address = new URL("ws", BASE);
  address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
  return address;
}

async function ask(path, body) {
  const request = { signal: AbortSignal.timeout(TIMEOUT), headers: { Accept: "application/json" }, cache: "no-store" };
  if (body !== undefined) {
    request.method = "POST";
    request.headers["Content-Type"] = "application/json";
    request.body = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(new URL(path, BASE), request);
  } catch (error) {
    throw new Problem(error.name === "TimeoutError" ? "The server did not answer in time." : "The server cannot be reached.");
  }
  if (!response.ok) throw await problemOf(response);
  const text = await response.text();
  return text ? JSON.parse(text) : {};
}

async function problemOf(response) {
  const after = Number(response.headers.get("Retry-After"));
  let problem = {};
  try {
    problem = JSON.parse(await response.text());
  } catch {
    // A proxy's page, not a problem document: the status says all that there is to know.
  }
  const message = problem.detail || problem.title || `The server answered ${response.status}.`;
  const retryAfter = after > 0 ? after : problem.retry_after_ms > 0 ? problem.retry_after_ms / 1000 : null;
  return new Problem(String(message), { status: response.status, code: String(problem.code ?? ""), retryAfter });
}
