/**
 * Show how the page is connected: a word that everybody sees, and behind it the details, the switch and "now".
 */

import { setText } from "./dom.js";

const WORDS = {
	connecting: "Connecting",
	live: "Live",
	waiting: "Reconnecting",
	offline: "Offline",
	ended: "Ended",
	closed: "Not connected",
	file: "File",
};

export class Badge {
	#parts;
	#state = { name: "closed" };

	/** `parts`: the elements `button`, `word`, `detail`, `retry`. `say(words)` reaches a screen reader. */
	constructor(parts, { retry, say }) {
		this.#parts = parts;
		this.say = say;
		parts.retry.addEventListener("click", retry);
	}

	show(state, session) {
		const before = this.#state.name;
		this.#state = state;
		this.session = session;
		this.#parts.button.dataset.state = state.name;
		setText(this.#parts.word, WORDS[state.name]);
		const lost = state.name === "waiting" || state.name === "offline";
		this.#parts.retry.hidden = !lost;
		this.tick();
		if (lost && before !== "waiting" && before !== "offline") this.say(WORDS[state.name]);
		if (state.name === "live" && before === "connecting" && this.wasLost) this.say("Connected again");
		if (lost) this.wasLost = true;
		if (state.name === "live") this.wasLost = false;
	}

	tick() {
		const { name, until = 0, attempt = 0, error = "" } = this.#state;
		const seconds = Math.max(0, Math.ceil((until - performance.now()) / 1000));
		const details = {
			connecting: attempt ? `Attempt ${attempt + 1}.` : "Opening the feed.",
			live: "Events arrive as they happen.",
			waiting: `Attempt ${attempt + 1} in ${seconds} s. ${sentence(error) || "The server closed the feed."}`,
			offline: "This machine has no network.",
			ended: "Nothing will follow.",
			closed: "No thread is open.",
			file: this.session?.isFile ? `Read from ${this.session.name}. Nothing is sent or fetched.` : "",
		};
		setText(this.#parts.detail, details[name]);
	}
}

function sentence(error) {
	if (!error) return "";
	return /[.!?]$/.test(error) ? error : `${error}.`;
}
