"""The JavaScript client, in Chromium: its decoder, and its feeds against connections by a script."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from e2e.browsing import Tabs

pytestmark = [pytest.mark.e2e, pytest.mark.browser]

Evaluate = Callable[..., Any]

SCRIPT = """
const { EventDecoder, Problem, ask, follow } = await import(new URL("agentkit-client.js", document.baseURI));
const log = [];
const real = { fetch: fetch.bind(globalThis), WebSocket, setTimeout: setTimeout.bind(globalThis) };
const restore = () => Object.assign(globalThis, real);
const encoder = new TextEncoder();
const data = (value, id) => `${id ? `id: ${id}\\n` : ""}data: ${JSON.stringify(value)}\\n\\n`;
const control = (name, id, data_ = {}) => data({ v: 1, type: `stream.${name}`, data: data_ }, id);
const hello = (id = "e-0", more = {}) => "retry: 1\\n" + control("hello", id, { head: 9, ...more });
const envelope = (seq, epoch = "e", more = {}) => ({ id: `${epoch}-${seq}`, seq, type: "text.delta", ...more });
const ev = (seq, epoch, more) => data(envelope(seq, epoch, more), `${epoch ?? "e"}-${seq}`);
const gap = (from, to, reason, id) => control("gap", id, { from, to, reason });
const say = (...pieces) => (signal) => new Response(new ReadableStream({
  start(out) {
    signal?.addEventListener("abort", () => { try { out.error(signal.reason); } catch { /* it has ended */ } });
  },
  pull(out) {
    const piece = pieces.shift();
    if (piece === undefined) out.close();
    else if (piece === "BREAK") out.error(new TypeError("network error"));
    else if (piece === "HANG") return new Promise(() => {});
    else out.enqueue(encoder.encode(piece));
  },
}, { highWaterMark: 0 }), { headers: { "Content-Type": "text/event-stream" } });
const refuse = (status, body = {}, headers = {}) => () => new Response(status === 204 ? null : JSON.stringify(body), { status, headers });
const serve = (...answers) => {
  globalThis.fetch = async (url, { headers, signal }) => {
    log.push(`from ${new URL(url).searchParams.get("after")}${headers.Authorization ? ` ${headers.Authorization}` : ""}`);
    const answer = answers.shift();
    if (!answer) { feed.close(); throw new TypeError("nobody answers"); }
    if (answer === "down") throw new TypeError("refused");
    return answer(signal);
  };
};
let feed;
const begin = (options = {}) => {
  feed = follow("/v1/agents/a/threads/t", { after: "earliest", onstate: ({ name, attempt, reason }) => log.push([name, attempt, reason].filter(Boolean).join(" ")), ...options });
  const hurry = setInterval(feed.retry, 5);
  real.setTimeout(() => { clearInterval(hurry); feed.close(); }, 5000);
  return feed;
};
const read = async (most = Infinity) => {
  try {
    for await (const { envelope, gap } of feed) {
      log.push(gap ? `gap ${gap.from} ${gap.to} ${gap.reason}` : envelope.id);
      if (!--most) break;
    }
  } catch (error) {
    log.push(`error ${error.status} ${error.code}`);
  }
  restore();
  return log;
};
"""


def items(log: list[str]) -> list[str]:
    """What the reader got: it comes when the reader has its turn, so only its own order counts."""
    return [entry for entry in log if entry.startswith(("e-", "f-", "g-", "gap", "error"))]


@pytest.fixture(scope="module")
def js(new_tabs: Callable[[], Tabs], quick_url: str) -> Iterator[Evaluate]:
    """`js(body, argument)` runs the body of an async function that has the client and a script of connections."""
    tabs = new_tabs()
    tab = tabs.blank()
    tab.goto(
        f"{quick_url}assets/icon.svg"
    )  # the server's origin, without a page that would connect by itself

    def js(body: str, argument: object = None) -> Any:
        script = SCRIPT.replace("document.baseURI", repr(quick_url))
        return tab.evaluate(f"async (given) => {{ {script} {body} }}", argument)

    yield js
    tabs.close()
    assert tabs.wrong == []


@pytest.mark.parametrize("cut", [1, 2, 3, 7, 1000], ids=lambda cut: f"cut-{cut}")
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"], ids=["lf", "crlf", "cr"])
def test_events_are_read_wherever_the_stream_is_cut(js: Evaluate, cut: int, newline: str) -> None:
    stream = newline.join(
        [": hello", "", "retry: 1500", "id: e-0", 'data: {"a":1}', "", "id: e-1", "event: text.delta", "data:one", "data: two", "data", "",
         ": beat", "", "id: lost", "", "retry: 1x", "id: a\0b", "data:  spaced", "", "retry:7", "", "data: open"]
    )  # fmt: skip

    events = js(
        """
        const decoder = new EventDecoder();
        const out = [];
        for (let at = 0; at < given.stream.length; at += given.cut) out.push(...decoder.feed(given.stream.slice(at, at + given.cut)), ...decoder.feed(""));
        return out;
        """,
        {"stream": stream, "cut": cut},
    )

    assert events == [
        {"id": "e-0", "data": '{"a":1}', "retry": 1500},
        {"id": "e-1", "data": "one\ntwo\n", "retry": None},
        {"id": None, "data": " spaced", "retry": None},
        {"id": None, "data": None, "retry": 7},
    ]


def test_an_event_that_is_too_large_is_an_error(js: Evaluate) -> None:
    log = js('serve(say(hello(), "data: " + "x".repeat(1100000))); begin(); return read();')

    assert log == ["connecting", "from earliest", "live", "failed", "error 0 4999"]


def test_a_feed_comes_back_with_its_cursor_and_drops_what_it_has_seen(js: Evaluate) -> None:
    log = js(
        """
        serve(
          say(hello(), ev(1) + ev(2).slice(0, 20), "BREAK"),
          say(hello("e-0"), ev(1) + ev(2), ev(3).slice(0, 9), ev(3).slice(9)),
          "down",
          say(hello("e-3"), ev(4), control("closing", null, { retry_ms: 5 })),
        );
        begin();
        return read();
        """
    )

    assert items(log) == ["e-1", "e-2", "e-3", "e-4"]
    assert [entry for entry in log if entry not in items(log)] == [
        "connecting", "from earliest", "live", "waiting 1",
        "connecting 1", "from e-1", "live", "waiting 1",
        "connecting 1", "from e-3", "waiting 2",
        "connecting 2", "from e-3", "live", "waiting 1",
        "connecting 1", "from e-4", "closed",
    ]  # fmt: skip


def test_a_feed_comes_back_after_refusals_that_may_pass(js: Evaluate) -> None:
    log = js(
        """
        serve(refuse(503), refuse(500), refuse(429, {}, { "Retry-After": "1" }), refuse(408), say(hello(), ev(1)), refuse(404, { code: "not_found" }));
        begin();
        return read();
        """
    )

    assert [entry for entry in log if not entry.startswith(("connecting", "from", "waiting"))] == [
        "live",
        "e-1",
        "failed",
        "error 404 not_found",
    ]


def test_who_never_gives_up_comes_back_after_any_refusal(js: Evaluate) -> None:
    log = js(
        """
        serve(refuse(404), refuse(403), refuse(400), say(hello(), ev(1), control("end", "e-1")));
        begin({ giveUp: () => false });
        return read();
        """
    )

    assert (items(log), log.count("waiting 1"), "ended" in log) == (["e-1"], 1, True)


def test_a_feed_goes_on_behind_a_gap_and_in_another_epoch(js: Evaluate) -> None:
    log = js(
        """
        serve(
          say(hello("e-0"), gap(1, 8, "trimmed", "e-8"), ev(9)),
          say(hello("f-0"), gap(1, 0, "epoch", "f-0"), ev(1, "f")),
          say(hello("f-0"), gap(2, 5, "future", "f-0"), ev(1, "f"), ev(4, "f"), ev(1, "g"), ev(7, "g", { first: 2 }), ev(8, "g"), control("end", "g-8", { reason: "deleted" })),
        );
        begin();
        return read();
        """
    )

    assert [entry for entry in log if entry.startswith(("from", "ended"))] == [
        "from earliest", "from e-9", "from f-1", "ended deleted",
    ]  # fmt: skip
    assert items(log) == [
        "gap 1 8 trimmed", "e-9", "gap 1 0 epoch", "f-1", "gap 2 5 future", "f-1", "gap 2 3 missing", "f-4", "gap 5 0 missing", "g-1",
        "g-7", "g-8",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "first"),
    [("{ types: ['text', 'run'] }", "hello()"), ("{ run: 'r' }", "hello()"), ("{}", "hello('e-0', { exposure: 'none' })")],
)  # fmt: skip
def test_numbers_may_be_skipped_where_not_all_is_wanted_or_shown(
    js: Evaluate, options: str, first: str
) -> None:
    log = js(
        f"""
        serve(say({first}, ev(2), ev(5), control("position", "e-9")), refuse(204));
        begin({options});
        return read();
        """
    )

    assert [entry for entry in log if entry.startswith(("e-", "gap", "from"))] == [
        "from earliest", "e-2", "e-5", "from e-9",
    ]  # fmt: skip
    assert log[-1] == "ended"


def test_a_refused_token_is_asked_for_once_more(js: Evaluate) -> None:
    log = js(
        """
        const tokens = [];
        const auth = async (refused) => { tokens.push(refused); return `t${tokens.length}`; };
        serve(refuse(401), say(hello(), ev(1)), refuse(401), refuse(401));
        begin({ auth });
        const out = await read();
        return [out, tokens];
        """
    )

    told, tokens = log
    assert tokens == [False, True, False, True]
    assert [entry for entry in told if entry.startswith(("from", "e"))] == [
        "from earliest Bearer t1", "from earliest Bearer t2", "e-1", "from e-1 Bearer t3", "from e-1 Bearer t4", "error 401 ",
    ]  # fmt: skip


def test_a_feed_is_left_by_break_by_signal_and_by_close(js: Evaluate) -> None:
    log = js(
        """
        const out = [];
        for (const leave of ["break", "signal", "close", "before"]) {
          const controller = new AbortController();
          if (leave === "before") controller.abort();
          let aborted = null;
          globalThis.fetch = async (url, { signal }) => { aborted = signal; return say(hello(), ev(1), "HANG")(signal); };
          begin({ signal: controller.signal });
          if (leave === "signal") real.setTimeout(() => controller.abort(), 20);
          if (leave === "close") real.setTimeout(() => feed.close(), 20);
          await read(leave === "break" ? 1 : Infinity);
          out.push([leave, aborted?.aborted ?? null, log.at(-1)]);
        }
        return out;
        """
    )

    assert log == [["break", True, "closed"], ["signal", True, "closed"], ["close", True, "closed"], ["before", None, "closed"]]  # fmt: skip


def test_a_reader_that_does_not_read_holds_the_server_back(js: Evaluate) -> None:
    pulled, came = js(
        """
        let pulled = 0;
        globalThis.fetch = async () => new Response(new ReadableStream({
          pull(out) {
            const base = pulled * 100;
            out.enqueue(encoder.encode((pulled ? "" : hello()) + Array.from({ length: 100 }, (_, at) => ev(base + at + 1)).join("")));
            pulled += 1;
            if (pulled === 100) out.enqueue(encoder.encode(control("end", "e-10000")));
          },
        }));
        begin();
        await new Promise((done) => real.setTimeout(done, 200));
        const before = pulled;
        let came = 0;
        for await (const { envelope } of feed) came += envelope.seq === came + 1 ? 1 : NaN;
        restore();
        return [before, came];
        """
    )

    assert 20 <= pulled < 60
    assert came == 10_000


def test_silence_is_given_up_and_a_machine_without_network_waits(js: Evaluate) -> None:
    log = js(
        """
        globalThis.setTimeout = (act, ms) => real.setTimeout(act, ms === 45000 ? 30 : ms);
        serve(say(hello(), ev(1), "HANG"), say(hello("e-1"), ev(2), ": beat\\n\\n", "HANG"), say(hello("e-2"), control("end", "e-2")));
        begin();
        return read();
        """
    )

    assert [entry for entry in log if entry.startswith(("from", "e-"))] == [
        "from earliest", "e-1", "from e-1", "e-2", "from e-2",
    ]  # fmt: skip
    offline = js(
        """
        serve(say(hello(), ev(1), "HANG"), say(hello("e-1"), control("end", "e-1")));
        begin();
        real.setTimeout(() => dispatchEvent(new Event("offline")), 30);
        return read();
        """
    )
    assert [entry for entry in offline if entry.startswith("from")] == ["from earliest", "from e-1"]


SOCKETS = """
const sent = [];
const sockets = (...talks) => {
  globalThis.WebSocket = class {
    static OPEN = 1;
    readyState = 1;
    constructor(url, protocols) {
      const talk = talks.shift();
      log.push(`open ${url.pathname} ${protocols}`);
      if (!talk) { feed.close(); return; }
      this.talk = talk;
      queueMicrotask(() => this.onopen());
    }
    send(text) {
      const frame = JSON.parse(text);
      sent.push(frame);
      if (frame.op === "hello") this.onmessage({ data: JSON.stringify({ op: "welcome" }) });
      if (frame.op !== "sub") return;
      for (const one of this.talk) {
        if (one.close) { queueMicrotask(() => this.onclose({ code: one.close, reason: "why" })); return; }
        this.onmessage({ data: JSON.stringify(one) });
      }
    }
    close(code) { if (!this.closed) { this.closed = true; queueMicrotask(() => this.onclose?.({ code, reason: "" })); } }
  };
};
const ok = (after = 0, more = {}) => ({ op: "ok", rid: 1, epoch: "e", after, head: 9, ...more });
const evs = (...seqs) => ({ op: "ev", e: seqs.map((seq) => envelope(seq)) });
"""


def test_a_socket_comes_back_or_stops_by_its_close_code(js: Evaluate) -> None:
    log, sent = js(
        SOCKETS
        + """
        sockets(
          [ok(), evs(1, 2), { op: "bye", code: 4000, retry_ms: 1 }, { close: 4000 }],
          [ok(2), evs(2, 3), { close: 1006 }],
          [ok(3), { op: "gap", from: 4, to: 6, reason: "trimmed", id: "e-6" }, evs(7), { close: 4503 }],
        );
        begin({ transport: "websocket", types: ["text", "run"], kinds: "delta", run: "r", merge: true });
        return [await read(), sent];
        """
    )

    assert items(log) == ["e-1", "e-2", "e-3", "gap 4 6 trimmed", "e-7", "error 0 4503"]
    assert [entry for entry in log if entry.startswith(("open", "waiting", "failed"))] == [
        *(["open /v1/ws agentkit.v1", "waiting 1"] * 2), "open /v1/ws agentkit.v1", "failed",
    ]  # fmt: skip
    assert [frame for frame in sent if frame["op"] == "sub"] == [
        {"op": "sub", "rid": 1, "topic": "agents/a/threads/t", "after": after, "run": "r", "merge": True, "types": ["text", "run"], "kinds": ["delta"]}
        for after in ("earliest", "e-2", "e-3")
    ]  # fmt: skip


def test_a_socket_has_its_token_renewed_once_and_tells_what_it_is_refused_for(js: Evaluate) -> None:
    log, sent = js(
        SOCKETS
        + """
        let count = 0;
        sockets([ok(), evs(1), { close: 4004 }], [{ close: 4500 }]);
        begin({ transport: "websocket", auth: (refused) => `${refused} ${count += 1}` });
        await read();
        sockets([{ op: "err", rid: 1, problem: { status: 404, code: "not_found", detail: "no such run" } }]);
        begin({ transport: "websocket" });
        return [await read(), sent];
        """
    )

    assert [frame.get("auth") for frame in sent if frame["op"] == "hello"] == ["false 1", "true 2", None]
    assert [entry for entry in log if entry.startswith("error")] == ["error 0 4500", "error 404 not_found"]


def test_a_socket_whose_reader_does_not_read_is_left_and_taken_up_again(js: Evaluate) -> None:
    log = js(
        SOCKETS
        + """
        const many = (from) => Array.from({ length: 30 }, (_, at) => evs(...Array.from({ length: 100 }, (_, one) => from + at * 100 + one)));
        sockets([ok(), ...many(1)], [ok(3000), { op: "end", id: "e-3000" }]);
        begin({ transport: "websocket" });
        await new Promise((done) => real.setTimeout(done, 100));
        const waiting = log.filter((entry) => entry.startsWith("open")).length;
        let came = 0;
        for await (const { envelope } of feed) came += envelope.seq === came + 1 ? 1 : NaN;
        restore();
        return [waiting, came, log.filter((entry) => entry.startsWith("open")).length];
        """
    )

    assert log == [1, 3000, 2]


def test_things_are_asked_for_with_a_key_and_a_token(js: Evaluate, quick_url: str) -> None:
    answers = js(
        """
        const url = new URL("v1/agents/quick/threads/asked/runs", given);
        const first = await ask(url, { input: "hello" }, { key: "k1" });
        const again = await ask(url, { input: "hello" }, { key: "k1" });
        const problem = await ask(new URL("v1/agents/nobody/threads/t/runs", given)).catch((error) => error);
        const seen = [];
        globalThis.fetch = async (url, { headers, method }) => { seen.push([method, headers.Authorization]); return new Response(null, { status: seen.length > 1 ? 204 : 401 }); };
        const empty = await ask("x", undefined, { auth: (refused) => `t${refused}`, method: "DELETE" });
        restore();
        return [first.run === again.run, problem instanceof Problem, problem.status, problem.code, seen, empty];
        """,
        quick_url,
    )

    assert answers == [True, True, 404, "not_found", [["DELETE", "Bearer tfalse"], ["DELETE", "Bearer ttrue"]], {}]  # fmt: skip


def test_a_run_is_followed_to_its_end_over_both_transports(js: Evaluate, quick_url: str) -> None:
    told = js(
        """
        const { run, events } = await ask(new URL("v1/agents/quick/threads/both/runs", given), { input: "hello" });
        const out = [];
        for (const transport of ["sse", "websocket"]) {
          const seqs = [];
          for await (const { envelope } of follow(new URL(events, given), { transport, types: "text" })) seqs.push(envelope.data?.text ?? "");
          out.push(seqs.join(""));
        }
        return out;
        """,
        quick_url,
    )

    assert told == ["A short answer, in a few pieces."] * 2
