/** Types of `agentkit-client.js`. */

/** One record of a thread's log. What a newer server adds is there too. */
export interface Envelope {
	v: 1;
	/** `<epoch>-<seq>`: keep it, and another feed goes on behind it with `after`. */
	id: string;
	seq: number;
	/** The first number that merged deltas stand for; only with `merge`. */
	first?: number;
	/** `reasoning`, `text.delta`, `run.finished`, an application's own, … */
	type: string;
	agent: string;
	thread: string;
	run?: string;
	step?: number;
	block?: string;
	/** RFC 3339. */
	time: string;
	/** The call of another run that this run answers. */
	parent?: { run: string; call: string };
	data: any;
}

/** A record, parsed and as it came. */
export interface Item {
	envelope: Envelope;
	raw: string;
	gap?: undefined;
}

/** A told loss: the records `from`…`to` cannot be had. The feed goes on behind `id`. */
export interface Gap {
	from: number;
	to: number;
	/** `trimmed`, `epoch` (the log began anew), `future`, `missing` (the client saw it by the numbers). */
	reason: string;
	id: string;
}

export interface Loss {
	gap: Gap;
	envelope?: undefined;
	raw?: undefined;
}

/** What a feed does. `until`: of `performance.now()`, in ms. */
export type State =
	| { name: "connecting"; attempt: number }
	| { name: "live" }
	| { name: "waiting" | "offline"; attempt: number; until: number; error: string }
	| { name: "ended"; reason?: string }
	| { name: "failed"; error: string }
	| { name: "closed" };

/** A token; or a function that gives one: `refused` is true where the server has refused the last. */
export type Auth = string | ((refused: boolean) => string | Promise<string>);

export interface FollowOptions {
	/** An id, `earliest`, or `now`. By default what the address says, else `now`. */
	after?: string;
	/** Only these types; `text` stands for `text` and `text.*`. */
	types?: string | string[];
	/** Only these kinds of reasoning. */
	kinds?: string | string[];
	/** Only this run; the feed ends with it. */
	run?: string;
	/** Allow the server to merge deltas while this reader is far behind. */
	merge?: boolean;
	transport?: "sse" | "websocket";
	auth?: Auth;
	signal?: AbortSignal;
	/** Says whether a refusal ends the feed. By default 4xx but 408, 425, 429; 501; close codes from 4500. */
	giveUp?: (problem: Problem) => boolean;
	/** Gets records together as they come. Without it they wait for `for await`. */
	onrecords?: (records: Item[]) => void;
	ongap?: (gap: Gap) => void;
	/** At each connection: `head` is the log's last number. */
	onhello?: (hello: { head: number }) => void;
	onstate?: (state: State) => void;
}

export interface Feed extends AsyncIterable<Item | Loss> {
	/** The place behind what came last. */
	readonly cursor: string;
	/** End for good. Leaving `for await` does it too. */
	close(): void;
	/** Make the next attempt now. */
	retry(): void;
}

/** A refusal: an RFC 9457 problem, an HTTP status, or a socket's close `code`. */
export class Problem extends Error {
	constructor(message: string, known?: { status?: number; code?: string | number; retryAfter?: number | null });
	/** The HTTP status; 0 where there was none. */
	status: number;
	/** A problem's word, or a close code. */
	code: string | number;
	/** Seconds, or null. */
	retryAfter: number | null;
}

/**
 * Follow a thread, or one run of it: `…/v1/agents/A/threads/T`, or the `events` path that starting a run gives.
 *
 * `for await` throws the Problem that ended it.
 */
export function follow(url: string | URL, options?: FollowOptions): Feed;

/** Ask for JSON: GET, or POST where there is a body. Throws a Problem. `key`: an idempotency key. */
export function ask(
	url: string | URL,
	body?: unknown,
	options?: { auth?: Auth; key?: string; method?: string; signal?: AbortSignal },
): Promise<any>;

/** Cuts a text stream into events; `feed` returns those that the text completes. */
export class EventDecoder {
	feed(text: string): { id: string | null; data: string | null; retry: number | null }[];
}
