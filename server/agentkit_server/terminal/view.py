"""Records → a terminal: reasoning dimmed while it comes and one line when it is done, tools, visible text, usage.

It reads the JSON of records (design.md §7), so that a run in this process and one that is watched from afar look the same. It opens no
connection and starts no run. What a model wrote may not steer the terminal: control characters are taken out.
"""

import json
import re
import time as clock
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from agentkit.errors import AccessError, AgentKitError

LINES: Final = 8
"""Lines of reasoning that are seen while it comes."""
PERIOD: Final = 0.08
"""Seconds between two drawings of them."""
SHORT: Final = 120
"""Characters of a call's arguments or result on its line."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_ENDS = {"run.finished": "finished", "run.failed": "failed", "run.cancelled": "stopped"}


class View(Protocol):
    """What shows a run's records."""

    def show(self, envelope: Mapping[str, Any]) -> None:
        """Show one record."""
        ...

    def close(self) -> None:
        """Leave the terminal as it should be."""
        ...


def clean(text: object) -> str:
    """Return foreign text without what a terminal would obey: control characters, and marks that turn the direction of writing."""
    return _CONTROL.sub("", text) if isinstance(text, str) else ""


def told(error: AgentKitError) -> str:
    """Return the line by which a person is told an error, with what to do where the server asked who they are."""
    hint = "; set AGENTKIT_TOKEN" if isinstance(error, AccessError) and error.status == 401 else ""
    return f"agentkit: {clean(str(error))}{hint}\n"


class PlainView:
    """For pipes: the visible text and nothing else; what went wrong goes to `complain`."""

    def __init__(self, write: Callable[[str], object], complain: Callable[[str], object]) -> None:
        self._write = write
        self._complain = complain
        self._is_open = False

    def show(self, envelope: Mapping[str, Any]) -> None:
        """Show one record, if it is visible text or a bad end."""
        data = envelope["data"]
        match envelope["type"]:
            case "text.delta" if "parent" not in envelope:
                self._write(data["text"])
                self._is_open = not data["text"].endswith("\n")
            case "refusal.delta":
                self._complain(clean(data["text"]))
            case "run.failed" if "parent" not in envelope:
                self.close()
                self._complain(f"agentkit: {clean(data['message'])}\n")
            case _:
                pass

    def close(self) -> None:
        """End the last line."""
        if self._is_open:
            self._write("\n")
        self._is_open = False


@dataclass(slots=True)
class _Thought:
    started: float | None
    pieces: list[str] = field(default_factory=list)
    is_opaque: bool = False


