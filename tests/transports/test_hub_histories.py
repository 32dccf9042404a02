"""Random lives of a hub's readers against the log: what each got is the log less the losses that it was told, in order, once."""

import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from agentkit.log import EARLIEST, NOW, Cursor, Draft, Topic
from agentkit.sse import SSEDecoder
from agentkit_transports.encoder import View
from agentkit_transports.hub import Hub, HubSettings, Reader

pytestmark = pytest.mark.anyio

Settled = Callable[..., Awaitable[None]]


class Client:
    """A client that comes back with its cursor, and checks each step."""

    def __init__(self, hub: Hub, topic: Topic, rng: random.Random, make_outlet: Any) -> None:
        self.hub = hub
        self.topic = topic
        self.rng = rng
        self.make_outlet = make_outlet
        self.place = rng.choice([NOW, EARLIEST])
        self.gaps = 0
        self.reader: Reader | None = None
        self.outlet: Any = None
        self.read = 0

    async def connect(self) -> None:
        start = await self.hub.locate(self.topic, self.place)
        if self.place not in (NOW, EARLIEST) and start.cursor != self.place:
            assert start.gap is not None
        self.gaps += start.gap is not None
        self.place = start.cursor
        self.outlet = self.make_outlet(is_direct=self.rng.random() < 0.7)
        self.read = 0
        self.reader = self.hub.attach(start, View(), self.outlet, lambda _: None)

    def look(self) -> None:
        """Check what has come since the last look."""
        fresh = self.outlet.writes[self.read :]
        self.read = len(self.outlet.writes)
        for event in SSEDecoder().feed(b"".join(fresh)):
            assert event.id is not None
            seen = Cursor.parse(event.id)
            if event.event:
                assert seen == Cursor(self.place.epoch, self.place.seq + 1)
            else:
                assert "stream.gap" in event.data
                assert seen.epoch != self.place.epoch or seen.seq > self.place.seq
                self.gaps += 1
            self.place = seen

    def leave(self) -> None:
        self.look()
        assert self.reader is not None
        self.reader.close()
        self.reader = None


async def live(
    seed: int, log: Any, topic: Topic, make_draft: Callable[..., Draft], make_outlet: Any, settled: Settled
) -> int:
    rng = random.Random(seed)
    log.ring = rng.choice([3, 20, 1000])
    hub = Hub(
        log,
        settings=HubSettings(
            page_size=rng.choice([2, 7, 256]), slice_size=rng.choice([1, 3, 512]), heartbeat=300
        ),
    )
    clients = [Client(hub, topic, rng, make_outlet) for _ in range(6)]
    epochs = iter("FGHIJKLMNOPQRSTUVWXYZ")
    for _ in range(120):
        client = rng.choice(clients)
        match rng.randrange(10):
            case 0 | 1 | 2 | 3:
                log.put(*[make_draft(text="y" * rng.choice([1, 30_000])) for _ in range(rng.randrange(1, 9))])
            case 4 | 5 if client.reader is None:
                await client.connect()
            case 6 if client.reader is not None:
                client.leave()
            case 7 if client.reader is not None:
                client.outlet.is_open = False
            case 8 if client.reader is not None:
                client.outlet.open()
            case 9 if rng.random() < 0.3:
                if rng.random() < 0.5:
                    log.restart(next(epochs, "Z"))
                elif log.ring_of().head:
                    log.put(make_draft())
                    log.forget(rng.randrange(1, log.ring_of().head + 1))
            case _:
                pass
        await settled(rng.randrange(4))

    for client in clients:
        if client.reader is None:
            await client.connect()
        client.outlet.open()
    await settled(400)
    log.put(make_draft())
    await settled(400)
    end = Cursor(log.ring_of().epoch, log.ring_of().head)
    for client in clients:
        client.leave()
        assert client.place == end
    await settled()
    assert hub.is_idle
    return sum(client.gaps for client in clients)


@pytest.mark.parametrize("seed", range(8))
async def test_what_a_reader_gets_is_the_log_less_the_losses_it_is_told(
    seed: int, log: Any, topic: Topic, make_draft: Callable[..., Draft], make_outlet: Any, settled: Settled
) -> None:
    await live(seed, log, topic, make_draft, make_outlet, settled)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(100, 300))
async def test_it_holds_for_many_lives(
    seed: int, log: Any, topic: Topic, make_draft: Callable[..., Draft], make_outlet: Any, settled: Settled
) -> None:
    await live(seed, log, topic, make_draft, make_outlet, settled)


async def test_lives_have_losses_in_them(
    make_log: Any, topic: Topic, make_draft: Callable[..., Draft], make_outlet: Any, settled: Settled
) -> None:
    assert (
        sum([await live(seed, make_log(), topic, make_draft, make_outlet, settled) for seed in range(3)]) > 0
    )
