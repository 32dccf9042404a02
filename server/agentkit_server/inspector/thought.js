/**
 * One disclosure of reasoning: opens by itself while the model thinks, follows the newest text, folds when it is done.
 *
 * Times are the server's, so a reload shows the same number. The first toggle by hand wins for ever. Text is put into the
 * page only once somebody can see it.
 */

import { atEnd, button, copy, element, flag, icon, setText } from "./dom.js";
import { size, whole } from "./format.js";
import { joined, legibility, spanOf } from "./store.js";
import { TextFlow } from "./text.js";

const LINGER = 1_000; // ms that a finished thought stays open, so that its last words can be read
const NEAR = 24; // px from the end that still count as "at the end"

const HIDDEN = "Encrypted by the provider. The answer is not affected, and the model gets it back on the next turn.";

let ids = 0;

export class ThoughtView {
	#item;
	#page;
	#flows = [];
	#open = false;
	#byHand = false;
	#pinned = true;
	#folding = 0;
	#copy;

	/** `page` tells `caughtUp` (false while an old feed is replayed) and `now()` in ms of the server's clock. */
	constructor(item, page) {
		this.#item = item;
		this.#page = page;
		const id = `thought-${(ids += 1)}`;
		this.chevron = icon("chevron");
		this.lock = icon("lock");
		this.label = element("span", { class: "thought-label" });
		this.note = element("span", { class: "thought-note" });
		this.head = element(
			"button",
			{ type: "button", class: "thought-head", "aria-expanded": "false", "aria-controls": id, on: { click: () => this.#toggle() } },
			this.chevron,
			this.label,
			this.note,
		);
		this.scroll = element("div", { class: "thought-scroll", on: { scroll: () => this.#scrolled() } });
		this.#copy = button("copy", "Copy the reasoning", () => copy(this.#text(), this.#copy));
		this.tail = element("div", { class: "thought-tail" }, this.#copy);
		this.why = element("p", { class: "thought-why", hidden: true }, HIDDEN);
		this.beside = element("p", { class: "thought-why thought-lock", hidden: true }, icon("lock"), element("span"));
		this.body = element("div", { class: "thought-body", id }, element("div", { class: "thought-inner" }, this.scroll, this.tail));
		this.root = element("div", { class: "thought", role: "group", "aria-label": "Reasoning" }, this.head, this.body, this.why, this.beside);
		this.update();
	}

	/** True while the model thinks. */
	get isLive() {
		return this.#item.run.status === "running" && spanOf(this.#item).ended === null;
	}

	update() {
		const item = this.#item;
		const kind = legibility(item);
		const live = this.isLive;
		// Whether a block will be readable is known only at its end; until then it is simply going on.
		const sealed = !live && kind !== "text";
		flag(this.root, "data-live", live);
		flag(this.root, "data-sealed", sealed);
		flag(this.root, "data-discarded", item.discarded);
		this.root.dataset.kind = kind;
		this.#seal(sealed, kind);
		this.tick();
		this.#decide(live, kind);
		if (this.#open) this.#fill();
	}

	tick() {
		const { started, ended } = spanOf(this.#item);
		const kind = legibility(this.#item);
		if (this.isLive) {
			setText(this.label, "Thinking…");
			setText(this.note, started === null ? "" : whole(this.#page.now() - started));
			return;
		}
		const bytes = this.#sum("state");
		if (kind === "hidden") setText(this.label, `Hidden reasoning, ${size(bytes)}`);
		else if (started === null || ended === null) setText(this.label, "Thought for a few seconds");
		else {
			setText(this.label, `Thought for ${whole(ended - started)}`);
			this.label.title = `${((ended - started) / 1000).toFixed(3)} s by the server's clock`;
		}
		setText(this.note, this.#remark(kind));
	}

	#remark(kind) {
		if (this.#item.discarded) return "discarded, the request was made again";
		if (kind === "withheld") return `text withheld by the provider, signature of ${size(this.#sum("signature"))}`;
		if (kind === "hidden" || kind === "none") return "";
		return this.#item.parts.every((part) => part.summary) ? "summary by the provider" : "";
	}

	#sum(member) {
		return this.#item.parts.reduce((sum, part) => sum + part[member], 0);
	}

	#text() {
		return this.#item.parts.filter((part) => part.pieces.length).map(joined).join("\n\n");
	}

	/**
	 * Show what nobody can read. A thought without any text has nothing to open; hidden blocks beside readable ones are told
	 * below the header. A readable block may still join a hidden one, so nothing here is for ever.
	 */
	#seal(sealed, kind) {
		if (sealed && this.#open) this.#set(false);
		this.head.disabled = sealed;
		if (sealed) this.head.removeAttribute("aria-expanded");
		else this.head.setAttribute("aria-expanded", String(this.#open));
		const mark = sealed && kind === "hidden" ? this.lock : this.chevron;
		if (mark.parentNode !== this.head) this.head.firstChild.replaceWith(mark);
		this.why.hidden = mark !== this.lock;
		const bytes = this.#item.parts.reduce((sum, part) => sum + (part.pieces.length ? 0 : part.state), 0);
		this.beside.hidden = sealed || this.isLive || !bytes;
		setText(this.beside.lastChild, `Hidden reasoning, ${size(bytes)}`);
	}

	#decide(live, kind) {
		if (this.#byHand || kind !== "text") return;
		if (live && this.#page.caughtUp) {
			clearTimeout(this.#folding);
			this.#folding = 0;
			if (!this.#open) this.#set(true);
		} else if (!live && this.#open && !this.#folding) {
			this.#folding = setTimeout(() => this.#byHand || this.#set(false), LINGER);
		}
	}

	#toggle() {
		this.#byHand = true;
		this.#set(!this.#open);
		if (this.#open) this.#fill();
	}

	#set(open) {
		this.#open = open;
		this.#folding = 0;
		this.head.setAttribute("aria-expanded", String(open));
		flag(this.root, "data-open", open);
	}

	#fill() {
		this.#item.parts.forEach((part, at) => {
			if (!part.pieces.length) return;
			if (!this.#flows[at]) {
				const root = element("div", { class: "thought-part" });
				this.scroll.append(root);
				this.#flows[at] = new TextFlow(root);
			}
			this.#flows[at].follow(part.pieces, part.ended !== null);
		});
		if (this.isLive && this.#pinned) this.scroll.scrollTop = this.scroll.scrollHeight;
	}

	#scrolled() {
		this.#pinned = atEnd(this.scroll, NEAR);
	}
}
