/**
 * Say what each event does to a run: one pure function a type, in one table.
 *
 * It trusts nothing: records may come from a file, and the first of them may be lost. Texts stay lists of pieces, so that
 * ten thousand deltas cost ten thousand pushes. Types without a fold change nothing: the raw view has them.
 */

import { array, number, object, text, usage } from "./value.js";

const UNSETTLED = ["preparing", "pending", "approval", "running"];

// the run

function runStarted(store, run, { at, data }) {
	Object.assign(run, { status: "running", started: at, agent: text(data.agent), thread: text(data.thread) });
	const { input } = object(data.metadata);
	if (typeof input === "string") run.input = input;
}

const runEnded = (status) => (store, run, { at, data }) => {
	for (const open of run.blocks.values()) close(store, run, open, at);
	const step = run.steps.at(-1);
	if (step && step.ended === null) step.ended = at;
	for (const item of run.items) {
		if (item.kind === "tool" && UNSETTLED.includes(item.status)) settle(store, item, "interrupted", at);
	}
	Object.assign(run, {
		status,
		ended: at,
		usage: usage(data.usage),
		finish: text(data.finish),
		code: text(data.code),
		message: text(data.message) || text(data.reason),
		retryable: data.retryable === true,
	});
	const said = text(data.text);
	if (run.cut && said && !run.items.some((item) => item.kind === "text")) {
		append(store, run, { kind: "text", step: 0, block: "", pieces: [said], started: null, ended: at });
	}
};

function setStatus(status) {
	return (store, run) => {
		run.status = status;
	};
}

// the step

function stepStarted(store, run, { at, step, data }) {
	run.status = "running";
	run.steps.push({
		number: step,
		model: text(data.model),
		provider: text(data.provider),
		started: at,
		first: null, // when its first block began
		ended: null,
		finish: "",
		usage: null,
	});
}

function stepFinished(store, run, { at, step, data }) {
	const known = run.steps.findLast((one) => one.number === step);
	if (known) Object.assign(known, { ended: at, finish: text(data.finish), usage: usage(data.usage) });
}

/** The request is made again: blocks that were seen and no longer count are marked, and their ids are free again. */
function stepRetrying(store, run, { at, step, data }) {
	for (const id of array(data.discarded).map(text)) {
		const open = run.blocks.get(id);
		if (!open) continue;
		close(store, run, open, at);
		open.item.discarded = true;
		run.blocks.delete(id);
		store.touch(open.item);
	}
	const { attempt, delay, code, message } = data;
	append(store, run, {
		kind: "retry",
		step,
		attempt: number(attempt),
		delay: number(delay),
		code: text(code),
		message: text(message),
	});
}

// blocks

function append(store, run, item) {
	item.run = run;
	run.items.push(item);
	store.touch(item);
	return item;
}

function begin(store, run, event, kind, started) {
	const step = run.steps.at(-1);
	if (step && step.first === null) step.first = event.at;
	const part = { block: event.block, pieces: [], started, ended: null };
	let item;
	if (kind === "thought") {
		Object.assign(part, { signature: 0, state: 0, summary: false });
		item = run.items.at(-1);
		if (item?.kind === "thought" && item.step === event.step && !item.discarded) item.parts.push(part);
		else item = append(store, run, { kind, step: event.step, provider: "", parts: [part] });
	} else {
		item = append(store, run, { kind, step: event.step, ...part, ...(kind === "tool" ? makeCall() : {}) });
	}
	const open = { item, part: kind === "thought" ? part : item };
	run.blocks.set(event.block, open);
	store.touch(item);
	return open;
}

/** Return a block that is known; one whose start was lost begins here, at an unknown time. */
function blockOf(store, run, event, kind) {
	return run.blocks.get(event.block) ?? begin(store, run, event, kind, null);
}

function close(store, run, { item, part }, at) {
	if (part.ended !== null) return;
	part.ended = at ?? run.last;
	store.touch(item);
}

function starts(kind) {
	return (store, run, event) => void begin(store, run, event, kind, event.at);
}

function grows(kind) {
	return (store, run, event) => {
		const { item } = blockOf(store, run, event, kind);
		item.pieces.push(text(event.data.text));
		store.touch(item);
	};
}

function ends(store, run, event) {
	const open = run.blocks.get(event.block);
	if (open) close(store, run, open, event.at);
}

function reasoning(store, run, event) {
	const { item, part } = blockOf(store, run, event, "thought");
	const kind = text(event.data.kind);
	item.provider ||= text(event.data.provider);
	if (kind === "signature" || kind === "state") part[kind] += opaqueSize(event.data, kind);
	else if (text(event.data.text)) {
		part.pieces.push(event.data.text);
		part.summary ||= kind === "summary";
	}
	store.touch(item);
}

