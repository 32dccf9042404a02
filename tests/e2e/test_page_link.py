"""The page and its link: refusals, losses, a machine without network, a server that goes away, more deltas than a screen can show."""

import json
from typing import TYPE_CHECKING

import pytest
from e2e.browsing import Tabs, serving, until
from e2e.page_app import ANSWER
from e2e.page_feed import lines, started, text, thought

from agentkit.content import Usage
from agentkit.events import Event, RunFinished, StepStarted

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

pytestmark = [pytest.mark.e2e, pytest.mark.browser]

CONNECTED_NOW = "(document.querySelector('#badge-retry').click(), document.querySelector('#badge').dataset.state === 'live')"
"""Press "Connect now" until it helps."""
DONE = ".run[data-status=finished] > .run-footer"


def ask(tab: "Page", words: str) -> None:
    tab.fill("#input", words)
    tab.press("#input", "Enter")


def control(type_: str, cursor: str, **data: object) -> str:
    return f"id: {cursor}\ndata: {json.dumps({'v': 1, 'type': type_, 'data': data})}\n\n"


def frames(records: list[str]) -> str:
    return "".join(f"id: {json.loads(record)['id']}\ndata: {record}\n\n" for record in records)


def test_the_page_comes_back_after_refusals_and_misses_nothing(tabs: Tabs, quick_url: str) -> None:
    tab = tabs.open(quick_url)
    refusals = [503, 404, 500]

    def refuse(route: "Route") -> None:
        if refusals:
            route.fulfill(status=refusals.pop(0), body="")
        else:
            route.continue_()

    tab.route("**/events?*", refuse)
    tab.context.set_offline(True)
    tab.wait_for_selector("#badge[data-state=offline]")
    tab.context.set_offline(False)
    ask(tab, "Are you there?")

    until(tab, CONNECTED_NOW)
    tab.wait_for_selector(DONE)
    assert refusals == []
    assert tab.inner_text(".text") == ANSWER
    assert tab.locator(".run").count() == 1
    tab.click("#tab-events")
    assert tab.locator(".event-gap").count() == 0


def test_the_badge_counts_down_and_can_be_hurried(tabs: Tabs, quick_url: str) -> None:
    tab = tabs.blank()
    tab.route(
        "**/events?*",
        lambda route: route.fulfill(status=503, json={"title": "Busy", "retry_after_ms": 9_000}),
    )

    tab.goto(quick_url)

    tab.wait_for_selector("#badge[data-state=waiting]")
    tab.click("#badge")
    until(tab, "/^Attempt 2 in \\d+ s\\. Busy\\.$/.test(document.querySelector('#badge-detail').textContent)")
    tab.unroute("**/events?*")
    tab.click("#badge-retry")
    tab.wait_for_selector("#badge[data-state=live]")


def test_a_loss_that_the_server_tells_is_shown(tabs: Tabs, quick_url: str) -> None:
    records = lines([*thought("run_a", 0, 1_790_000_000, 2, "What is left of it.")], first=41)
    body = control("stream.hello", "e-0", epoch="e", after=0, head=43, resumed=False)
    body += control("stream.gap", "e-40", **{"from": 1, "to": 40, "reason": "trimmed"}) + frames(records)
    tab = tabs.blank()
    tab.route("**/events?*", lambda route: route.fulfill(content_type="text/event-stream", body=body))

    tab.goto(quick_url)

    tab.wait_for_selector(".run .notice:has-text('no longer kept')")
    assert tab.inner_text(".thought-label") == "Thought for 2 s"
    tab.click("#tab-events")
    assert tab.inner_text(".event-gap") == "Gap: events 1 to 40, no longer kept by the server"


