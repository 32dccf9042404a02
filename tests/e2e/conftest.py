"""Real servers in processes of their own, and Chromium to look at them: each once a session.

A tab fails its test, whatever the test was about, if the page logged an error, broke its content policy, or asked another host.
"""

import importlib.util
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from e2e.browsing import QUIET, Tabs, serving

if TYPE_CHECKING:  # playwright may be missing: then its tests are skipped
    from playwright.sync_api import Browser


@pytest.fixture(scope="session")
def demo_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the command's own server, with the agents that need no key."""
    engine = f"sqlite:///{tmp_path_factory.mktemp('data')}/log.db"
    with serving("-m", "agentkit_server", "--port", "0", "--engine", engine) as url:
        yield url


@pytest.fixture(scope="session")
def quick_url() -> Iterator[str]:
    """The address of a server whose agents do not wait: `quick`, `slow`, `failing`, `redacted`; the same at `inner/`."""
    with serving(str(Path(__file__).parent / "page_app.py")) as url:
        yield url


@pytest.fixture(scope="session")
def chromium(require: Callable[[str, bool, str], None]) -> "Iterator[Browser]":
    """Debian's Chromium, driven by Playwright."""
    found = shutil.which("chromium")
    require("playwright", importlib.util.find_spec("playwright") is not None, "pip install playwright")
    require("chromium", found is not None, "apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=QUIET)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def new_tabs(chromium: "Browser") -> Callable[[], Tabs]:
    """For fixtures that outlive a test: they close their tabs and check `wrong` themselves."""
    return lambda: Tabs(chromium)


@pytest.fixture
def tabs(new_tabs: Callable[[], Tabs]) -> Iterator[Tabs]:
    """Tabs for one test, which fails if they did anything wrong."""
    opened = new_tabs()
    yield opened
    opened.close()
    assert opened.wrong == []


@pytest.fixture
def records_file(tmp_path: Path) -> Callable[[str], str]:
    """`records_file(lines)` writes a file that the page can open, and returns its path."""

    def write(lines: str) -> str:
        path = tmp_path / "run.jsonl"
        path.write_text(lines)
        return str(path)

    return write
