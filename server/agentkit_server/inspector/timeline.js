/**
 * Draw a run as bars over its time: steps with their model calls, and in them thoughts, tools and text.
 *
 * `rowsOf` is pure; the class keeps one element a row, so that keyboard focus survives a redraw.
 */

import { element, flag, setText } from "./dom.js";
import { count, duration } from "./format.js";
import { isGoing, spanOf } from "./store.js";
import { STATUS as TOOL_STATUS } from "./tool.js";

const WORDS = { thought: "Reasoning", text: "Text", refusal: "Refusal", image: "Image" };

/**
 * Return the rows of a run: `{ thing, kind, depth, label, detail, start, end }`, times in ms since the epoch.
 *
 * `thing` is what the row stands for in the conversation. `end` null means: it goes on. `start` null means: unknown.
 */
export function rowsOf(run, depth = 0) {
	const rows = [];
	let rest = run.items;
	for (const step of run.steps) {
		const going = step.ended === null && isGoing(run);
		rows.push({
			thing: step,
			target: run,
			kind: "step",
			depth,
			label: `Step ${step.number}`,
			detail: [step.model, tokens(step.usage), wait(step)].filter(Boolean).join(" · "),
			start: step.started,
			end: going ? null : step.ended ?? run.ended ?? run.last,
		});
		for (const item of rest.filter((one) => one.step === step.number)) rows.push(...rowsOfItem(item, run, depth + 1));
		rest = rest.filter((one) => one.step !== step.number);
	}
	for (const item of rest) rows.push(...rowsOfItem(item, run, depth));
	return rows;
}

function rowsOfItem(item, run, depth) {
	const row = { thing: item, target: item, kind: item.kind, depth };
	const settled = (end) => end ?? (isGoing(run) ? null : run.ended ?? run.last);
	if (item.kind === "thought") {
		const { started, ended } = spanOf(item);
		return [{ ...row, label: WORDS.thought, detail: item.discarded ? "discarded" : "", start: started, end: settled(ended) }];
	}
	if (item.kind === "tool") {
		const start = item.begun ?? item.started;
		const ended = item.finished ?? (item.status === "running" ? null : item.ended);
		const tool = { ...row, label: item.name || "tool", detail: TOOL_STATUS[item.status] ?? item.status, start, end: settled(ended) };
		return [tool, ...item.children.flatMap((child) => rowsOf(child, depth + 1))];
	}
	if (item.kind === "text" || item.kind === "refusal") {
		return [{ ...row, label: WORDS[item.kind], detail: item.discarded ? "discarded" : "", start: item.started, end: settled(item.ended) }];
	}
	return [];
}

/** Return "412 in, 96 out, 60 reasoning". */
function tokens(usage) {
	if (!usage) return "";
	const words = [`${count(usage.input)} in`, `${count(usage.output)} out`];
	if (usage.reasoning) words.push(`${count(usage.reasoning)} reasoning`);
	if (usage.cached) words.push(`${count(usage.cached)} cached`);
	return words.join(", ");
}

function wait(step) {
	if (step.first === null || step.started === null) return "";
	return `first after ${duration(step.first - step.started)}`;
}

export class Timeline {
	#rows = new Map(); // thing → its elements
	#run = null;
	#page;

	/** `page`: `now()` in ms of the server's clock, `reveal(thing)`. */
	constructor(page) {
		this.#page = page;
		this.empty = element("p", { class: "hint" }, "Nothing has happened in this run yet.");
		this.list = element("ol", { class: "timeline-rows" });
		this.root = element("div", { class: "timeline" }, this.empty, this.list);
	}

	/** Show a run, or draw it anew. */
	draw(run) {
		if (run !== this.#run) {
			this.#run = run;
			this.#rows.clear();
			this.list.replaceChildren();
		}
		const rows = run ? rowsOf(run) : [];
		this.empty.hidden = rows.length > 0;
		const now = this.#page.now();
		const from = run?.started ?? Math.min(...rows.map((row) => row.start ?? Infinity));
		const until = run && isGoing(run) ? Math.max(now, run.last ?? 0) : run?.ended ?? run?.last ?? now;
		const span = Math.max(1, until - from);
		rows.forEach((row, at) => {
			const parts = this.#rows.get(row.thing) ?? this.#make(row);
			if (this.list.children[at] !== parts.root) this.list.insertBefore(parts.root, this.list.children[at] ?? null);
			this.#update(parts, row, from, span, now);
		});
	}

	#make(row) {
		const label = element("span", { class: "row-label" });
		const detail = element("span", { class: "row-detail" });
		const bar = element("span", { class: "row-bar" });
		const took = element("span", { class: "row-took" });
		const press = element(
			"button",
			{ type: "button", class: "row", "data-kind": row.kind, on: { click: () => this.#page.reveal(row.target) } },
			label, took, element("span", { class: "row-track", "aria-hidden": "true" }, bar), detail,
		);
		const parts = { root: element("li", {}, press), press, label, detail, bar, took };
		this.#rows.set(row.thing, parts);
		return parts;
	}

	#update({ press, label, detail, bar, took }, row, from, span, now) {
		const start = row.start ?? from;
		const end = row.end ?? now;
		const length = Math.max(0, end - start);
		setText(label, row.label);
		setText(detail, row.detail);
		setText(took, row.start === null ? "unknown" : duration(length));
		flag(press, "data-live", row.end === null);
		press.style.setProperty("--depth", row.depth);
		bar.style.setProperty("--from", percent((start - from) / span));
		bar.style.setProperty("--size", percent(length / span));
	}
}

function percent(share) {
	return `${(Math.min(1, Math.max(0, share)) * 100).toFixed(2)}%`;
}
