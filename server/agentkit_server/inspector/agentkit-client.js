/**
 * Follow agents' feeds and ask their server for things: one file, no dependencies. Its words: `agentkit-client.d.ts`.
 *
 * Where EventSource gives up for good, a feed comes back with its cursor: nothing is lost or doubled, losses are told.
 */

// Milliseconds:
const DELAY = 1_000; // before a return, unless the server says; doubled each time
const MOST_ASKED = 300_000; // of what a server asks to wait
const LONGEST = 15_000; // between two attempts
const REFUSED = 10_000; // a 404 behind a restarting proxy heals, but slowly
const SILENCE = 45_000; // the server gives a sign of life every 15 s
const PING = 20_000; // pages do not see a socket's own pings
const TIMEOUT = 20_000; // for all but feeds

const MOST = 1 << 20; // characters of one event
const AHEAD = 2_000; // items that may wait for a reader

const BASE = globalThis.document?.baseURI ?? globalThis.location?.href;

/** A refusal: an RFC 9457 problem, an HTTP status, or a socket's close `code`. */
export class Problem extends Error {
	constructor(message, known) {
		super(message);
		Object.assign(this, { status: 0, code: "", retryAfter: null, ...known });
	}
}

/** Ask for JSON: GET, or POST where there is a body. */
export async function ask(url, body, { auth, key, method, signal = AbortSignal.timeout(TIMEOUT) } = {}) {
	const headers = { Accept: "application/json", ...(body && { "Content-Type": "application/json" }), ...(key && { "Idempotency-Key": key }) };
	const response = await open(url, { method: method ?? (body ? "POST" : "GET"), headers, signal, body: JSON.stringify(body) }, auth);
	return response.status === 204 ? {} : response.json();
}

/** Follow a thread, or one run of it, from now on until `close()`, the signal, or the server's word. */
export function follow(url, options) {
	return new Feed(url, options);
}

/** Cuts a text stream into events `{ id, data, retry }`; `feed` returns those that the text completes. */
export class EventDecoder {
	#rest = "";
	#cr = false;
	#event = {};
	#size = 0;

