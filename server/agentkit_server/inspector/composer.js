/**
 * Where the user types: Enter sends, Shift+Enter breaks the line. While a run goes on, the same place stops it, and what is
 * sent goes into it.
 */

import { setText } from "./dom.js";

export class Composer {
	#parts;
	#actions;
	#busy = false; // a request is on its way
	#going = null; // the run that can be stopped
	#stopping = null;
	#usable = false;

	/** `parts`: `form`, `input`, `send`, `stop`, `error`. `actions`: `send(text)`, `steer(run, text)`, `stop(run)`, which throw a Problem. */
	constructor(parts, actions) {
		this.#parts = parts;
		this.#actions = actions;
		parts.form.addEventListener("submit", (event) => {
			event.preventDefault();
			this.#send();
		});
		parts.input.addEventListener("keydown", (event) => {
			if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
			event.preventDefault();
			this.#send();
		});
		parts.input.addEventListener("input", () => this.#draw());
		parts.stop.addEventListener("click", () => this.#stop());
	}

	focus() {
		this.#parts.input.focus();
	}

	fill(text) {
		this.#parts.input.value = text;
		this.#draw();
	}

	/** Say whether there is somebody to talk to, and whom; and which run can be stopped. */
	show({ usable, hint, going }) {
		this.#usable = usable;
		this.#going = going;
		if (this.#stopping !== going) this.#stopping = null;
		this.#parts.input.placeholder = hint;
		this.#draw();
	}

	/** Show an error, or none (""). */
	complain(message) {
		this.#parts.error.hidden = !message;
		setText(this.#parts.error, message);
	}

	#draw() {
		const { input, send, stop } = this.#parts;
		const held = document.activeElement === stop || document.activeElement === send;
		stop.hidden = !this.#going;
		const said = input.value.trim();
		send.hidden = Boolean(this.#going) && !said;
		const label = this.#going ? "Say it to the run" : "Send";
		send.setAttribute("aria-label", label);
		send.title = label;
		stop.setAttribute("aria-disabled", String(this.#stopping !== null)); // a disabled button would lose the focus
		stop.setAttribute("aria-label", this.#stopping ? "Stopping" : "Stop the run");
		send.disabled = !this.#usable || this.#busy || !said;
		input.disabled = !this.#usable;
		if (held && document.activeElement === document.body) input.focus();
	}

	async #send() {
		const text = this.#parts.input.value.trim();
		if (!text || !this.#usable || this.#busy) return;
		this.#busy = true;
		this.complain("");
		this.#draw();
		try {
			if (this.#going) await this.#actions.steer(this.#going, text);
			else await this.#actions.send(text);
			if (this.#parts.input.value.trim() === text) this.#parts.input.value = "";
		} catch (problem) {
			this.complain(problem.message);
		} finally {
			this.#busy = false;
			this.#draw();
		}
	}

	async #stop() {
		const run = this.#going;
		if (!run || this.#stopping) return;
		this.#stopping = run;
		this.#draw();
		try {
			await this.#actions.stop(run);
		} catch (problem) {
			this.#stopping = null;
			this.complain(problem.message);
			this.#draw();
		}
	}
}
