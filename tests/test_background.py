import asyncio
import contextvars
import gc
import logging
import threading

import anyio
import pytest

from agentkit.background import spawn

pytestmark = pytest.mark.anyio


async def test_work_outlives_its_caller_and_can_be_joined() -> None:
    gate, seen = anyio.Event(), []

    async def work() -> None:
        await gate.wait()
        seen.append("done")

    async def caller() -> object:
        return spawn(work, name="w")

    handle = await caller()
    gc.collect()
    gate.set()
    with anyio.fail_after(20):
        await handle.join()  # type: ignore[attr-defined]

    assert seen == ["done"]


async def test_cancel_reaches_the_work_and_is_no_error() -> None:
    seen = []

    async def work() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            seen.append("cleaned")

    handle = spawn(work, name="w")
    await anyio.wait_all_tasks_blocked()
    handle.cancel()
    with anyio.fail_after(20):
        await handle.join()

    assert (seen, handle.done, handle.error) == (["cleaned"], True, None)


async def test_cancel_before_the_start_keeps_the_work_from_waiting() -> None:
    handle = spawn(anyio.sleep_forever, name="w")
    handle.cancel()
    with anyio.fail_after(20):
        await handle.join()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_callback_of_the_loop_spawns_and_cancels_though_no_task_runs_in_it() -> None:
    handles = []
    called = anyio.Event()

    def callback() -> None:
        handles.append(spawn(anyio.sleep_forever, name="w"))
        handles.append(spawn(anyio.sleep_forever, name="cancelled at once"))
        handles[1].cancel()
        called.set()

    asyncio.get_running_loop().call_soon(callback, context=contextvars.Context())
    with anyio.fail_after(20):
        await called.wait()
        await handles[1].join()
        handles[0].cancel()
        await handles[0].join()

    assert [handle.error for handle in handles] == [None, None]


async def test_cancel_from_another_thread() -> None:
    handle = spawn(anyio.sleep_forever, name="w")
    await anyio.wait_all_tasks_blocked()
    thread = threading.Thread(target=handle.cancel_soon)
    thread.start()
    with anyio.fail_after(20):
        await handle.join()
    thread.join()


async def test_an_error_is_kept_and_logged_and_raised_into_nobody(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        raise ValueError("broke")

    with caplog.at_level(logging.ERROR, "agentkit"):
        handle = spawn(work, name="the work")
        with anyio.fail_after(20):
            await handle.join()

    assert isinstance(handle.error, ValueError)
    assert "background work the work failed" in caplog.text


def test_cancelling_after_the_loop_is_gone_is_quiet() -> None:
    async def main() -> object:
        handle = spawn(anyio.sleep_forever, name="w")
        await asyncio.sleep(0)
        return handle

    handle = asyncio.run(main())
    handle.cancel_soon()  # type: ignore[attr-defined]


def test_without_a_loop_it_says_so() -> None:
    with pytest.raises(RuntimeError, match="no event loop is running"):
        spawn(anyio.sleep_forever, name="w")
