"""The memory engine against the conformance table."""

import pytest

from agentkit.engines.memory import MemoryEngine
from agentkit.testing.engines import EngineCheck, checks_for

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("check", checks_for(shared=False, durable=False), ids=str)
async def test_memory(check: EngineCheck) -> None:
    await check.run(MemoryEngine)
