import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.background import Work
from agentkit.chunks import BlockEndChunk, Chunk, TextChunk, ThinkingChunk
from agentkit.deltas import Deltas, EventBatch, Part
from agentkit.envelope import draft_all
from agentkit.events import Event, Reasoning, ReasoningEvent, TextDelta, TextStarted
from agentkit.log import Topic
from agentkit.stencils import LONGEST
from agentkit.step_events import StepEvents
from agentkit.stream import EventBuffer, RunStream

TOPIC = Topic("", "a", "t")
TEXTS = st.text(st.characters(), max_size=5) | st.just("x" * (LONGEST + 1))  # halves of surrogate pairs too
INDEXES = st.integers(0, 1)
CHUNKS: st.SearchStrategy[list[Chunk]] = st.lists(
    st.builds(TextChunk, TEXTS, INDEXES)
    | st.builds(lambda text, index: ThinkingChunk(text, index=index), TEXTS, INDEXES)
    | st.builds(lambda text: ThinkingChunk(text, "sig", "f", summary=True), TEXTS)
    | st.builds(BlockEndChunk, INDEXES),
    max_size=12,
)


@pytest.mark.pure
@given(CHUNKS)
def test_chunks_of_one_read_give_the_events_that_each_by_itself_gives(chunks: list[Chunk]) -> None:
    together, apart = StepEvents("r", 1, "p"), StepEvents("r", 1, "p")

    batch = together.map(chunks, 1.0)

    events = [event for chunk in chunks for event in apart.map([chunk], 1.0)]
    assert list(batch) == events
    assert len(batch) == len(events)
    assert together.blocks == apart.blocks


@pytest.mark.pure
@given(CHUNKS)
def test_a_batch_is_drafted_as_its_events_are(chunks: list[Chunk]) -> None:
    batch = StepEvents("r", 1, "p").map(chunks, 1.0)

    assert draft_all(TOPIC, batch) == draft_all(TOPIC, list(batch))


@pytest.mark.pure
def test_a_batch_is_a_sequence() -> None:
    batch = StepEvents("r", 1, "p").map([TextChunk("a"), TextChunk("b"), TextChunk("c")], 1.0)

    events: list[Event] = [TextStarted("r", 1, 1.0, "r.1.0")]
    events += (TextDelta("r", 1, 1.0, "r.1.0", text) for text in "abc")
    assert list(batch) == events
    assert [batch[at] for at in (-1, 0, 3)] == [events[-1], events[0], events[3]]
    assert batch[1:3] == events[1:3]
    assert EventBatch([events[0]])[-1] is events[0]


@pytest.mark.anyio
async def test_cursors_of_a_run_see_every_delta_of_a_read() -> None:
    started = TextStarted("r", 1, 1.0, "b")
    parts: list[Part] = [
        started,
        Deltas("r", 1, 1.0, "b", None, ["a", "b"]),
        Deltas("r", 1, 1.0, "c", "p", ["d"]),
    ]
    buffer = EventBuffer()

    def start(made: EventBuffer) -> Work:
        nonlocal buffer
        buffer = made
        return Work("test", lambda _: None)

    stream = RunStream(start, detached=True)
    stream.begin()
    seen: list[Event] = []
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:

            async def read() -> None:
                async for event in stream.event_stream:
                    seen.append(event)

            group.start_soon(read)
            buffer.extend(EventBatch(parts))
            await anyio.wait_all_tasks_blocked()
            buffer.extend([started])
            buffer.close(None, None)

    reasoning = Reasoning("r", 1, 1.0, "c", ReasoningEvent("delta", "p", "d", {}))
    assert seen == [
        started, TextDelta("r", 1, 1.0, "b", "a"), TextDelta("r", 1, 1.0, "b", "b"), reasoning, started,
    ]  # fmt: skip
    assert buffer.events == seen
