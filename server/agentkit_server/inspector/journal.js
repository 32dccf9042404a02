/**
 * Keep what a feed said, line by line: for the raw view, for replays, for export; and read such lines back.
 *
 * No DOM, no requests. It does not know what an event means; it sees where numbers are missing.
 */

const LONGEST_FILE = 64 * 1024 * 1024; // characters; what a browser tab can still hold several times over

export class Journal {
	/** Entries in order: `{ seq, id, type, kind, run, time, raw }`, or `{ gap: { from, to, reason } }`. */
	entries = [];
	#next = null; // the number that must come next, or null where any may

	/** Add records `{ raw, envelope }`; returns the gaps that their numbers show, which are entries too. */
	add(records) {
		const gaps = [];
		for (const { raw, envelope } of records) {
			const seq = envelope.seq;
			if (this.#next !== null && seq > this.#next) {
				gaps.push({ from: this.#next, to: seq - 1, reason: "missing" });
				this.entries.push({ gap: gaps.at(-1) });
			}
			this.#next = seq + 1;
			this.entries.push({
				seq,
				id: String(envelope.id ?? seq),
				type: String(envelope.type),
				kind: String(envelope.data?.kind ?? ""),
				run: String(envelope.run ?? ""),
				time: Date.parse(envelope.time),
				raw,
			});
		}
		return gaps;
	}

	/** Add a loss that the server told. */
	addGap(gap) {
		this.entries.push({ gap });
		this.#next = null;
	}

	/** Return the records of some runs, in order. */
	of(runs) {
		return this.entries.filter((entry) => entry.run !== undefined && runs.has(entry.run));
	}

	/** Return the records of some runs (of all, without `runs`) as JSON lines. Gaps are lines too. */
	lines(runs = null) {
		const out = [];
		for (const entry of this.entries) {
			if (entry.gap) out.push(JSON.stringify({ v: 1, type: "stream.gap", data: entry.gap }));
			else if (runs === null || runs.has(entry.run)) out.push(entry.raw);
		}
		return out.length ? `${out.join("\n")}\n` : "";
	}
}

/**
 * Read JSON lines as this page, `curl` of a feed with its `data: ` prefixes, or any client wrote them.
 *
 * Returns `[{ raw, envelope }]`; a gap has `envelope.type` `stream.gap`. Throws an Error that names the first line that is
 * no record.
 */
export function parseLines(text) {
	if (text.length > LONGEST_FILE) throw new Error(`the file has more than ${LONGEST_FILE / 1024 / 1024} million characters`);
	const records = [];
	text.split("\n").forEach((line, at) => {
		const raw = line.trim().replace(/^data: ?/, "");
		if (raw === "" || /^(id|event|retry):|^:/.test(raw)) return;
		let envelope;
		try {
			envelope = JSON.parse(raw);
		} catch {
			throw new Error(`line ${at + 1} is not JSON`);
		}
		if (typeof envelope !== "object" || envelope === null || typeof envelope.type !== "string") {
			throw new Error(`line ${at + 1} is not a record: it has no type`);
		}
		const numbered = Number.isSafeInteger(envelope.seq);
		if (!numbered && !envelope.type.startsWith("stream.")) throw new Error(`line ${at + 1} is not a record: it has no seq`);
		if (numbered || envelope.type === "stream.gap") records.push({ raw, envelope });
	});
	if (!records.length) throw new Error("the file holds no records");
	return records;
}
