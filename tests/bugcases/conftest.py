"""Which bug cases are run, and a word about the others."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agentkit.dialects.table import DIALECTS


def load_cases(config: pytest.Config) -> list[tuple[Path, dict[str, Any]]]:
    """Return each case with its folder."""
    paths = sorted(config.getoption("cases").glob("*/case.json"))
    return [(path.parent, json.loads(path.read_text())) for path in paths]


def is_built(case: dict[str, Any]) -> bool:
    """Tell whether the dialect that a case is about is built."""
    return case["dialect"] in DIALECTS


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test of `stream_case`, `replay_case` or `exchange_case` one run a case."""
    for kind in ("stream", "replay", "exchange"):
        if f"{kind}_case" in metafunc.fixturenames:
            found = [
                pytest.param((folder, case), id=case["id"])
                for folder, case in load_cases(metafunc.config)
                if (case["kind"] == kind or kind in case) and is_built(case)
            ]
            missing = pytest.mark.skip(reason=f"no {kind} cases at {metafunc.config.getoption('cases')}")
            metafunc.parametrize(f"{kind}_case", found or [pytest.param(None, id="none", marks=missing)])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many cases are not run, and why."""
    cases = [case for _, case in load_cases(terminalreporter.config)]
    left_out = Counter(f"{case['dialect']} {case['kind']}" for case in cases if not is_built(case))
    told = ", ".join(f"{count} {kind}" for kind, count in sorted(left_out.items())) or "none"
    terminalreporter.write_line(f"bug cases not collected, their dialect is not built: {told}")
