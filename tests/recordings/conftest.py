"""Which recordings are read, and a word about the others."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agentkit.dialects.table import DIALECTS


def manifest(folder: Path) -> list[dict[str, Any]]:
    """Return what is told of each recording; [] where there are none."""
    path = folder / "MANIFEST.json"
    return list(json.loads(path.read_text())["files"]) if path.exists() else []


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test of `recording` one run a recording whose dialect is built."""
    if "recording" in metafunc.fixturenames:
        folder: Path = metafunc.config.getoption("recordings")
        found = [
            pytest.param((folder, entry), id=entry["file"])
            for entry in manifest(folder)
            if entry["dialect"] in DIALECTS
        ]
        missing = pytest.mark.skip(reason=f"no recordings at {folder}: give --recordings=DIR")
        metafunc.parametrize("recording", found or [pytest.param(None, id="none", marks=missing)])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many recordings belong to dialects that are not built."""
    entries = manifest(terminalreporter.config.getoption("recordings"))
    left_out = Counter(entry["dialect"] for entry in entries if entry["dialect"] not in DIALECTS)
    told = ", ".join(f"{count} {dialect}" for dialect, count in sorted(left_out.items())) or "none"
    terminalreporter.write_line(f"recordings not collected, their dialect is not built: {told}")
