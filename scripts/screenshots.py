"""Make the pictures of the page that README and docs show: `docs/img/page-light.png` and `page-dark.png`.

Needs playwright and Debian's chromium. The server runs in a process of its own, on a free port.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

FOLDER = Path(__file__).parent.parent / "docs" / "img"
FLAGS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-background-networking"]
LARGEST = 150_000
"""Bytes of a picture."""


def picture(browser: Browser, url: str, scheme: str) -> None:
    """Ask `scripted` twice, and take the picture while it thinks about the second question."""
    page = browser.new_page(viewport={"width": 1280, "height": 760}, color_scheme=scheme)  # type: ignore[arg-type]
    page.goto(url)
    page.wait_for_selector("#badge[data-state=live]")
    for number, question in enumerate(("Why is the sky blue?", "And at sunset?")):
        page.fill("#input", question)
        page.press("#input", "Enter")
        if number == 0:
            page.wait_for_selector(".run[data-status=finished]")
            page.wait_for_selector(".thought-head[aria-expanded=false]")
    page.wait_for_selector(".thought[data-live] .paragraph:has-text('only ever learn the length')")
    page.evaluate("document.activeElement.blur()")
    path = FOLDER / f"page-{scheme}.png"
    page.screenshot(path=path)
    page.close()
    size = path.stat().st_size
    sys.stdout.write(f"{path.name}: {size:,} bytes\n")
    if size > LARGEST:
        raise SystemExit(f"{path.name} has more than {LARGEST:,} bytes")


def main() -> None:
    """Make both pictures."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "agentkit_server", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:  # noqa: S603 - our own
        try:
            line = server.stdout.readline() if server.stdout else ""
            found = re.search(r"http://\S+", line)
            if found is None:
                raise SystemExit(f"the server said {line!r} and no address")
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
                for scheme in ("light", "dark"):
                    picture(browser, found[0], scheme)
                browser.close()
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
