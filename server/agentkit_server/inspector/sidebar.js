/**
 * List the agent's threads and the open thread's runs.
 */

import { element, setText } from "./dom.js";
import { clock } from "./format.js";
import { threadName } from "./route.js";
import { STATUS } from "./run.js";
import { isGoing } from "./store.js";
import { text } from "./value.js";

const FILTER_FROM = 8; // runs from which on a filter helps

export class Sidebar {
	#parts;
	#open;
	#runs = new Map(); // run → its elements
	#filter = "";

	/** `parts`: the elements `threads`, `runs`, `filter`, `runsTitle`. `open({ thread, run })` goes there. */
	constructor(parts, open) {
		this.#parts = parts;
		this.#open = open;
		parts.filter.addEventListener("input", () => {
			this.#filter = parts.filter.value.trim().toLowerCase();
			for (const [run, row] of this.#runs) row.root.hidden = !this.#admits(run);
		});
	}

	/** Show threads `[{ thread, title? }]`; the open one is always among them. */
	showThreads(threads, current) {
		const newest = [...threads].sort((one, other) => text(other.updated).localeCompare(text(one.updated)));
		if (current && !newest.some(({ thread }) => thread === current)) newest.unshift({ thread: current });
		const rows = newest.map(({ thread, title }) => {
			const name = text(thread);
			return element("li", {}, element(
				"button",
				{ type: "button", class: "side-row", title: name, "aria-current": name === current && "page", on: { click: () => this.#open({ thread: name, run: "" }) } },
				element("span", { class: "side-name" }, text(title) || threadName(name)),
			));
		});
		this.#parts.threads.replaceChildren(...rows);
	}

	clearRuns() {
		this.#runs.clear();
		this.#parts.runs.replaceChildren();
		this.#parts.filter.value = this.#filter = "";
		this.#parts.section.hidden = true;
	}

	/** Show the runs of a store, newest first; `chosen` is the inspected one. */
	showRuns(store, changed, chosen) {
		for (const thing of changed) {
			if (thing.kind !== "run" || thing.parent) continue;
			const row = this.#runs.get(thing) ?? this.#add(thing);
			row.root.firstChild.dataset.status = thing.status;
			setText(row.name, thing.input ?? thing.id);
			setText(row.status, STATUS[thing.status]);
			setText(row.time, thing.started === null ? "" : clock(thing.started));
			row.root.hidden = !this.#admits(thing);
		}
		for (const [run, row] of this.#runs) {
			if (run === chosen) row.root.firstChild.setAttribute("aria-current", "true");
			else row.root.firstChild.removeAttribute("aria-current");
		}
		this.#parts.section.hidden = this.#runs.size === 0;
		this.#parts.filter.hidden = this.#runs.size < FILTER_FROM;
	}

	#add(run) {
		for (const [old, row] of this.#runs) {
			if (old.id !== run.id) continue;
			row.root.remove();
			this.#runs.delete(old);
		}
		const name = element("span", { class: "side-name" });
		const status = element("span", { class: "side-status" });
		const time = element("span", { class: "side-time" });
		const root = element("li", {}, element(
			"button",
			{ type: "button", class: "side-row side-run", on: { click: () => this.#open({ run: run.id }) } },
			name, element("span", { class: "side-meta" }, status, time),
		));
		const row = { root, name, status, time };
		this.#runs.set(run, row);
		this.#parts.runs.prepend(root);
		return row;
	}

	#admits(run) {
		if (!this.#filter) return true;
		return `${run.input ?? ""} ${run.id} ${STATUS[run.status]} ${isGoing(run) ? "running" : ""}`.toLowerCase().includes(this.#filter);
	}
}
