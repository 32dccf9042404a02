"""The page has a say in a run: approve, deny, steer, in a real browser and with the keyboard."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from e2e.browsing import Tabs

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.e2e, pytest.mark.browser]

QUESTION = ".tool-question:visible"
DONE = ".run[data-status=finished] > .run-footer"


@pytest.fixture(scope="module")
def tabs(new_tabs: Callable[[], Tabs]) -> Iterator[Tabs]:
    tabs = new_tabs()
    yield tabs
    tabs.close()
    assert tabs.wrong == []


def ask(tabs: Tabs, url: str, agent: str) -> Any:
    tab: Page = tabs.open(f"{url}#agent={agent}&thread=control-{uuid4().hex}")
    tab.fill("#input", "Go on")
    tab.press("#input", "Enter")
    return tab


def test_a_call_waits_for_the_reader_who_approves_with_the_keyboard(tabs: Tabs, quick_url: str) -> None:
    tab = ask(tabs, quick_url, "careful")
    tab.wait_for_selector(QUESTION)
    assert tab.inner_text(".tool-status") == "Needs approval"
    assert '"to": "Ada"' in tab.inner_text(".tool-body")
    tab.focus(".tool-question button:text-is('Approve')")
    tab.keyboard.press("Enter")
    tab.wait_for_selector(DONE)

    assert tab.inner_text(".tool-status") == "Done"
    assert tab.is_hidden(".tool-question")
    assert "posted to Ada" in tab.inner_text(".tool-body")


def test_a_denial_carries_its_reason(tabs: Tabs, quick_url: str) -> None:
    tab = ask(tabs, quick_url, "careful")
    tab.wait_for_selector(QUESTION)
    tab.fill(".tool-question input", "not <b>her</b>")
    tab.click(".tool-question button:text-is('Deny')")
    tab.wait_for_selector(DONE)

    assert tab.inner_text(".tool-status") == "Denied"
    assert "not <b>her</b>" in tab.inner_text(".tool-body")


def test_a_question_that_another_tab_answers_goes_away(tabs: Tabs, quick_url: str) -> None:
    first = ask(tabs, quick_url, "careful")
    first.wait_for_selector(QUESTION)
    second = tabs.open(first.url)
    second.wait_for_selector(QUESTION)
    second.click(".tool-question button:text-is('Approve')")
    first.wait_for_selector(DONE)

    assert first.is_hidden(".tool-question")


def test_what_is_sent_while_a_run_goes_on_goes_into_it(tabs: Tabs, quick_url: str) -> None:
    tab = ask(tabs, quick_url, "patient")
    tab.wait_for_selector(".thought[data-live]")
    assert tab.is_visible("#stop")
    assert tab.is_hidden("#send")
    tab.fill("#input", "and be brief")
    assert tab.get_attribute("#send", "aria-label") == "Say it to the run"
    tab.press("#input", "Enter")
    tab.wait_for_selector(DONE)

    assert tab.inner_text(".question.steered") == "and be brief"
    assert tab.locator(".run").count() == 1


def test_a_thread_that_is_deleted_while_it_is_open_begins_anew(tabs: Tabs, quick_url: str) -> None:
    tab = ask(tabs, quick_url, "quick")
    tab.wait_for_selector(DONE)
    thread = tab.evaluate("new URLSearchParams(location.hash.slice(1)).get('thread')")
    tab.evaluate(f"fetch('v1/agents/quick/threads/{thread}', {{ method: 'DELETE' }})")
    tab.wait_for_selector("#badge[data-state=ended]")
    tab.fill("#input", "Hello again")
    tab.press("#input", "Enter")
    tab.wait_for_selector(f"{DONE} >> nth=1")

    assert tab.get_attribute("#badge", "data-state") == "live"
