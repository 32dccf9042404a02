"""The page in a real browser, against the real server: what a user sees of a run."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from e2e.browsing import Tabs, until
from e2e.page_app import ANSWER, REASONING

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.e2e, pytest.mark.browser]

DONE = ".run[data-status=finished] > .run-footer"
FOLDED = ".thought-head[aria-expanded=false]"

HEAR = """
window.heard = [];
new MutationObserver(() => heard.push(document.querySelector('#status').textContent))
  .observe(document.querySelector('#status'), { childList: true, characterData: true, subtree: true });
"""
LOOK_FOR_OPEN = """
window.opened = false;
new MutationObserver(() => { window.opened ||= Boolean(document.querySelector('.thought[data-open]')); })
  .observe(document, { subtree: true, childList: true, attributes: true });
"""


def ask(tab: "Page", words: str, *, agent: str = "") -> None:
    if agent and tab.input_value("#agent") != agent:
        tab.select_option("#agent", agent)
        tab.wait_for_url(f"**#agent={agent}&*")
        tab.wait_for_selector("#badge[data-state=live]")
    tab.fill("#input", words)
    tab.press("#input", "Enter")


@dataclass
class Journey:
    """What was seen while `scripted` answered, and the tab as it stands at the end."""

    tab: Any
    thinking: dict[str, Any]
    answering: dict[str, Any]
    heard: list[str]


@pytest.fixture(scope="module")
def journey(new_tabs: Callable[[], Tabs], demo_url: str) -> Iterator[Journey]:
    """Ask `scripted` once, and look at each of its states."""
    tabs = new_tabs()
    tab = tabs.open(demo_url)
    tab.evaluate(HEAR)
    ask(tab, "Why is the sky blue?", agent="scripted")
    tab.wait_for_selector(".thought[data-live][data-open] .paragraph:has-text('The user has sent')")
    thinking = {
        "label": tab.inner_text(".thought-label"),
        "open": tab.get_attribute(".thought-head", "aria-expanded"),
        "answers": tab.locator(".text").count(),
        "stop": tab.is_visible("#stop"),
        "title": tab.title(),
    }
    tab.wait_for_selector(".text[aria-busy=true]:has-text('I am a scripted agent')")
    answering = {"label": tab.inner_text(".thought-label"), "stop": tab.is_visible("#stop")}
    tab.wait_for_selector(DONE)
    tab.wait_for_selector(FOLDED)
    yield Journey(tab, thinking, answering, tab.evaluate("heard"))
    tabs.close()
    assert tabs.wrong == []


@pytest.fixture(scope="module")
def desk(new_tabs: Callable[[], Tabs], quick_url: str) -> Iterator[tuple[Tabs, Any]]:
    tabs = new_tabs()
    yield tabs, tabs.open(quick_url)
    tabs.close()


@pytest.fixture
def tab(desk: tuple[Tabs, Any], quick_url: str) -> Iterator[Any]:
    """One tab for many tests, each on a thread of its own: a load of the page costs a second."""
    tabs, tab = desk
    tab.click("#tab-timeline")
    tab.select_option("#agent", "quick")
    tab.click("#sidebar-head button")
    tab.wait_for_selector("#welcome:visible")
    yield tab
    assert tabs.wrong == []


def test_reasoning_streams_into_a_block_that_opens_by_itself(journey: Journey) -> None:
    assert journey.thinking == {
        "label": "Thinking…",
        "open": "true",
        "answers": 0,
        "stop": True,
        "title": "Thinking… · scripted · agentkit",
    }


def test_the_answer_streams_below_a_thought_that_tells_its_time(journey: Journey) -> None:
    tab = journey.tab
    assert re.fullmatch(r"Thought for \d+ s", journey.answering["label"])
    assert journey.answering["stop"] is True
    thought, answer = tab.locator(".thought").bounding_box(), tab.locator(".text").bounding_box()
    assert thought["y"] + thought["height"] <= answer["y"]
    assert "any client can resume them" in tab.inner_text(".text")


def test_the_block_folds_when_all_is_said(journey: Journey) -> None:
    tab = journey.tab
    assert tab.inner_text(".thought-label") == journey.answering["label"]
    assert tab.inner_text(".question") == "Why is the sky blue?"
    assert re.fullmatch(
        r"Finished in [\d.]+ s · 150 tokens · 80 of them reasoning", tab.inner_text(".run-summary")
    )
    assert tab.title() == "scripted · agentkit"
    assert tab.is_hidden("#stop")


def test_a_screen_reader_hears_changes_and_no_deltas(journey: Journey) -> None:
    assert journey.heard[:2] == ["Thinking", "Answering"]
    assert journey.heard[2].startswith("Answer ready. I am a scripted agent")
    assert len(journey.heard) == 3


def test_a_reload_shows_the_same_run_without_opening_its_thought(journey: Journey, tabs: Tabs) -> None:
    def told(tab: Any) -> list[str]:
        return [tab.inner_text(one) for one in (".question", ".thought-label", ".text", ".run-summary")]

    other = tabs.blank()
    other.add_init_script(LOOK_FOR_OPEN)
    other.goto(journey.tab.url)
    other.wait_for_selector(DONE)

    assert told(other) == told(journey.tab)
    assert other.evaluate("opened") is False
    other.click(".thought-head")
    other.wait_for_selector(".thought-scroll:has-text('That is the whole plan')")


def test_a_reload_in_the_middle_goes_on_where_the_run_is(tab: "Page") -> None:
    ask(tab, "Wait for me.", agent="slow")
    tab.wait_for_selector(".thought[data-live] .paragraph")

    tab.reload()

    tab.wait_for_selector(".thought[data-live][data-open] .paragraph:has-text('On and on')")
    tab.click("#stop")
    tab.wait_for_selector(".run[data-status=cancelled]")
    assert tab.locator(".run").count() == 1


def test_the_first_toggle_by_hand_wins(tab: "Page") -> None:
    ask(tab, "Let me close it.", agent="slow")
    tab.wait_for_selector(".thought[data-live][data-open] .paragraph")

    tab.click(".thought-head")
    tab.click("#tab-events")
    until(tab, "parseInt(document.querySelector('.events-total').textContent) > 30")
    assert tab.get_attribute(".thought-head", "aria-expanded") == "false"

    tab.click(".thought-head")
    tab.click("#stop")
    tab.wait_for_selector(".run[data-status=cancelled] > .run-footer")
    tab.wait_for_timeout(1_300)  # the time after which an untouched block would have folded
    assert tab.get_attribute(".thought-head", "aria-expanded") == "true"


def test_a_live_block_follows_its_newest_text_until_the_reader_scrolls_up(tab: "Page") -> None:
    ask(tab, "Go on.", agent="slow")
    tab.wait_for_selector(".thought[data-live] .paragraph")
    bottom = "(() => { const one = document.querySelector('.thought-scroll'); return one.scrollHeight - one.clientHeight })()"
    until(tab, f"{bottom} > 60")
    assert tab.evaluate(f"{bottom} - document.querySelector('.thought-scroll').scrollTop < 30")

    tab.evaluate("document.querySelector('.thought-scroll').scrollTop = 0")
    before = tab.evaluate(bottom)
    until(tab, f"{bottom} > {before}")

    assert tab.evaluate("document.querySelector('.thought-scroll').scrollTop") == 0
    tab.click("#stop")
    tab.wait_for_selector(".run[data-status=cancelled]")


def test_stop_ends_the_run_and_keeps_what_came(tab: "Page") -> None:
    ask(tab, "Stop early.", agent="slow")
    tab.wait_for_selector(".thought[data-live] .paragraph")

    tab.click("#stop")

    tab.wait_for_selector(".run[data-status=cancelled] .run-summary:has-text('Stopped')")
    assert tab.is_hidden("#stop")
    assert tab.is_visible("#send")
    assert tab.is_hidden(".failure")
    assert "On and on" in tab.inner_text(".thought-scroll")
    assert tab.evaluate("document.activeElement.id") == "input"


def test_a_failed_run_says_why_and_keeps_what_came(tab: "Page") -> None:
    ask(tab, "Break.", agent="failing")

    tab.wait_for_selector(".run[data-status=failed] .failure")
    assert "it broke off" in tab.inner_text(".failure strong")
    assert tab.inner_text(".text") == "Half of an ans"
    assert tab.inner_text(".run-summary").startswith("Failed after")
    assert tab.title() == "Failed · failing · agentkit"
    tab.click(".failure button")
    until(tab, "document.querySelectorAll('.run[data-status=failed]').length === 2")
    assert tab.locator(".question").all_inner_texts() == ["Break.", "Break."]


def test_hidden_reasoning_beside_readable_is_told_with_its_size(tab: "Page") -> None:
    ask(tab, "What do you hide?", agent="redacted")

    tab.wait_for_selector(DONE)
    assert re.fullmatch(r"Thought for \d+ s", tab.inner_text(".thought-label"))
    lock = tab.locator(".thought-lock")
    assert re.fullmatch(r"Hidden reasoning, [\d.,]+ (bytes|kB)", lock.inner_text())
    assert lock.locator(".icon-lock").count() == 1
    tab.wait_for_selector(FOLDED)
    tab.click(".thought-head")
    tab.wait_for_selector(".thought[data-open] .paragraph:has-text('Part of the reasoning was withheld')")


def test_a_socket_shows_what_events_show(tabs: Tabs, quick_url: str) -> None:
    tab = tabs.open(quick_url)
    sockets: list[str] = []
    tab.on("websocket", lambda socket: sockets.append(socket.url))
    tab.click("#badge")
    tab.select_option("#transport", "websocket")
    tab.wait_for_selector("#badge[data-state=live]")
    tab.keyboard.press("Escape")

    ask(tab, "Over a socket.")

    tab.wait_for_selector(DONE)
    assert [url.endswith("/v1/ws") for url in sockets] == [True]
    assert tab.inner_text(".text") == ANSWER
    tab.reload()
    tab.wait_for_selector(DONE)
    assert tab.inner_text(".text") == ANSWER
    assert len(sockets) == 2


def test_threads_are_left_and_entered_again(tab: "Page") -> None:
    ask(tab, "In the first thread.")
    tab.wait_for_selector(DONE)
    first = tab.url

    tab.click("#sidebar-head button")
    tab.wait_for_selector("#welcome:visible")
    assert tab.locator(".run").count() == 0
    tab.go_back()

    tab.wait_for_selector(DONE)
    assert tab.url == first
    assert tab.inner_text(".question") == "In the first thread."
    assert tab.locator("#threads [aria-current=page]").count() == 1


def test_a_link_to_a_run_opens_it_in_the_inspector(tab: "Page", tabs: Tabs) -> None:
    for number in (1, 2):
        ask(tab, f"Question {number}.")
        until(tab, f"document.querySelectorAll('.run[data-status=finished]').length === {number}")
    run = tab.get_attribute(".run >> nth=0", "data-run")

    other = tabs.open(f"{tab.url}&run={run}")

    other.wait_for_selector(f".panel-title:text-is('{run}')")
    assert other.locator("#runs [aria-current] .side-name").inner_text() == "Question 1."


def test_runs_of_others_show_their_question(tab: "Page", quick_url: str) -> None:
    place = dict(pair.split("=") for pair in tab.url.split("#")[1].split("&"))
    runs = f"{quick_url}v1/agents/{place['agent']}/threads/{place['thread']}/runs"

    assert tab.request.post(runs, data={"input": "Asked by a program."}).status == 202

    tab.wait_for_selector(".question:has-text('Asked by a program.')")
    tab.wait_for_selector(DONE)


def test_a_whole_conversation_by_keyboard(tab: "Page") -> None:
    assert tab.evaluate("document.activeElement.id") == "input"
    tab.keyboard.type("Only keys.")
    tab.keyboard.press("Enter")
    tab.wait_for_selector(DONE)
    tab.wait_for_selector(FOLDED)

    for _ in range(12):
        tab.keyboard.press("Shift+Tab")
        if tab.evaluate("document.activeElement.matches('.thought-head')"):
            break
    tab.keyboard.press("Space")
    tab.wait_for_selector(".thought[data-open] .paragraph")
    assert tab.inner_text(".thought-scroll") == REASONING
    tab.keyboard.press("e")
    tab.wait_for_selector("#page-events:visible")
    tab.keyboard.press("Escape")
    tab.wait_for_selector("#panel", state="hidden")
    tab.keyboard.press("?")
    tab.wait_for_selector("#help[open]")
    tab.keyboard.press("Escape")
    tab.keyboard.press("i")
    tab.wait_for_selector("#panel:visible")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_scrolls_sideways_on_a_phone(tabs: Tabs, quick_url: str, scheme: str) -> None:
    small = {"width": 360, "height": 740}
    tab = tabs.open(quick_url, viewport=small, color_scheme=scheme, reduced_motion="reduce")
    ask(tab, "W" * 300)
    tab.wait_for_selector(DONE)

    def too_wide() -> object:
        return tab.evaluate(
            "['html', 'body', '.bar', '.conversation', '.panel', '.page', '.sidebar'].filter((one) =>"
            " [...document.querySelectorAll(one)].some((node) => node.scrollWidth > Math.max(node.clientWidth, 0) + 1))"
        )

    tab.evaluate("document.querySelector('#agent').append(new Option('a-name-that-is-long-'.repeat(5)))")
    edges = "['#agent', '#badge .dot'].map((one) => document.querySelector(one).getBoundingClientRect())"
    assert tab.evaluate(f"(([agent, dot]) => agent.right <= dot.left)({edges})")
    assert tab.evaluate("document.documentElement.scrollWidth") == 360
    assert too_wide() == []
    tab.click("#menu")
    tab.wait_for_selector("#sidebar:visible")
    assert too_wide() == []
    tab.keyboard.press("Escape")
    tab.click("#inspect")
    assert too_wide() == []
    tab.click("#tab-events")
    assert too_wide() == []


def test_the_theme_can_be_chosen_and_stays(tabs: Tabs, quick_url: str) -> None:
    tab = tabs.open(quick_url)
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    light = tab.evaluate(ground)
    button = tab.locator("#sidebar-foot button", has_text="Theme")

    button.click()
    button.click()

    assert button.inner_text() == "Theme: dark"
    dark = tab.evaluate(ground)
    assert dark != light
    tab.reload()
    tab.wait_for_selector("#input:enabled")
    assert tab.evaluate(ground) == dark


def test_the_page_works_under_a_prefix(tabs: Tabs, quick_url: str) -> None:
    asked: list[str] = []
    tab = tabs.blank()
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(f"{quick_url}inner/")
    tab.wait_for_selector("#input:enabled")

    ask(tab, "Inside.")

    tab.wait_for_selector(DONE)
    assert [url for url in asked if not url.startswith(f"{quick_url}inner/")] == []
