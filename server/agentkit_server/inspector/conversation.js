/**
 * Show a store's runs one below the other, and follow the newest while the reader is at the end.
 *
 * What changed is drawn once a frame. Runs are added and never moved.
 */

import { atEnd, element } from "./dom.js";
import { RunView } from "./run.js";

const STILL = window.matchMedia("(prefers-reduced-motion: reduce)");
const NEAR = 48; // px from the end that still count as "at the end"

export class Conversation {
	widgets = new Map(); // run or item → view
	/** False while an old feed is replayed: nothing opens by itself. */
	caughtUp = false;
	/** False for a file: nobody is there to answer. */
	canAsk = true;
	#scroller;
	#list = element("div", { class: "runs" });
	#pinned = true;
	#skew = null; // ms that the server's clock is ahead of this one
	#moment = null; // the time that a replay stands at, in ms since the epoch

	/** `scroller`: the element that scrolls. `actions`: what runs offer: `link`, `save`, `inspect`, `again`, each of a run, and `decide`, of a call. */
	constructor(scroller, actions) {
		Object.assign(this, actions);
		this.#scroller = scroller;
		scroller.append(this.#list);
		scroller.addEventListener("scroll", () => (this.#pinned = atEnd(scroller, NEAR)));
		new ResizeObserver(() => this.#follow()).observe(scroller);
	}

	/** Show another store from its beginning. `moment`: the time at which a replay stands. */
	show(store, { caughtUp, moment = null }) {
		this.caughtUp = caughtUp;
		this.#pinned = true;
		this.widgets.clear();
		this.#list.replaceChildren();
		this.draw(store.runs.values(), { moment });
	}

	/** Draw runs and items that changed. */
	draw(changed, { moment = null } = {}) {
		this.#moment = moment;
		for (const thing of changed) {
			const view = this.widgets.get(thing);
			if (view) view.update();
			else if (thing.kind === "run" && !thing.nested) this.#list.append(this.nest(thing));
		}
		this.#follow();
	}

	/** The feed has come to its head: what still goes on opens now, and from here on everything is live. */
	catchUp() {
		this.caughtUp = true;
		for (const view of this.widgets.values()) if (view.isLive) view.update();
		this.#follow();
	}

	tick() {
		for (const view of this.widgets.values()) if (view.isLive) view.tick();
	}

	/** Learn the server's clock from a record that has just come. */
	learn(time) {
		const skew = time - Date.now();
		if (!Number.isNaN(skew)) this.#skew = Math.max(this.#skew ?? skew, skew);
	}

	/** Return the server's time in ms since the epoch, as well as it is known; in a replay, the time that is shown. */
	now() {
		return this.#moment ?? Date.now() + (this.#skew ?? 0);
	}

	follow() {
		this.#pinned = true;
		this.#follow();
	}

	/** Bring a run or an item into view. */
	reveal(thing) {
		const root = this.widgets.get(thing)?.root;
		if (!root) return;
		this.#pinned = false;
		root.scrollIntoView({ block: "start" });
		if (STILL.matches) return;
		root.animate([{ backgroundColor: "var(--accent-soft)" }, {}], { duration: 900 });
	}

	/** Return the element of a run's new view. A run that is told anew takes the place of what was shown of it. */
	nest(run) {
		for (const [thing, view] of this.widgets) {
			if (thing.kind !== "run" || thing.id !== run.id) continue;
			this.widgets.delete(thing);
			view.root.remove();
		}
		const view = new RunView(run, this);
		this.widgets.set(run, view);
		return view.root;
	}

	#follow() {
		if (this.#pinned) this.#scroller.scrollTop = this.#scroller.scrollHeight;
	}
}
