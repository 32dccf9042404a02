"""`agentkit chat`: a conversation in a terminal, or one answer for a pipe.

Ctrl-C stops the run that goes on and keeps what came; at the prompt it leaves. It decides nothing about how things look (`view`).
"""

import asyncio
import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console

from agentkit.agent import Agent
from agentkit.envelope import draft_all
from agentkit.errors import AgentKitError, RunCancelled
from agentkit.events import TERMINAL_TYPES, Event, ToolApprovalRequested
from agentkit.log import Topic
from agentkit.thread_run import AgentRun
from agentkit_server.terminal.stream import flushed
from agentkit_server.terminal.view import PlainView, TerminalView, View, told
from agentkit_transports.clients import RemoteAgent, RemoteRun

OK: Final = 0
FAILED: Final = 1
STOPPED: Final = 130
"""What a shell says of a program that Ctrl-C ended."""

_TOPIC: Final = Topic("", "chat", "main")
"""What a view does not look at; only records have to name one."""


def chat(
    agent: Agent | RemoteAgent, message: str, *, thread: str = "main", is_reasoning_kept: bool = False
) -> int:
    """Talk with an agent until the person leaves, or answer one message. Returns the exit status.

    Args:
        agent: who answers, here or on a server.
        thread: the conversation, on the server or in this process.
        message: the one message; "" asks for messages at a prompt, or reads one from a pipe.
        is_reasoning_kept: leave the reasoning on the screen.
    """
    console = Console(highlight=False)
    view: View
    if console.is_terminal:
        view = TerminalView(console, is_reasoning_kept=is_reasoning_kept)
    else:
        view = PlainView(flushed(sys.stdout), flushed(sys.stderr))
    if not message and not sys.stdin.isatty():
        message = sys.stdin.read().strip()
        if not message:
            sys.stderr.write("agentkit: nothing was said\n")
            return FAILED
    status = OK
    with asyncio.Runner() as runner:
        for said in [message] if message else _prompted(console):
            status = runner.run(_answer(agent, thread, said, view))
        runner.run(_leave(agent))
    return status if message else OK  # who left a prompt has done what there was to do


def _prompted(console: Console) -> Iterator[str]:
    """Yield what a person says, until Ctrl-D, Ctrl-C or `/quit`."""
    try:
        import readline  # noqa: F401 - importing it gives the prompt editing and history
    except ImportError:
        pass  # not on every system
    console.print("Ctrl-C stops an answer, Ctrl-D leaves.", style="dim")
    while True:
        try:
            said = console.input("[bold cyan]›[/] ").strip()
        except (EOFError, KeyboardInterrupt):
            console.print()
            return
        if said == "/quit":
            return
        if said:
            yield said


async def _leave(agent: Agent | RemoteAgent) -> None:
    if isinstance(agent, Agent):
        await agent.join(cancel=True)
    else:
        async with agent:  # it lets go of its connections
            pass


async def _answer(agent: Agent | RemoteAgent, thread: str, said: str, view: View) -> int:
    """Show one run from start to end. Returns the status that its end would give a shell."""
    has_ended = False
    try:
        run = await agent.start(said, thread=thread)
        with _stopping(run):
            async for event in run.event_stream:
                for draft in draft_all(_TOPIC, [event]):
                    view.show(json.loads(draft.body))
                has_ended = event.type in TERMINAL_TYPES
                await _decide(run, event)
    except RunCancelled:
        return STOPPED
    except AgentKitError as error:
        if not has_ended:
            view.close()
            flushed(sys.stderr)(told(error))
        return FAILED
    finally:
        view.close()
    return OK


@contextmanager
def _stopping(run: AgentRun | RemoteRun) -> Iterator[None]:
    """Let Ctrl-C stop the run, and nothing else, while it goes on."""
    loop = asyncio.get_running_loop()
    asked: list[asyncio.Task[None]] = []

    def stop() -> None:
        if isinstance(run, AgentRun):
            run.cancel("Ctrl-C")
        elif not asked:
            asked.append(loop.create_task(run.cancel("Ctrl-C")))

    try:
        loop.add_signal_handler(signal.SIGINT, stop)
    except NotImplementedError:  # not on this system: Ctrl-C then ends the program
        yield
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)


async def _decide(run: AgentRun | RemoteRun, event: Event) -> None:
    """Ask the person about a call that waits. Where nobody can be asked, the answer is no."""
    if not isinstance(event, ToolApprovalRequested):
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        await _say(run, event.approval, approved=False, reason="nobody is there to ask")
        return
    flushed(sys.stdout)("  Allow it? [y/N] ")
    reading = asyncio.ensure_future(_line())
    ending = asyncio.ensure_future(_ended(run))
    await asyncio.wait([reading, ending], return_when=asyncio.FIRST_COMPLETED)
    if reading.done() and reading.result().strip().lower() in ("y", "yes"):
        await _say(run, event.approval, approved=True)
    elif not ending.done():
        await _say(run, event.approval, approved=False, reason="the person said no")
    reading.cancel()
    ending.cancel()


async def _say(run: AgentRun | RemoteRun, approval: str, *, approved: bool, reason: str = "") -> None:
    if isinstance(run, AgentRun):
        _ = run.approve(approval) if approved else run.deny(approval, reason)
    elif approved:
        await run.approve(approval)
    else:
        await run.deny(approval, reason)


async def _ended(run: AgentRun | RemoteRun) -> None:
    """Return once a run has ended, however it did."""
    await run.begin().join()


async def _line() -> str:
    """Return the next line of the terminal, without a thread that would wait for it beyond our end."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(sys.stdin, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(sys.stdin)
    return sys.stdin.readline()
