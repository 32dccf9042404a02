"""Conformance checks of an engine's log. The table is `engines`."""

import anyio

from agentkit.content import JsonValue, Message
from agentkit.envelope import encode
from agentkit.events import Event
from agentkit.history import RunRecord
from agentkit.log import EARLIEST, NOW, Cursor, Gap
from agentkit.testing.engine_stand import (
    PATIENCE,
    Refused,
    Stand,
    Table,
    finished,
    follow,
    said,
    started,
    take,
    until,
)

CHECKS = Table()


@CHECKS.row("records come back in order, numbered from 1 without holes")
async def _order(stand: Stand) -> None:
    written = [record for word in range(5) for record in await stand.say(word, f"{word} again")]
    page = await stand.all()

    assert [record.seq for record in written] == list(range(1, 11))
    assert list(page.records) == written
    assert (page.cursor, page.head, page.gap) == (Cursor(written[0].epoch, 10), 10, None)


@CHECKS.row("appending nothing gives nothing")
async def _nothing(stand: Stand) -> None:
    assert await stand.say() == []
    assert (await stand.all()).head == 0


@CHECKS.row("a reader goes on from every id, in pages of any size")
async def _resume(stand: Stand) -> None:
    written = await stand.say(*range(30))
    epoch = written[0].epoch
    for seq in range(31):
        page = await stand.all(Cursor(epoch, seq), page=1 + seq % 7)
        assert list(page.records) == written[seq:], f"after {seq}"
        assert page.gap is None


@CHECKS.row("a cursor of another epoch gets a gap, then what there is")
async def _other_epoch(stand: Stand) -> None:
    written = await stand.say("a", "b")
    page = await stand.all(Cursor("0ther", 1))

    assert (page.gap, list(page.records)) == (Gap("epoch", 0, 0), written)


@CHECKS.row("a cursor in the future gets a gap and stands at the end")
async def _future(stand: Stand) -> None:
    (record,) = await stand.say("a")
    page = await stand.all(Cursor(record.epoch, 9))

    assert (page.gap, list(page.records), page.cursor) == (Gap("future", 2, 9), [], Cursor(record.epoch, 1))


@CHECKS.row("`now` is the end, `earliest` the beginning")
async def _now(stand: Stand) -> None:
    written = await stand.say("a", "b")
    now = await stand.engine.log.read(stand.topic, NOW, 10)

    assert (list(now.records), now.cursor, now.gap) == ([], Cursor(written[0].epoch, 2), None)
    assert list((await stand.all(EARLIEST)).records) == written


@CHECKS.row("topics do not mix, whatever their names are")
async def _topics(stand: Stand) -> None:
    topics = [
        stand.topic,
        stand.topic._replace(owner=stand.topic.thread),
        stand.topic._replace(agent="conformance/x", thread=stand.topic.thread),
        stand.topic._replace(thread=stand.topic.thread + "}{*?"),
        stand.topic._replace(thread=stand.topic.thread + "\u2028\u00e9\U0001f600"),
    ]
    for topic in topics:
        stand.topic = topic
        await stand.say(topic.thread)
    for topic in topics:
        stand.topic = topic
        assert [b"said" in record.body for record in (await stand.all()).records] == [True]


@CHECKS.row("a reader that came before the first record gets it, without a gap")
async def _before_first(stand: Stand) -> None:
    tail = await stand.engine.log.tail(stand.topic)
    page = tail.after(EARLIEST, 10)
    assert (tail.head, list(page.records), page.gap) == (0, [], None)
    read = await stand.engine.log.read(stand.topic, NOW, 10)
    assert read.cursor == page.cursor, "read and tail do not agree about an empty topic"
    written = await stand.say("first")

    assert await follow(tail, page.cursor, 1) == written
    assert list((await stand.all(page.cursor)).records) == written


