/**
 * The page's place in its address: `#agent=…&thread=…&run=…`. A link to a run can be sent to a colleague.
 */

const NAME = /^[A-Za-z0-9][A-Za-z0-9_.~-]{0,127}$/; // as the server: names are parts of paths
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

/** Return a name for a new thread: sortable by time, and not to be guessed. */
export function newThread() {
  const random = crypto.getRandomValues(new Uint32Array(1))[0].toString(36).slice(0, 4);
  return `t-${Date.now().toString(36)}-${random}`;
}
