"""The hub: places, shared bytes, signs of life, drains. Its connections are doubles."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

import anyio
import pytest
from readers import follow, ids

from agentkit.log import EARLIEST, NOW, Cursor, Draft, Gap, Record, Topic
from agentkit_transports.encoder import PROTOCOLS, View
from agentkit_transports.hub import Hub, HubSettings
from agentkit_transports.protocols.native import NativeSSE

pytestmark = pytest.mark.anyio

MakeDraft = Callable[..., Draft]
Settled = Callable[..., Awaitable[None]]
Eventually = Callable[[Callable[[], bool]], Awaitable[None]]


@pytest.mark.parametrize(
    ("cursor", "after", "gap", "begins", "resumed"),
    [
        pytest.param(NOW, "E-10", None, "E-10", False, id="now"),
        pytest.param(EARLIEST, "E-0", Gap("trimmed", 1, 4), "E-4", False, id="earliest, trimmed"),
        pytest.param(Cursor("E", 7), "E-7", None, "E-7", True, id="in the ring"),
        pytest.param(Cursor("E", 5), "E-5", None, "E-5", True, id="in the store"),
        pytest.param(Cursor("E", 10), "E-10", None, "E-10", True, id="at the end"),
        pytest.param(Cursor("E", 2), "E-2", Gap("trimmed", 3, 4), "E-4", False, id="trimmed"),
        pytest.param(Cursor("E", 99), "E-10", Gap("future", 11, 99), "E-10", False, id="future"),
        pytest.param(Cursor("X", 3), "E-0", Gap("epoch", 0, 4), "E-4", False, id="other epoch"),
    ],
)
async def test_any_cursor_has_a_place(
    hub: Hub,
    log: Any,
    topic: Topic,
    make_draft: MakeDraft,
    cursor: Cursor,
    after: str,
    gap: Gap | None,
    begins: str,
    resumed: bool,
) -> None:
    log.ring = 4
    log.put(*[make_draft() for _ in range(10)])
    log.forget(5)

    start = await hub.locate(topic, cursor)

    assert hub.stats.gaps == (gap is not None)
    assert (start.after.id, start.gap, start.cursor.id, start.resumed, start.head) == (
        after,
        gap,
        begins,
        resumed,
        10,
    )


async def test_many_readers_share_bytes_made_once_and_get_one_write_a_turn(
    hub: Hub, log: Any, topic: Topic, make_draft: MakeDraft, make_outlet: Any, settled: Settled
) -> None:
    outlets = [make_outlet() for _ in range(100)]
    readers = [(await follow(hub, topic, outlet))[0] for outlet in outlets]
    tasks = len(asyncio.all_tasks())

    for burst in (1, 16, 3):
        log.put(*[make_draft(text=f"{burst}") for _ in range(burst)])
        log.put(make_draft(text="same turn"))
        await settled()

    assert hub.stats.encoded == 23
    assert [len(outlet.writes) for outlet in outlets] == [3] * 100
    assert all(outlet.batches[1] is outlets[0].batches[1] for outlet in outlets)
    assert ids(outlets[0].data) == [f"E-{seq}" for seq in range(1, 24)]
    assert all(outlet.sends == 0 for outlet in outlets)
    assert len(asyncio.all_tasks()) == tasks
    for reader in readers:
        reader.close()


async def test_a_filtered_reader_is_told_its_place_within_one_interval(
    hub: Hub, log: Any, topic: Topic, make_outlet: Any
) -> None:
    interval = hub.settings.heartbeat
    now = asyncio.get_running_loop().time()
    waits = []
    for number in range(200):
        view = View(types=("image",)) if number % 2 else View()
        reader, _ = await follow(hub, topic, make_outlet(), view=view)
        waits.append((view.is_filtered, reader.due * interval / 32 - now))
        reader.close()

    assert max(wait for filtered, wait in waits if filtered) <= interval
    assert interval < max(wait for filtered, wait in waits if not filtered) <= 1.2 * interval
    assert min(wait for _, wait in waits) >= 0.8 * interval


async def test_readers_that_come_and_go_while_nothing_happens_are_forgotten(
    hub: Hub, log: Any, topic: Topic, make_outlet: Any, settled: Settled
) -> None:
    stays, _ = await follow(hub, topic, make_outlet(is_direct=False))
    for _ in range(50):
        reader, _ = await follow(hub, topic, make_outlet(is_direct=False))
        await settled(3)
        reader.close()
        await reader.join()

    assert list(stays._group.waiting) == [stays]
    assert stays._group.readers == {stays}
    stays.close()


async def test_a_burst_is_sent_in_batches_of_64_kib_one_a_turn(
    hub: Hub, log: Any, topic: Topic, make_draft: MakeDraft, make_outlet: Any, settled: Settled
) -> None:
    outlet = make_outlet()
    reader, _ = await follow(hub, topic, outlet)

    log.put(*[make_draft(text="y" * 10_000) for _ in range(30)])
    await settled()

    assert ids(outlet.data) == [f"E-{seq}" for seq in range(1, 31)]
    assert max(len(write) for write in outlet.writes) <= 64 * 1024
    assert len(outlet.writes) == 5
    assert len(set(outlet.ticks)) == 5
    assert outlet.sends == 0
    reader.close()


async def test_a_record_larger_than_a_batch_is_sent_alone(
    hub: Hub, log: Any, topic: Topic, make_draft: MakeDraft, make_outlet: Any, settled: Settled
) -> None:
    outlet = make_outlet()
    reader, _ = await follow(hub, topic, outlet)

    log.put(make_draft(), make_draft(text="y" * 70_000), make_draft())
    await settled()

    assert [ids(write) for write in outlet.writes] == [["E-1"], ["E-2"], ["E-3"]]
    reader.close()


async def test_readers_in_slices_all_get_everything(
    log: Any, topic: Topic, make_draft: MakeDraft, make_outlet: Any, settled: Settled
) -> None:
    hub = Hub(log, settings=HubSettings(slice_size=3))
    outlets = [make_outlet() for _ in range(10)]
    readers = [(await follow(hub, topic, outlet))[0] for outlet in outlets]

    for _ in range(6):
        log.put(make_draft())
        await settled(1)
    await settled()

    assert [ids(outlet.data) for outlet in outlets] == [[f"E-{seq}" for seq in range(1, 7)]] * 10
    for reader in readers:
        reader.close()
    assert hub.is_idle


async def test_signs_of_life_come_to_every_reader_and_say_where_filtered_ones_are(
    log: Any, topic: Topic, make_draft: MakeDraft, make_outlet: Any, settled: Settled, eventually: Eventually
) -> None:
    hub = Hub(log, settings=HubSettings(heartbeat=0.05))
    plain, awaited, filtered, socket = (
        make_outlet(),
        make_outlet(is_direct=False),
        make_outlet(),
        make_outlet(),
    )
    readers = [
        (await follow(hub, topic, plain))[0],
        (await follow(hub, topic, awaited))[0],
        (await follow(hub, topic, filtered, view=View(types=("image",))))[0],
        (await follow(hub, topic, socket, view=View("native.socket")))[0],
    ]
    tasks = len(asyncio.all_tasks())
    log.put(make_draft())

    await eventually(lambda: all(one.data.count(b":\n\n") >= 2 for one in (plain, awaited, filtered)))

    assert ids(filtered.data) == ["E-1"]
    assert b"stream.position" in filtered.data
    assert len(socket.writes) == 1
    assert len(asyncio.all_tasks()) == tasks
    for reader in readers:
        reader.close()
    await settled()
    assert hub.is_idle


async def test_a_reader_that_cannot_take_a_sign_of_life_is_left_in_peace(
    log: Any, topic: Topic, make_outlet: Any, settled: Settled
) -> None:
    hub = Hub(log, settings=HubSettings(heartbeat=0.02))
    outlet = make_outlet(is_open=False)
    reader, ends = await follow(hub, topic, outlet)

    await asyncio.sleep(0.1)

    assert (outlet.writes, ends.reasons, hub.stats.tasks) == ([], [], 0)
    reader.close()


async def test_views_do_not_share_and_only_a_few_keep_their_frames(
    log: Any, topic: Topic, make_draft: MakeDraft, make_outlet: Any, settled: Settled
) -> None:
    hub = Hub(log, settings=HubSettings(cached_views=2))
    views = [View(), View(named=False), View(types=("text",))]
    readers = [(await follow(hub, topic, make_outlet(), view=view))[0] for view in views for _ in range(2)]
    log.put(*[make_draft() for _ in range(5)])
    await settled()
    assert hub.stats.encoded == 15

    late = [(await follow(hub, topic, make_outlet(), Cursor("E", 2), view))[0] for view in views]
    await settled()

    assert hub.stats.encoded == 15 + 3
    for reader in readers + late:
        reader.close()


async def test_an_encoder_that_breaks_ends_its_own_readers_only(
    hub: Hub,
    log: Any,
    topic: Topic,
    make_draft: MakeDraft,
    make_outlet: Any,
    settled: Settled,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Broken(NativeSSE):
        def step(self, state: object, record: Record) -> tuple[object, bytes]:
            raise ZeroDivisionError

    monkeypatch.setitem(PROTOCOLS, "broken", lambda _topic, _view: Broken())
    good = make_outlet()
    reader, _ = await follow(hub, topic, good)
    _, live_ends = await follow(hub, topic, make_outlet(), view=View("broken"))
    _, other_ends = await follow(hub, topic, make_outlet(), view=View("broken"))
    _, pumped_ends = await follow(hub, topic, make_outlet(is_direct=False), view=View("broken"))
    await settled()

    log.put(make_draft())
    await settled()

    assert ids(good.data) == ["E-1"]
    assert live_ends.reasons == other_ends.reasons == pumped_ends.reasons == ["failed"]
    reader.close()


class Connection:
    """Goes when it is told, or does not."""

    transport: ClassVar[str] = "sse"

    def __init__(self, hub: Hub, *, is_polite: bool = True) -> None:
        self.hub = hub
        self.is_polite = is_polite
        self.heard: list[str] = []
        hub.add(self)

    def farewell(self) -> None:
        self.heard.append("farewell")
        if self.is_polite:
            self.hub.remove(self)

    def abort(self) -> None:
        self.heard.append("abort")
        self.hub.remove(self)


async def test_a_drain_says_farewell_to_all_and_aborts_who_does_not_go(hub: Hub) -> None:
    polite = [Connection(hub) for _ in range(5)]
    deaf = Connection(hub, is_polite=False)

    with anyio.fail_after(20):
        aborted = await hub.drain(grace=0.05, batch=2)

    assert aborted == 1
    assert [one.heard for one in polite] == [["farewell"]] * 5
    assert deaf.heard == ["farewell", "abort"]
    assert hub.is_draining
    assert hub.connections == 0


async def test_a_drain_without_connections_ends_at_once(hub: Hub) -> None:
    with anyio.fail_after(1):
        assert await hub.drain(grace=60) == 0
