/** Ask who the reader is, where the server wants to know. A token becomes a cookie that no script can read. */

import { signIn } from "./api.js";
import { setText } from "./dom.js";

export class SignIn {
	#parts;
	#asked = null;
	#answer;

	/** `parts`: `dialog`, `form`, `token`, `error`. */
	constructor(parts) {
		this.#parts = parts;
		parts.dialog.addEventListener("cancel", (event) => event.preventDefault()); // there is nothing behind it to go back to
		parts.form.addEventListener("submit", (event) => {
			event.preventDefault();
			this.#try();
		});
	}

	/** Returns a promise that is kept once the server knows the reader. */
	ask() {
		this.#asked ??= new Promise((answer) => {
			this.#answer = answer;
			this.#parts.dialog.showModal();
		});
		return this.#asked;
	}

	async #try() {
		const { dialog, token, error } = this.#parts;
		try {
			await signIn(token.value.trim());
		} catch (problem) {
			setText(error, problem.status === 401 ? "The server does not know this token." : problem.message);
			token.select();
			return;
		}
		token.value = "";
		setText(error, "");
		dialog.close();
		this.#asked = null;
		this.#answer();
	}
}
