import asyncio
import logging
from collections.abc import Sequence

import anyio
import pytest

from agentkit import Agent
from agentkit.emitter import CallbackEmitter, Emitter, LogEmitter, NullEmitter, TeeEmitter
from agentkit.engines.memory import MemoryLog
from agentkit.engines.retention import Retention
from agentkit.errors import AppendRejected, EngineError
from agentkit.events import Event, TextDelta
from agentkit.log import EARLIEST, Draft, Record, Topic, is_instant
from agentkit.testing import RecordingEmitter, Say, ScriptedModel, Wait

pytestmark = pytest.mark.anyio

TOPIC = Topic("", "a", "t")


def delta(text: str) -> Event:
    return TextDelta("r", 1, 0.0, "b", text)


class GatedLog(MemoryLog):
    """A log whose appends wait for a gate, and may fail."""

    def __init__(self) -> None:
        super().__init__(Retention())
        self.gate = anyio.Event()
        self.batches: list[int] = []
        self.failure: Exception | None = None

    async def append(
        self, topic: Topic, drafts: Sequence[Draft], *, fence: int | None = None
    ) -> list[Record]:
        self.batches.append(len(drafts))
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        return await super().append(topic, drafts, fence=fence)


async def test_one_writer_appends_all_that_has_gathered() -> None:
    log = GatedLog()
    emitter = LogEmitter(log)
    with anyio.fail_after(20):
        await emitter.emit(TOPIC, [delta("0")])
        await anyio.wait_all_tasks_blocked()
        for number in range(1, 10):
            await emitter.emit(TOPIC, [delta(str(number))])
        log.gate.set()
        await emitter.flush(TOPIC)

    assert log.batches == [1, 9]
    page = await log.read(TOPIC, EARLIEST, 100)
    assert [record.seq for record in page.records] == list(range(1, 11))


async def test_a_log_that_never_waits_has_the_events_when_emit_returns() -> None:
    log = MemoryLog(Retention())
    emitter = LogEmitter(log)

    await emitter.emit(TOPIC, [delta("1"), delta("2")])

    assert (await log.read(TOPIC, EARLIEST, 100)).head == 2


async def test_what_a_log_that_never_waits_refuses_is_raised_at_once_and_ever_after() -> None:
    log = MemoryLog(Retention())
    log.fence(TOPIC, 2)
    emitter = LogEmitter(log, fence=1)

    for _ in range(2):
        with pytest.raises(AppendRejected):
            await emitter.emit(TOPIC, [delta("1")])
    with pytest.raises(AppendRejected):
        await emitter.flush(TOPIC)


async def test_what_overrides_an_instant_append_is_not_taken_for_one() -> None:
    assert is_instant(MemoryLog(Retention()))
    assert not is_instant(GatedLog())


async def test_emit_does_not_wait_for_the_log_while_there_is_room() -> None:
    log = GatedLog()
    emitter = LogEmitter(log, max_drafts=3)
    with anyio.fail_after(20):
        await emitter.emit(TOPIC, [delta("1"), delta("2"), delta("3")])
        await anyio.wait_all_tasks_blocked()
        assert log.batches == [3]
        log.gate.set()
        await emitter.flush(TOPIC)


async def test_a_full_buffer_waits_for_room_and_nothing_is_lost() -> None:
    log = GatedLog()
    emitter = LogEmitter(log, max_drafts=2)
    async with anyio.create_task_group() as group:
        with anyio.fail_after(20):
            await emitter.emit(TOPIC, [delta("1")])
            await anyio.wait_all_tasks_blocked()
            await emitter.emit(TOPIC, [delta("2"), delta("3")])
            group.start_soon(emitter.emit, TOPIC, [delta("4")])
            await anyio.wait_all_tasks_blocked()
            log.gate.set()
    with anyio.fail_after(20):
        await emitter.flush(TOPIC)

    assert (await log.read(TOPIC, EARLIEST, 100)).head == 4


