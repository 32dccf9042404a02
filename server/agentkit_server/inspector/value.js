/** Read members of foreign JSON: what is not of the wanted kind becomes that kind's nothing. Pure. */

export function text(value) {
	return typeof value === "string" ? value : "";
}

export function number(value) {
	return typeof value === "number" && Number.isFinite(value) ? value : 0;
}

export function object(value) {
	return typeof value === "object" && value !== null && !Array.isArray(value) ? value : {};
}

export function array(value) {
	return Array.isArray(value) ? value : [];
}

/** Return ms since the epoch of an RFC 3339 time, or null. */
export function time(value) {
	const at = Date.parse(text(value));
	return Number.isNaN(at) ? null : at;
}

/** Return token counts, or null where a provider told none. */
export function usage(value) {
	const told = object(value);
	const counts = {
		input: number(told.input_tokens),
		output: number(told.output_tokens),
		reasoning: number(told.reasoning_tokens),
		cached: number(told.cache_read_tokens),
	};
	return counts.input || counts.output ? counts : null;
}
