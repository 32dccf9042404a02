"""A file of records in the page: opened without asking the server, drawn whole, sent on, and harmless whatever it says."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from e2e.browsing import Tabs, until
from e2e.page_feed import ANSWER, START, call, endings, jsonl, lines, started, text, thought, tour

from agentkit.content import TextBlock, ToolResultBlock, Usage
from agentkit.events import (
    CustomEvent,
    Event,
    Image,
    RunFailed,
    RunFinished,
    RunNotice,
    StepStarted,
    ToolCallReady,
    ToolCallStarted,
    ToolExecutionFinished,
    ToolResult,
)

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.e2e, pytest.mark.browser]

OpenFile = Callable[[str], "Page"]


@pytest.fixture(scope="module")
def desk(new_tabs: Callable[[], Tabs], quick_url: str) -> Iterator[tuple[Tabs, "Page"]]:
    tabs = new_tabs()
    yield tabs, tabs.open(quick_url)
    tabs.close()


@pytest.fixture
def open_file(desk: tuple[Tabs, Any], tmp_path: Path) -> Iterator[OpenFile]:
    """`open_file(lines)` gives the page a file of these lines. One tab for all: a load of the page costs a second."""
    tabs, tab = desk

    def open_file(content: str) -> Any:
        path = tmp_path / "run.jsonl"
        path.write_text(content)
        tab.click("#tab-timeline")
        tab.evaluate("document.querySelector('#badge-word').textContent = ''")
        tab.set_input_files("#file", str(path))
        until(
            tab,
            "document.querySelector('#badge-word').textContent || !document.querySelector('#complaint').hidden",
        )
        return tab

    yield open_file
    assert tabs.wrong == []


def labels(tab: "Page", selector: str) -> Sequence[str]:
    return tab.locator(selector).all_inner_texts()


def test_a_run_of_steps_tools_and_a_sub_agent_is_drawn_whole(open_file: OpenFile) -> None:
    tab = open_file(jsonl(tour()))

    run = ".run[data-run=run_tour]"
    tab.wait_for_selector(run)
    assert labels(tab, f"{run} > .items > .thought .thought-label") == [
        "Thought for 5 s",
        "Hidden reasoning, 512 bytes",
    ]
    assert labels(tab, f"{run} > .items > .tool > .tool-head .tool-name") == ["get_weather", "research"]
    assert labels(tab, f"{run} > .items > .tool > .tool-head .tool-status") == ["Done", "Done"]
    assert labels(tab, f"{run} > .items > .tool > .tool-head .tool-note") == ["1.5 s", "2.4 s"]
    assert labels(tab, ".tool-nested .run .text") == ["The tile museum is open on Sundays."]
    assert labels(tab, ".runs > .run .run-summary >> nth=-1") == [
        "Finished in 15 s · 2,200 tokens · 132 of them reasoning"
    ]
    code = tab.locator(f"{run} > .items > .text .code")
    assert code.locator("pre").inner_text() == 'plan = ["tile museum", "lunch in Alfama", "a late film"]'
    assert code.locator(".code-head span").inner_text() == "python"
    assert tab.inner_text("#badge-word") == "File"
    assert tab.is_disabled("#input")


def test_a_tool_opens_to_its_arguments_and_its_result(open_file: OpenFile) -> None:
    tab = open_file(jsonl(tour()))

    tab.click(".tool-head >> nth=0")

    assert labels(tab, ".tool[data-open] .code-head span") == ["Arguments", "Result"]
    assert labels(tab, ".tool[data-open] pre") == [
        '{\n  "city": "Lisbon",\n  "days": 2,\n  "id": 12345678901234567890\n}',
        '{\n  "sunday": {\n    "rain_mm": 11.5,\n    "chance": 0.92\n  }\n}',
    ]


def test_a_text_has_the_direction_of_its_own_letters(open_file: OpenFile) -> None:
    run, at = "run_both", START
    tab = open_file(
        jsonl([started(run, at, ""), *text(run, 0, at, 1, "שלום"), *text(run, 1, at + 1, 1, "Hello")])
    )

    tab.wait_for_selector(".text .paragraph >> nth=1")

    stands_at_the_right = """[...document.querySelectorAll(".text .paragraph")].map((node) => {
        const all = document.createRange();
        all.selectNodeContents(node);
        const [said, room] = [all.getBoundingClientRect(), node.getBoundingClientRect()];
        return said.left - room.left > room.right - said.right;
    })"""
    assert tab.evaluate(stands_at_the_right) == [True, False]


def test_an_answer_without_text_says_so(open_file: OpenFile) -> None:
    run, at = "run_mute", START
    tab = open_file(
        jsonl(
            [
                started(run, at, ""),
                *thought(run, 0, at, 1, "Hm."),
                RunFinished(run, 0, at + 2, "", "stop", Usage()),
            ]
        )
    )

    tab.wait_for_selector(".run-footer:visible")

    assert labels(tab, ".run-summary") == ["Finished in 2.0 s · no visible text"]


def test_arguments_are_read_whole_before_they_are_decided_upon(open_file: OpenFile) -> None:
    run, at = "run_long", START
    tab = open_file(
        jsonl(
            [
                started(run, at, ""),
                *call(run, 0, at, "post", json.dumps({"words": "Wish you were here. " * 40})),
            ]
        )
    )

    tab.click(".tool-head")

    assert tab.evaluate(
        "(([pre]) => pre.scrollWidth <= pre.clientWidth)(document.querySelectorAll('.tool pre'))"
    )


def test_every_way_to_end_says_so(open_file: OpenFile) -> None:
    tab = open_file(jsonl(endings()))

    tab.wait_for_selector(".run[data-run=run_refused]")
    assert labels(tab, ".run-summary") == [
        "Finished in 4.0 s · cut at the token limit · 15 tokens",
        "Failed after 3.0 s · 15 tokens",
        "Stopped after 1m 6s · by the user · 15 tokens",
        "Finished in 3.0 s · refused · 15 tokens",
    ]
    signed = tab.locator("[data-run=run_signed] .thought")
    assert signed.locator(".thought-head").inner_text().split("\n")[0].strip().startswith("Thought for 2 s")
    assert (
        signed.locator(".thought-note").inner_text() == "text withheld by the provider, signature of 96 bytes"
    )
    assert signed.locator(".thought-head").is_disabled()
    assert labels(tab, "[data-run=run_failed] .text") == ["This much came through", "and then it came again"]
    assert tab.locator("[data-run=run_failed] .text[data-discarded]").count() == 1
    assert labels(tab, "[data-run=run_failed] .notice:visible") == [
        "Attempt 2 after 0.5 s: the provider is overloaded"
    ]
    assert labels(tab, "[data-run=run_stopped] .thought-label") == ["Thought for 1m 5s"]
    assert labels(tab, ".refusal .flow") == ["I cannot help with that."]
    until(tab, "document.querySelector('img.image').naturalWidth === 1")
    assert tab.locator("a[href='https://example.com/picture.png'][rel~=noopener]").count() == 1


def test_the_timeline_has_a_row_a_thing_and_leads_to_it(open_file: OpenFile) -> None:
    tab = open_file(jsonl(tour()))

    tab.wait_for_selector(".timeline .row")
    rows = tab.locator(".timeline .row")
    assert list(zip(labels(tab, ".row-label"), labels(tab, ".row-took"), strict=True)) == [
        ("Step 1", "11 s"),
        ("Reasoning", "5.4 s"),
        ("get_weather", "1.5 s"),
        ("research", "2.4 s"),
        ("Step 1", "1.7 s"),
        ("Reasoning", "1.0 s"),
        ("Text", "0.5 s"),
        ("Step 2", "4.6 s"),
        ("Reasoning", "2.0 s"),
        ("Text", "2.0 s"),
    ]
    assert labels(tab, ".row[data-kind=step] .row-detail")[0] == (
        "demo-large · 812 in, 164 out, 92 reasoning, 512 cached · first after 0.6 s"
    )
    top = "document.querySelector('#conversation').scrollTop"
    assert tab.evaluate(top) > 100
    rows.nth(1).click()
    assert tab.evaluate(top) < 100


def test_a_replay_shows_the_run_as_it_was(open_file: OpenFile) -> None:
    tab = open_file(jsonl(tour()))
    tab.wait_for_selector(".replay:visible")

    tab.locator(".replay input").fill("8")

    tab.wait_for_selector(".thought[data-live][data-open] .paragraph")
    assert tab.locator(".tool").count() == 0
    assert tab.inner_text(".replay-place").startswith("Event 8 of ")
    tab.locator(".replay input").press("End")
    tab.keyboard.press("Escape")
    tab.wait_for_selector("#banner:has-text('Read from run.jsonl')")
    assert tab.locator(".runs > .run > .items > .tool").count() == 2


def test_gaps_are_red_lines_among_the_events(open_file: OpenFile) -> None:
    records = lines(thought("run_a", 0, 1_790_000_000, 1, "Half of it is lost. " * 10))
    told = json.dumps({"v": 1, "type": "stream.gap", "data": {"from": 90, "to": 99, "reason": "trimmed"}})

    tab = open_file("\n".join([*records[:2], *records[4:], told, *lines([], first=100)]))

    tab.click("#tab-events")
    tab.wait_for_selector(".event-gap")
    assert labels(tab, ".event-gap") == [
        "Gap: events 3 to 4, missing from the feed",
        "Gap: events 90 to 99, no longer kept by the server",
    ]
    red = tab.locator(".event-gap").first.evaluate("(one) => getComputedStyle(one).color")
    assert red == "rgb(179, 38, 30)"
    assert tab.is_visible(".run .notice:has-text('Earlier events of this run are no longer kept.')")
    tab.click(".event >> nth=0")
    assert '"type": "reasoning_block.started"' in tab.inner_text(".events-detail pre")


def test_events_are_filtered_and_walked_by_keys(open_file: OpenFile) -> None:
    tab = open_file(jsonl(tour()))
    tab.click("#tab-events")

    tab.fill(".events input[type=search]", "tool_result")

    until(tab, "document.querySelectorAll('.event').length === 2")
    tab.focus(".events-list")
    tab.keyboard.press("Home")
    tab.keyboard.press("ArrowDown")
    assert "The tile museum" in tab.inner_text(".events-detail pre")


def test_what_is_exported_can_be_opened_again(open_file: OpenFile, tmp_path: Path) -> None:
    tab = open_file(jsonl(tour(), endings()))
    tab.wait_for_selector(".run[data-run=run_tour]")

    with tab.expect_download() as downloads:
        tab.click(".runs > .run[data-run=run_tour] > .run-footer [aria-label^=Export]")
    path = tmp_path / "again.jsonl"
    downloads.value.save_as(path)

    assert downloads.value.suggested_filename == "run_tour.jsonl"
    assert path.read_text().splitlines() == lines(tour())
    tab.set_input_files("#file", str(path))
    until(tab, "document.querySelectorAll('.runs > .run').length === 1")
    assert ANSWER.split("\n", maxsplit=1)[0] in tab.inner_text(".runs > .run > .items > .text")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        pytest.param("", "the file holds no records", id="empty"),
        pytest.param("<html>", "line 1 is not JSON", id="not-json"),
        pytest.param('{"v":1}', "line 1 is not a record: it has no type", id="not-a-record"),
        pytest.param('\n{"type":"x"}', "line 2 is not a record: it has no seq", id="no-number"),
        pytest.param("[1,2]", "line 1 is not a record: it has no type", id="array"),
    ],
)
def test_a_file_that_holds_something_else_is_refused(
    open_file: OpenFile, content: str, complaint: str
) -> None:
    tab = open_file(content)

    tab.wait_for_selector("#complaint:visible")
    assert tab.inner_text("#complaint") == f"run.jsonl: {complaint}."


HOSTILE = (
    "<img src=x onerror=alert(1)><script>alert(2)</script><svg onload=alert(3)>",
    "\"'><iframe srcdoc='<script>alert(4)</script>'>",
    "javascript:alert(5)",
    "```<b>\n<img src=x onerror=alert(6)>\n```",
    "</textarea><style>*{display:none}</style>{{constructor.constructor('alert(7)')()}}",
    "\u202ereversed\u0000nul\ud83d\ude00",
)


def hostile(words: str) -> list[Event]:
    """Return a run that says `words` wherever a run can say something."""
    run, at = f"run_{words}", 1_790_000_000.0
    part = TextBlock(words)
    return [
        started(run, at, words),
        StepStarted(run, 1, at, words, words),
        *thought(run, 0, at, 1, words),
        *text(run, 1, at + 1, 1, words),
        ToolCallStarted(run, 1, at + 2, f"{run}.1.2", words, words),
        ToolCallReady(run, 1, at + 2, f"{run}.1.2", words, words, words),
        ToolExecutionFinished(run, 1, at + 3, words, words, words, 1.0),
        ToolResult(run, 1, at + 3, ToolResultBlock(words, words, (part,), "error")),
        Image(run, 1, at + 3, f"{run}.1.3", "image/svg+xml", words, words),
        Image(run, 1, at + 3, f"{run}.1.4", f"image/png{words}", words, f"https://{words}"),
        RunNotice(run, 1, at + 3, words, words),
        CustomEvent(run, 1, at + 3, "app.said", {words: words}),
        RunFailed(run, 0, at + 4, words, words, retryable=True),
    ]


def test_nothing_that_a_run_says_is_run(open_file: OpenFile) -> None:
    shown = "document.querySelectorAll('script:not([src]), iframe, style, object, embed, [onerror], [onload]').length"
    tab = open_file(jsonl(*(hostile(words) for words in HOSTILE)))
    tab.wait_for_selector(f".run >> nth={len(HOSTILE) - 1}")

    for head in tab.locator(".thought-head, .tool-head").all():
        head.click()
    tab.click("#tab-events")
    tab.click(".event >> nth=3")

    assert tab.evaluate(shown) == 0
    assert HOSTILE[0] in tab.inner_text(".runs")
    assert tab.locator("a[href^='javascript:']").count() == 0
    assert tab.evaluate("document.querySelectorAll('img').length") == 0


def test_records_of_the_wrong_shape_do_not_break_the_page(open_file: OpenFile) -> None:
    odd = [
        {"seq": 1, "type": "constructor", "run": "r", "time": 5, "data": None},
        {"seq": 2, "type": "__proto__", "run": "__proto__", "data": []},
        {"seq": 3, "type": "text.delta", "run": "r", "block": {}, "data": {"text": {"a": 1}}},
        {"seq": 4, "type": "step.finished", "run": "r", "step": "x", "data": {"usage": "many"}},
        {"seq": 5, "type": "tool_result", "run": "r", "data": {"call": 7, "content": [None, 3, "x"]}},
        {"seq": 6, "type": "reasoning", "run": "r", "data": {"kind": "state", "data": {"bytes": "9"}}},
        {"seq": 7, "type": "run.failed", "run": "r", "parent": 3, "data": {"message": ["x"]}},
        {"seq": 8, "type": "text.delta", "run": ["r"], "data": {"text": "lost"}},
    ]

    tab = open_file("\n".join(json.dumps(record) for record in odd))

    tab.wait_for_selector(".run[data-run=r][data-status=failed]")
    tab.click("#tab-events")
    assert tab.locator(".event").count() > 0
