"""A view's bytes: encoded once, joined once, kept within bounds."""

import json
import random

import pytest

from agentkit.log import Cursor, Page, Record, Tail, Topic
from agentkit_transports.encoder import PROTOCOLS, View
from agentkit_transports.frames import Frames, before
from agentkit_transports.settings import HubSettings, HubStats

pytestmark = pytest.mark.pure

TOPIC = Topic("", "a", "t")


def record(
    seq: int, *, name: str = "text.delta", size: int = 10, run: str = "r1", terminal: bool = False
) -> Record:
    return Record(
        "E", seq, name, "", run, "", 0.0, json.dumps({"type": name, "text": "x" * size}).encode(), terminal
    )


def frames_of(
    tail: Tail, view: View | None = None, *, is_cached: bool = True, **bounds: int
) -> tuple[Frames, HubStats]:
    view = view or View()
    stats = HubStats()
    encoder = PROTOCOLS[view.protocol](TOPIC, view)
    return Frames(view, encoder, tail, HubSettings(**bounds), stats, is_cached=is_cached), stats  # type: ignore[arg-type]  # ints only


def test_readers_at_one_place_get_one_batch() -> None:
    tail = Tail("E")
    tail.append([record(1), record(2)])
    frames, stats = frames_of(tail)

    batch = frames.batch(0, ())

    assert batch is not None
    assert (batch.seq, batch.told, batch.is_last) == (2, 2, False)
    assert frames.batch(0, ()) is batch
    assert frames.batch(2, ()) is None
    assert stats.encoded == 2


def test_records_are_encoded_once_wherever_readers_stand() -> None:
    tail = Tail("E")
    frames, stats = frames_of(tail)
    for seq in range(1, 21):
        tail.append([record(seq)])
        for place in range(seq):
            frames.batch(place, ())

    assert stats.encoded == 20


def test_what_the_ring_forgets_is_forgotten() -> None:
    tail = Tail("E")
    frames, stats = frames_of(tail)
    for seq in range(1, 101):
        tail.append([record(seq)])
        tail.trim(seq - 4)
        frames.batch(seq - 1, ())

    assert len(frames._cache) <= 5
    assert stats.encoded == 100


def test_a_cache_has_its_bound_and_may_be_none() -> None:
    tail = Tail("E")
    tail.append([record(seq, size=1000) for seq in range(1, 101)])
    small, _ = frames_of(tail, cache_size=10_000)
    none, stats = frames_of(tail, is_cached=False)

    for place in range(0, 100, 7):
        small.batch(place, ())
        none.batch(place, ())

    assert sum(len(frame) for _, frame in small._cache.values()) <= 10_000
    assert small._cached == sum(len(frame) for _, frame in small._cache.values())
    assert none._cache == {}
    assert stats.encoded > 100


def test_readers_behind_go_on_with_the_same_bytes_each_at_its_own_pace() -> None:
    tail = Tail("E")
    frames, stats = frames_of(tail)
    frames.crowd = 10
    rng = random.Random(5)
    places, joined, taken = [0] * 10, {}, 0
    for first in range(1, 6001, 600):
        tail.append([record(seq, size=200) for seq in range(first, first + 600)])
        for _ in range(40):
            reader = rng.randrange(10)
            batch = frames.batch(places[reader], ())
            if batch is not None:
                places[reader] = batch.seq
                joined[id(batch)] = batch
                taken += 1

    assert stats.encoded == max(places)
    assert len(joined) < taken / 3
    frames.settle()
    assert not frames._full
    assert frames._full_size == 0


def test_what_is_kept_for_readers_behind_has_its_bound() -> None:
    tail = Tail("E")
    tail.append([record(seq, size=1000) for seq in range(1, 301)])
    frames, _ = frames_of(tail, batch_size=20_000, shared_size=100_000)
    sizes = []
    for frames.crowd in (1, 3, 50):
        place = 0
        while (batch := frames.batch(place, ())) is not None:
            place = batch.seq
        sizes.append(frames._full_size)

    assert sizes[0] <= 20_000 < sizes[1] <= 60_000 < sizes[2] <= 100_000


def test_a_new_epoch_has_new_bytes() -> None:
    tail = Tail("E")
    tail.append([record(1)])
    frames, _ = frames_of(tail)
    old = frames.batch(0, ())

    tail.reset("F")
    tail.append([Record("F", 1, "text.delta", "", "r1", "", 0.0, b'{"new":1}')])
    new = frames.batch(0, ())

    assert old is not None
    assert new is not None
    assert b'"id":"F-1","seq":1,"new":1}' in new.data


@pytest.mark.parametrize("protocol", ["native", "native.socket"])
@pytest.mark.parametrize("size", [10, 333, 9000])
def test_batches_stay_within_their_size(protocol: str, size: int) -> None:
    tail = Tail("E")
    tail.append([record(seq, size=size) for seq in range(1, 300)])
    frames, _ = frames_of(tail, View(protocol), batch_size=20_000)

    place, sizes = 0, []
    while (batch := frames.batch(place, ())) is not None:
        sizes.append(len(batch.data))
        place = batch.seq

    assert place == 299
    assert max(sizes) <= 20_000


def test_records_that_are_not_admitted_move_the_place_only() -> None:
    tail = Tail("E")
    tail.append([record(1, name="image"), record(2), record(3, name="image")])
    frames, stats = frames_of(tail, View(types=("text",)))

    batch = frames.batch(0, ())

    assert batch is not None
    assert (batch.seq, batch.told) == (3, 2)
    assert frames.batch(2, ()) is not None
    assert stats.encoded == 1


def test_nothing_comes_behind_the_end_of_the_views_run() -> None:
    tail = Tail("E")
    tail.append([record(1, run="r0", terminal=True), record(2), record(3, terminal=True), record(4)])
    frames, _ = frames_of(tail, View(run="r1"))

    batch = frames.batch(0, ())

    assert batch is not None
    assert (batch.seq, batch.told, batch.is_last) == (3, 3, True)


def test_the_place_before_a_page_is_behind_its_gap() -> None:
    assert before(Page([record(8), record(9)], Cursor("E", 9), 9)) == Cursor("E", 7)
    assert before(Page((), Cursor("E", 9), 9)) == Cursor("E", 9)


def test_what_is_merged_and_does_not_fit_is_not_merged_again_and_again() -> None:
    tail = Tail("E")
    tail.append(
        [
            Record(
                "E",
                n,
                "text.delta",
                "",
                "r",
                "b",
                0.0,
                b'{"time":"T","data":{"text":"%b"}}' % (b"x" * 15_000),
            )
            for n in range(1, 1001)
        ]
    )
    frames, stats = frames_of(tail, View(merge=True))

    place, sizes = 0, []
    while (batch := frames.batch(place, ())) is not None:
        sizes.append(len(batch.data))
        place = batch.seq

    assert place == 1000
    assert max(sizes) <= 64 * 1024
    assert stats.encoded < 1200
