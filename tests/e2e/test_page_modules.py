"""The page's pure rooms, run where they live: in Chromium, without a page around them."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from e2e.browsing import Tabs
from e2e.page_feed import endings, lines, tour

pytestmark = [pytest.mark.e2e, pytest.mark.browser]

Evaluate = Callable[..., Any]


@pytest.fixture(scope="module")
def js(new_tabs: Callable[[], Tabs], quick_url: str) -> Iterator[Evaluate]:
    """`js(body, argument)` runs the body of an async function; `load(file)` in it imports a module of the page."""
    tabs = new_tabs()
    tab = tabs.open(quick_url)

    def js(body: str, argument: object = None) -> Any:
        load = "const load = (name) => import(new URL(`assets/${name}`, document.baseURI));"
        return tab.evaluate(f"async (given) => {{ {load} {body} }}", argument)

    yield js
    tabs.close()
    assert tabs.wrong == []


FOLD = """
const { Store } = await load("store.js");
const plain = (store) => JSON.stringify([...store.runs.values()], (key, value) =>
  key === "run" || key === "children" ? undefined : value instanceof Map ? [...value.keys()] : value);
const fold = (records, store = new Store()) => { for (const one of records) store.apply(JSON.parse(one)); return store; };
"""


def envelope(type_: str, at: float = 0.0, **members: object) -> str:
    seconds = f"{at:06.3f}"
    return json.dumps(
        {"type": type_, "run": "r", "step": 1, "time": f"2026-01-01T00:00:{seconds}Z", **members}
    )


def test_a_fold_is_the_same_in_any_portions(js: Evaluate) -> None:
    whole, pieces = js(
        FOLD
        + """
        const store = new Store();
        for (const one of given) { fold([one], store); store.take(); }
        return [plain(fold(given)), plain(store)];
        """,
        lines([*tour(), *endings()]),
    )

    assert whole == pieces
    assert len(json.loads(whole)) == 6


def test_adjacent_reasoning_is_one_thought_and_a_tool_parts_it(js: Evaluate) -> None:
    def block(number: int) -> list[str]:
        name = f"r.1.{number}"
        return [
            envelope("reasoning_block.started", number, block=name),
            envelope("reasoning", number, block=name, data={"kind": "delta", "text": f"{number}"}),
            envelope("reasoning_block.finished", number + 0.5, block=name),
        ]

    call = envelope("tool_call.started", 2, block="r.1.2", data={"call": "c", "name": "look"})
    records = [envelope("run.started"), *block(0), *block(1), call, *block(3)]

    items = js(
        FOLD
        + """
        const { spanOf } = await load("store.js");
        return fold(given).runs.get("r").items.map((item) =>
          item.kind === "thought" ? [item.parts.map((part) => part.pieces.join("")), spanOf(item).ended - spanOf(item).started] : item.kind);
        """,
        records,
    )

    assert items == [[["0", "1"], 1500], "tool", [["3"], 500]]


def test_a_late_signature_belongs_to_its_block_and_changes_no_time(js: Evaluate) -> None:
    records = [
        envelope("reasoning_block.started", 0, block="r.1.0"),
        envelope("reasoning_block.finished", 2, block="r.1.0"),
        envelope("text.started", 3, block="r.1.1"),
        envelope("reasoning", 4, block="r.1.0", data={"kind": "signature", "data": {"bytes": 40}}),
        envelope(
            "reasoning", 5, block="r.1.0", data={"kind": "state", "data": {"state": "äöü", "format": "f"}}
        ),
    ]

    told = js(
        FOLD
        + """
        const { legibility, spanOf } = await load("store.js");
        const { items } = fold(given).runs.get("r");
        const { signature, state } = items[0].parts[0];
        return [items.length, signature, state, legibility(items[0]), spanOf(items[0]).ended - spanOf(items[0]).started];
        """,
        records,
    )

    assert told == [2, 40, 6, "hidden", 2000]


def test_a_run_whose_beginning_is_lost_is_shown_as_cut(js: Evaluate) -> None:
    records = [
        envelope("reasoning", 3, block="r.1.0", data={"kind": "delta", "text": "…end"}),
        envelope("reasoning_block.finished", 4, block="r.1.0"),
        envelope("run.finished", 5, step=0, data={"text": "All of it.", "finish": "stop", "usage": {}}),
    ]

    told = js(
        FOLD
        + """
        const { spanOf } = await load("store.js");
        const run = fold(given).runs.get("r");
        return [run.cut, run.status, spanOf(run.items[0]).started, run.items[1].pieces];
        """,
        records,
    )

    assert told == [True, "finished", None, ["All of it."]]


def test_a_log_that_begins_anew_tells_its_runs_once(js: Evaluate) -> None:
    records = [
        envelope("run.started"),
        envelope("text.started", 1, block="r.1.0"),
        envelope("text.delta", 1, block="r.1.0", data={"text": "Hello"}),
    ]

    told = js(
        FOLD
        + """
        const { answerOf } = await load("store.js");
        const store = fold(given);
        store.gap(true);
        const lost = store.runs.get("r").status;
        fold(given, store);
        return [lost, store.runs.size, store.runs.get("r").status, answerOf(store.runs.get("r"))];
        """,
        records,
    )

    assert told == ["lost", 1, "running", "Hello"]


def test_what_a_retry_discards_does_not_count_and_its_ids_are_free(js: Evaluate) -> None:
    records = lines(endings())

    told = js(
        FOLD
        + """
        const { answerOf } = await load("store.js");
        return answerOf(fold(given).runs.get("run_failed"));
        """,
        records,
    )

    assert told == "and then it came again"


def test_ten_thousand_deltas_are_joined_once(js: Evaluate) -> None:
    told = js(
        FOLD
        + """
        const { answerOf } = await load("store.js");
        const store = new Store();
        for (let at = 0; at < 10000; at += 1) {
          store.apply({ type: "text.delta", run: "r", step: 1, block: "b", time: "2026-01-01T00:00:00Z", data: { text: `${at % 10}` } });
        }
        return [store.runs.get("r").items.length, answerOf(store.runs.get("r")).length, store.take().size];
        """
    )

    assert told == [1, 10_000, 2]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        pytest.param("duration(40)", "40 ms", id="ms"),
        pytest.param("duration(1234)", "1.2 s", id="tenths"),
        pytest.param("duration(12345)", "12 s", id="seconds"),
        pytest.param("whole(20)", "1 s", id="at-least-one"),
        pytest.param("whole(59600)", "1m 0s", id="minute"),
        pytest.param("whole(3725000)", "1h 2m", id="hour"),
        pytest.param("size(1)", "1 byte", id="byte"),
        pytest.param("size(1536)", "1.5 kB", id="kilobytes"),
        pytest.param("count(1234567)", "1,234,567", id="thousands"),
        pytest.param("utf8Length('aä€😀')", 10, id="utf8"),
        pytest.param(r"""indent('{"a":[1,{"b":"x,\\"y"}],"c":{},"d":[]}')""",
                     '{\n  "a": [\n    1,\n    {\n      "b": "x,\\"y"\n    }\n  ],\n  "c": {},\n  "d": []\n}', id="indent"),
        pytest.param("indent('{not json')", "{not json", id="indent-no-json"),
        pytest.param("indent('[12345678901234567890]')", "[\n  12345678901234567890\n]", id="indent-big-number"),
    ],
)  # fmt: skip
def test_values_are_written_for_people(js: Evaluate, call: str, expected: object) -> None:
    assert (
        js(
            f'const {{ count, duration, indent, size, utf8Length, whole }} = await load("format.js"); return {call};'
        )
        == expected
    )


FLOW = """
const { TextFlow } = await load("text.js");
const root = document.createElement("div");
const flow = new TextFlow(root, { fences: true });
const pieces = [];
for (let at = 0; at < given.text.length; at += given.cut) {
  pieces.push(given.text.slice(at, at + given.cut));
  flow.follow(pieces, false);
}
flow.follow(pieces, true);
return [...root.children].map((node) => node.className === "code"
  ? { language: node.querySelector("span").textContent, code: node.querySelector("code").textContent } : node.textContent);
