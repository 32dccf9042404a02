"""The hub: places, shared bytes, slow readers, drains. Its connections are doubles."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio
import pytest

from agentkit.errors import EngineError
from agentkit.log import EARLIEST, NOW, Cursor, Draft, Gap, Record, Topic
from agentkit.sse import SSEDecoder
from agentkit_transports.encoder import PROTOCOLS, View
from agentkit_transports.hub import Hub, HubSettings, Reader
from agentkit_transports.protocols.native import NativeSSE
from agentkit_transports.reader import EndReason

pytestmark = pytest.mark.anyio

MakeDraft = Callable[..., Draft]
Settled = Callable[..., Awaitable[None]]
Eventually = Callable[[Callable[[], bool]], Awaitable[None]]


class Ends:
    """Remembers why readers ended."""

    def __init__(self) -> None:
        self.reasons: list[EndReason] = []

    def __call__(self, reason: EndReason) -> None:
        self.reasons.append(reason)


async def follow(
    hub: Hub, topic: Topic, outlet: Any, cursor: Cursor = NOW, view: View | None = None, **more: Any
) -> tuple[Reader, Ends]:
    ends = Ends()
    reader = hub.attach(await hub.locate(topic, cursor), view or View(), outlet, ends, **more)
    return reader, ends


def ids(data: bytes) -> list[str]:
    return [event.id or "" for event in SSEDecoder().feed(data)]


def names(data: bytes) -> list[str]:
    return [event.event for event in SSEDecoder().feed(data)]


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
        pytest.param(Cursor("X", 3), "E-0", Gap("epoch", 1, 4), "E-4", False, id="other epoch"),
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


async def test_a_reader_resumed_at_any_place_gets_exactly_the_rest(
    hub: Hub, log: Any, topic: Topic, make_draft: MakeDraft, make_outlet: Any, settled: Settled
) -> None:
    log.ring = 20
    records = log.put(*[make_draft(text=str(number)) for number in range(50)])
    outlets = [make_outlet(is_direct=number % 2 == 0) for number in range(51)]
    readers = [(await follow(hub, topic, outlet, Cursor("E", seq)))[0] for seq, outlet in enumerate(outlets)]

    await settled(5)
    log.put(make_draft(text="live"))
    await settled()

    wanted = [record.id for record in records] + ["E-51"]
    assert [ids(outlet.data) for outlet in outlets] == [wanted[seq:] for seq in range(51)]
    for reader in readers:
        reader.close()


async def test_records_that_come_while_a_reader_replays_are_neither_lost_nor_doubled(
    hub: Hub, log: Any, topic: Topic, make_draft: MakeDraft, make_outlet: Any, settled: Settled
) -> None:
    rng = random.Random(7)
    log.ring = 30
    outlets, readers = [], []
    for _ in range(40):
        log.put(*[make_draft() for _ in range(rng.randrange(12))])
        outlets.append(make_outlet(is_direct=rng.random() < 0.5))
        readers.append((await follow(hub, topic, outlets[-1], EARLIEST))[0])
        await settled(rng.randrange(3))

    await settled(200)

    head = log.ring_of().head
    assert [ids(outlet.data) for outlet in outlets] == [[f"E-{seq}" for seq in range(1, head + 1)]] * 40
    for reader in readers:
        reader.close()


async def test_a_stuck_reader_is_cut_and_the_others_go_on(
    log: Any, topic: Topic, make_draft: MakeDraft, make_outlet: Any, settled: Settled
) -> None:
    hub = Hub(log)
    stuck, good = make_outlet(), make_outlet()
    stuck.timeout = 0.05
    _, stuck_ends = await follow(hub, topic, stuck)
    reader, ends = await follow(hub, topic, good)

    stuck.is_open = False
    with anyio.fail_after(5):
        while not stuck_ends.reasons:
            log.put(make_draft())
            await asyncio.sleep(0.01)

    await settled()
    assert stuck_ends.reasons == ["slow"]
    assert stuck.writes == []
    assert ends.reasons == []
    assert ids(good.data) == [f"E-{seq}" for seq in range(1, log.ring_of().head + 1)]
    assert good.sends == 0
    assert hub.stats.cuts == 1
    reader.close()
    assert hub.is_idle


async def test_a_reader_that_stops_for_a_while_misses_nothing(
    hub: Hub, log: Any, topic: Topic, make_draft: MakeDraft, make_outlet: Any, settled: Settled
) -> None:
    outlet = make_outlet()
    reader, _ = await follow(hub, topic, outlet)

    for number in range(30):
        if number == 10:
            outlet.is_open = False
        if number == 20:
            outlet.open()
            await settled()
        log.put(make_draft())
        await settled(3)

    await settled()
    assert ids(outlet.data) == [f"E-{seq}" for seq in range(1, 31)]
    assert outlet.sends > 0
    assert reader.is_live
    reader.close()


async def test_a_reader_behind_the_log_is_told_the_gap_before_the_records(
    hub: Hub, log: Any, topic: Topic, make_draft: MakeDraft, make_outlet: Any, settled: Settled
) -> None:
    outlet = make_outlet()
    reader, _ = await follow(hub, topic, outlet)
    outlet.is_open = False
    log.put(make_draft())
    await settled()

    log.put(*[make_draft() for _ in range(9)])
    log.forget(8)
    outlet.open()
    await settled()

    # the first batch was made before the loss, so it is whole
    events = SSEDecoder().feed(outlet.data)
    assert [(event.event, event.id) for event in events] == [
        ("text.delta", "E-1"),
        ("", "E-7"),
        ("text.delta", "E-8"),
        ("text.delta", "E-9"),
        ("text.delta", "E-10"),
    ]
    assert events[1].data == '{"v":1,"type":"stream.gap","data":{"from":2,"to":7,"reason":"trimmed"}}'
    reader.close()


@pytest.mark.parametrize("is_direct", [True, False], ids=["direct", "awaited"])
async def test_an_epoch_that_changes_under_a_live_reader_is_a_gap(
    hub: Hub,
    log: Any,
    topic: Topic,
    make_draft: MakeDraft,
    make_outlet: Any,
    settled: Settled,
    is_direct: bool,
) -> None:
    outlet = make_outlet(is_direct=is_direct)
    reader, _ = await follow(hub, topic, outlet)
    log.put(make_draft(), make_draft())
    await settled()

    log.restart("F")
    log.put(make_draft(), make_draft(), make_draft())
    await settled()

    assert ids(outlet.data) == ["E-1", "E-2", "F-0", "F-1", "F-2", "F-3"]
    reader.close()


@pytest.mark.parametrize("is_direct", [True, False], ids=["direct", "awaited"])
async def test_a_run_feed_ends_with_its_run(
    hub: Hub,
    log: Any,
    topic: Topic,
    make_draft: MakeDraft,
    make_outlet: Any,
    settled: Settled,
    is_direct: bool,
) -> None:
    outlet = make_outlet(is_direct=is_direct)
    reader, ends = await follow(hub, topic, outlet, view=View(run="r1", types=("text",)))

    log.put(
        make_draft(run="r0"), make_draft(), make_draft("run.finished", run="r0", terminal=True), make_draft()
    )
    await settled()
    log.put(make_draft("run.finished", terminal=True), make_draft(run="r2"))
    await settled()

    assert [(event.event, event.id) for event in SSEDecoder().feed(outlet.data)] == [
        ("text.delta", "E-2"),
        ("text.delta", "E-4"),
        ("", "E-5"),
    ]
    assert ends.reasons == ["ended"]
    assert reader.is_closed


async def test_a_feed_of_a_run_that_is_over_ends_at_the_logs_end(
    hub: Hub, log: Any, topic: Topic, make_draft: MakeDraft, make_outlet: Any, settled: Settled
) -> None:
    log.put(make_draft(), make_draft("run.finished", terminal=True), make_draft(run="r2"))
    outlet = make_outlet()

    _, ends = await follow(hub, topic, outlet, NOW, View(run="r1"), has_ended=True)
    await settled()

    assert ids(outlet.data) == ["E-3"]
    assert b"stream.end" in outlet.data
    assert ends.reasons == ["ended"]


@pytest.mark.parametrize("is_direct", [True, False], ids=["direct", "awaited"])
async def test_a_record_that_a_filtered_reader_sees_tells_its_place_too(
    hub: Hub,
    log: Any,
    topic: Topic,
    make_draft: MakeDraft,
    make_outlet: Any,
    settled: Settled,
    is_direct: bool,
) -> None:
    outlet = make_outlet(is_direct=is_direct)
    reader, _ = await follow(hub, topic, outlet, view=View(types=("image",)))

    for count in (300, 300, 201):
        log.put(*[make_draft() for _ in range(count)])
        await settled()
        log.put(make_draft("image"))
        await settled()
    log.put(*[make_draft() for _ in range(499)])
    await settled()

    assert ids(outlet.data) == ["E-301", "E-602", "E-804"]
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


@pytest.mark.parametrize("is_direct", [True, False], ids=["direct", "awaited"])
async def test_a_filtered_reader_is_told_its_place_every_500_records(
    hub: Hub,
    log: Any,
    topic: Topic,
    make_draft: MakeDraft,
    make_outlet: Any,
    settled: Settled,
    is_direct: bool,
) -> None:
    outlet = make_outlet(is_direct=is_direct)
    reader, _ = await follow(hub, topic, outlet, view=View(types=("reasoning",)))

    for _ in range(1100):
        log.put(make_draft())
        await settled(2)
    log.put(make_draft("reasoning", kind="delta"))
    await settled()

    assert ids(outlet.data) == ["E-500", "E-1000", "E-1101"]
    assert names(outlet.data) == ["", "", "reasoning"]
    reader.close()


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


async def test_a_replay_gives_the_loop_its_turns(
    hub: Hub, log: Any, topic: Topic, make_draft: MakeDraft, make_outlet: Any, settled: Settled
) -> None:
    log.ring = 100_000
    log.put(*[make_draft() for _ in range(10_000)])
    outlet = make_outlet(is_direct=False)

    reader, _ = await follow(hub, topic, outlet, EARLIEST)
    with anyio.fail_after(5):
        while reader.seq < 10_000:
            await settled(1)

    assert len(set(outlet.ticks)) >= 10_000 // HubSettings().page_size
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


async def test_a_client_that_left_ends_its_reader_only(
    hub: Hub, log: Any, topic: Topic, make_draft: MakeDraft, make_outlet: Any, settled: Settled
) -> None:
    gone, broken, good = make_outlet(), make_outlet(), make_outlet()
    gone.error, broken.error = ConnectionResetError("left"), RuntimeError("a fault of the server")
    _, gone_ends = await follow(hub, topic, gone)
    _, broken_ends = await follow(hub, topic, broken)
    reader, _ = await follow(hub, topic, good)

    log.put(make_draft())
    await settled()

    assert (gone_ends.reasons, broken_ends.reasons) == (["gone"], ["gone"])
    assert ids(good.data) == ["E-1"]
    reader.close()


async def test_a_log_that_cannot_be_read_ends_the_reader(
    hub: Hub, log: Any, topic: Topic, make_draft: MakeDraft, make_outlet: Any, settled: Settled
) -> None:
    log.ring = 2
    log.put(*[make_draft() for _ in range(10)])
    start = await hub.locate(topic, Cursor("E", 3))
    log.error = EngineError("no disk")
    ends = Ends()

    hub.attach(start, View(), make_outlet(), ends)
    await settled()

    assert ends.reasons == ["failed"]


async def test_a_reader_that_falls_further_and_further_behind_is_cut(
    log: Any, topic: Topic, make_draft: MakeDraft, make_outlet: Any, settled: Settled
) -> None:
    hub = Hub(log, settings=HubSettings(lag_records=100, lag_timeout=0.05, page_size=5))
    outlet = make_outlet(is_direct=False)
    _, ends = await follow(hub, topic, outlet)

    with anyio.fail_after(5):
        while not ends.reasons:
            log.put(*[make_draft() for _ in range(10)])
            await asyncio.sleep(0)

    assert ends.reasons == ["slow"]
    assert hub.is_idle


async def test_a_long_replay_that_comes_nearer_is_not_cut(
    log: Any, topic: Topic, make_draft: MakeDraft, make_outlet: Any, eventually: Eventually
) -> None:
    log.ring = 100_000
    log.put(*[make_draft() for _ in range(2_000)])
    hub = Hub(log, settings=HubSettings(lag_records=1, lag_timeout=0.0, page_size=5))
    outlet = make_outlet(is_direct=False)

    reader, ends = await follow(hub, topic, outlet, EARLIEST)
    await eventually(lambda: reader.seq == 2_000)

    assert ends.reasons == []
    reader.close()


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


class Counting:
    """A protocol that folds: each record's bytes say how many came before it in its run."""

    folds = True

    def __init__(self, steps: list[int]) -> None:
        self._steps = steps

    def start(self) -> object:
        return 0

    def step(self, state: object, record: Record) -> tuple[object, bytes]:
        assert isinstance(state, int)
        self._steps.append(record.seq)
        return state + 1, b"%d:%d " % (record.seq, state)

    def join(self, frames: Sequence[bytes]) -> bytes:
        return b"".join(frames)

    def hello(self, after: Cursor, head: int, *, resumed: bool, retry_ms: int) -> bytes:
        return b""

    def gap(self, gap: Gap, after: Cursor) -> bytes:
        return b"gap "

    def position(self, cursor: Cursor) -> bytes:
        return b""

    def end(self, cursor: Cursor) -> bytes:
        return b"end"

    def closing(self, retry_ms: int) -> bytes:
        return b""

    def beat(self) -> bytes:
        return b"beat "


