/**
 * One tool call: its name, how it goes, its arguments and its result; runs that it started stand inside.
 *
 * Arguments and results are foreign text, shown as such. Where a call waits for a person, the person is asked here.
 */

import { codeBox, element, flag, icon, setText } from "./dom.js";
import { duration, indent, size, utf8Length } from "./format.js";
import { TextFlow } from "./text.js";
import { text } from "./value.js";

export const STATUS = {
	preparing: "Writing arguments",
	pending: "Pending",
	approval: "Needs approval",
	running: "Running",
	ok: "Done",
	error: "Error",
	denied: "Denied",
	interrupted: "Interrupted",
};

let ids = 0;

export class ToolView {
	#item;
	#page;
	#open = false;
	#children = new Map(); // run → element
	#sections = new Map(); // title → { code, flow }

	/** `page.nest(run)` returns the element of a child's run. */
	constructor(item, page) {
		this.#item = item;
		this.#page = page;
		const id = `tool-${(ids += 1)}`;
		this.name = element("code", { class: "tool-name" });
		this.status = element("span", { class: "tool-status" });
		this.note = element("span", { class: "tool-note" });
		this.head = element(
			"button",
			{ type: "button", class: "tool-head", "aria-expanded": "false", "aria-controls": id, on: { click: () => this.#toggle() } },
			icon("tool"),
			this.name,
			this.status,
			this.note,
			icon("chevron"),
		);
		this.inner = element("div", { class: "tool-inner" });
		this.question = element("div", { class: "tool-question", hidden: true });
		this.nested = element("div", { class: "tool-nested" });
		this.body = element("div", { class: "tool-body", id }, this.inner);
		this.root = element("div", { class: "tool", role: "group", "aria-label": "Tool call" }, this.head, this.body, this.question, this.nested);
		this.update();
	}

	update() {
		const item = this.#item;
		setText(this.name, item.name || "a tool");
		setText(this.status, STATUS[item.status] ?? item.status);
		setText(this.note, this.#took());
		this.root.dataset.status = STATUS[item.status] ? item.status : "";
		flag(this.root, "data-discarded", item.discarded);
		this.#ask(item.status === "approval" && this.#page.canAsk && item.approval !== "");
		for (const run of item.children) {
			if (this.#children.has(run)) continue;
			const root = this.#page.nest(run);
			this.#children.set(run, root);
			this.nested.append(root);
		}
		if (this.#open) this.#fill();
	}

	/** Ask the reader, once, and take the question away when it is answered, here or elsewhere. */
	#ask(waits) {
		const { question } = this;
		if (question.hidden !== waits) return;
		question.hidden = !waits;
		if (!waits) {
			if (question.contains(document.activeElement)) this.head.focus();
			question.replaceChildren();
			return;
		}
		if (!this.#open) this.#toggle();
		const reason = element("input", { type: "text", placeholder: "Reason, if you like", "aria-label": "Reason", maxlength: "500" });
		const choices = [["Approve", true], ["Deny", false]].map(([words, approved]) => {
			const decide = () => this.#decide(choices, { approved, ...(reason.value.trim() && { reason: reason.value.trim() }) });
			return element("button", { type: "button", class: "plain", on: { click: decide } }, words);
		});
		question.append(...choices, reason);
	}

	async #decide(choices, decision) {
		for (const choice of choices) choice.disabled = true;
		try {
			await this.#page.decide(this.#item, decision);
		} catch {
			for (const choice of choices) choice.disabled = false;
		}
	}

	#took() {
		const { duration: measured, begun, finished } = this.#item;
		if (measured !== null) return duration(measured);
		return begun !== null && finished !== null ? duration(finished - begun) : "";
	}

	#toggle() {
		this.#open = !this.#open;
		this.head.setAttribute("aria-expanded", String(this.#open));
		flag(this.root, "data-open", this.#open);
		if (this.#open) this.#fill();
	}

	#fill() {
		const { input, pieces, progress, result, reason, ended } = this.#item;
		if (input === null) this.#section("Arguments").flow.follow(pieces, ended !== null);
		else this.#say("Arguments", indent(input) || "none");
		if (reason) this.#say("Decision", reason);
		if (progress.length) this.#section("Progress").flow.follow(progress.map((line) => `${line}\n`), ended !== null);
		if (result) this.#say("Result", result.map(plainPart).join("\n") || "empty");
	}

	#say(title, body) {
		setText(this.#section(title).code, body);
	}

	#section(title) {
		const known = this.#sections.get(title);
		if (known) return known;
		const { root, code } = codeBox(title);
		this.inner.append(root);
		const section = { code, flow: new TextFlow(code) };
		this.#sections.set(title, section);
		return section;
	}
}

function plainPart(part) {
	if (part.type === "text") return indent(text(part.text));
	const where = text(part.url) || (text(part.data) ? size(utf8Length(part.data)) : "");
	return `[${text(part.type) || "part"} ${text(part.media_type)} ${where}]`;
}
