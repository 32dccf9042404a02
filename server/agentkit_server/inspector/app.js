/**
 * Put the page together: one session at a time, drawn once a frame.
 *
 * The only room that knows all others. It holds no content of its own: what is shown comes from the session's store.
 */

import { listAgents, listThreads } from "./api.js";
import { Badge } from "./badge.js";
import { Composer } from "./composer.js";
import { Conversation } from "./conversation.js";
import { button, element, icon, setText } from "./dom.js";
import { Panel } from "./panel.js";
import { formatRoute, newThread, parseRoute } from "./route.js";
import { Session } from "./session.js";
import { applyTheme, nextTheme, recall, remember } from "./setting.js";
import { Shortcuts } from "./shortcut.js";
import { SignIn } from "./signin.js";
import { Sidebar } from "./sidebar.js";
import { Status } from "./status.js";

const STARTERS = ["Why is the sky blue?", "Is 2027 a prime number?", "Plan a rainy Sunday in Lisbon"];
const TICK = 250; // ms between two looks at a counter
const AGAIN = 3_000; // ms until a server that did not answer is asked again
const LATER = 15_000; // ms until agents that were only announced are asked for again

const at = (id) => document.getElementById(id);

class App {
	agents = [];
	session = null;
	chosen = ""; // the id of the run that the reader chose; "" follows the newest
	#frame = 0;

