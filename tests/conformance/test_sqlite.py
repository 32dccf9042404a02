"""The SQLite engine against the conformance table, on asyncio and trio."""

from pathlib import Path

import pytest

from agentkit.engines.sqlite import SQLiteEngine
from agentkit.testing.engines import ENGINE_CHECKS, EngineCheck

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("check", ENGINE_CHECKS, ids=str)
async def test_sqlite(check: EngineCheck, tmp_path: Path) -> None:
    await check.run(lambda: SQLiteEngine(tmp_path / "log.db"))