/** Return the bytes of opaque state: told by the log, or counted where an operator lets the state itself out. */
function opaqueSize(data, kind) {
	const inner = object(data.data);
	return number(inner.bytes) || new TextEncoder().encode(text(inner[kind])).length;
}

function image(store, run, { at, step, data }) {
	const { media_type: mediaType, data: base64, url } = data;
	append(store, run, { kind: "image", step, at, mediaType: text(mediaType), data: text(base64), url: text(url) });
}

// tools

function makeCall() {
	return {
		call: "",
		name: "",
		input: null, // raw JSON text, once it is whole
		status: "preparing", // pending, approval, running; ok, error, denied, interrupted
		approval: "", // the id of the question to a person
		reason: "",
		begun: null, // of its execution
		finished: null,
		duration: null, // ms, as the tool's runner measured it
		progress: [],
		result: null, // the content's parts
		children: [],
	};
}

function rename(run, call, data) {
	call.call = text(data.call) || call.call;
	call.name = text(data.name) || call.name;
	if (call.call) run.calls.set(call.call, call);
	return call;
}

/** Return the call whose arguments an event brings. */
function callOfBlock(store, run, event) {
	return rename(run, blockOf(store, run, event, "tool").item, event.data);
}

/** Return the call that an execution is about; one whose start was lost begins here. */
function callOf(store, run, event) {
	const known = run.calls.get(text(event.data.call));
	if (known) return known;
	const part = { block: "", pieces: [], started: event.at, ended: event.at };
	return rename(run, append(store, run, { kind: "tool", step: event.step, ...part, ...makeCall() }), event.data);
}

function settle(store, call, status, at) {
	call.status = status;
	call.ended ??= at;
	if (call.begun !== null) call.finished ??= at;
	store.touch(call);
}

const TOOL_FOLDS = {
	"tool_call.started": (store, run, event) => {
		rename(run, begin(store, run, event, "tool", event.at).item, event.data);
	},
	"tool_call.delta": (store, run, event) => {
		const call = callOfBlock(store, run, event);
		call.pieces.push(text(event.data.text));
		store.touch(call);
	},
	"tool_call.ready": (store, run, event) => {
		const call = callOfBlock(store, run, event);
		call.input = text(event.data.input);
		settle(store, call, "pending", event.at);
	},
	"tool_approval.requested": (store, run, event) => {
		const call = callOf(store, run, event);
		call.approval = text(event.data.approval);
		call.input ??= text(event.data.input);
		settle(store, call, "approval", event.at);
	},
	"tool_approval.resolved": (store, run, event) => {
		const call = callOf(store, run, event);
		call.reason = text(event.data.reason);
		settle(store, call, event.data.approved === true ? "pending" : "denied", event.at);
	},
	"tool_execution.started": (store, run, event) => {
		const call = callOf(store, run, event);
		call.begun = event.at;
		call.input ??= text(event.data.input);
		call.status = "running";
		store.touch(call);
	},
	"tool_execution.progress": (store, run, event) => {
		const call = callOf(store, run, event);
		call.progress.push(text(event.data.message));
		store.touch(call);
	},
	"tool_execution.finished": (store, run, event) => {
		const call = callOf(store, run, event);
		if (typeof event.data.duration === "number") call.duration = event.data.duration * 1000;
		settle(store, call, text(event.data.status) || "ok", event.at);
	},
	tool_result: (store, run, event) => {
		const call = callOf(store, run, event);
		call.result = array(event.data.content).map(object);
		settle(store, call, text(event.data.status) || "ok", event.at);
	},
};

/** Event type → `(store, run, { type, at, step, block, data })`. A Map, because a foreign type may be `constructor`. */
export const FOLDS = new Map(
	Object.entries({
		"run.started": runStarted,
		"run.suspended": setStatus("suspended"),
		"run.resumed": setStatus("running"),
		"run.steered": (store, run, { step, data }) => append(store, run, { kind: "steered", step, text: text(data.text) }),
		"run.notice": (store, run, { step, data }) => {
			append(store, run, { kind: "notice", step, code: text(data.code), message: text(data.message) });
		},
		"run.finished": runEnded("finished"),
		"run.failed": runEnded("failed"),
		"run.cancelled": runEnded("cancelled"),
		"step.started": stepStarted,
		"step.retrying": stepRetrying,
		"step.finished": stepFinished,
		"reasoning_block.started": starts("thought"),
		reasoning,
		"reasoning_block.finished": ends,
		"text.started": starts("text"),
		"text.delta": grows("text"),
		"text.finished": ends,
		"refusal.started": starts("refusal"),
		"refusal.delta": grows("refusal"),
		"refusal.finished": ends,
		image,
		...TOOL_FOLDS,
	}),
);
