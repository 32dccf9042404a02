"""Conformance checks of an engine's threads, leases and signals. The table is `engines`."""

import secrets
from dataclasses import replace

import anyio

from agentkit.content import Message, TextBlock, ThinkingBlock, ToolUseBlock, Usage
from agentkit.engine import Lease, Signal
from agentkit.errors import ConfigurationError
from agentkit.history import RunRecord
from agentkit.testing.engine_stand import PATIENCE, Refused, Stand, Table, take, until

CHECKS = Table()


# threads


@CHECKS.row("threads keep messages, runs and titles")
async def _threads(stand: Stand) -> None:
    threads, topic = stand.engine.threads, stand.topic
    thinking = ThinkingBlock("hm \u2028", signature="c2ln", signature_format="anthropic")
    answer = Message(
        "assistant", (thinking, TextBlock("\U0001f600"), ToolUseBlock("c1", "f", '{"a": 1 }')), run="r"
    )
    record = RunRecord(
        "run_a",
        "suspended",
        12.5,
        text="so far",
        usage=Usage(input_tokens=3, output_tokens=4),
        metadata={"k": [1, None, {"x": "y"}]},
        step=2,
        pending=(ToolUseBlock("c1", "f", "{}"),),
        decisions={"run_a.2.c1": (False, "no")},
    )
    assert (await threads.messages(topic), await threads.runs(topic), await threads.get_run(topic, "x")) == (
        [],
        [],
        None,
    )
    await threads.extend(topic, [Message.user("hi")])
    await threads.extend(topic, [answer])
    await threads.put_run(topic, record)
    await threads.put_run(topic, RunRecord("run_b", "queued", 13.0))
    await threads.put_run(topic, replace(record, status="running"))
    await threads.describe(topic, title="T")
    await threads.describe(topic, metadata={"m": 1})

    assert await threads.messages(topic) == [Message.user("hi"), answer]
    assert await threads.get_run(topic, "run_a") == replace(record, status="running")
    assert [r.run for r in await threads.runs(topic)] == ["run_a", "run_b"]
    with Refused(ConfigurationError):
        await threads.extend(topic, [Message.user("fine"), Message("tool", (TextBlock("x"),))])
    assert len(await threads.messages(topic)) == 2
    await threads.delete(topic)
    assert (await threads.messages(topic), await threads.runs(topic)) == ([], [])


@CHECKS.row("a thread's runs come in pages, in the order in which they were kept first")
async def _pages_of_runs(stand: Stand) -> None:
    threads, topic = stand.engine.threads, stand.topic
    names = [f"run_{number * 7919 % 260:03}" for number in range(260)]
    for name in names:
        await threads.put_run(topic, RunRecord(name, "running", 1.0))
    await threads.put_run(topic, RunRecord(names[0], "finished", 1.0, ended=2.0))

    async def page(after: str = "", limit: int | None = None) -> list[str]:
        return [record.run for record in await threads.runs(topic, after=after, limit=limit)]

    assert await page() == names
    assert await page(limit=2) == names[:2]
    assert await page(names[0], 3) == names[1:4]
    assert await page(names[97]) == names[98:]
    assert [await page(names[place], 1) for place in (254, 255, 256)] == [[names[n]] for n in (255, 256, 257)]
    assert await page(names[258], 5) == names[259:]
    assert (await page(names[259], 5), await page("run_x", 5), await page(limit=0)) == ([], [], [])


@CHECKS.row("threads are listed by name, in pages, each agent and owner its own")
async def _listing(stand: Stand) -> None:
    agent = f"a{secrets.token_hex(6)}"
    threads = stand.engine.threads
    for owner, name in [("", "b"), ("", "a"), ("", "c"), ("other", "d")]:
        await threads.extend(stand.topic._replace(owner=owner, agent=agent, thread=name), [Message.user("x")])
    await threads.describe(stand.topic._replace(agent=agent, thread="b"), title="B", metadata={"x": 1})

    everything = await threads.threads("", agent)
    assert [record.thread for record in everything] == ["a", "b", "c"]
    assert [(record.title, record.metadata) for record in everything] == [("", {}), ("B", {"x": 1}), ("", {})]
    assert [record.thread for record in await threads.threads("", agent, after="a", limit=1)] == ["b"]
    assert [record.thread for record in await threads.threads("other", agent)] == ["d"]
    await threads.delete(stand.topic._replace(agent=agent, thread="b"))
    assert [record.thread for record in await threads.threads("", agent)] == ["a", "c"]


@CHECKS.row("an idempotency key has one run, whoever asks, however many at once")
async def _claims(stand: Stand) -> None:
    got: list[str] = []

    async def claim(number: int) -> None:
        record = RunRecord(f"run_{number}", "queued", float(number))
        got.append(await stand.engine.threads.claim(stand.topic, "key", record))

    assert await stand.engine.threads.claimed(stand.topic, "key") is None
    async with anyio.create_task_group() as group:
        for number in range(10):
            group.start_soon(claim, number)
    (run,) = set(got)

    assert [record.run for record in await stand.engine.threads.runs(stand.topic)] == [run]
    assert await stand.engine.threads.claimed(stand.topic, "key") == run
    assert await stand.engine.threads.claimed(stand.other_topic(), "key") is None


