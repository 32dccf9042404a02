"""The page about security names settings that exist, and all that bound something."""

import re
from pathlib import Path

from agentkit_server.auth_settings import AuthSettings
from agentkit_server.settings import Settings

PAGE = (Path(__file__).parents[2] / "docs/security.md").read_text()
KNOWN = {name.upper() for name in (*Settings.model_fields, *AuthSettings.model_fields)}


def test_every_setting_that_is_named_exists() -> None:
    rows = "\n".join(line for line in PAGE.splitlines() if line.startswith("|"))
    named = {name.removeprefix("AGENTKIT_") for name in re.findall(r"`([A-Z][A-Z_]+)`", rows)}
    named |= {name for name in re.findall(r"`AGENTKIT_([A-Z_]+)", PAGE) if not name.endswith("_")}

    assert named - KNOWN == set()
    assert len(named) > 25


def test_every_bound_for_each_is_named() -> None:
    bounds = {name for name in KNOWN if name.endswith("_EACH")}

    assert {name for name in bounds if f"`{name}`" not in PAGE} == set()
