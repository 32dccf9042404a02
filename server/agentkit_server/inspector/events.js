/**
 * List raw events: number, time, type, size; losses in red; the whole JSON of the chosen one.
 *
 * Only the rows in sight are in the page, so a hundred thousand cost what thirty cost.
 */

import { atEnd, button, codeBox, element, setText } from "./dom.js";
import { clock, indent, size, utf8Length } from "./format.js";

const ROW = 28; // px, as in style.css
const SPARE = 8; // rows above and below the sight
const NEAR = 40; // px from the end that still count as "at the end"

const LOSS = {
	trimmed: "no longer kept by the server",
	epoch: "the log began anew",
	future: "the server knows less than this page",
	missing: "missing from the feed",
};

let ids = 0;

export class EventList {
	#journal = null;
	#runs = null; // ids whose events are shown, or null for all
	#filter = "";
	#seen = 0; // entries of the journal that were looked at
	#entries = []; // those that are shown
	#chosen = null;
	#pinned = true;
	#id = `events-${(ids += 1)}`;

	constructor() {
		this.search = element("input", { type: "search", placeholder: "Filter by type or text", "aria-label": "Filter events", on: { input: () => this.#search() } });
		this.total = element("span", { class: "events-total" });
		this.space = element("div", { class: "events-space", role: "presentation" });
		this.list = element(
			"div",
			{ class: "events-list", role: "listbox", "aria-label": "Events", tabindex: "0", on: { scroll: () => this.#scrolled(), keydown: (event) => this.#key(event) } },
			this.space,
		);
		const { root: detail, head, title, code } = codeBox("Event");
		head.append(button("close", "Close the event", () => this.#choose(null)));
		detail.classList.add("events-detail");
		detail.hidden = true;
		Object.assign(this, { detail, title, json: code });
		this.root = element("div", { class: "events" }, element("div", { class: "events-bar" }, this.search, this.total), this.list, this.detail);
		new ResizeObserver(() => this.draw()).observe(this.list);
	}

	/** Show a journal's events of some runs (a set of ids), or of all (null). */
	show(journal, runs) {
		const same = journal === this.#journal && String([...(runs ?? "*")]) === String([...(this.#runs ?? "*")]);
		if (same) return;
		if (journal !== this.#journal) this.search.value = this.#filter = "";
		this.#journal = journal;
		this.#runs = runs;
		this.#restart();
	}

	/** Show what was added. */
	draw() {
		if (!this.#journal || !this.root.isConnected || this.root.hidden) return;
		const { entries } = this.#journal;
		for (; this.#seen < entries.length; this.#seen += 1) {
			if (this.#admits(entries[this.#seen])) this.#entries.push(entries[this.#seen]);
		}
		setText(this.total, `${this.#entries.length.toLocaleString("en")} of ${entries.length.toLocaleString("en")}`);
		this.space.style.height = `${this.#entries.length * ROW}px`;
		if (this.#pinned) this.list.scrollTop = this.list.scrollHeight;
		this.#paint();
	}

	#restart() {
		this.#seen = 0;
		this.#entries = [];
		this.#pinned = true;
		this.#choose(null);
		this.draw();
	}

	#search() {
		this.#filter = this.search.value.trim().toLowerCase();
		this.#restart();
	}

	#admits(entry) {
		if (entry.gap) return true;
		if (this.#runs && !this.#runs.has(entry.run)) return false;
		return !this.#filter || entry.raw.toLowerCase().includes(this.#filter);
	}

	#scrolled() {
		this.#pinned = atEnd(this.list, NEAR);
		this.#paint();
	}

	#paint() {
		const first = Math.max(0, Math.floor(this.list.scrollTop / ROW) - SPARE);
		const last = Math.min(this.#entries.length, Math.ceil((this.list.scrollTop + this.list.clientHeight) / ROW) + SPARE);
		const rows = [];
		for (let at = first; at < last; at += 1) rows.push(this.#row(this.#entries[at], at));
		this.space.replaceChildren(...rows);
		const chosen = this.#entries.indexOf(this.#chosen);
		if (chosen >= first && chosen < last) this.list.setAttribute("aria-activedescendant", `${this.#id}-${chosen}`);
		else this.list.removeAttribute("aria-activedescendant");
	}

	#row(entry, at) {
		const chosen = entry === this.#chosen;
		const row = element("div", {
			class: entry.gap ? "event event-gap" : "event",
			id: `${this.#id}-${at}`,
			role: "option",
			"aria-selected": String(chosen),
			"aria-setsize": this.#entries.length,
			"aria-posinset": at + 1,
			on: { click: () => this.#choose(entry) },
		});
		row.style.top = `${at * ROW}px`;
		if (entry.gap) {
			row.append(element("span", {}, gapWords(entry.gap)));
		} else {
			row.append(
				element("span", { class: "event-seq" }, String(entry.seq)),
				element("span", { class: "event-time" }, Number.isNaN(entry.time) ? "" : clock(entry.time)),
				element("span", { class: "event-type" }, entry.kind ? `${entry.type} ${entry.kind}` : entry.type),
				element("span", { class: "event-size" }, size(utf8Length(entry.raw))),
			);
		}
		return row;
	}

	#choose(entry) {
		this.#chosen = entry;
		this.detail.hidden = !entry;
		if (entry) {
			setText(this.title, entry.gap ? "Gap" : entry.id);
			setText(this.json, indent(entry.gap ? JSON.stringify(entry.gap) : entry.raw));
			this.#pinned = false;
		}
		this.#paint();
	}

	#key(event) {
		const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity };
		if (event.key === "Escape" && this.#chosen) {
			event.stopPropagation();
			this.#choose(null);
		}
		if (!(event.key in moves) || !this.#entries.length) return;
		event.preventDefault();
		const at = this.#chosen ? this.#entries.indexOf(this.#chosen) + moves[event.key] : this.#pinned ? this.#entries.length - 1 : 0;
		const next = Math.min(this.#entries.length - 1, Math.max(0, at));
		this.#choose(this.#entries[next]);
		const top = next * ROW;
		if (top < this.list.scrollTop) this.list.scrollTop = top;
		else if (top + ROW > this.list.scrollTop + this.list.clientHeight) this.list.scrollTop = top + ROW - this.list.clientHeight;
		this.#paint();
	}
}

/** Return what a loss says: which numbers, and why. */
export function gapWords({ from, to, reason }) {
	const why = LOSS[reason] ?? reason;
	if (!(to >= from)) return `Gap: ${why}`;
	return from === to ? `Gap: event ${from}, ${why}` : `Gap: events ${from} to ${to}, ${why}`;
}