	constructor() {
		this.status = new Status(at("status"));
		const actions = {
			link: (run) => new URL(formatRoute({ ...this.place, run: run.id }), location.href).href,
			save: (run) => this.save(run),
			inspect: (run) => this.inspect(run),
			decide: (call, decision) => this.session.decide(call, decision).catch((problem) => {
				this.composer.complain(problem.message);
				throw problem;
			}),
			again: (run) => this.send(run.input).catch((problem) => this.composer.complain(problem.message)),
		};
		this.conversation = new Conversation(at("conversation"), actions);
		this.panel = new Panel(at("panel"), at("inspect"), {
			now: () => this.conversation.now(),
			reveal: (thing) => this.conversation.reveal(thing),
			save: actions.save,
			saveAll: () => this.saveAll(),
			show: (store, changed, moment) => this.showPast(store, changed, moment),
			present: () => this.showPresent(),
		});
		this.sidebar = new Sidebar(
			{ threads: at("threads"), runs: at("runs"), filter: at("runs-filter"), section: at("runs-section") },
			(place) => this.go({ ...this.place, ...place }),
		);
		this.composer = new Composer(
			{ form: at("composer"), input: at("input"), send: at("send"), stop: at("stop"), error: at("complaint") },
			{ send: (text) => this.send(text), steer: (run, text) => this.session.steer(run.id, text), stop: (run) => this.session.stop(run.id) },
		);
		this.signIn = new SignIn({ dialog: at("sign-in"), form: at("sign-in-form"), token: at("token"), error: at("sign-in-error") });
		this.badge = new Badge(
			{ button: at("badge"), word: at("badge-word"), detail: at("badge-detail"), retry: at("badge-retry") },
			{ retry: () => this.session?.retry(), say: (words) => this.status.say(words) },
		);
		this.#furnish();
		this.#listen();
		setInterval(() => this.#tick(), TICK);
	}

	/** The place that the address names. */
	get place() {
		return this.session?.isFile ? {} : { agent: this.session?.agent, thread: this.session?.thread, run: this.chosen };
	}

	/** Ask for the agents until they come, then open what the address names. */
	async start() {
		while (!(await this.#fetchAgents())) await new Promise((resolve) => setTimeout(resolve, AGAIN));
		this.composer.complain("");
		this.enter(parseRoute(location.hash));
		if (!matchMedia("(pointer: coarse)").matches) this.composer.focus();
	}

	/** Go to a place: the address changes, and the page with it. */
	go(place) {
		this.#closeSidebar();
		if (this.session?.isFile && place.agent === undefined) {
			if (place.run) this.choose(place.run);
			return;
		}
		const hash = formatRoute(place);
		if (hash === location.hash) this.enter(parseRoute(hash));
		else location.hash = hash;
	}

	/** Show a place; what it leaves open is filled in. */
	enter({ agent, thread, run }) {
		const known = this.agents.find((one) => one.name === agent) ?? this.agents.find((one) => one.default && one.available !== false)
			?? this.agents.find((one) => one.available !== false) ?? this.agents[0];
		const name = agent || known?.name || "";
		if (!name) {
			this.composer.complain("This server has no agents.");
			return;
		}
		const place = { agent: name, thread: thread || newThread(), run };
		history.replaceState(null, "", formatRoute(place));
		at("agent").value = name;
		if (this.session?.agent !== place.agent || this.session?.thread !== place.thread) {
			this.#open(new Session(place, this.listener));
			this.session.open(at("transport").value);
			this.#listThreads();
		}
		this.choose(run);
	}

	/** Choose the run that is looked into; "" follows the newest. */
	choose(run) {
		this.chosen = run;
		const found = this.session.store.runs.get(run);
		if (found && this.session.caughtUp) {
			this.panel.replay.leave();
			this.conversation.reveal(found);
		}
		this.#draw();
	}

	inspect(run) {
		if (this.session.isFile) this.choose(run.id);
		else {
			this.chosen = run.id;
			history.replaceState(null, "", formatRoute(this.place));
		}
		this.panel.toggle(true);
		this.#draw();
	}

	async send(text) {
		this.panel.replay.leave();
		await this.session.send(text);
		this.chosen = "";
		history.replaceState(null, "", formatRoute(this.place));
		this.conversation.follow();
		this.#listThreads();
	}

	// What the session tells.

	listener = {
		changed: () => this.#schedule(),
		state: () => this.#showState(),
		live: (time) => this.conversation.learn(time),
		caughtUp: () => {
			this.#draw();
			if (!this.panel.replay.isPast) this.conversation.catchUp();
			if (this.chosen) this.choose(this.chosen);
		},
	};

	// Replay.

	showPast(store, changed, moment) {
		this.#showBanner();
		at("welcome").hidden = true;
		if (changed === null) this.conversation.show(store, { caughtUp: true, moment });
		else this.conversation.draw(changed, { moment });
	}

	showPresent() {
		this.#showBanner();
		this.conversation.show(this.session.store, { caughtUp: this.session.caughtUp });
		this.#schedule();
	}

	// Files.

	/** Export a run, with the runs that its calls started. */
	save(run) {
		download(`${run.id}.jsonl`, this.session.journal.lines(this.session.store.family(run.id)));
	}

	/** Export all that the page has of the thread. */
	saveAll() {
		download(`${this.session.thread || "thread"}.jsonl`, this.session.journal.lines());
	}

	async load(file) {
		try {
			const session = Session.ofFile(file.name, await file.text(), this.listener);
			this.#open(session);
			this.#showState();
			this.sidebar.showThreads([], file.name);
			this.#draw();
		} catch (error) {
			this.composer.complain(`${file.name}: ${error.message}.`);
		}
	}

	// Drawing.

	#open(session) {
		this.panel.replay.leave();
		this.session?.close();
		this.session = session;
		this.chosen = "";
		this.composer.complain("");
		this.sidebar.clearRuns();
		this.conversation.canAsk = !session.isFile;
		this.#showBanner();
		this.conversation.show(session.store, { caughtUp: session.caughtUp });
		this.#schedule();
	}

	#schedule() {
		this.#frame ||= requestAnimationFrame(() => this.#draw());
	}

	#draw() {
		cancelAnimationFrame(this.#frame);
		this.#frame = 0;
		const { session } = this;
		if (!session) return;
		const changed = session.store.take();
		const newest = [...session.store.runs.values()].findLast((run) => !run.parent) ?? null;
		const chosen = session.store.runs.get(this.chosen) ?? newest;
		if (!this.panel.replay.isPast) this.conversation.draw(changed);
		this.panel.look(session, chosen);
		this.panel.draw(changed);
		this.sidebar.showRuns(session.store, changed, chosen);
		this.status.show(newest, session.isFile ? session.name : session.agent, { quiet: !session.caughtUp });
		this.#showComposer();
		at("welcome").hidden = !session.caughtUp || session.store.runs.size > 0;
	}

	#showComposer() {
		const { session } = this;
		const agent = this.agents.find((one) => one.name === session.agent);
		const usable = !session.isFile && agent !== undefined && agent.available !== false;
		let hint = session.going && !session.isFile ? "Say something to the run" : `Message ${session.agent.slice(0, 32)}`;
		if (session.isFile) hint = "Nothing can be asked of a file";
		else if (!agent) hint = `There is no agent ${session.agent} here`;
		else if (!usable) hint = agent.note || "This agent is not available";
		this.composer.show({ usable, hint, going: session.isFile ? null : session.going });
	}

