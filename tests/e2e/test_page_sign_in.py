"""The page where the server wants to know who asks: a token is typed once, and becomes a cookie."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from e2e.browsing import Tabs, serving
from e2e.page_app import ANSWER, KEY

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.e2e, pytest.mark.browser]

HERE = Path(__file__).parent
DONE = ".run[data-status=finished] > .run-footer"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(str(HERE / "page_app.py"), "keys") as address:
        yield address


def signed_in(tabs: Tabs, url: str, token: str = KEY) -> Any:
    tab: Page = tabs.blank()
    tab.goto(url)
    tab.wait_for_selector("#sign-in:visible")
    tab.fill("#token", token)
    tab.press("#token", "Enter")
    return tab


@pytest.mark.parametrize("transport", ["sse", "websocket"])
def test_who_signs_in_uses_the_page_and_its_feed(tabs: Tabs, url: str, transport: str) -> None:
    tab = signed_in(tabs, url)
    tab.wait_for_selector("#sign-in", state="hidden")
    tab.wait_for_selector("#badge[data-state=live]")
    if transport == "websocket":
        tab.click("#badge")
        tab.select_option("#transport", index=1)
        tab.keyboard.press("Escape")
        tab.wait_for_selector("#badge[data-state=live]")
    tab.fill("#input", "Hello")
    tab.press("#input", "Enter")
    tab.wait_for_selector(DONE)
    kept = tab.evaluate("[document.cookie, JSON.stringify(localStorage), location.href].join()")

    assert tab.inner_text(".text") == ANSWER
    assert KEY not in kept
    assert not [word for word in kept.split(",") if "__Host-" in word]


def test_a_reload_does_not_ask_again(tabs: Tabs, url: str) -> None:
    tab = signed_in(tabs, url)
    tab.wait_for_selector("#badge[data-state=live]")
    tab.reload()
    tab.wait_for_selector("#badge[data-state=live]")

    assert tab.is_hidden("#sign-in")


def test_a_wrong_token_is_told_and_can_be_mended(tabs: Tabs, url: str) -> None:
    tab = signed_in(tabs, url, "ak_wrong")
    tab.wait_for_selector("#sign-in-error:has-text('does not know this token')")
    tab.keyboard.press("Escape")  # it does not go away
    assert tab.is_visible("#sign-in")
    tab.fill("#token", KEY)
    tab.press("#token", "Enter")
    tab.wait_for_selector("#badge[data-state=live]")

    assert tab.is_hidden("#sign-in")
