"""One timer for many."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from agentkit_transports.wheel import Wheel

pytestmark = pytest.mark.anyio

Eventually = Callable[[Callable[[], bool]], Awaitable[None]]


class Item:
    def __init__(self) -> None:
        self.due = 0
        self.calls: list[float] = []


async def test_each_item_is_called_in_its_time_and_once(eventually: Eventually) -> None:
    loop = asyncio.get_running_loop()
    called: list[tuple[Item, float]] = []
    wheel: Wheel[Item] = Wheel(0.1, lambda item: called.append((item, loop.time())))
    items = [Item() for _ in range(200)]
    begin = loop.time()
    for item in items:
        wheel.add(item, 0.8, 1.2)

    await eventually(lambda: wheel.is_idle)

    assert sorted(map(id, items)) == sorted(id(item) for item, _ in called)
    assert min(time for _, time in called) >= begin + 0.08
    assert len({time for _, time in called}) > 3


async def test_an_item_that_is_removed_is_not_called_and_the_timer_goes_with_the_last(
    eventually: Eventually,
) -> None:
    called: list[Item] = []
    wheel: Wheel[Item] = Wheel(0.02, called.append)
    gone, stays = Item(), Item()
    wheel.add(gone, 0.8, 1.2)
    wheel.add(stays, 0.8, 1.2)

    wheel.remove(gone)
    wheel.remove(gone)
    await eventually(lambda: wheel.is_idle)

    assert called == [stays]
    wheel.add(gone, 0.8, 1.2)
    wheel.remove(gone)
    assert wheel.is_idle


async def test_an_item_may_add_itself_again_and_remove_others_in_its_call(eventually: Eventually) -> None:
    first, other = Item(), Item()

    def fire(item: Item) -> None:
        item.calls.append(0.0)
        wheel.remove(other)
        if len(item.calls) < 3:
            wheel.add(item, 0.8, 1.2)

    wheel: Wheel[Item] = Wheel(0.01, fire)
    wheel.add(first, 0.8, 1.2)
    wheel.add(other, 50.0, 51.0)

    await eventually(lambda: wheel.is_idle)

    assert (len(first.calls), len(other.calls)) == (3, 0)