	feed(text) {
		const lines = (this.#rest + (this.#cr && text[0] === "\n" ? text.slice(1) : text)).split(/\r\n|\n|\r/);
		this.#cr = text ? text.endsWith("\r") : this.#cr;
		this.#rest = lines.pop();
		const events = [];
		for (const line of lines) {
			const [, name, value = ""] = /^([^:]*)(?:: ?(.*))?$/s.exec(line);
			const { id = null, data, retry = null } = this.#event;
			this.#size += line.length;
			if (line === "") {
				if (data || retry !== null) events.push({ id, data: data?.join("\n") ?? null, retry });
				this.#event = {};
				this.#size = 0;
			} else if (name === "data") this.#event.data = [...(data ?? []), value];
			else if (name === "id" && !value.includes("\0")) this.#event.id = value;
			else if (name === "retry" && /^\d+$/.test(value)) this.#event.retry = Number(value);
		}
		if (this.#size + this.#rest.length > MOST) throw new Problem(`an event has more than ${MOST} characters`, { code: 4999 });
		return events;
	}
}

class Feed {
	cursor;
	#options;
	#address;
	#query;
	#topic;
	#carry;
	#epoch = "";
	#seq = 0;
	#strict = false; // no number may be skipped
	#attempt = 0;
	#delay = DELAY;
	#refused = false; // the last token was
	#life = new AbortController();
	#connection = this.#life;
	#problem = null;
	#queue; // what waits for the iterator
	#wakes = {}; // who waits for: the next attempt, items, room

	constructor(url, options = {}) {
		this.#options = { giveUp: isFinal, ...options };
		const { transport, signal, onrecords } = options;
		const address = (this.#address = new URL(url, BASE));
		const [, root, topic] = /^(.*)\/v1\/(agents\/[^/]+\/threads\/[^/]+)/.exec(address.pathname) ?? [];
		if (!topic) throw new TypeError(`${url} names no thread`);
		this.#topic = decodeURI(topic);
		const query = (this.#query = Object.fromEntries(address.searchParams));
		for (const name of ["after", "types", "kinds", "run"]) if (options[name]?.length) query[name] = String(options[name]);
		if (options.merge) query.merge = "1";
		const isSocket = transport === "websocket";
		address.pathname = `${root}/v1/${isSocket ? "ws" : `${topic}/events`}`;
		this.#carry = isSocket ? this.#carrySocket : this.#carryEvents;
		address.search = "";
		this.#pin(query.after ?? "now");
		if (!onrecords) this.#queue = [];
		const on = (target, name, act) => target?.addEventListener?.(name, act, { signal: this.#life.signal });
		on(globalThis, "online", this.retry);
		on(globalThis, "offline", () => this.#connection.abort(new Problem("the machine is offline")));
		on(globalThis.document, "visibilitychange", () => document.hidden || this.retry());
		on(signal, "abort", () => this.close());
		if (signal?.aborted) this.close();
		queueMicrotask(() => this.#loop()); // the caller has the feed in hand before its first word
	}

	/** End for good. */
	close() {
		this.#end({ name: "closed" });
	}

	/** Make the next attempt now. */
	retry = () => this.#wakes.attempt?.();

	async *[Symbol.asyncIterator]() {
		try {
			for (;;) {
				for (const item of this.#queue.splice(0)) yield item;
				this.#wakes.room?.();
				if (this.#queue.length) continue;
				if (this.#problem) throw this.#problem;
				if (this.#over) return;
				await this.#wait("items");
			}
		} finally {
			this.close();
		}
	}

	get #over() {
		return this.#life.signal.aborted;
	}

	#end(state, problem = null) {
		if (this.#over) return;
		this.#problem = problem;
		this.#life.abort();
		this.#connection.abort(new Problem("left"));
		for (const wake of Object.values(this.#wakes)) wake();
		this.#options.onstate?.(state);
	}

	async #loop() {
		const { auth, giveUp, onstate } = this.#options;
		while (!this.#over) {
			onstate?.({ name: "connecting", attempt: this.#attempt });
			const problem = await this.#connect();
			if (this.#over) return;
			const { code, message = "" } = problem ?? {};
			const isRefused = code === 4004 || code === 4500;
			if (isRefused && !this.#refused && typeof auth === "function") this.#refused = true;
			else if (problem && giveUp(problem)) return this.#end({ name: "failed", error: message }, problem);
			this.#attempt += 1;
			const delay = this.#pause(problem);
			const name = globalThis.navigator?.onLine === false ? "offline" : "waiting";
			onstate?.({ name, attempt: this.#attempt, until: performance.now() + delay, error: message });
			const timer = setTimeout(this.retry, delay);
			await this.#wait("attempt");
			clearTimeout(timer);
			await this.#hasRoom();
		}
	}

	/** Hold one connection; returns why it ended, null for a clean end. */
	async #connect() {
		const connection = (this.#connection = new AbortController());
		const { signal } = connection;
		let watchdog;
		const alive = (ms = SILENCE) => {
			clearTimeout(watchdog);
			if (ms) watchdog = setTimeout(() => connection.abort(new Problem("no sign of life for 45 s")), ms);
		};
		alive();
		try {
			await this.#carry(signal, alive);
			return null;
		} catch (error) {
			return signal.aborted ? signal.reason : error;
		} finally {
			alive(0);
			connection.abort();
		}
	}

	async #carryEvents(signal, alive) {
		const address = new URL(this.#address);
		address.search = new URLSearchParams({ ...this.#query, after: this.cursor });
		const headers = { Accept: "text/event-stream" };
		if (this.#epoch) headers["Last-Event-ID"] = this.cursor;
		const response = await open(address, { headers, signal }, this.#options.auth);
		if (response.status === 204) return this.#end({ name: "ended" });
		const decoder = new EventDecoder();
		const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
		for (;;) {
			alive(0); // the reader's pause is not the server's
			await this.#hasRoom();
			alive();
			const { done, value } = await reader.read();
			if (done || signal.aborted) return;
			const batch = [];
			for (const { id, data, retry } of decoder.feed(value)) {
				if (retry !== null) this.#delay = Math.max(200, retry);
				const envelope = JSON.parse(data ?? "null");
				if (!envelope) continue;
				if (envelope.seq) batch.push({ raw: data, envelope });
				else {
					this.#take(batch.splice(0));
					this.#hear(envelope.type.slice(7), envelope.data, id);
				}
			}
			this.#take(batch);
		}
	}

	async #carrySocket(signal, alive) {
		const auth = await tokenOf(this.#options.auth, this.#refused);
		const address = new URL(this.#address);
		address.protocol = address.protocol.replace("http", "ws");
		return new Promise((resolve, reject) => {
			const socket = new WebSocket(address, ["agentkit.v1"]);
			const say = (frame) => socket.readyState === 1 && socket.send(JSON.stringify(frame));
			const pinger = setInterval(() => say({ op: "ping" }), PING);
			const leave = () => socket.close(1000);
			signal.addEventListener("abort", () => (leave(), reject(signal.reason)));
			socket.onopen = () => say({ op: "hello", v: 1, auth: auth || undefined });
			socket.onmessage = ({ data }) => {
				if (signal.aborted) return;
				alive();
				const frame = JSON.parse(data);
				const { op, e } = frame;
				if (op === "welcome") {
					const { run, types, kinds, merge } = this.#query;
					say({ op: "sub", rid: 1, topic: this.#topic, after: this.cursor, run, merge: merge && true, types: types?.split(","), kinds: kinds?.split(",") });
				} else if (op === "err") {
					reject(problemIn(frame.problem));
					leave();
				} else if (op === "ok") this.#hear("hello", frame, `${frame.epoch}-${frame.after}`);
				else if (op === "ev" && e.length) this.#take(e.map((envelope) => ({ raw: JSON.stringify(envelope), envelope })));
				else this.#hear({ ev: "position", bye: "closing" }[op] ?? op, frame, frame.id);
				if (this.#queue?.length > AHEAD) leave();
			};
			socket.onclose = ({ code, reason }) => {
				clearInterval(pinger);
				if (code === 1000) resolve();
				else reject(new Problem(reason || `the socket was closed (${code})`, { code }));
			};
		});
	}

	#hear(name, data, id) {
		if (name === "hello") {
			const { types, kinds, run } = this.#query;
			this.#strict = !(types || kinds || run || data.exposure);
			this.#attempt = 0;
			this.#refused = false;
			if (!this.#epoch) this.#pin(id); // a later hello may stand before records that came already
			this.#options.onstate?.({ name: "live" });
			this.#options.onhello?.({ head: data.head ?? 0 });
		} else if (name === "gap") this.#gap(data, id);
		else if (name === "position") this.#pin(id);
		else if (name === "end") this.#end({ name: "ended", reason: data.reason });
		else if (name === "closing") this.#delay = Math.max(200, data.retry_ms ?? 0);
	}

	#take(records) {
		const fresh = [];
		for (const record of records) {
			const { id, seq, first = seq } = record.envelope;
			const isSame = id.startsWith(`${this.#epoch}-`);
			if (isSame && seq <= this.#seq) continue;
			if (this.#strict && !(isSame && first === this.#seq + 1)) {
				this.#give(fresh.splice(0));
				this.#gap({ from: this.#seq + 1, to: first - 1, reason: "missing" }, id);
			}
			this.#pin(id);
			fresh.push(record);
		}
		this.#give(fresh);
	}

	#give(records) {
		if (this.#queue) this.#queue.push(...records);
		else if (records.length) this.#options.onrecords(records);
		this.#wakes.items?.();
	}

	#gap({ from, to, reason = "" }, id) {
		this.#pin(id);
		const gap = { from, to, reason, id };
		this.#queue?.push({ gap });
		this.#options.ongap?.(gap);
		this.#wakes.items?.();
	}

	#pin(id) {
		this.cursor = id;
		const [epoch, seq] = id.split("-");
		this.#epoch = seq ? epoch : "";
		this.#seq = Number(seq ?? 0);
	}

	#wait(what) {
		return new Promise((wake) => (this.#wakes[what] = wake));
	}

	async #hasRoom() {
		while (this.#queue?.length > AHEAD && !this.#over) await this.#wait("room");
	}

	#pause(problem) {
		if (problem?.retryAfter) return Math.min(MOST_ASKED, problem.retryAfter * 1000);
		const grown = Math.min(LONGEST, this.#delay * 2 ** Math.min(this.#attempt - 1, 6));
		return Math.max(isFinal(problem ?? {}) ? REFUSED : 0, grown) * (0.8 + Math.random() * 0.4);
	}
}

/** Tell whether coming back would change nothing. */
function isFinal({ status, code }) {
	return (status >= 400 && status <= 501 && ![408, 425, 429, 500].includes(status)) || code >= 4500;
}

function tokenOf(auth, refused) {
	return typeof auth === "function" ? auth(refused) : auth;
}

/** Make a request, with another token if the first is refused; throws a Problem for what is no answer. */
async function open(url, request, auth, refused = false) {
	const token = await tokenOf(auth, refused);
	if (token) request.headers.Authorization = `Bearer ${token}`;
	let response;
	try {
		response = await fetch(new URL(url, BASE), { ...request, cache: "no-store" });
	} catch (error) {
		throw new Problem(error.name === "TimeoutError" ? "The server did not answer in time." : "The server cannot be reached.");
	}
	if (response.ok) return response;
	if (response.status === 401 && !refused && typeof auth === "function") return open(url, request, auth, true);
	const problem = await response.json().catch(() => ({})); // a proxy's page: the status says all that there is to know
	throw problemIn({ ...problem, status: response.status }, Number(response.headers.get("Retry-After")));
}

function problemIn({ status, code = "", detail, title, retry_after_ms: ms }, after = 0) {
	const retryAfter = after > 0 ? after : ms > 0 ? ms / 1000 : null;
	return new Problem(detail || title || `The server answered ${status}.`, { status, code, retryAfter });
}