@CHECKS.row("two readers get everything, each at its own pace")
async def _two_readers(stand: Stand) -> None:
    tail = await stand.engine.log.tail(stand.topic)
    start = Cursor(tail.epoch, tail.head)
    got: list[list[int]] = [[], []]

    async def read(number: int) -> None:
        cursor = start
        while len(got[number]) < 40:
            records = await follow(tail, cursor, 1 + number * 3)
            got[number] += [record.seq for record in records]
            cursor = Cursor(tail.epoch, got[number][-1])

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            group.start_soon(read, 0)
            group.start_soon(read, 1)
            for word in range(20):
                await stand.say(word, word)
    assert got == [list(range(1, 41))] * 2


@CHECKS.row("a tail's head and epoch are true when it is given")
async def _tail_is_true(stand: Stand) -> None:
    written = await stand.say("a", "b", "c")
    tail = await stand.engine.log.tail(stand.topic)

    assert (tail.epoch, tail.head) == (written[0].epoch, 3)


@CHECKS.row("a wait that is cancelled leaves nothing behind")
async def _cancelled_wait(stand: Stand) -> None:
    tail = await stand.engine.log.tail(stand.topic)
    with anyio.move_on_after(0.02):
        await follow(tail, Cursor(tail.epoch, tail.head), 1)
    lease = await take(stand, "run_a")
    with anyio.move_on_after(0.05):
        await stand.engine.leases.acquire(stand.topic, "run_b", wait=True)
    await stand.engine.leases.release(lease)
    again = await take(stand, "run_c")
    await stand.engine.leases.release(again)
    written = await stand.say("on")

    assert (await stand.all()).records == written


@CHECKS.row("concurrent appends take turns: each call's records stay together")
async def _concurrent(stand: Stand) -> None:
    async with anyio.create_task_group() as group:
        for writer in range(8):
            for _ in range(5):
                group.start_soon(stand.say, writer, writer, writer)
    bodies = [record.body.split(b'"data":')[1] for record in (await stand.all()).records]

    assert len(bodies) == 120
    assert all(len(set(bodies[place : place + 3])) == 1 for place in range(0, 120, 3))


@CHECKS.row("large records, of every character, come back as they were")
async def _large(stand: Stand) -> None:
    words: list[JsonValue] = [
        "x" * 63 * 1024,
        "\u00e9\u2028\u2029\x85\ufeff\U0001f600\x00\r\n" * 1000,
        "",
        {"\u0000": [None, 1.5]},
    ]
    written = await stand.say(*words)
    page = await stand.all()

    assert list(page.records) == written
    assert [encode(word) in record.body for word, record in zip(words, page.records, strict=True)] == [
        True
    ] * 4


@CHECKS.row("a run ends once: a second end, and anything of it after its end, is refused")
async def _double_end(stand: Stand) -> None:
    await stand.tell([started("run_a"), finished("run_a")])
    late: list[list[Event]] = [
        [finished("run_a")],
        [said("late", "run_a")],
        [started("run_b"), said("x", "run_a")],
    ]
    for events in late:
        with Refused():
            await stand.tell(events)
    with Refused():
        await stand.tell([finished("run_c"), finished("run_c")])
    await stand.tell([started("run_b")])

    page = await stand.all()
    assert [(r.run, r.terminal) for r in page.records] == [
        ("run_a", False),
        ("run_a", True),
        ("run_b", False),
    ]


@CHECKS.row("a lost lease writes nothing: no record, no message, no run")
async def _fencing(stand: Stand) -> None:
    old = await take(stand, "run_a")
    await stand.tell([started("run_a")], fence=old.fence)
    await stand.engine.leases.release(old)
    new = await take(stand, "run_b")
    assert new.fence > old.fence
    threads = stand.engine.threads
    with Refused():
        await stand.tell([said("late", "run_a")], fence=old.fence)
    with Refused():
        await threads.extend(stand.topic, [Message.user("late")], fence=old.fence)
    with Refused():
        await threads.put_run(stand.topic, RunRecord("run_a", "failed", 1.0), fence=old.fence)
    with Refused():
        await stand.engine.leases.renew(old)
    await stand.tell([started("run_b")], fence=new.fence)
    await stand.engine.leases.renew(new)

    assert [record.run for record in (await stand.all()).records] == ["run_a", "run_b"]
    assert (await threads.messages(stand.topic), await threads.runs(stand.topic)) == ([], [])


