"""Events and queues without weight: the methods that uvicorn calls, as asyncio's have them."""

import asyncio
import sys

import anyio
import pytest

from agentkit_server.light import LightEvent, LightPipeline, LightQueue

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """uvicorn's protocols are asyncio's."""
    return "asyncio"


async def test_an_event_wakes_all_who_wait_and_lets_pass_who_comes_then() -> None:
    event = LightEvent()
    waiting = [asyncio.create_task(event.wait()) for _ in range(3)]
    await asyncio.sleep(0)
    assert not event.is_set()

    event.set()
    event.clear()  # as asyncio's: who waited is woken all the same

    with anyio.fail_after(20):
        await asyncio.gather(*waiting)
        event.set()
        await event.wait()
    assert event.is_set()
    assert event._waiters is None


async def test_a_cancelled_wait_leaves_nothing_behind() -> None:
    event = LightEvent()
    waiting = asyncio.create_task(event.wait())
    await asyncio.sleep(0)

    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    assert event._waiters is None
    event.set()


async def test_a_queue_gives_in_order_also_to_who_waited() -> None:
    queue: LightQueue[int] = LightQueue()
    got = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    assert queue.empty()

    for number in range(3):
        queue.put_nowait(number)

    with anyio.fail_after(20):
        assert [await got, await queue.get(), await queue.get()] == [0, 1, 2]
    assert queue.empty()


async def test_a_cancelled_get_takes_nothing() -> None:
    queue: LightQueue[str] = LightQueue()
    got = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.put_nowait("one")

    got.cancel()
    with pytest.raises(asyncio.CancelledError):
        await got

    with anyio.fail_after(20):
        assert await queue.get() == "one"


def test_a_pipeline_gives_the_oldest_first() -> None:
    pipeline: LightPipeline[int] = LightPipeline()
    for number in range(3):
        pipeline.appendleft(number)

    assert [pipeline.pop() for _ in range(3)] == [0, 1, 2]
    assert not pipeline


async def test_they_are_light() -> None:
    assert sys.getsizeof(asyncio.Event()._waiters) > 500  # what for: were it not so, they could go
    assert sys.getsizeof(LightEvent()) < 100
