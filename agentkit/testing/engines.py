"""The conformance table: what any engine must do, as checks that a test runs against an engine of its own.

```python
@pytest.mark.parametrize("check", ENGINE_CHECKS, ids=str)
async def test_my_engine(check: EngineCheck) -> None:
    await check.run(lambda: MyEngine("my://store"))
```
Each check opens engines over one store by calling what it is given, uses threads of names that nobody else has, and closes what it
opened; a store may serve all checks at once. A check that fails raises `AssertionError`. Checks that need two engines over one store
(`shared`) or a store that outlives its engine (`durable`) say so. Every wait is bounded.
"""

from agentkit.testing import engine_log, engine_threads
from agentkit.testing.engine_stand import EngineCheck, OpenEngine, Stand

__all__ = ["ENGINE_CHECKS", "EngineCheck", "OpenEngine", "Stand", "checks_for"]

ENGINE_CHECKS: tuple[EngineCheck, ...] = (*engine_log.CHECKS, *engine_threads.CHECKS)
"""All checks. Those of an engine that is not both shared and durable: `checks_for`."""


def checks_for(*, shared: bool, durable: bool) -> list[EngineCheck]:
    """Return the checks that apply to an engine.

    Args:
        shared: engines over one store see each other's records.
        durable: a store outlives its engine.
    """
    return [
        check for check in ENGINE_CHECKS if (shared or not check.shared) and (durable or not check.durable)
    ]
