/**
 * Ask the server: every request of the page but its feeds is made here.
 *
 * All addresses are relative to the page's own, so that it works under any mount prefix and behind any proxy, and never
 * asks another host.
 */

import { ask as request } from "./agentkit-client.js";

const BASE = new URL("v1/", document.baseURI);

/** Return `agents/{agent}/threads/{thread}`: the name of a thread's feed on the wire. */
export function topicOf(agent, thread) {
	return `agents/${agent}/threads/${thread}`;
}

/** Return the address of a thread. */
export function addressOf(topic) {
	return new URL(topic, BASE);
}

/** Return the agents: `[{ name, description, model, provider, default, available, note? }]`. */
export async function listAgents() {
	return (await ask("agents")).agents ?? [];
}

/** Return an agent's threads, as far as the first page names them. */
export async function listThreads(agent) {
	return (await ask(`agents/${agent}/threads`)).threads ?? [];
}

/** Return a thread's messages. */
export async function listMessages(topic) {
	return (await ask(`${topic}/messages`)).messages ?? [];
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

/** Sign in: the cookie that comes back goes with all later requests, feeds and sockets. */
export function signIn(token) {
	return request(new URL("session", BASE), undefined, { method: "POST", auth: token });
}

function ask(path, body) {
	return request(new URL(path, BASE), body);
}