class TerminalView:
    """For people. Not thread-safe."""

    def __init__(self, console: Console, *, is_reasoning_kept: bool = False) -> None:
        """Args: is_reasoning_kept: leave the reasoning on the screen instead of folding it to a line."""
        self._console = console
        self._keeps = is_reasoning_kept
        self._thoughts: dict[str, _Thought] = {}
        self._live: Live | None = None
        self._drawn = 0.0
        self._is_mid_line = False
        self._started: float | None = None

    def show(self, envelope: Mapping[str, Any]) -> None:
        """Show one record; a type without a line here changes nothing."""
        shows = _SHOWS.get(envelope["type"])
        if shows is not None:
            shows(self, envelope, envelope["data"])

    def close(self) -> None:
        """Leave the terminal as it should be: nothing live, the cursor at the begin of a line."""
        self._stop_live()
        self._end_line()

    # lines

    def _line(self, *parts: str | tuple[str, str]) -> None:
        self.close()
        self._console.print(Text.assemble(*parts), soft_wrap=True, highlight=False)

    def _end_line(self) -> None:
        if self._is_mid_line:
            self._console.print()
        self._is_mid_line = False

    def _stop_live(self) -> None:
        if self._live is not None:
            self._live.stop()
        self._live = None

    # reasoning

    def _thought(self, envelope: Mapping[str, Any]) -> _Thought:
        known = self._thoughts.get(envelope["block"])
        if known is None:
            known = self._thoughts[envelope["block"]] = _Thought(None)
        return known

    def _begin_thought(self, envelope: Mapping[str, Any], _: Mapping[str, Any]) -> None:
        self._thoughts[envelope["block"]] = thought = _Thought(_seconds(envelope))
        self._draw(thought, is_forced=True)

    def _grow_thought(self, envelope: Mapping[str, Any], data: Mapping[str, Any]) -> None:
        thought = self._thought(envelope)
        if data["kind"] in ("signature", "state"):
            thought.is_opaque = True
        elif data.get("text"):
            thought.pieces.append(clean(data["text"]))
            self._draw(thought)

    def _draw(self, thought: _Thought, *, is_forced: bool = False) -> None:
        now = clock.monotonic()
        if not self._console.is_terminal or (now - self._drawn < PERIOD and not is_forced):
            return
        self._drawn = now
        if self._live is None:
            self._end_line()
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        words = Text("".join(thought.pieces[-2000:])[-SHORT * LINES * 4 :], style="dim")
        lines = words.wrap(self._console, max(self._console.width - 2, 10))[-LINES:]
        self._live.update(Group(Text("◇ Thinking…", style="cyan"), *lines), refresh=True)

    def _end_thought(self, envelope: Mapping[str, Any], _: Mapping[str, Any]) -> None:
        thought = self._thoughts.pop(envelope["block"], None)
        if thought is None:
            return
        self._stop_live()
        text = "".join(thought.pieces)
        took = "" if thought.started is None else f" for {_took(_seconds(envelope) - thought.started)}"
        hidden = " (hidden by the provider)" if thought.is_opaque and not text else ""
        self._line(("◆ ", "cyan"), (f"Thought{took}{hidden}", "dim"))
        if self._keeps and text:
            self._line((text, "dim"))

    # text

    def _write(self, _: Mapping[str, Any], data: Mapping[str, Any]) -> None:
        text = clean(data["text"])
        if not text:
            return
        self._stop_live()
        self._console.print(Text(text), end="", soft_wrap=True, highlight=False)
        self._is_mid_line = not text.endswith("\n")

    def _end_text(self, _: Mapping[str, Any], __: Mapping[str, Any]) -> None:
        self._end_line()

    def _image(self, _: Mapping[str, Any], data: Mapping[str, Any]) -> None:
        self._line(("▣ ", "cyan"), f"an image ({clean(data.get('media_type')) or 'of an unknown type'})")

    # tools

    def _call(self, _: Mapping[str, Any], data: Mapping[str, Any]) -> None:
        self._line(("→ ", "cyan"), (clean(data["name"]), "bold"), f" {_short(data['input'])}")

    def _question(self, _: Mapping[str, Any], data: Mapping[str, Any]) -> None:
        self._line(("? ", "yellow"), (clean(data["name"]), "bold"), " waits for a decision")

    def _result(self, _: Mapping[str, Any], data: Mapping[str, Any]) -> None:
        said = " ".join(str(part.get("text") or f"[{part.get('type')}]") for part in data["content"])
        is_ok = data["status"] == "ok"
        mark = ("← ", "cyan") if is_ok else ("✗ ", "red")
        self._line(
            mark, (clean(data["name"]), "bold"), "" if is_ok else f" {data['status']}", f" {_short(said)}"
        )

    # the run

    def _start(self, envelope: Mapping[str, Any], _: Mapping[str, Any]) -> None:
        if "parent" not in envelope:
            self._started = _seconds(envelope)

    def _tell(self, _: Mapping[str, Any], data: Mapping[str, Any]) -> None:
        self._line(("! ", "yellow"), (clean(data.get("message")), "dim"))

    def _steered(self, _: Mapping[str, Any], data: Mapping[str, Any]) -> None:
        self._line(("» ", "cyan"), clean(data["text"]))

    def _end(self, envelope: Mapping[str, Any], data: Mapping[str, Any]) -> None:
        if "parent" in envelope:
            return
        self.close()
        self._thoughts.clear()
        word = _ENDS[envelope["type"]]
        if envelope["type"] == "run.failed":
            self._line((f"✗ {clean(data['message'])}", "red"), (f" ({clean(data['code'])})", "dim"))
        words = [
            word if self._started is None else f"{word} after {_took(_seconds(envelope) - self._started)}"
        ]
        if usage := data.get("usage"):
            tokens = f"{usage['input_tokens']} tokens in, {usage['output_tokens']} out"
            thought = usage["reasoning_tokens"]
            words.append(f"{tokens}, {thought} of them reasoning" if thought else tokens)
        self._line((" · ".join(words), "dim"))


_SHOWS: Final[Mapping[str, Callable[[TerminalView, Mapping[str, Any], Mapping[str, Any]], None]]] = {
    "run.started": TerminalView._start,
    "run.steered": TerminalView._steered,
    "run.notice": TerminalView._tell,
    "step.retrying": TerminalView._tell,
    "reasoning_block.started": TerminalView._begin_thought,
    "reasoning": TerminalView._grow_thought,
    "reasoning_block.finished": TerminalView._end_thought,
    "text.delta": TerminalView._write,
    "text.finished": TerminalView._end_text,
    "refusal.delta": TerminalView._write,
    "refusal.finished": TerminalView._end_text,
    "image": TerminalView._image,
    "tool_call.ready": TerminalView._call,
    "tool_approval.requested": TerminalView._question,
    "tool_result": TerminalView._result,
    "run.finished": TerminalView._end,
    "run.failed": TerminalView._end,
    "run.cancelled": TerminalView._end,
}
"""What each type of record does to the terminal."""


def _seconds(envelope: Mapping[str, Any]) -> float:
    return datetime.fromisoformat(envelope["time"]).timestamp()


def _took(seconds: float) -> str:
    if seconds < 60:
        return f"{max(seconds, 0):.1f} s"
    return f"{int(seconds) // 60}m {int(seconds) % 60}s"


def _short(text: str) -> str:
    """Return text on one line; JSON without its white space."""
    try:
        text = json.dumps(json.loads(text), ensure_ascii=False)
    except ValueError:
        pass
    line = " ".join(clean(text.replace("\n", " ")).split())
    return line if len(line) <= SHORT else f"{line[:SHORT]}…"
