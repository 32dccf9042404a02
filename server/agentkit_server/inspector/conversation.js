/**
 * Show a store's runs one below the other, and follow the newest while the reader is at the end.
 *
 * What changed is drawn once a frame. A long thread shows its newest runs first; the others come by a button.
 */

import { element } from "./dom.js";
import { RunView } from "./run.js";

const SHOWN = 40; // runs that a thread shows at first: what a page lays out at once without a pause
const NEAR = 48; // px from the end that still count as "at the end"

export class Conversation {
  widgets = new Map(); // run or item → view
  caughtUp = false;
  canAsk = true; // false for a file: nobody is there to answer
  #scroller;
  #list;
  #earlier;
  #actions;
  #store = null;
  #hidden = []; // runs before those that are shown
  #pinned = true;
  #skew = null; // ms that the server's clock is ahead of this one
  #moment = null; // the time that a replay stands at

  /** `actions`: see `RunView`; `scroller`: the element that scrolls. */
  constructor(scroller, actions) {
    this.#scroller = scroller;
    this.#actions = actions;
    this.#earlier = element("button", { type: "button", class: "plain earlier", hidden: true, on: { click: () => this.#unfold() } }, "Show earlier runs");
    this.#list = element("div", { class: "runs" });
    scroller.append(this.#earlier, this.#list);
    scroller.addEventListener("scroll", () => {
      this.#pinned = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < NEAR;
    });
    new ResizeObserver(() => this.#follow()).observe(scroller);
  }

  /**
   * Show another store from its beginning. `caughtUp`: false while it is filled from an old feed. `moment`: the time at which
   * a replay stands, in ms since the epoch.
   */
  show(store, { caughtUp = false, moment = null } = {}) {
    this.#store = store;
    this.caughtUp = caughtUp;
    this.#moment = moment;
    this.widgets.clear();
    this.#list.replaceChildren();
    this.#pinned = true;
    const runs = [...store.runs.values()].filter((run) => !run.nested);
    this.#hidden = runs.slice(0, -SHOWN);
    for (const run of runs.slice(-SHOWN)) this.#add(run);
    this.#earlier.hidden = this.#hidden.length === 0;
    this.#follow();
  }

  /** Draw what changed. */
  draw(changed, { moment = null } = {}) {
    this.#moment = moment;
    const fresh = [...changed].filter((thing) => thing.kind === "run" && !thing.nested && !this.#knows(thing));
    const early = this.caughtUp ? [] : fresh.slice(0, -SHOWN);
    if (early.length) this.#fold(0);
    this.#hidden.push(...early);
    for (const run of fresh.slice(early.length)) {
      this.#replace(run);
      this.#add(run);
    }
    for (const thing of changed) this.widgets.get(thing)?.update();
    if (!this.caughtUp) this.#fold(SHOWN);
    this.#earlier.hidden = this.#hidden.length === 0;
    this.#follow();
  }

  /** The feed has come to its head: what is still going on opens now, and from here on everything is live. */
  catchUp() {
    this.caughtUp = true;
    for (const view of this.widgets.values()) if (view.isLive) view.update();
    this.#follow();
  }

  /** Count on. */
  tick() {
    for (const view of this.widgets.values()) if (view.isLive) view.tick();
  }

  /** Learn the server's clock from a record that has just come. */
  learn(time) {
    const skew = time - Date.now();
    if (!Number.isNaN(skew)) this.#skew = this.#skew === null ? skew : Math.max(this.#skew, skew);
  }

  /** Return the server's time in ms since the epoch, as well as it is known; in a replay, the time that is shown. */
  now() {
    return this.#moment ?? Date.now() + (this.#skew ?? 0);
  }

  /** Go to the end, and stay there. */
  follow() {
    this.#pinned = true;
    this.#follow();
  }

  /** Bring a run or an item into view. */
  reveal(thing) {
    while (this.#hidden.includes(thing.run ?? thing)) this.#unfold();
    const view = this.widgets.get(thing);
    if (!view) return;
    this.#pinned = false;
    view.root.scrollIntoView({ block: "start" });
    view.root.animate?.([{ backgroundColor: "var(--accent-soft)" }, {}], { duration: 900 });
  }

  // What run views ask for.

  link = (run) => this.#actions.link(run);
  save = (run) => this.#actions.save(run);
  inspect = (run) => this.#actions.inspect(run);
  again = (run) => this.#actions.again(run);
  nest = (run) => {
    this.#replace(run);
    const view = new RunView(run, this);
    this.widgets.set(run, view);
    return view.root;
  };

  #knows(run) {
    return this.widgets.has(run) || this.#hidden.includes(run);
  }

  #add(run) {
    const view = new RunView(run, this);
    this.widgets.set(run, view);
    this.#list.append(view.root);
  }

  /** A run that is told anew takes the place of what was shown of it. */
  #replace(run) {
    for (const root of this.#list.querySelectorAll(":scope > .run")) if (root.dataset.run === run.id) root.remove();
  }

  /** While an old feed fills the page, keep only its newest `kept` runs in it. */
  #fold(kept) {
    while (this.#list.childElementCount > kept) {
      const root = this.#list.firstElementChild;
      const run = this.#store.runs.get(root.dataset.run);
      this.#forget(run);
      root.remove();
      this.#hidden.push(run);
    }
  }

  #forget(run) {
    this.widgets.delete(run);
    for (const item of run.items) {
      this.widgets.delete(item);
      for (const child of item.children ?? []) this.#forget(child);
    }
  }

  #unfold() {
    const before = this.#scroller.scrollHeight;
    for (const run of this.#hidden.splice(-SHOWN).reverse()) {
      const view = new RunView(run, this);
      this.widgets.set(run, view);
      this.#list.prepend(view.root);
    }
    this.#earlier.hidden = this.#hidden.length === 0;
    this.#scroller.scrollTop += this.#scroller.scrollHeight - before;
  }

  #follow() {
    if (this.#pinned) this.#scroller.scrollTop = this.#scroller.scrollHeight;
  }
}
