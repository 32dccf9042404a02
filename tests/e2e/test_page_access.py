"""The page for everybody: judged by axe-core in both themes and in its main states, and still where motion is not wanted."""

import json
from typing import TYPE_CHECKING, Any

import pytest
from e2e.browsing import Tabs

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.e2e, pytest.mark.browser]

DONE = ".run[data-status=finished] > .run-footer"
SERIOUS = ("serious", "critical")


def faults(tab: "Page") -> list[dict[str, Any]]:
    """Return what axe-core finds serious in the page as it stands."""
    from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]  # it has no types

    found = Axe().run(tab).response["violations"]
    return [
        {"rule": one["id"], "impact": one["impact"], "nodes": [node["html"][:200] for node in one["nodes"]]}
        for one in found
        if one["impact"] in SERIOUS
    ]


def answered(tabs: Tabs, url: str, agent: str, **options: Any) -> Any:
    tab = tabs.open(f"{url}#agent={agent}&thread=axe-{agent}-{options.get('color_scheme', '')}", **options)
    tab.fill("#input", "Hello")
    tab.press("#input", "Enter")
    return tab


@pytest.mark.full
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_any_state(tabs: Tabs, quick_url: str, scheme: str) -> None:
    found: dict[str, list[dict[str, Any]]] = {}
    tab = tabs.open(quick_url, color_scheme=scheme)
    found["welcome"] = faults(tab)
    tab = answered(tabs, quick_url, "quick", color_scheme=scheme)
    tab.wait_for_selector(DONE)
    tab.wait_for_selector(".thought-head[aria-expanded=false]")
    found["answered"] = faults(tab)
    tab.click(".thought-head")
    if tab.is_hidden("#panel"):
        tab.click("#inspect")
    tab.wait_for_selector("#panel:visible")
    found["timeline"] = faults(tab)
    tab.click("#tab-events")
    found["events"] = faults(tab)
    tab.click("#tab-timeline")
    tab.click("#sidebar-foot button:has-text('Keyboard')")
    tab.wait_for_selector("#help:visible")
    found["help"] = faults(tab)
    tab = answered(tabs, quick_url, "careful", color_scheme=scheme)
    tab.wait_for_selector(".tool-question:visible")
    found["approval"] = faults(tab)
    tab.click(".tool-question button:text-is('Approve')")  # the script of its model goes on with it
    tab.wait_for_selector(DONE)
    tab = answered(tabs, quick_url, "failing", color_scheme=scheme)
    tab.wait_for_selector(".failure:visible")
    found["failed"] = faults(tab)
    tab = answered(tabs, quick_url, "redacted", color_scheme=scheme)
    tab.wait_for_selector(DONE)
    found["redacted"] = faults(tab)

    assert {state: what for state, what in found.items() if what} == {}, json.dumps(found, indent=1)


def test_axe_can_find_something(tabs: Tabs, quick_url: str) -> None:
    tab = tabs.open(quick_url)
    tab.evaluate("document.body.append(Object.assign(document.createElement('button')))")

    assert [fault["rule"] for fault in faults(tab)] == ["button-name"]


def test_nothing_moves_where_motion_is_not_wanted(tabs: Tabs, quick_url: str) -> None:
    tab = answered(tabs, quick_url, "slow", reduced_motion="reduce")
    tab.wait_for_selector(".thought[data-live]")
    moving = tab.evaluate(
        "document.getAnimations().filter((one) => one.playState === 'running')"
        ".map((one) => one.animationName ?? one.transitionProperty)"
    )
    tab.click("#stop")
    tab.wait_for_selector(".run[data-status=cancelled]")

    assert moving == []
