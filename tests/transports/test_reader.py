"""A reader: catching up, losses, filters, runs, slow clients. Its connection is a double."""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import anyio
import pytest
from readers import Ends, follow, ids, names

from agentkit.envelope import draft_all
from agentkit.errors import EngineError
from agentkit.events import TextDelta
from agentkit.log import EARLIEST, NOW, Cursor, Draft, Gap, Record, Topic
from agentkit.sse import SSEDecoder
from agentkit_transports.encoder import PROTOCOLS, View
from agentkit_transports.hub import Hub, HubSettings

pytestmark = pytest.mark.anyio

MakeDraft = Callable[..., Draft]
Settled = Callable[..., Awaitable[None]]
Eventually = Callable[[Callable[[], bool]], Awaitable[None]]


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
    with anyio.fail_after(20):
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


async def test_a_replay_gives_the_loop_its_turns(
    hub: Hub, log: Any, topic: Topic, make_draft: MakeDraft, make_outlet: Any, settled: Settled
) -> None:
    log.ring = 100_000
    log.put(*[make_draft() for _ in range(10_000)])
    outlet = make_outlet(is_direct=False)

    reader, _ = await follow(hub, topic, outlet, EARLIEST)
    with anyio.fail_after(20):
        while reader.seq < 10_000:
            await settled(1)

    assert len(set(outlet.ticks)) >= 10_000 // HubSettings().page_size
    reader.close()


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

    with anyio.fail_after(20):
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


class Counting:
    """A protocol that folds: each record's bytes say how many came before it in its run."""

    folds = True

    def __init__(self, steps: list[int]) -> None:
        self._steps = steps
        self.last = -1
        """After so many records its feed ends, whatever the run does."""

    def start(self) -> object:
        return 0

    def step(self, state: object, record: Record) -> tuple[object, bytes]:
        assert isinstance(state, int)
        self._steps.append(record.seq)
        return state + 1, b"%d:%d " % (record.seq, state)

    def is_over(self, state: object) -> bool:
        return state == self.last

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


