/**
 * Keys: a list that the help shows, and that can be switched off, because single keys collide with speech input.
 */

import { element } from "./dom.js";
import { recall, remember } from "./setting.js";

export class Shortcuts {
	#actions;
	#help;

	/** `actions`: key → `{ words, act }`. `help`: the elements `dialog`, `keys`, `single`. */
	constructor(actions, help) {
		this.#actions = new Map(Object.entries(actions));
		this.#help = help;
		help.single.checked = recall("shortcuts", "on") === "on";
		help.single.addEventListener("change", () => remember("shortcuts", help.single.checked ? "on" : "off"));
		const fixed = [["Enter", "Send"], ["Shift Enter", "Break the line"], ["Esc", "Close what is open"]];
		for (const [key, words] of [...fixed, ...[...this.#actions].map(([key, { words }]) => [key, words])]) {
			help.keys.append(element("dt", {}, element("kbd", {}, key)), element("dd", {}, words));
		}
		document.addEventListener("keydown", (event) => this.#key(event));
	}

	show() {
		this.#help.dialog.showModal();
	}

	#key(event) {
		if (event.ctrlKey || event.metaKey || event.altKey || this.#help.dialog.open) return;
		if (event.target.closest("input, textarea, select, [role=listbox]")) return;
		if (!this.#help.single.checked) return;
		const action = this.#actions.get(event.key);
		if (!action) return;
		event.preventDefault();
		action.act();
	}
}
