"""The conformance table finds what is wrong with an engine of a user's own, and passes one that is right."""

from collections.abc import Sequence

import pytest

from agentkit.engines.memory import MemoryEngine, MemoryLog
from agentkit.engines.retention import Retention
from agentkit.history import RunRecord
from agentkit.log import Cursor, Draft, Page, Record, Topic
from agentkit.testing.engines import ENGINE_CHECKS, EngineCheck, checks_for

pytestmark = pytest.mark.anyio


class OwnEngine(MemoryEngine):
    """A user's engine: here simply another class."""


class Unfenced(MemoryLog):
    """Takes whatever comes, also after a lost lease."""

    async def append(
        self, topic: Topic, drafts: Sequence[Draft], *, fence: int | None = None
    ) -> list[Record]:
        return await super().append(topic, drafts, fence=None)


class Silent(MemoryLog):
    """Tells no gap."""

    async def read(self, topic: Topic, after: Cursor, limit: int) -> Page:
        page = await super().read(topic, after, limit)
        return Page(page.records, page.cursor, page.head)


def engine_with(log: type[MemoryLog]) -> MemoryEngine:
    engine = MemoryEngine()
    engine.log = log(Retention())
    engine.leases._log = engine.log
    return engine


def careless() -> MemoryEngine:
    """Swaps a run whatever it is now."""
    engine = MemoryEngine()

    async def swap_run(topic: Topic, old: RunRecord, new: RunRecord) -> bool:
        await engine.threads.put_run(topic, new)
        return True

    engine.threads.swap_run = swap_run  # type: ignore[method-assign]
    return engine


@pytest.mark.parametrize("check", checks_for(shared=False, durable=False), ids=str)
async def test_an_engine_of_a_users_own_passes(check: EngineCheck) -> None:
    await check.run(OwnEngine)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: engine_with(Unfenced), "a lost lease writes nothing"),
        (lambda: engine_with(Silent), "a cursor of another epoch gets a gap"),
        (lambda: engine_with(Silent), "a cursor in the future gets a gap"),
        (careless, "a run's record is swapped only"),
    ],
    ids=["unfenced", "silent about epochs", "silent about the future", "careless"],
)
async def test_a_fault_is_found_by_the_check_that_names_it(make: type[MemoryEngine], name: str) -> None:
    (check,) = (one for one in ENGINE_CHECKS if one.name.startswith(name))

    with pytest.raises(AssertionError):
        await check.run(make)