@CHECKS.row("an idempotency key has one run over all engines", shared=True)
async def _shared_claims(stand: Stand) -> None:
    engines = [stand.engine, stand.open()]
    got: list[str] = []

    async def claim(number: int) -> None:
        record = RunRecord(f"run_{number}", "queued", float(number))
        got.append(await engines[number % 2].threads.claim(stand.topic, "key", record))

    async with anyio.create_task_group() as group:
        for number in range(10):
            group.start_soon(claim, number)
    (run,) = set(got)
    assert [record.run for record in await stand.engine.threads.runs(stand.topic)] == [run]
    assert [await engine.threads.claimed(stand.topic, "key") for engine in engines] == [run] * 2


@CHECKS.row("a run's record is swapped only for the one that it was")
async def _swap(stand: Stand) -> None:
    threads, topic = stand.engine.threads, stand.topic
    old = RunRecord("run_a", "suspended", 1.0, metadata={"x": [1.5, None]}, decisions={"a": (True, "\u00e9")})
    new = replace(old, decisions={**old.decisions, "b": (False, "")})
    assert not await threads.swap_run(topic, old, new), "there was nothing to swap"
    assert await threads.get_run(topic, "run_a") is None
    await threads.put_run(topic, old)

    assert await threads.swap_run(topic, old, new)
    assert not await threads.swap_run(topic, old, replace(old, status="running"))
    assert await threads.get_run(topic, "run_a") == new


async def _swaps(stand: Stand, *, shared: bool) -> None:
    engines = [stand.engine, stand.open() if shared else stand.engine]
    await stand.engine.threads.put_run(stand.topic, RunRecord("run_a", "suspended", 1.0))

    async def add(number: int) -> None:
        threads = engines[number % 2].threads
        while True:
            old = await threads.get_run(stand.topic, "run_a")
            assert old is not None
            new = replace(old, decisions={**old.decisions, str(number): (True, "")})
            if await threads.swap_run(stand.topic, old, new):
                return

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(add, number)
    record = await stand.engine.threads.get_run(stand.topic, "run_a")
    assert record is not None
    assert set(record.decisions) == {str(number) for number in range(8)}, "a change was lost"


@CHECKS.row("what many add to a run's record at once is all there")
async def _local_swaps(stand: Stand) -> None:
    await _swaps(stand, shared=False)


@CHECKS.row("what several engines add to a run's record at once is all there", shared=True)
async def _shared_swaps(stand: Stand) -> None:
    await _swaps(stand, shared=True)


# leases and signals


@CHECKS.row("a thread has one lease; those who wait get it in turn")
async def _fifo(stand: Stand) -> None:
    leases, order = stand.engine.leases, list[str]()
    first = await take(stand, "run_0")
    assert await leases.acquire(stand.topic, "run_x", wait=False) is None
    assert await leases.holder(stand.topic) == "run_0"

    async def wait_for(run: str) -> None:
        lease = await leases.acquire(stand.topic, run, wait=True)
        assert lease is not None
        assert await leases.holder(stand.topic) == run
        order.append(run)
        await leases.release(lease)

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            for number in range(1, 5):
                group.start_soon(wait_for, f"run_{number}")
                await anyio.sleep(0.02)  # they ask in this order
            await leases.release(first)
            await leases.release(first)
    assert order == ["run_1", "run_2", "run_3", "run_4"]
    assert await leases.holder(stand.topic) is None


@CHECKS.row("a lease is one over all engines; who waits elsewhere gets it", shared=True)
async def _shared_lease(stand: Stand) -> None:
    second = stand.open()
    lease = await take(stand, "run_a")
    assert await second.leases.acquire(stand.topic, "run_b", wait=False) is None
    assert await second.leases.holder(stand.topic) == "run_a"
    got: list[Lease | None] = []

    async def wait() -> None:
        got.append(await second.leases.acquire(stand.topic, "run_b", wait=True))

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await anyio.sleep(0.05)
            assert got == []
            await stand.engine.leases.release(lease)
    assert got[0] is not None
    assert got[0].run == "run_b"
    await second.leases.release(got[0])


_SIGNALS = [
    Signal("steer", {"id": "s1", "text": "\u00e9"}),
    Signal("approve", {"approval": "r.1.c", "approved": True, "reason": ""}),
    Signal("cancel", {"reason": "enough"}),
]


async def _signals(stand: Stand, *, shared: bool) -> None:
    got: list[Signal] = []
    stop = await stand.engine.control.listen(stand.topic, "run_a", got.append)
    sender = (stand.open() if shared else stand.engine).control
    await sender.send(stand.topic, "run_b", Signal("cancel", {"reason": "another"}))
    for signal in _SIGNALS:
        await sender.send(stand.topic, "run_a", signal)
    await until(lambda: len(got) >= len(_SIGNALS), "the signals did not come")
    stop()
    await sender.send(stand.topic, "run_a", Signal("cancel", {}))
    await anyio.sleep(0.05)

    assert got == _SIGNALS


@CHECKS.row("signals reach the run that listens, in order, and no other")
async def _local_signals(stand: Stand) -> None:
    await _signals(stand, shared=False)


@CHECKS.row("signals reach a run that another engine owns", shared=True)
async def _shared_signals(stand: Stand) -> None:
    await _signals(stand, shared=True)
