"""Fork and erase a thread: what takes a thread's lease without being a run.

It knows engines, and no agent.
"""

import anyio

from agentkit.engine import Engine, Signal
from agentkit.errors import ConfigurationError, ThreadBusy, ThreadExists, quote
from agentkit.log import Topic
from agentkit.run_spec import new_id


async def fork_thread(engine: Engine, source: Topic, target: Topic, count: int | None) -> None:
    """Begin `target` with the first `count` messages of `source` (None: all).

    Raises:
        ConfigurationError: the count is no number of messages.
        ThreadBusy: the target has a run.
        ThreadExists: the target has messages already.
    """
    if count is not None and (isinstance(count, bool) or count < 0):
        raise ConfigurationError(f"count is a number of messages, got {quote(count)}")
    lease = await engine.leases.acquire(target, new_id("fork"), wait=False)
    if lease is None:
        raise ThreadBusy(f"{target.path} has a run already")
    try:
        if await engine.threads.messages(target):
            raise ThreadExists(f"{target.path} has messages already")
        messages = (await engine.threads.messages(source))[:count]
        await engine.threads.extend(target, messages, fence=lease.fence)
    finally:
        await engine.leases.release(lease)


END_TIMEOUT = 5.0
"""Seconds for runs that were stopped in the thread's queue to write down their end, before all is erased."""
LOOK_EVERY = 0.02


async def erase_thread(engine: Engine, topic: Topic) -> None:
    """Stop the thread's runs, also those that wait, and erase its messages, runs and log; watchers are told, and the epoch is a new one."""
    holder = await engine.leases.holder(topic)
    records = await engine.threads.runs(topic)
    waiting = [record.run for record in records if record.status == "queued"]
    for run in dict.fromkeys([*waiting, *([] if holder is None else [holder])]):
        await engine.control.send(topic, run, Signal("cancel", {"reason": "the thread was deleted"}))
    lease = await engine.leases.acquire(topic, new_id("delete"), wait=True)
    try:
        with anyio.move_on_after(END_TIMEOUT):
            await _until_ended(engine, topic, waiting)
        await engine.threads.delete(topic)
        await engine.log.delete(topic)
    finally:
        if lease is not None:
            await engine.leases.release(lease)


async def _until_ended(engine: Engine, topic: Topic, runs: list[str]) -> None:
    """Wait for runs that hold no lease: what they write later would outlive the thread."""
    for run in runs:
        while True:
            record = await engine.threads.get_run(topic, run)
            if record is None or record.status not in ("queued", "running"):
                break
            await anyio.sleep(LOOK_EVERY)