@pytest.mark.parametrize("bound", [{"max_drafts": 1}, {"max_bytes": 1}], ids=["drafts", "bytes"])
async def test_a_log_that_takes_nothing_fails_the_run_in_time(bound: dict[str, int]) -> None:
    log = GatedLog()
    emitter = LogEmitter(log, emit_timeout=0.05, **bound)  # type: ignore[arg-type]  # one of two ints
    with anyio.fail_after(20):
        await emitter.emit(TOPIC, [delta("1")])
        await anyio.wait_all_tasks_blocked()
        await emitter.emit(TOPIC, [delta("2")])
        with pytest.raises(EngineError, match="within"):
            await emitter.emit(TOPIC, [delta("3")])
        with pytest.raises(EngineError):
            await emitter.emit(TOPIC, [delta("4")])
    log.gate.set()
    await anyio.wait_all_tasks_blocked()


async def test_a_failed_append_is_raised_by_the_flush_and_ever_after() -> None:
    log = GatedLog()
    log.failure = AppendRejected("lost")
    log.gate.set()
    emitter = LogEmitter(log)
    with anyio.fail_after(20):
        await emitter.emit(TOPIC, [delta("1")])
        for _ in range(2):
            with pytest.raises(AppendRejected):
                await emitter.flush(TOPIC)


async def test_live_only_goes_on_and_tells_it_once(caplog: pytest.LogCaptureFixture) -> None:
    log = GatedLog()
    log.failure = EngineError("disk full")
    log.gate.set()
    emitter = LogEmitter(log, on_log_failure="live_only")
    with caplog.at_level(logging.ERROR, "agentkit"), anyio.fail_after(20):
        for text in "abc":
            await emitter.emit(TOPIC, [delta(text)])
            await emitter.flush(TOPIC)

    assert [record.getMessage() for record in caplog.records].count(
        "log of agents/a/threads/t failed, the run goes on live only: disk full"
    ) == 1


async def test_topics_do_not_wait_for_each_other() -> None:
    log = GatedLog()
    slow, other = TOPIC, Topic("", "a", "other")
    emitter = LogEmitter(log)
    with anyio.fail_after(20):
        await emitter.emit(slow, [delta("1")])
        await emitter.emit(other, [delta("2")])
        await anyio.wait_all_tasks_blocked()
        assert log.batches == [1, 1]
        log.gate.set()
        await emitter.aclose()


async def test_one_emitter_of_a_tee_does_not_keep_events_from_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(NullEmitter):
        async def emit(self, topic: Topic, events: Sequence[Event]) -> None:
            raise RuntimeError("no")

    first, last = RecordingEmitter(), RecordingEmitter()
    with caplog.at_level(logging.ERROR, "agentkit"):
        await TeeEmitter(first, Broken(), last).emit(TOPIC, [delta("x")])

    assert first.events == last.events == [delta("x")]
    assert "Broken failed to emit" in caplog.text


async def test_an_engine_error_of_a_tee_is_raised_after_all_were_served() -> None:
    class Failing(NullEmitter):
        async def flush(self, topic: Topic) -> None:
            raise EngineError("down")

    last = RecordingEmitter()
    with pytest.raises(EngineError, match="down"):
        await TeeEmitter(Failing(), last).flush(TOPIC)

    assert last.flushes == 1


async def test_a_callback_may_be_sync_or_async_and_may_raise(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[tuple[Topic, str]] = []

    async def asynchronous(topic: Topic, event: Event) -> None:
        seen.append((topic, event.type))

    def broken(topic: Topic, event: Event) -> None:
        seen.append((topic, event.type))
        raise ValueError("no")

    emitters: list[Emitter] = [CallbackEmitter(asynchronous), CallbackEmitter(broken)]
    with caplog.at_level(logging.ERROR, "agentkit"):
        for emitter in emitters:
            await emitter.emit(TOPIC, [delta("x"), delta("y")])

    assert seen == [(TOPIC, "text.delta")] * 4


@pytest.mark.timeout(4)  # less than the emitter's own bound of 5 s, which is what would be waited for
def test_nobody_waits_for_a_writer_that_ended_with_its_loop() -> None:
    agent = Agent("a", model=ScriptedModel([Say("x"), Wait(60)]))

    async def main() -> None:
        handle = await agent.start("hi")
        async for event in handle.event_stream:
            if isinstance(event, TextDelta):
                break

    asyncio.run(main())

    (record,) = asyncio.run(agent.runs())
    assert record.status == "cancelled"