	/** Say what is shown, where it is not a thread's present, and how to leave it. */
	#showBanner() {
		const past = this.panel.replay.isPast;
		const words = past ? "This is the run as it was." : `Read from ${this.session.name}`;
		const label = past ? "Back to the present" : "Close the file";
		const leave = () => (past ? this.panel.replay.leave() : this.enter(parseRoute(location.hash)));
		at("banner").hidden = !past && !this.session.isFile;
		at("banner").replaceChildren(element("span", {}, words), button("back", label, leave, { words: true }));
	}

	#showState() {
		const { name, attempt } = this.session.state;
		this.badge.show(this.session.state, this.session);
		if (name === "waiting" && attempt === 1) this.#fetchAgents(); // whoever is no longer known is asked again
	}

	/** Ask for the agents; those that are only announced may come later. Returns whether the server answered. */
	async #fetchAgents() {
		try {
			this.agents = await listAgents();
		} catch (problem) {
			if (problem.status === 401) {
				await this.signIn.ask();
				this.session?.retry();
				return this.#fetchAgents();
			}
			if (!this.session) this.composer.complain(`${problem.message} Trying again…`);
			return false;
		}
		if (this.agents.some((agent) => agent.available === false)) setTimeout(() => this.#fetchAgents(), LATER);
		const options = this.agents.map(({ name, available, note, description }) => {
			const words = available === false ? `${name} (${note || "not available"})` : name;
			return element("option", { value: name, disabled: available === false, title: description || null }, words);
		});
		const chosen = at("agent").value;
		at("agent").replaceChildren(...options);
		if (chosen) at("agent").value = chosen;
		this.#schedule();
		return true;
	}

	async #listThreads() {
		const { session } = this;
		const agent = this.agents.find((one) => one.name === session.agent);
		setText(at("welcome-words"), agent?.description || "Ask something. Reasoning streams in, folds when it is done, and the answer stands below it.");
		this.sidebar.showThreads([], session.thread);
		try {
			const threads = await listThreads(session.agent);
			if (session === this.session) this.sidebar.showThreads(threads, session.thread);
		} catch {
			// The list is an extra: the open thread is shown, and the badge tells whether the server is there.
		}
	}

	#tick() {
		this.conversation.tick();
		this.panel.tick();
		this.badge.tick();
	}

	#closeSidebar() {
		delete document.body.dataset.sidebar;
		at("menu").setAttribute("aria-expanded", "false");
	}

	// Furniture.

	#furnish() {
		at("menu").append(icon("menu"));
		at("brand").prepend(icon("brand"));
		at("inspect").append(icon("panel"), element("span", {}, "Inspect"));
		at("send").append(icon("send"));
		at("stop").append(icon("stop"));
		at("sidebar-head").append(button("plus", "New thread", () => this.fresh(), { words: true }));
		const theme = button("theme", `Theme: ${applyTheme()}`, () => setText(theme.lastChild, `Theme: ${nextTheme()}`), { words: true });
		at("sidebar-foot").append(
			button("upload", "Open a file", () => at("file").click(), { words: true }),
			theme,
			button("help", "Keyboard", () => this.shortcuts.show(), { words: true }),
		);
		for (const words of STARTERS) {
			const start = () => {
				this.composer.fill(words);
				this.composer.focus();
			};
			at("starters").append(element("li", {}, element("button", { type: "button", class: "plain", on: { click: start } }, words)));
		}
		at("transport").value = recall("transport", "sse") === "sse" ? "sse" : "websocket";
	}

	#listen() {
		at("agent").addEventListener("change", () => this.go({ agent: at("agent").value, thread: newThread() }));
		at("menu").addEventListener("click", () => {
			const open = document.body.dataset.sidebar === undefined;
			if (open) document.body.dataset.sidebar = "";
			else this.#closeSidebar();
			at("menu").setAttribute("aria-expanded", String(open));
		});
		at("main").addEventListener("pointerdown", () => this.#closeSidebar());
		at("transport").addEventListener("change", () => {
			remember("transport", at("transport").value);
			if (this.session && !this.session.isFile) this.session.open(at("transport").value);
		});
		at("file").addEventListener("change", () => {
			if (at("file").files.length) this.load(at("file").files[0]);
			at("file").value = "";
		});
		window.addEventListener("hashchange", () => this.enter(parseRoute(location.hash)));
		document.addEventListener("dragover", (event) => event.preventDefault());
		document.addEventListener("drop", (event) => {
			event.preventDefault();
			if (event.dataTransfer.files.length) this.load(event.dataTransfer.files[0]);
		});
		document.addEventListener("keydown", (event) => {
			if (event.key !== "Escape" || event.defaultPrevented || document.querySelector("dialog[open], :popover-open")) return;
			if (document.body.dataset.sidebar !== undefined) this.#closeSidebar();
			else if (this.panel.replay.isPast) this.panel.replay.leave();
			else if (this.panel.isOpen) this.panel.toggle(false);
		});
		this.shortcuts = new Shortcuts({
			"/": { words: "Write a message", act: () => this.composer.focus() },
			n: { words: "New thread", act: () => this.fresh() },
			i: { words: "Open or close the inspector", act: () => this.panel.toggle(!this.panel.isOpen) },
			t: { words: "Timeline", act: () => this.#turn("timeline") },
			e: { words: "Raw events", act: () => this.#turn("events") },
			"?": { words: "This list", act: () => this.shortcuts.show() },
		}, { dialog: at("help"), keys: at("help-keys"), single: at("help-single") });
	}

	fresh() {
		this.go({ agent: at("agent").value, thread: newThread() });
		this.composer.focus();
	}

	#turn(tab) {
		this.panel.toggle(true);
		this.panel.turn(tab);
		this.panel.tabs[tab].focus();
	}
}

function download(name, content) {
	const address = URL.createObjectURL(new Blob([content], { type: "application/x-ndjson" }));
	element("a", { href: address, download: name }).click();
	setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

applyTheme();
new App().start();
