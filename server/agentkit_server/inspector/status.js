/**
 * Say where a run is: in the page's title, and politely to a screen reader, once a change and never a delta.
 */

import { setText } from "./dom.js";
import { answerOf, isGoing, spanOf } from "./store.js";

const LONGEST_ANSWER = 400; // characters that are read out; the rest is there to be read

/** Return `{ key, title, words }` of a run's present state; `words` are for a screen reader. */
export function phaseOf(run) {
	if (!run) return { key: "idle", title: "", words: "" };
	if (run.status === "failed") return { key: "failed", title: "Failed", words: `The run failed: ${run.message}` };
	if (run.status === "cancelled") return { key: "cancelled", title: "Stopped", words: "Stopped" };
	if (run.status === "finished") return { key: "finished", title: "", words: `Answer ready. ${shortened(answerOf(run))}` };
	if (run.status === "suspended") return { key: "suspended", title: "Waiting", words: "Waiting for a decision" };
	if (!isGoing(run)) return { key: run.status, title: "", words: "" };
	const last = run.items.at(-1);
	if (last?.kind === "thought" && spanOf(last).ended === null) return { key: "thinking", title: "Thinking…", words: "Thinking" };
	if (last?.kind === "tool" && last.status === "running") {
		return { key: `tool ${last.call}`, title: `${last.name}…`, words: `Tool ${last.name} running` };
	}
	if (last?.kind === "tool" && last.status === "approval") {
		return { key: `approval ${last.call}`, title: "Needs approval", words: `Tool ${last.name} needs approval` };
	}
	if (last?.kind === "text" && last.ended === null) return { key: "answering", title: "Answering…", words: "Answering" };
	return { key: "working", title: "Working…", words: "" };
}

export class Status {
	#region;
	#key = "";
	#said = "";

	/** `region`: an element with role=status that nobody sees. */
	constructor(region) {
		this.#region = region;
	}

	/** Show a run's state. `quiet`: say nothing, because it is old news. */
	show(run, place, { quiet }) {
		const { key, title, words } = phaseOf(run);
		const name = [title, place, "agentkit"].filter(Boolean).join(" · ");
		if (document.title !== name) document.title = name;
		const now = `${run?.id} ${key}`;
		if (now === this.#key) return;
		this.#key = now;
		if (!quiet && words) this.say(words);
	}

	/** Say something once. */
	say(words) {
		// The same words again are news only if they differ for the reader's ear: a no-break space does.
		this.#said = words === this.#said ? `${words}\u00a0` : words;
		setText(this.#region, this.#said);
	}
}

function shortened(text) {
	return text.length > LONGEST_ANSWER ? `${text.slice(0, LONGEST_ANSWER)}…` : text;
}
