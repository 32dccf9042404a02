"""The tables of `docs/wire.md` say what the code does."""

import re
import runpy
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from agentkit.log import Gap
from agentkit_transports.session import CloseCode

pytestmark = pytest.mark.pure

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "wire_page.py"))
PAGE = (ROOT / "docs" / "wire.md").read_text()


def test_the_tables_say_what_the_code_does() -> None:
    assert SCRIPT["page"](PAGE) == PAGE, "run python scripts/wire_page.py"


def test_a_page_without_its_tables_is_refused() -> None:
    with pytest.raises(ValueError, match="no table events"):
        SCRIPT["page"]("# The wire")


def test_every_close_code_stands_on_the_page() -> None:
    told = {int(code) for code in re.findall(r"\b4[05]\d\d\b", PAGE)}

    assert told == {int(code) for code in CloseCode if int(code) >= 4000}


def test_every_reason_of_a_gap_stands_on_the_page() -> None:
    reasons = get_args(get_type_hints(Gap)["reason"])

    assert len(reasons) >= 3
    assert [reason for reason in reasons if reason not in PAGE] == []
