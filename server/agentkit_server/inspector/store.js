/**
 * Keep what the page shows: runs, their steps, and the items of each run in reading order.
 *
 * A pure fold of records (`fold.js` says what each does): no clock, no DOM, no requests. The same records give the same
 * state, live or replayed. Times are ms since the epoch by the server's clock; null is unknown.
 *
 * An item is a `thought` (adjacent reasoning blocks of one step, as `parts`), a `text` or `refusal`, a `tool` (a call, its
 * execution and its result), an `image`, `notice`, `retry` or `steered`. Parts and texts grow as lists of `pieces`.
 */

import { FOLDS } from "./fold.js";
import { number, object, text, time } from "./value.js";

export class Store {
	/** Run id → run, in order of first sight. */
	runs = new Map();
	/** Runs and items that changed since `take`. */
	#changed = new Set();

	/** Fold one envelope in. */
	apply(envelope) {
		const id = text(envelope.run);
		if (!id) return; // an application's event outside of a run: the raw view has it
		const type = text(envelope.type);
		const at = time(envelope.time);
		let run = this.runs.get(id);
		// A run that starts again is a log that began anew: what was shown of the run is told once more.
		if (!run || (type === "run.started" && run.started !== null)) run = this.#open(id, type, run);
		if (run.status === "lost") run.status = "running";
		run.last = at ?? run.last;
		if (envelope.parent && !run.parent) this.#adopt(run, object(envelope.parent));
		const data = object(envelope.data);
		FOLDS.get(type)?.(this, run, { type, at, step: number(envelope.step), block: text(envelope.block), data });
		this.touch(run);
	}

	/** Make a run known that was asked for and has not begun. */
	expect(id, input) {
		if (this.runs.has(id)) return;
		const run = { ...makeRun(id), input };
		this.runs.set(id, run);
		this.touch(run);
	}

	/** Give a run the words that it answers, where its own records do not hold them. */
	ask(id, input) {
		const run = this.runs.get(id);
		if (!run || run.input !== null) return;
		run.input = input;
		this.touch(run);
	}

	/** Records are lost. `anew`: the whole log is another one, so nothing more may be known of what was running. */
	gap(anew) {
		for (const run of this.runs.values()) {
			if (run.status !== "running" && run.status !== "queued") continue;
			run.cut = true;
			if (anew) run.status = "lost";
			this.touch(run);
			for (const item of run.items) this.touch(item);
		}
	}

	touch(thing) {
		this.#changed.add(thing);
	}

	/** Return what changed since the last call, as a set. */
	take() {
		const changed = this.#changed;
		this.#changed = new Set();
		return changed;
	}

	/** Return a run's id and those of all runs that its calls started, at any depth. */
	family(id) {
		const ids = new Set([id]);
		for (const run of this.runs.values()) if (run.parent && ids.has(run.parent.run)) ids.add(run.id);
		return ids;
	}

	#open(id, type, before) {
		const run = { ...makeRun(id), cut: type !== "run.started", input: before?.input ?? null };
		if (run.cut) run.status = "running";
		this.runs.set(id, run);
		return run;
	}

	/** Put a child's run into the call that started it. */
	#adopt(run, parent) {
		run.parent = { run: text(parent.run), call: text(parent.call) };
		const call = this.runs.get(run.parent.run)?.calls.get(run.parent.call);
		if (!call) return;
		run.nested = true;
		call.children.push(run);
		this.touch(call);
	}
}

function makeRun(id) {
	return {
		kind: "run",
		id,
		agent: "",
		thread: "",
		status: "queued", // running, suspended, finished, failed, cancelled; lost: the log that told of it is gone
		input: null, // the words that it answers, where they are known
		cut: false, // true: records are missing
		parent: null, // { run, call } of a sub-agent
		nested: false, // true: shown inside of its parent's call
		started: null,
		ended: null,
		last: null, // the time of its newest record
		steps: [],
		items: [],
		blocks: new Map(), // block id → { item, part }
		calls: new Map(), // call id → item
		usage: null,
		finish: "",
		code: "",
		message: "",
		retryable: false,
	};
}

/** Tell whether a run goes on. */
export function isGoing(run) {
	return run.status === "queued" || run.status === "running" || run.status === "suspended";
}

/** Return the whole text of an item or part. */
export function joined(thing) {
	return thing.pieces.join("");
}

/** Return the visible answer of a run. */
export function answerOf(run) {
	const said = run.items.filter((item) => item.kind === "text" && !item.discarded);
	return said.map(joined).join("\n\n");
}

/** Return when a thought began and ended; `ended` is null while a part of it goes on, `started` where it was lost. */
export function spanOf(thought) {
	const ends = thought.parts.map((part) => part.ended);
	return { started: thought.parts[0].started, ended: ends.includes(null) ? null : Math.max(...ends) };
}

/** Tell what can be read of a thought: `text`, `hidden` (encrypted), `withheld` (signed, without text), or `none`. */
export function legibility(thought) {
	if (thought.parts.some((part) => part.pieces.length)) return "text";
	if (thought.parts.some((part) => part.state)) return "hidden";
	return thought.parts.some((part) => part.signature) ? "withheld" : "none";
}
