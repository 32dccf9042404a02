/**
 * One run in reading order: the question, what the model thought, did and said, and how it ended.
 *
 * It adds elements and never reorders or replaces them, so nothing jumps and a selection survives.
 */

import { button, copy, element, flag, icon, setText } from "./dom.js";
import { count, duration, plural, whole } from "./format.js";
import { answerOf, isGoing } from "./store.js";
import { TextFlow } from "./text.js";
import { ThoughtView } from "./thought.js";
import { ToolView } from "./tool.js";

/** How a run's state reads, and the icon that says it without colour. */
export const STATUS = {
	queued: "Waiting",
	running: "Running",
	suspended: "Waiting for a decision",
	finished: "Finished",
	failed: "Failed",
	cancelled: "Stopped",
	lost: "Lost",
};

/** Reasons for an end that a reader should know; `stop` and `tool_calls` are the ordinary ones. */
const FINISH = {
	length: "cut at the token limit",
	content_filter: "cut by the provider's filter",
	refusal: "refused",
};

/** Kinds of images that a browser decodes without running anything. */
const SAFE_IMAGE = /^image\/(png|jpeg|gif|webp|avif)$/;

export class RunView {
	#run;
	#page;
	#shown = 0; // items that have a view

	/** `page`: the conversation that it stands in. */
	constructor(run, page) {
		this.#run = run;
		this.#page = page;
		this.question = element("div", { class: "question", hidden: true });
		this.cut = element("p", { class: "notice", hidden: true }, icon("alert"), "Earlier events of this run are no longer kept.");
		this.items = element("div", { class: "items" });
		this.waiting = element("div", { class: "waiting", "aria-hidden": "true" }, element("i"), element("i"), element("i"));
		this.failure = element("div", { class: "failure", hidden: true });
		this.summary = element("span", { class: "run-summary" });
		this.actions = element("span", { class: "run-actions" });
		this.footer = element("footer", { class: "run-footer", hidden: true }, this.summary, this.actions);
		this.root = element(
			"article",
			{ class: "run", "data-run": run.id, "aria-label": "Run", tabindex: "-1" },
			this.question, this.cut, this.items, this.waiting, this.failure, this.footer,
		);
		this.#buildActions();
		this.update();
	}

	/** Show what changed in the run itself; its items have views of their own. */
	update() {
		const run = this.#run;
		if (run.input !== null) {
			this.question.hidden = false;
			setText(this.question, run.input);
		}
		this.cut.hidden = !run.cut || run.status === "queued";
		for (; this.#shown < run.items.length; this.#shown += 1) this.#show(run.items[this.#shown]);
		this.root.dataset.status = run.status;
		flag(this.root, "data-waiting", this.#isWaiting());
		this.#end();
	}

	/** True before the first sign of the model, and between a tool's result and the next one. */
	#isWaiting() {
		const run = this.#run;
		if (run.status !== "queued" && run.status !== "running") return false;
		const last = run.items.at(-1);
		if (!last) return true;
		if (last.kind === "tool") return last.result !== null && last.children.every((child) => !isGoing(child));
		const parts = last.kind === "thought" ? last.parts : [last];
		return parts.every((part) => part.ended !== null);
	}

	#show(item) {
		const view = this.#make(item);
		this.#page.widgets.set(item, view);
		this.items.append(view.root);
	}