async def test_a_protocol_that_folds_is_resumed_in_the_middle_of_its_run(
    hub: Hub,
    log: Any,
    topic: Topic,
    make_draft: MakeDraft,
    make_outlet: Any,
    settled: Settled,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps: list[int] = []
    monkeypatch.setitem(PROTOCOLS, "counting", lambda _topic, _view: Counting(steps))
    view = View("counting", run="r1")
    log.put(make_draft(run="r0"), make_draft(), make_draft(), make_draft(run="r2"), make_draft())
    outlets = {seq: make_outlet(is_direct=seq % 2 == 0) for seq in range(6)}
    ends = [(await follow(hub, topic, outlet, Cursor("E", seq), view))[1] for seq, outlet in outlets.items()]
    await settled(60)

    steps.clear()
    log.put(make_draft(), make_draft("run.finished", terminal=True))
    await settled(60)

    whole = b"2:0 3:1 5:2 6:3 7:4 end"
    assert {seq: outlet.data for seq, outlet in outlets.items()} == {
        seq: whole[whole.index(b"%d:" % (6 if seq == 5 else max(2, seq + 1 + (seq == 3)))) :]
        for seq in range(6)
    }
    assert steps == [6, 7]
    assert [one.reasons for one in ends] == [["ended"]] * 6


async def test_a_protocol_without_positions_still_shows_signs_of_life(
    log: Any,
    topic: Topic,
    make_draft: MakeDraft,
    make_outlet: Any,
    eventually: Eventually,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(PROTOCOLS, "counting", lambda _topic, _view: Counting([]))
    hub = Hub(log, settings=HubSettings(heartbeat=0.03))
    outlet = make_outlet()
    reader, _ = await follow(hub, topic, outlet, view=View("counting", run="r1"))
    log.put(make_draft(run="r0"))

    await eventually(lambda: outlet.data.startswith(b"beat "))

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

    with anyio.fail_after(5):
        aborted = await hub.drain(grace=0.05, batch=2)

    assert aborted == 1
    assert [one.heard for one in polite] == [["farewell"]] * 5
    assert deaf.heard == ["farewell", "abort"]
    assert hub.is_draining
    assert hub.connections == 0


async def test_a_drain_without_connections_ends_at_once(hub: Hub) -> None:
    with anyio.fail_after(1):
        assert await hub.drain(grace=60) == 0
