"""The table of `docs/providers.md` says what the code does."""

import re
import runpy
from pathlib import Path

import pytest

from agentkit.errors import ModelError
from agentkit.provider_table import PROVIDERS
from agentkit.reasoning import BUDGETS

pytestmark = pytest.mark.pure

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "providers_page.py"))
PAGE = (ROOT / "docs" / "providers.md").read_text()


def test_the_table_says_what_the_code_does() -> None:
    assert SCRIPT["page"](PAGE) == PAGE, "run python scripts/providers_page.py"


def test_every_provider_and_every_kind_of_model_stands_in_the_table() -> None:
    shown = [name.partition(":") for name in SCRIPT["EXAMPLES"]]
    missing = []
    for provider in PROVIDERS.values():
        models = [model.lower() for name, _, model in shown if name == provider.name]
        patterns = [pattern for pattern, _ in provider.models]
        found = {next((p for p in patterns if re.search(p, model)), "") for model in models}
        missing += [(provider.name, pattern) for pattern in patterns if pattern not in found]
        if not models:
            missing.append((provider.name, ""))

    assert missing == []


def test_the_conversion_is_the_codes() -> None:
    [row] = [line for line in PAGE.splitlines() if line.startswith("| budget, in tokens")]

    assert [int(cell) for cell in row.split("|")[2:-1]] == list(BUDGETS.values())


def test_every_word_for_a_fault_stands_on_the_page() -> None:
    source = (ROOT / "agentkit" / "dialects" / "fault_words.py").read_text()
    words = set(re.findall(r'\(\s*"([a-z_]+)",\s*(?:True|False)', source))
    told = set(re.findall(r"`([a-z_]+)`", PAGE.partition("`ModelError.fault`")[2]))

    assert "fault" in vars(ModelError("x"))
    assert words == told