	#make(item) {
		if (item.kind === "thought") return new ThoughtView(item, this.#page);
		if (item.kind === "text" || item.kind === "refusal") return new AnswerView(item);
		if (item.kind === "tool") return new ToolView(item, this.#page);
		return { root: fixed(item), update() {} };
	}

	#buildActions() {
		const run = this.#run;
		const copying = button("copy", "Copy the answer", () => copy(answerOf(run), copying));
		const linking = button("link", "Copy a link to this run", () => copy(this.#page.link(run), linking));
		const saving = button("download", "Export this run as JSON lines", () => this.#page.save(run));
		const looking = button("panel", "Inspect this run", () => this.#page.inspect(run));
		this.actions.append(copying, linking, saving, looking);
	}

	#end() {
		const run = this.#run;
		this.footer.hidden = isGoing(run);
		if (isGoing(run)) return;
		setText(this.summary, summaryOf(run));
		this.failure.hidden = run.status !== "failed";
		if (run.status !== "failed" || this.failure.childElementCount) return;
		this.failure.append(
			icon("alert"),
			element("div", {},
				element("strong", {}, run.message || "The run failed."),
				element("span", { class: "failure-code" }, run.code),
				run.items.length > 0 && element("span", {}, "What came before stays in the thread."),
				run.retryable && run.input !== null && this.#page.canAsk && element("button", { type: "button", class: "plain", on: { click: () => this.#page.again(run) } }, "Ask again"),
			),
		);
	}
}

/** A text or a refusal as it grows. */
class AnswerView {
	#item;
	#flow;

	constructor(item) {
		this.#item = item;
		this.root = element("div", { class: item.kind });
		if (item.kind === "refusal") this.root.append(element("strong", { class: "refusal-word" }, "The model refused"));
		const flow = element("div", { class: "flow" });
		this.root.append(flow);
		this.#flow = new TextFlow(flow, { fences: item.kind === "text" });
		this.update();
	}

	update() {
		const ended = this.#item.ended !== null || !isGoing(this.#item.run);
		this.root.setAttribute("aria-busy", String(!ended));
		flag(this.root, "data-live", !ended);
		flag(this.root, "data-discarded", this.#item.discarded);
		this.#flow.follow(this.#item.pieces, ended);
	}
}

/** Return the element of an item that never changes. */
function fixed(item) {
	if (item.kind === "steered") return element("div", { class: "question steered" }, item.text);
	if (item.kind === "retry") {
		const when = item.delay > 0 ? ` after ${duration(item.delay * 1000)}` : "";
		return element("p", { class: "notice" }, icon("alert"), `Attempt ${item.attempt}${when}: ${item.message || item.code}`);
	}
	if (item.kind === "image") return imageOf(item);
	return element("p", { class: "notice" }, icon("alert"), item.message || item.code);
}

/** An image that came in the feed is shown; one that lies elsewhere is a link, because nothing is fetched from elsewhere. */
function imageOf({ mediaType, data, url }) {
	if (data && SAFE_IMAGE.test(mediaType)) {
		return element("img", { class: "image", alt: "Image by the model", src: `data:${mediaType};base64,${data}` });
	}
	if (/^https?:\/\//i.test(url)) {
		return element("p", { class: "notice" }, "Image: ", element("a", { href: url, rel: "noopener noreferrer", target: "_blank" }, url));
	}
	return element("p", { class: "notice" }, icon("alert"), `An image of type ${mediaType || "unknown"} that cannot be shown here`);
}

/** Tell whether an item is something of an answer. */
const isAnswer = ({ kind, discarded, pieces }) => kind === "refusal" || kind === "image" || (kind === "text" && !discarded && pieces.some(Boolean));

/** Return "Finished in 3.2 s, 214 tokens, 120 of them reasoning". */
export function summaryOf(run) {
	const words = [STATUS[run.status]];
	if (run.started !== null && run.ended !== null) {
		const took = run.ended - run.started;
		words[0] += ` ${run.status === "finished" ? "in" : "after"} ${took < 60_000 ? duration(took) : whole(took)}`;
	}
	if (run.status === "cancelled" && run.message) words.push(run.message);
	if (FINISH[run.finish]) words.push(FINISH[run.finish]);
	else if (run.status === "finished" && !run.cut && !run.items.some(isAnswer)) words.push("no visible text");
	if (run.usage) {
		words.push(plural(run.usage.input + run.usage.output, "token"));
		if (run.usage.reasoning) words.push(`${count(run.usage.reasoning)} of them reasoning`);
	}
	return words.join(" · ");
}
