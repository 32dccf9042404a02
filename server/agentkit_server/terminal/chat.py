"""`agentkit chat`: a conversation in a terminal, or one answer for a pipe.

Ctrl-C stops the run that goes on and keeps what came; at the prompt it leaves. It decides nothing about how things look (`view`).
"""

import asyncio
import json
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TextIO

from rich.console import Console

from agentkit.agent import Agent
from agentkit.envelope import draft_all
from agentkit.errors import AgentKitError, RunCancelled
from agentkit.events import Event, ToolApprovalRequested
from agentkit.log import Topic
from agentkit.thread_run import AgentRun
from agentkit_server.terminal.view import PlainView, TerminalView, View

OK: Final = 0
FAILED: Final = 1
STOPPED: Final = 130
"""What a shell says of a program that Ctrl-C ended."""

_THREAD: Final = "main"


def chat(agent: Agent, message: str, *, is_reasoning_kept: bool = False) -> int:
    """Talk with an agent until the person leaves, or answer one message. Returns the exit status.

    Args:
        agent: who answers.
        message: the one message; "" asks for messages at a prompt, or reads one from a pipe.
        is_reasoning_kept: leave the reasoning on the screen.
    """
    console = Console(highlight=False)
    view: View
    if console.is_terminal:
        view = TerminalView(console, is_reasoning_kept=is_reasoning_kept)
    else:
        view = PlainView(_flushed(sys.stdout), _flushed(sys.stderr))
    if not message and not sys.stdin.isatty():
        message = sys.stdin.read().strip()
        if not message:
            sys.stderr.write("agentkit: nothing was said\n")
            return FAILED
    status = OK
    with asyncio.Runner() as runner:
        for said in [message] if message else _prompted(console):
            status = runner.run(_answer(agent, said, view))
        runner.run(agent.join(cancel=True))
    return status if message else OK  # who left a prompt has done what there was to do


def _flushed(stream: TextIO) -> Callable[[str], None]:
    def write(text: str) -> None:
        stream.write(text)
        stream.flush()

    return write


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


async def _answer(agent: Agent, said: str, view: View) -> int:
    """Show one run from start to end. Returns the status that its end would give a shell."""
    topic = Topic("", agent.name, _THREAD)
    try:
        run = await agent.start(said, thread=_THREAD)
        with _stopping(run):
            async for event in run.event_stream:
                for draft in draft_all(topic, [event]):
                    view.show(json.loads(draft.body))
                await _decide(run, event)
    except RunCancelled:
        return STOPPED
    except AgentKitError:
        return FAILED  # its terminal event was shown
    finally:
        view.close()
    return OK


@contextmanager
def _stopping(run: AgentRun) -> Iterator[None]:
    """Let Ctrl-C stop the run, and nothing else, while it goes on."""
    loop = asyncio.get_running_loop()
    try:
        loop.add_signal_handler(signal.SIGINT, run.cancel, "Ctrl-C")
    except NotImplementedError:  # not on this system: Ctrl-C then ends the program
        yield
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)


async def _decide(run: AgentRun, event: Event) -> None:
    """Ask the person about a call that waits. Where nobody can be asked, the answer is no."""
    if not isinstance(event, ToolApprovalRequested):
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        run.deny(event.approval, "nobody is there to ask")
        return
    _flushed(sys.stdout)("  Allow it? [y/N] ")
    reading = asyncio.ensure_future(_line())
    ending = asyncio.ensure_future(_ended(run))
    await asyncio.wait([reading, ending], return_when=asyncio.FIRST_COMPLETED)
    if reading.done() and reading.result().strip().lower() in ("y", "yes"):
        run.approve(event.approval)
    elif not ending.done():
        run.deny(event.approval, "the person said no")
    reading.cancel()
    ending.cancel()


async def _ended(run: AgentRun) -> None:
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