@CHECKS.row("deleting a log erases it, and its watchers learn it by a new epoch")
async def _delete(stand: Stand) -> None:
    tail = await stand.engine.log.tail(stand.topic)
    (old,) = await stand.say("secret")
    await follow(tail, Cursor(old.epoch, 0), 1)
    await stand.engine.log.delete(stand.topic)
    await until(lambda: tail.epoch != old.epoch, "a watcher did not learn that the log was deleted")
    gone = await stand.all(Cursor(old.epoch, 1))
    (new,) = await stand.say("new")
    again = await stand.all(Cursor(old.epoch, 1))
    stranger = await stand.all(Cursor("0ther", 1))

    assert (list(gone.records), gone.gap) == ([], Gap("deleted", 0, 0))
    assert (list(again.records), again.gap) == ([new], Gap("deleted", 0, 0))
    assert stranger.gap == Gap("epoch", 0, 0)
    assert tail.erased == old.epoch
    assert new.seq == 1
    assert await follow(tail, Cursor(new.epoch, 0), 1) == [new]
    assert list((await stand.all()).records) == [new]


@CHECKS.row("a watcher of a second engine learns that a log was deleted, and follows the next", shared=True)
async def _delete_elsewhere(stand: Stand) -> None:
    second = stand.open()
    (old,) = await stand.say("secret")
    tail = await second.log.tail(stand.topic)
    await stand.engine.log.delete(stand.topic)
    await until(lambda: tail.epoch != old.epoch, "a watcher elsewhere did not learn that the log was deleted")
    page = await second.log.read(stand.topic, Cursor(old.epoch, 1), 10)
    (new,) = await stand.say("new")

    assert (tail.erased, page.gap) == (old.epoch, Gap("deleted", 0, 0))
    assert await follow(tail, Cursor(new.epoch, 0), 1) == [new]


@CHECKS.row("a second engine over the store sees what the first writes, live", shared=True)
async def _shared(stand: Stand) -> None:
    second = stand.open()
    tail = await second.log.tail(stand.topic)
    start = Cursor(tail.epoch, tail.head)
    written = [record for word in range(10) for record in await stand.say(word, word)]

    assert await follow(tail, start, 20) == written
    (own,) = await stand.say("mine", engine=second)
    assert own.seq == 21
    assert await follow(tail, Cursor(own.epoch, 20), 1) == [own]


@CHECKS.row("two engines append to one topic: no number twice, no hole", shared=True)
async def _shared_appends(stand: Stand) -> None:
    second = stand.open()
    tails = [await engine.log.tail(stand.topic) for engine in (stand.engine, second)]
    start = Cursor(tails[0].epoch, 0)

    async def write(number: int) -> None:
        for _ in range(20):
            await stand.say(number, number, engine=(stand.engine, second)[number])

    async with anyio.create_task_group() as group:
        group.start_soon(write, 0)
        group.start_soon(write, 1)
    page = await stand.all()
    assert [record.seq for record in page.records] == list(range(1, 81))
    for tail in tails:
        assert await follow(tail, start, 80) == page.records


@CHECKS.row("what was acknowledged is there after a restart, and numbers go on", durable=True)
async def _restart(stand: Stand) -> None:
    first = stand.open()
    written = await stand.say("a", "b", engine=first)
    await stand.tell([started("run_a"), finished("run_a")], engine=first)
    await first.threads.extend(stand.topic, [Message.user("hello")])
    await first.aclose()
    second = stand.open()
    (later,) = await stand.say("c", engine=second)

    assert (later.epoch, later.seq) == (written[0].epoch, 5)
    assert list((await stand.all(engine=second)).records)[:2] == written
    assert await second.threads.messages(stand.topic) == [Message.user("hello")]
    with Refused():
        await stand.tell([finished("run_a")], engine=second)
