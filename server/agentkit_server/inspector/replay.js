/**
 * Show a run as it was after any of its events: a slider, step keys, and playing at the run's own pace.
 *
 * It folds a run's records into a store of its own; the live one is not touched.
 */

import { button, element, icon, setText } from "./dom.js";
import { duration } from "./format.js";
import { Store } from "./store.js";

const LONGEST_PAUSE = 1_000; // ms between two events while playing, however long the run waited

export class Replay {
	#records = [];
	#input = null;
	#store = null;
	#at = 0;
	#timer = 0;
	#show;
	#leave;

	/**
	 * `show(store, changed, moment)`: a store to show at a time, from its beginning where `changed` is null.
	 * `leave()`: back to the present.
	 */
	constructor({ show, leave }) {
		this.#show = show;
		this.#leave = leave;
		this.slider = element("input", { type: "range", min: "0", max: "0", value: "0", "aria-label": "Event of the run", on: { input: () => this.#to(this.slider.valueAsNumber) } });
		this.place = element("output", { class: "replay-place" });
		this.playing = button("play", "Play the run", () => this.#toggle());
		this.root = element(
			"div",
			{ class: "replay", role: "group", "aria-label": "Replay" },
			this.slider,
			element(
				"div",
				{ class: "replay-bar" },
				button("first", "To the first event", () => this.#to(0)),
				this.playing,
				button("last", "To the last event", () => this.leave()),
				this.place,
			),
		);
	}

	/** True while the past is shown. */
	get isPast() {
		return this.#store !== null;
	}

	/** Take a run's records (entries of a journal) and the words that it answers. */
	load(records, input) {
		this.#records = records;
		this.#input = input;
		this.slider.max = String(records.length);
		if (!this.isPast) this.slider.value = String(records.length);
		this.#say();
	}

	leave() {
		this.#pause();
		if (!this.#store) return;
		this.#store = null;
		this.slider.value = this.slider.max;
		this.#say();
		this.#leave();
	}

	#to(at) {
		this.#pause();
		this.#go(at);
	}

	#go(at) {
		const anew = !this.#store || at < this.#at;
		if (anew) {
			this.#store = new Store();
			this.#at = 0;
		}
		for (; this.#at < at; this.#at += 1) this.#store.apply(JSON.parse(this.#records[this.#at].raw));
		const first = this.#records[0]?.run;
		if (first && this.#input !== null) this.#store.ask(first, this.#input);
		this.slider.value = String(at);
		this.#say();
		const changed = this.#store.take();
		const moment = this.#records[Math.max(0, at - 1)]?.time ?? null;
		this.#show(this.#store, anew ? null : changed, moment);
	}

	#toggle() {
		if (this.#timer) this.#pause();
		else {
			if (!this.#store || this.#at >= this.#records.length) this.#go(0);
			this.#swap("pause", "Pause");
			this.#play();
		}
	}

	#play() {
		const next = this.#records[this.#at];
		if (!next) {
			this.#pause();
			return;
		}
		const before = this.#records[this.#at - 1];
		const pause = before ? Math.min(LONGEST_PAUSE, Math.max(0, next.time - before.time || 0)) : 0;
		this.#timer = setTimeout(() => {
			let at = this.#at + 1; // what came at once is shown at once
			while (at < this.#records.length && this.#records[at].time === next.time) at += 1;
			this.#go(at);
			this.#play();
		}, pause);
	}

	#pause() {
		clearTimeout(this.#timer);
		this.#timer = 0;
		this.#swap("play", "Play the run");
	}

	#swap(name, label) {
		if (this.playing.getAttribute("aria-label") === label) return;
		this.playing.querySelector("svg").replaceWith(icon(name));
		this.playing.setAttribute("aria-label", label);
		this.playing.title = label;
	}

	#say() {
		const at = this.#store ? this.#at : this.#records.length;
		const since = at > 0 ? this.#records[at - 1].time - this.#records[0].time : 0;
		const moment = since > 0 ? `, +${duration(since)}` : "";
		setText(this.place, `Event ${at} of ${this.#records.length}${moment}`);
	}
}
