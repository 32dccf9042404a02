"""What is done to threads and their runs from outside of a run: take, fork, erase, decide a call that waits, find the run of a key.

It knows engines, and no agent.
"""

from dataclasses import replace

import anyio

from agentkit.approvals import approval_id
from agentkit.engine import Engine, Lease, Signal
from agentkit.errors import ConfigurationError, ThreadBusy, ThreadExists, quote
from agentkit.log import Topic
from agentkit.run_spec import new_id

LET_GO_TIMEOUT = 5.0
"""Seconds that a run which has ended may need until it lets go of its thread: it tells its end first, to slow listeners too."""


async def take_thread(engine: Engine, topic: Topic, run: str) -> Lease | None:
    """Return the lease of a thread on which no run is at work, or None.

    One that has ended, and still tells so, is waited for: clients say the next thing as soon as they see the end.
    """
    end = anyio.current_time() + LET_GO_TIMEOUT
    while True:
        lease = await engine.leases.acquire(topic, run, wait=False)
        if lease is not None or anyio.current_time() > end:
            return lease
        holder = await engine.leases.holder(topic)
        if holder is not None:
            record = await engine.threads.get_run(topic, holder)
            if record is None or record.status in ("queued", "running"):
                return None
        await anyio.sleep(LOOK_EVERY)


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
LAST_LOOKS = 5
"""How often whoever watches runs that were stopped comes to its turn, before their log is gone."""
CLAIM_TIMEOUT = 2.0
"""Seconds that a run which has the thread may need until it is known under its key: two calls of the engine."""


async def erase_thread(engine: Engine, topic: Topic) -> None:
    """Stop the thread's runs, also those that wait, and erase its messages, runs and log; watchers are told, and the epoch is a new one."""
    holder = await engine.leases.holder(topic)
    records = await engine.threads.runs(topic)
    waiting = [record.run for record in records if record.status == "queued"]
    stopped = dict.fromkeys([*waiting, *([] if holder is None else [holder])])
    for run in stopped:
        await engine.control.send(topic, run, Signal("cancel", {"reason": "the thread was deleted"}))
    lease = await engine.leases.acquire(topic, new_id("delete"), wait=True)
    try:
        with anyio.move_on_after(END_TIMEOUT):
            await _until_ended(engine, topic, waiting)
        for _ in range(LAST_LOOKS if stopped else 0):  # or it would see them stop by the log's end only
            await anyio.sleep(LOOK_EVERY / LAST_LOOKS)
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


async def decide(
    engine: Engine, topic: Topic, run: str, approval: str, *, approved: bool, reason: str
) -> bool | None:
    """Note a decision on a call of a suspended run, whoever else decides others at the same time; the first one on a call stands.

    Returns:
        Whether all its calls are decided, so that it may go on; None where the run is not suspended.
    """
    while True:
        record = await engine.threads.get_run(topic, run)
        if record is None or record.status != "suspended":
            return None
        asked = {approval_id(run, record.step, use.id) for use in record.pending}
        if approval not in asked:
            return False
        if approval in record.decisions:
            return asked <= record.decisions.keys()
        decided = replace(record, decisions={**record.decisions, approval: (approved, reason)})
        if await engine.threads.swap_run(topic, record, decided):
            return asked <= decided.decisions.keys()


async def claimed_run(engine: Engine, topic: Topic, key: str) -> str | None:
    """Return the run of an idempotency key on a busy thread, or None.

    Whoever has just taken the thread may be about to claim the key: it is waited for until its run is known.
    """
    with anyio.move_on_after(CLAIM_TIMEOUT):
        while True:
            holder = await engine.leases.holder(topic)
            is_known = holder is None or await engine.threads.get_run(topic, holder) is not None
            claimed = await engine.threads.claimed(topic, key)
            if claimed is not None or is_known:
                return claimed
            await anyio.sleep(LOOK_EVERY)
    return None
