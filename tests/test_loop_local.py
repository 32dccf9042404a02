"""Objects that belong to an event loop: one a key, closed with the loop."""

import asyncio
import gc
import weakref

import anyio
import pytest

from agentkit.loop_local import LoopLocal


class Thing:
    def __init__(self) -> None:
        self.closed = False

    async def aclose(self) -> None:
        await anyio.lowlevel.checkpoint()  # closing may wait: its loop must still run
        self.closed = True


@pytest.mark.anyio
async def test_one_object_a_key(anyio_backend: str) -> None:
    things: LoopLocal[Thing] = LoopLocal()

    first, again, other = [await things.get(key, Thing) for key in ("a", "a", "b")]

    assert first is again
    assert first is not other


def test_a_loop_closes_its_own_objects_when_it_ends(anyio_backend: str) -> None:
    things: LoopLocal[Thing] = LoopLocal()

    async def main() -> tuple[Thing, bool]:
        thing = await things.get("a", Thing)
        return thing, thing.closed

    (one, one_then), (two, two_then) = [anyio.run(main, backend=anyio_backend) for _ in range(2)]

    assert one is not two
    assert (one_then, two_then) == (False, False)
    assert (one.closed, two.closed) == (True, True)


def test_objects_are_closed_when_the_loop_ends_with_an_error(anyio_backend: str) -> None:
    things: LoopLocal[Thing] = LoopLocal()
    made: list[Thing] = []

    async def main() -> None:
        made.append(await things.get("a", Thing))
        raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"):
        anyio.run(main, backend=anyio_backend)

    assert made[0].closed


def test_a_loop_that_ended_is_let_go(anyio_backend: str) -> None:
    things: LoopLocal[Thing] = LoopLocal()

    async def main() -> weakref.ref[Thing]:
        return weakref.ref(await things.get("a", Thing))

    reference = anyio.run(main, backend=anyio_backend)
    gc.collect()

    assert reference() is None


def test_a_loop_that_was_closed_by_hand_is_let_go_with_the_next() -> None:
    things: LoopLocal[Thing] = LoopLocal()
    loop = asyncio.new_event_loop()
    reference = weakref.ref(loop.run_until_complete(things.get("a", Thing)))
    loop.close()

    kept = reference() is not None
    asyncio.run(things.get("a", Thing))
    del loop
    gc.collect()

    assert kept
    assert reference() is None
