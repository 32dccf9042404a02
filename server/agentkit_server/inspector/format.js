/**
 * Write values for people: durations, sizes, counts, times, JSON.
 *
 * Pure. Durations are milliseconds.
 */

const COUNT = new Intl.NumberFormat("en");
const CLOCK = new Intl.DateTimeFormat("en", { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

/** Return a count with its thousands apart. */
export function count(number) {
	return COUNT.format(number);
}

/** Return "1 token", "2 tokens". */
export function plural(number, noun) {
	return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

/** Return a measured duration: "40 ms", "0.4 s", "12 s", "1m 5s". */
export function duration(ms) {
	if (ms < 100) return `${Math.max(0, Math.round(ms))} ms`;
	if (ms < 9_950) return `${(ms / 1000).toFixed(1)} s`;
	return whole(ms);
}

/** Return a duration in whole seconds, never less than one: what a reader is told about a thought. */
export function whole(ms) {
	const seconds = Math.max(1, Math.round(ms / 1000));
	if (seconds < 60) return `${seconds} s`;
	const minutes = Math.floor(seconds / 60);
	if (minutes < 60) return `${minutes}m ${seconds % 60}s`;
	return `${Math.floor(minutes / 60)}h ${minutes % 60}m`;
}

/** Return a size: "1 byte", "412 bytes", "1.5 kB". */
export function size(bytes) {
	if (bytes < 1000) return plural(bytes, "byte");
	return bytes < 1_000_000 ? `${(bytes / 1000).toFixed(1)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}

/** Return the bytes of `text` as UTF-8. */
export function utf8Length(text) {
	let bytes = text.length;
	for (let at = 0; at < text.length; at += 1) {
		const unit = text.charCodeAt(at);
		if (unit > 0x7f) bytes += unit > 0x7ff && (unit < 0xd800 || unit > 0xdfff) ? 2 : 1;
	}
	return bytes;
}

/** Return the reader's local time of day. */
export function clock(time) {
	return CLOCK.format(time);
}

/**
 * Return JSON text with line breaks and indents.
 *
 * It works on the text, not on parsed values: a number of twenty digits stays what it is. Text that is not JSON comes
 * back unchanged.
 */
export function indent(text) {
	try {
		JSON.parse(text);
	} catch {
		return text;
	}
	const out = [];
	let depth = 0;
	const line = () => out.push("\n", "  ".repeat(Math.min(depth, 40)));
	const tokens = text.match(/"(?:[^"\\]|\\.)*"|[[\]{},:]|[^\s[\]{},:"]+/g) ?? [];
	tokens.forEach((token, at) => {
		if (token === "{" || token === "[") {
			out.push(token);
			depth += 1;
			if (!isClosing(tokens[at + 1])) line();
		} else if (isClosing(token)) {
			depth -= 1;
			if (!isOpening(tokens[at - 1])) line();
			out.push(token);
		} else if (token === ",") {
			out.push(token);
			line();
		} else out.push(token === ":" ? ": " : token);
	});
	return out.join("");
}

function isOpening(token) {
	return token === "{" || token === "[";
}

function isClosing(token) {
	return token === "}" || token === "]";
}
