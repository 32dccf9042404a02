/**
 * Look into one run: its timeline, its replay, its raw events, its export.
 */

import { button, element, flag, setText } from "./dom.js";
import { EventList } from "./events.js";
import { Replay } from "./replay.js";
import { summaryOf } from "./run.js";
import { recall, remember } from "./setting.js";
import { isGoing } from "./store.js";
import { Timeline } from "./timeline.js";

const WIDE = window.matchMedia("(min-width: 1100px)"); // as in style.css: the panel stands beside the conversation

export class Panel {
	#root;
	#opener;
	#run = null;
	#session = null;
	#tab = "timeline";
	#stale = true;

	/**
	 * `root`: an empty aside. `opener`: the button that opens it. `actions`: `now()`, `reveal(thing)`, `save(run)`,
	 * `saveAll()`, `show(store, changed, moment)`, `present()`.
	 */
	constructor(root, opener, actions) {
		this.#root = root;
		this.#opener = opener;
		this.timeline = new Timeline({ now: actions.now, reveal: (thing) => this.#reveal(thing, actions) });
		this.events = new EventList();
		this.replay = new Replay({ show: actions.show, leave: actions.present });
		this.title = element("h2", { class: "panel-title", id: "panel-title" });
		this.summary = element("p", { class: "panel-summary" });
		this.only = element("input", { type: "checkbox", checked: true, on: { change: () => this.draw(new Set()) } });
		const choice = element("label", { class: "choice" }, this.only, "Only this run");
		this.tabs = { timeline: this.#makeTab("timeline", "Timeline"), events: this.#makeTab("events", "Events") };
		this.pages = {
			timeline: this.#makePage("timeline", this.replay.root, this.timeline.root),
			events: this.#makePage("events", choice, this.events.root),
		};
		const saving = button("download", "Export run", () => this.#run && actions.save(this.#run), { words: true });
		const savingAll = button("download", "Export thread", actions.saveAll, { words: true });
		root.append(
			element("div", { class: "panel-head" }, this.title, button("close", "Close the inspector", () => this.toggle(false))),
			this.summary,
			element("div", { class: "tabs", role: "tablist", "aria-label": "Inspector", on: { keydown: (event) => this.#key(event) } }, ...Object.values(this.tabs)),
			...Object.values(this.pages),
			element("div", { class: "panel-foot" }, saving, savingAll),
		);
		opener.addEventListener("click", () => this.toggle(!this.isOpen));
		this.toggle(WIDE.matches && recall("panel", "open") === "open", { keep: false });
		this.turn("timeline");
	}

	get isOpen() {
		return !this.#root.hidden;
	}

	/** The run that is looked into, or null. */
	get run() {
		return this.#run;
	}

	/** Open or close. `keep`: the reader wants it so. */
	toggle(open, { keep = true } = {}) {
		const inside = this.#root.contains(document.activeElement);
		this.#root.hidden = !open;
		this.#opener.setAttribute("aria-expanded", String(open));
		flag(document.body, "data-panel", open);
		if (keep && WIDE.matches) remember("panel", open ? "open" : "closed");
		if (open) this.draw(new Set(), { whole: true });
		else this.replay.leave();
		if (open && keep && !WIDE.matches) this.tabs[this.#tab].focus();
		if (!open && inside) this.#opener.focus();
	}

	turn(name) {
		this.#tab = name;
		for (const [one, tab] of Object.entries(this.tabs)) {
			tab.setAttribute("aria-selected", String(one === name));
			tab.tabIndex = one === name ? 0 : -1;
			this.pages[one].hidden = one !== name;
		}
		this.draw(new Set(), { whole: true });
	}

	look(session, run) {
		if (session === this.#session && run === this.#run) return;
		this.#session = session;
		this.#run = run;
		this.#stale = true;
		this.draw(new Set(), { whole: true });
	}

	/** Draw what changed; `whole`: whatever changed. */
	draw(changed, { whole = false } = {}) {
		if (!this.isOpen || !this.#session) return;
		const run = this.#run;
		setText(this.title, run ? run.id : "Inspector");
		setText(this.summary, run ? summaryOf(run) : "Start a run, or choose one, to look into it.");
		const family = run ? this.#session.store.family(run.id) : new Set();
		if (this.#tab === "events") {
			this.events.show(this.#session.journal, run && this.only.checked ? family : null);
			this.events.draw();
		} else if (whole || this.#stale || [...changed].some((thing) => family.has(thing.run?.id ?? thing.id))) {
			this.timeline.draw(run);
			this.#load(run, family);
		}
	}

	tick() {
		if (this.isOpen && this.#tab === "timeline" && this.#run && isGoing(this.#run)) this.timeline.draw(this.#run);
	}

	/** A replay is for a run that has ended: what still grows is best seen live. */
	#load(run, family) {
		const ended = run !== null && !isGoing(run);
		this.replay.root.hidden = !ended;
		if (this.#stale) this.replay.leave();
		if (ended) this.replay.load(this.#session.journal.of(family), run.input);
		this.#stale = false;
	}

	#reveal(thing, actions) {
		if (!WIDE.matches) this.toggle(false);
		actions.reveal(thing);
	}

	#makeTab(name, label) {
		return element("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": `page-${name}`, on: { click: () => this.turn(name) } }, label);
	}

	#makePage(name, ...children) {
		return element("div", { class: `page page-${name}`, role: "tabpanel", id: `page-${name}`, "aria-labelledby": `tab-${name}` }, ...children);
	}

	#key(event) {
		if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
		const names = Object.keys(this.tabs);
		this.turn(names[(names.indexOf(this.#tab) + 1) % names.length]);
		this.tabs[this.#tab].focus();
	}
}