"""


@pytest.mark.parametrize("cut", [1, 2, 5, 1000], ids=lambda cut: f"cut-{cut}")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("Hello\n\nthere\n", ["Hello\n\nthere"], id="plain"),
        pytest.param("\n\nA\n\n```py\nx = `1`\n\ny\n```\n\nB", ["A", {"language": "py", "code": "x = `1`\n\ny"}, "B"], id="fence"),
        pytest.param("```\nopen", [{"language": "code", "code": "open"}], id="never-closed"),
        pytest.param("````\n```\n````", [{"language": "code", "code": "```"}], id="longer-fence"),
        pytest.param("a ``` b\n`c`\n``", ["a ``` b\n`c`\n``"], id="no-fence"),
        pytest.param("A\n```js", ["A\n```js"], id="fence-at-the-very-end"),
        pytest.param("```\nx\n```", [{"language": "code", "code": "x"}], id="closed-at-the-very-end"),
    ],
)  # fmt: skip
def test_text_flows_the_same_in_any_pieces(js: Evaluate, text: str, expected: list[object], cut: int) -> None:
    assert js(FLOW, {"text": text, "cut": cut}) == expected


def test_a_long_text_is_cut_at_line_breaks_and_loses_nothing(js: Evaluate) -> None:
    text = "\n".join("word " * (number % 90) for number in range(300)).strip()

    paragraphs = js(FLOW, {"text": text, "cut": 997})

    assert "\n".join(paragraphs) == text
    assert len(paragraphs) > 20


@pytest.mark.parametrize(
    ("hash_", "place"),
    [
        pytest.param(
            "#agent=a&thread=t1&run=run_1", {"agent": "a", "thread": "t1", "run": "run_1"}, id="whole"
        ),
        pytest.param("", {"agent": "", "thread": "", "run": ""}, id="empty"),
        pytest.param(
            "#agent=..%2F..%2Fx&thread=..&run=%00", {"agent": "", "thread": "", "run": ""}, id="no-names"
        ),
    ],
)
def test_a_place_is_read_from_the_address(js: Evaluate, hash_: str, place: dict[str, str]) -> None:
    assert js('const { parseRoute } = await load("route.js"); return parseRoute(given);', hash_) == place


def test_questions_are_found_in_a_threads_messages(js: Evaluate) -> None:
    def said(role: str, words: str, run: str = "") -> dict[str, object]:
        return {"role": role, "content": [{"type": "text", "text": words}], "run": run}

    messages = [said("user", "One?"), said("assistant", "1", "a"), said("tool", "x", "a"), said("assistant", "1", "a"),
                said("user", "a's own word", "a"), said("user", "Two?"), said("user", "Too?"), said("assistant", "2", "b"), said("user", "Three?")]  # fmt: skip

    told = js(
        'const { questionsOf } = await load("session.js"); const { of, open } = questionsOf(given); return [[...of], open];',
        messages,
    )

    assert told == [[["a", "One?"], ["b", "Two?\nToo?"]], "Three?"]