async def test_a_fold_that_begins_with_its_run_reads_nothing_that_was_before(
    hub: Hub,
    log: Any,
    topic: Topic,
    make_draft: MakeDraft,
    make_outlet: Any,
    settled: Settled,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(PROTOCOLS, "counting", lambda _topic, _view: Counting([]))
    log.put(*[make_draft(run="r0") for _ in range(5)])
    start = replace(await hub.locate(topic, NOW), is_beginning=True)
    outlet, ends = make_outlet(), Ends()
    hub.attach(start, View("counting", run="r1"), outlet, ends)

    log.put(make_draft(), make_draft("run.finished", terminal=True))
    await settled(60)

    assert (outlet.data, ends.reasons, log.reads) == (b"6:0 7:1 end", ["ended"], [])


async def test_a_protocol_may_end_its_feed_before_the_run_has_ended(
    hub: Hub,
    log: Any,
    topic: Topic,
    make_draft: MakeDraft,
    make_outlet: Any,
    settled: Settled,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counting = Counting([])
    counting.last = 2
    monkeypatch.setitem(PROTOCOLS, "counting", lambda _topic, _view: counting)
    outlets = [make_outlet(is_direct=direct) for direct in (True, False)]
    ends = [(await follow(hub, topic, outlet, EARLIEST, View("counting", run="r1")))[1] for outlet in outlets]

    log.put(make_draft(), make_draft(), make_draft())
    await settled(60)

    assert [outlet.data for outlet in outlets] == [b"1:0 2:1 end"] * 2
    assert [one.reasons for one in ends] == [["ended"]] * 2


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


@pytest.mark.parametrize("ring", [100, 100_000], ids=["from the log", "from the ring"])
@pytest.mark.parametrize("protocol", ["native", "native.socket"])
async def test_who_joins_ten_thousand_deltas_and_asks_for_it_gets_few_frames(
    log: Any,
    topic: Topic,
    make_draft: MakeDraft,
    make_outlet: Any,
    settled: Settled,
    protocol: str,
    ring: int,
) -> None:
    log.ring = ring
    events = [TextDelta("r1", 1, 1.5e9, "r1.1.0", f"{n} ") for n in range(10_000)]
    log.put(*draft_all(topic, events), make_draft("run.finished", terminal=True))
    hub, plain = Hub(log), Hub(log)
    merged, single = make_outlet(), make_outlet()

    _, ends = await follow(hub, topic, merged, EARLIEST, View(protocol, run="r1", merge=True), has_ended=True)
    _, others = await follow(plain, topic, single, EARLIEST, View(protocol, run="r1"), has_ended=True)
    await settled(200)

    assert (ends.reasons, others.reasons) == (["ended"], ["ended"])
    got = envelopes(merged.data, protocol)
    texts = [
        "".join(one["data"]["text"] for one in all_of[:-1])
        for all_of in (got, envelopes(single.data, protocol))
    ]
    assert texts[0] == texts[1] == "".join(event.text for event in events)
    assert [one["seq"] for one in got[:-1]] == [*range(1024, 10_000, 1024), 10_000]
    assert [one["first"] for one in got[:-1]] == list(range(1, 10_000, 1024))
    assert (hub.stats.encoded, plain.stats.encoded) == (11, 10_001)
    assert merged.sends <= 12
    assert len(merged.data) * 10 < len(single.data)


async def test_who_is_near_the_end_gets_every_delta_also_if_it_allows_merging(
    hub: Hub, log: Any, topic: Topic, make_draft: MakeDraft, make_outlet: Any, settled: Settled
) -> None:
    outlet = make_outlet()
    log.put(*draft_all(topic, [TextDelta("r1", 1, 1.5e9, "r1.1.0", "x")] * 300))
    reader, _ = await follow(hub, topic, outlet, Cursor("E", 44), View(merge=True))

    await settled(5)
    log.put(*draft_all(topic, [TextDelta("r1", 1, 1.5e9, "r1.1.0", "x")] * 256))
    await settled(5)
    reader.close()

    assert ids(outlet.data) == [f"E-{seq}" for seq in range(45, 557)]


async def test_readers_at_one_place_share_merged_bytes_which_are_nobody_elses(
    hub: Hub, log: Any, topic: Topic, make_outlet: Any, settled: Settled
) -> None:
    log.put(*draft_all(topic, [TextDelta("r1", 1, 1.5e9, "r1.1.0", "x")] * 600))
    view = View(merge=True)
    far, also, near = make_outlet(), make_outlet(), make_outlet()
    readers = [
        (await follow(hub, topic, outlet, Cursor("E", seq), view))[0]
        for outlet, seq in ((far, 0), (also, 0), (near, 590))
    ]

    await settled(10)
    for reader in readers:
        reader.close()

    assert far.batches[0] is also.batches[0]
    assert (ids(far.data), ids(near.data)) == (["E-600"], [f"E-{seq}" for seq in range(591, 601)])
    assert hub.stats.encoded == 11


@pytest.mark.parametrize("is_direct", [True, False], ids=["direct", "plain"])
@pytest.mark.parametrize(
    ("protocol", "end"),
    [
        ("native", b'id: D-0\ndata: {"v":1,"type":"stream.end","data":{"reason":"deleted"}}\n\n'),
        ("native.socket", b'{"op":"end","topic":"agents/planner/threads/t1","id":"D-0","reason":"deleted"}'),
    ],
)
async def test_a_deleted_log_ends_its_readers_wherever_they_stand(
    hub: Hub,
    log: Any,
    topic: Topic,
    make_draft: MakeDraft,
    make_outlet: Any,
    settled: Settled,
    protocol: str,
    end: bytes,
    is_direct: bool,
) -> None:
    log.put(*[make_draft() for _ in range(20)])
    views = [View(protocol), View(protocol, run="r1"), View(protocol, types=("image",))]
    outlets = [make_outlet(is_direct=is_direct) for _ in views]
    ends = [
        (await follow(hub, topic, outlet, EARLIEST, view))[1]
        for outlet, view in zip(outlets, views, strict=True)
    ]
    await settled(5)

    await log.delete(topic)
    log.put(make_draft(text="of the next"))
    await settled(10)

    assert [one.reasons for one in ends] == [["ended"]] * 3
    assert [outlet.data.endswith(end) for outlet in outlets] == [True] * 3
    assert not any(b"of the next" in outlet.data for outlet in outlets)
    assert hub.is_idle


async def test_who_comes_back_to_a_deleted_log_begins_with_the_next(
    hub: Hub, log: Any, topic: Topic, make_draft: MakeDraft
) -> None:
    (old,) = log.put(make_draft())
    await log.delete(topic)
    log.put(make_draft())

    start = await hub.locate(topic, Cursor(old.epoch, 1))

    assert (start.after, start.gap, start.resumed) == (Cursor("D", 0), Gap("epoch", 0, 0), False)


def envelopes(data: bytes, protocol: str) -> list[Any]:
    """Every envelope that came."""
    if protocol == "native":
        return [json.loads(event.data) for event in SSEDecoder().feed(data) if event.event]
    decoder = json.JSONDecoder()
    text, found, at = data.decode(), [], 0
    while at < len(text):
        frame, at = decoder.raw_decode(text, at)
        found += frame.get("e", [])
    return found
