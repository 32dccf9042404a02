/**
 * The page's place in its address: `#agent=…&thread=…&run=…`. A link to a run can be sent to a colleague.
 */

const NAME = /^[A-Za-z0-9_~-][A-Za-z0-9_.~-]{0,127}$/; // as the server: names are parts of paths
const OWN = /^t-([0-9a-z]{8})-[0-9a-z]+$/; // what `newThread` makes
const MOMENT = new Intl.DateTimeFormat("en", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const RUN = /^[A-Za-z0-9][A-Za-z0-9_.~:-]{0,127}$/;

/** Return `{ agent, thread, run }` of an address; "" for what is absent or no name. */
export function parseRoute(hash) {
	const members = new URLSearchParams(hash.replace(/^#/, ""));
	const read = (member, pattern) => (pattern.test(members.get(member) ?? "") ? members.get(member) : "");
	return { agent: read("agent", NAME), thread: read("thread", NAME), run: read("run", RUN) };
}

/** Return the hash of a place. */
export function formatRoute(route) {
	const members = Object.entries(route).filter(([, value]) => value);
	return `#${new URLSearchParams(members)}`;
}

/** Return how a thread is called in a list: one that this page made has no better name than its time. */
export function threadName(thread) {
	const own = OWN.exec(thread);
	return own ? `Thread of ${MOMENT.format(parseInt(own[1], 36))}` : thread;
}

/** Return a name for a new thread: sortable by time, and not to be guessed. */
export function newThread() {
	const random = crypto.getRandomValues(new Uint32Array(1))[0].toString(36).slice(0, 4);
	return `t-${Date.now().toString(36)}-${random}`;
}
