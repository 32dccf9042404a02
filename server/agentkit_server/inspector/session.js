/**
 * Hold what a page knows of one thread: its feed, the journal of what came, and the store that it folds into.
 *
 * A file of records is a session too, without a feed. No DOM: the page is told through a listener.
 */

import { follow } from "./agentkit-client.js";
import { addressOf, cancelRun, decideCall, listMessages, startRun, steerRun, topicOf } from "./api.js";
import { Journal, parseLines } from "./journal.js";
import { isGoing, Store } from "./store.js";
import { array, text } from "./value.js";

const LONGEST_NOTE = 4_000; // characters of a question that travel with its run: metadata is for small things

export class Session {
	journal = new Journal();
	store = new Store();
	state = { name: "closed" };
	/** True once the page has seen all that the feed held when it was opened. */
	caughtUp = false;
	#head = Infinity; // the feed's last number when it was opened
	#seq = 0; // the newest number seen
	#feed = null;
	#listener;
	#transport = "";
	#asked = new Set(); // runs whose question was looked for

	/** `listener` gets `changed()`, `caughtUp()`, `state()` and `live(time)` for each batch of live records. */
	constructor({ agent = "", thread = "", name = "" }, listener) {
		this.agent = agent;
		this.thread = thread;
		this.name = name; // of a file
		this.topic = topicOf(agent, thread);
		this.#listener = listener;
	}

	/** Return a session of a file's text. Throws an Error that says what is wrong with it. */
	static ofFile(name, content, listener) {
		const session = new Session({ name }, listener);
		const records = parseLines(content);
		for (const record of records) {
			if (record.envelope.type === "stream.gap") session.#gap(record.envelope.data ?? {});
			else session.#take([record]);
		}
		session.state = { name: "file" };
		session.caughtUp = true;
		return session;
	}

	/** True where records come from a file. */
	get isFile() {
		return this.name !== "";
	}

	/** Follow the feed over a transport (`sse`, `websocket`); a second call changes it and goes on where the page is. */
	open(transport) {
		this.#transport = transport;
		const after = this.#feed?.cursor ?? "earliest";
		this.#feed?.close();
		this.#feed = follow(addressOf(this.topic), {
			after,
			transport,
			giveUp: () => false, // a page that waits can be hurried, one that gave up cannot
			onhello: ({ head }) => this.#hello(head),
			onrecords: (records) => this.#live(records),
			ongap: (gap) => this.#gap(gap),
			onstate: (state) => this.#tell(state),
		});
	}

	close() {
		this.#feed?.close();
	}

	retry() {
		this.#feed?.retry();
	}

	/** Start a run; throws a Problem where the server refuses. */
	async send(input) {
		const note = input.length > LONGEST_NOTE ? `${input.slice(0, LONGEST_NOTE)}…` : input;
		const { run } = await startRun(this.topic, { input, metadata: { input: note } });
		this.store.expect(run, input);
		if (this.state.name === "ended") this.open(this.#transport); // a deleted thread begins anew
		this.#listener.changed();
		return run;
	}

	/** Put a message into a run at its next step. */
	steer(run, input) {
		return steerRun(this.topic, run, input);
	}

	/** Let a call that waits be made (`approved`), or not. */
	decide({ run, approval }, decision) {
		return decideCall(this.topic, run.id, approval, decision);
	}

	/** Ask a run to stop. */
	stop(run) {
		return cancelRun(this.topic, run);
	}

	/** Return the newest run that goes on, or null. */
	get going() {
		return [...this.store.runs.values()].findLast((run) => isGoing(run) && !run.parent) ?? null;
	}

	#hello(head) {
		if (this.caughtUp) return;
		this.#head = head;
		if (this.#seq >= head) this.#arrive();
	}

	#live(records) {
		this.#take(records);
		const last = records.at(-1).envelope;
		this.#seq = last.seq;
		if (this.caughtUp) {
			this.#listener.live(Date.parse(last.time));
			this.#findQuestions();
		} else if (last.seq >= this.#head) this.#arrive();
		this.#listener.changed();
	}

	#take(records) {
		const missing = this.journal.add(records);
		if (missing.length) this.store.gap(false);
		for (const { envelope } of records) this.store.apply(envelope);
	}

	#gap(gap) {
		this.journal.addGap(gap);
		this.store.gap(gap.reason === "epoch");
		this.#listener.changed();
	}

	#arrive() {
		this.caughtUp = true;
		this.#findQuestions();
		this.#listener.caughtUp();
	}

	#tell(state) {
		this.state = state;
		this.#listener.state();
	}

	/** Runs that others started do not say what they answer: the thread's messages do. */
	async #findQuestions() {
		const unknown = [...this.store.runs.values()].filter((run) => run.input === null && !run.parent && !this.#asked.has(asking(run)));
		if (!unknown.length) return;
		for (const run of unknown) this.#asked.add(asking(run));
		try {
			const { of, open } = questionsOf(await listMessages(this.topic));
			for (const run of unknown) {
				const input = of.get(run.id) ?? (run === unknown.at(-1) && isGoing(run) ? open : null);
				if (input) this.store.ask(run.id, input);
			}
			this.#listener.changed();
		} catch {
			// The question is an extra; the feed goes on without it, and its own state tells whether the server is there.
		}
	}
}

/** A run's question is looked for when it is first seen, and when it has ended. */
const asking = (run) => run.id + isGoing(run);

/** Return which words each run answers (`of`: run → text), and those that no message answers yet (`open`). */
export function questionsOf(messages) {
	const of = new Map();
	let open = "";
	for (const message of messages) {
		const run = text(message?.run);
		if (message?.role === "user" && !run) {
			const words = array(message.content).map((block) => text(block?.text)).filter(Boolean).join("\n");
			open = open ? `${open}\n${words}` : words;
		}
		if (run && !of.has(run)) of.set(run, open);
		if (run) open = "";
	}
	return { of, open };
}
