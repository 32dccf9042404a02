/**
 * Show a growing text: text nodes are added, never replaced, so that a delta costs what it is long.
 *
 * Long texts are cut into paragraphs at line breaks, so that the browser lays out only the last one anew. The one piece of
 * markup that is read is a fence of code; everything else stays as the model wrote it.
 */

import { codeBox, element } from "./dom.js";

const PARAGRAPH = 1_500; // characters after which a line break begins a new paragraph
const OPENING = /^ {0,3}(`{3,})[^`]*$/;
const CLOSING = /^ {0,3}(`{3,}) *$/;
const UNDECIDED = /^ {0,3}`*$/; // a line that may still become a fence

export class TextFlow {
	#root;
	#fences;
	#shown = 0; // pieces taken from the list
	#node = null; // where text goes: a paragraph, or code
	#length = 0; // characters in the paragraph
	#breaks = ""; // line breaks that are kept back
	#fence = 0; // backticks that opened the present code; 0 outside of code
	#line = ""; // what of the present line is kept back, because it may be a fence
	#decided = false; // true: a part of the present line is shown, so it is no fence

	/** `fences`: show ``` … ``` as code. */
	constructor(root, { fences = false } = {}) {
		this.#root = root;
		this.#fences = fences;
	}

	/** Show what `pieces` holds beyond what was shown. `ended`: no more will come. */
	follow(pieces, ended) {
		if (pieces.length > this.#shown) {
			const text = pieces.slice(this.#shown).join("");
			this.#shown = pieces.length;
			if (this.#fences) this.#read(text);
			else this.#write(text);
		}
		if (ended && this.#line) {
			if (!this.#isFence() || !this.#fence) this.#write(this.#line);
			this.#line = "";
		}
	}

	#read(text) {
		let out = ""; // written together: a node a read, not a node a line
		text.split("\n").forEach((segment, at) => {
			if (at > 0) {
				if (this.#isFence()) {
					this.#write(out);
					out = "";
					this.#turn();
				} else out += `${this.#line}\n`;
				this.#line = "";
				this.#decided = false;
			}
			if (!this.#decided) {
				this.#line += segment;
				if (UNDECIDED.test(this.#line) || this.#isFence()) return;
				this.#decided = true;
				out += this.#line;
				this.#line = "";
			} else out += segment;
		});
		this.#write(out);
	}

	/** Tell whether the kept line is a fence that counts here: a closing one is at least as long as its opening one. */
	#isFence() {
		const match = (this.#fence ? CLOSING : OPENING).exec(this.#line);
		return match !== null && match[1].length >= this.#fence;
	}

	/** Go into code, or out of it. */
	#turn() {
		this.#node = null;
		this.#breaks = "";
		if (this.#fence) {
			this.#fence = 0;
			return;
		}
		this.#fence = OPENING.exec(this.#line)[1].length;
		const { root, code } = codeBox(this.#line.replaceAll("`", "").trim() || "code", "the code");
		this.#root.append(root);
		this.#node = code;
	}

	/** Line breaks are kept back until something follows: none stand before or after code, nor at the end. */
	#write(text) {
		const whole = this.#node ? this.#breaks + text : text.replace(/^\n+/, "");
		let end = whole.length;
		while (end > 0 && whole[end - 1] === "\n") end -= 1;
		this.#breaks = whole.slice(end);
		let rest = whole.slice(0, end);
		while (!this.#fence && this.#length + rest.length > PARAGRAPH) {
			const cut = rest.indexOf("\n", Math.max(0, PARAGRAPH - this.#length));
			if (cut < 0) break;
			this.#append(rest.slice(0, cut));
			this.#node = null; // the paragraph's own end stands for the line break
			this.#length = 0;
			rest = rest.slice(cut + 1);
		}
		this.#append(rest);
	}

	#append(text) {
		if (!text) return;
		if (!this.#node) {
			this.#length = 0;
			this.#node = element("div", { class: "paragraph" });
			this.#root.append(this.#node);
		}
		this.#node.append(text);
		this.#length += text.length;
	}
}