@pytest.mark.full
def test_a_server_that_begins_anew_is_told_and_goes_on(tabs: Tabs) -> None:
    with serving("-m", "agentkit_server", "--port", "0") as url:
        tab = tabs.open(f"{url}#agent=scripted&thread=t1")
        ask(tab, "Before.")
        tab.wait_for_selector(".thought[data-live] .paragraph")
    port = url.rstrip("/").rsplit(":", 1)[1]

    tab.wait_for_selector("#badge:is([data-state=waiting], [data-state=connecting])")
    with serving("-m", "agentkit_server", "--port", port):
        until(tab, CONNECTED_NOW)
        ask(tab, "After.")
        tab.wait_for_selector(".question:has-text('After.') ~ .items .thought[data-live]")
        tab.click("#tab-events")
        tab.uncheck("#page-events [type=checkbox]")
        tab.wait_for_selector(".event-gap:has-text('the log began anew')")
        assert tab.locator(".question").all_inner_texts() == ["Before.", "After."]


def test_agents_that_are_not_available_can_be_seen_and_not_chosen(tabs: Tabs, quick_url: str) -> None:
    agents = [
        {"name": "cloud", "description": "", "default": True, "available": False, "note": "needs a key"},
        {"name": "quick", "description": "Answers at once.", "default": False, "available": True},
    ]
    tab = tabs.blank()
    tab.route("**/v1/agents", lambda route: route.fulfill(json={"agents": agents}))

    tab.goto(quick_url)

    tab.wait_for_selector("#input:enabled")
    assert tab.input_value("#agent") == "quick"
    assert tab.locator("#agent option[value=cloud]").inner_text() == "cloud (needs a key)"
    assert tab.locator("#agent option[value=cloud]").is_disabled()
    assert tab.inner_text("#welcome-words") == "Answers at once."


def test_a_refused_question_stays_in_the_field(tabs: Tabs, quick_url: str) -> None:
    tab = tabs.open(quick_url)
    tab.route(
        "**/runs",
        lambda route: route.fulfill(status=409, json={"title": "Conflict", "detail": "The thread is busy."}),
    )

    ask(tab, "Too soon.")

    tab.wait_for_selector("#complaint:has-text('The thread is busy.')")
    assert tab.input_value("#input") == "Too soon."


def flood(deltas: int) -> list[Event]:
    """Return a run whose thought and text come in `deltas` pieces."""
    run, words = "run_flood", "Ten thousand pieces, one after the other. "
    half = words * (deltas * 6 // len(words))
    thinking = thought(run, 0, 1_790_000_000, 5, half)
    while len(thinking) < deltas // 2:
        thinking[1:1] = thinking[1:-1][: deltas // 2 - len(thinking) + 1]
    return [
        started(run, 1_790_000_000, "A flood, please."),
        StepStarted(run, 1, 1_790_000_000, "m", "demo"),
        *thinking,
        *text(run, 1, 1_790_000_005, 5, words * (deltas * 6 // len(words))),
        RunFinished(run, 0, 1_790_000_010, "", "stop", Usage(1, deltas)),
    ]


WATCH = """
window.pauses = []; let before = performance.now();
const look = (now) => { pauses.push(now - before); before = now; requestAnimationFrame(look); };
requestAnimationFrame(look);
"""


def test_ten_thousand_deltas_at_once_do_not_freeze_the_page(tabs: Tabs, quick_url: str) -> None:
    events = flood(10_000)
    head = control("stream.hello", "e-0", epoch="e", after=0, head=0, resumed=False)
    records = lines(events)
    tab = tabs.blank()
    tab.add_init_script(WATCH)
    tab.route(
        "**/events?*",
        lambda route: route.fulfill(content_type="text/event-stream", body=head + frames(records)),
    )

    tab.goto(quick_url)

    tab.wait_for_selector(DONE)
    longest = sorted(tab.evaluate("pauses"))[-3:]
    print(
        f"{len(records)} records; the longest pauses between frames: {[round(pause) for pause in longest]} ms"
    )
    said = "".join(event.text for event in events if event.type == "text.delta")  # type: ignore[union-attr]
    assert tab.evaluate("document.querySelector('.text').textContent.length") == len(said.rstrip("\n"))
    tab.click("#tab-events")
    assert tab.inner_text(".events-total").endswith(f"{len(records):,}")
    assert tab.locator(".event").count() < 100
