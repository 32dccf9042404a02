"""Logs: a line for each run, step and call that ends, and who a line is about, as fields that a machine reads.

Every line that is written while a run is at work, also a tool's own, has `run`, `thread`, `agent` and `owner`. What was said is in no line
unless `content=True`, and then only as the run's redact hook lets it be seen. An error is told by its code, never by its words.
"""

import json
import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Final

from agentkit.content import (
    Message,
    RefusalBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    valid_text,
)
from agentkit.errors import AgentKitError
from agentkit.observe import CallSight, Observer, RunSight, StepSight
from agentkit.redaction import redacted_message
from agentkit_server.log_words import LogFormat

logger = logging.getLogger("agentkit.runs")

_about: ContextVar[dict[str, str]] = ContextVar("agentkit_log_fields", default={})  # noqa: B039 - never changed in place
_STANDARD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"about", "asctime", "message", "taskName"}
"""What every record has; anything else came by `extra`."""
_ESCAPED: Final = {
    code: f"\\u{code:04x}"
    for codes in (range(9), range(10, 32), range(127, 160), range(0x2028, 0x202F), range(0x2066, 0x206A))
    for code in codes
}
"""What ends a line, steers a terminal or turns text around: a client's words must not look like a line of ours, nor hide one."""


class RunLog(Observer):
    """Writes a line where a run, a step or a call ends, at INFO (the run) and DEBUG, and lends its fields to every line meanwhile."""

    def __init__(self, *, content: bool = False) -> None:
        """Args: content: write what was said too, as far as the run's redact hook lets it be seen."""
        self._content = content

    def run(self, sight: RunSight) -> AbstractContextManager[object]:
        """Write a line where the run ends."""
        return self._run(sight)

    @contextmanager
    def _run(self, sight: RunSight) -> Iterator[None]:
        about = {"run": sight.run, "thread": sight.thread, "agent": sight.agent, "owner": sight.owner}
        token = _about.set(about)
        try:
            yield
            usage = sight.usage
            _say(
                logging.INFO,
                f"run {sight.end or 'failed'}",
                {
                    "end": sight.end or "failed",
                    "error": _code(sight.error),
                    "seconds": round(sight.ended - sight.began, 3),
                    "steps": sight.steps,
                    "input_tokens": usage.input_tokens,
                    "output_tokens": usage.output_tokens,
                    "reasoning_tokens": usage.reasoning_tokens,
                },
            )
        finally:
            _about.reset(token)

    def step(self, sight: StepSight) -> AbstractContextManager[object]:
        """Write a line where the model has answered."""
        return self._step(sight)

    @contextmanager
    def _step(self, sight: StepSight) -> Iterator[None]:
        yield
        said: dict[str, Any] = {
            "step": sight.step,
            "provider": sight.origin.provider,
            "model": sight.origin.model,
            "finish": sight.finish,
            "error": _code(sight.error),
            "seconds": round(sight.ended - sight.began, 3),
        }
        if self._content:
            said["request"] = _words(sight.run, sight.request.messages[-1]) if sight.request.messages else ""
            said["answer"] = _words(sight.run, sight.answer) if sight.answer is not None else ""
        _say(logging.DEBUG, "step ended", said)

    def call(self, sight: CallSight) -> AbstractContextManager[object]:
        """Write a line where the tool has ended."""
        return self._call(sight)

    @contextmanager
    def _call(self, sight: CallSight) -> Iterator[None]:
        yield
        status = sight.result.status if sight.result is not None else "interrupted"
        said: dict[str, Any] = {
            "step": sight.step,
            "call": sight.call,
            "tool": sight.name,
            "status": status,
            "seconds": round(sight.ended - sight.began, 3),
        }
        if self._content:
            use = ToolUseBlock(sight.call, sight.name, sight.input)
            said["input"] = _words(sight.run, Message("assistant", (use,)))
            if sight.result is not None:
                said["result"] = _words(sight.run, Message("tool", (sight.result,)))
        _say(logging.DEBUG, f"tool {status}", said)


def _say(level: int, message: str, fields: dict[str, Any]) -> None:
    if logger.isEnabledFor(level):
        logger.log(level, message, extra={k: v for k, v in fields.items() if v not in ("", None)})


def _code(error: BaseException | None) -> str:
    if error is None:
        return ""
    return error.code if isinstance(error, AgentKitError) else type(error).__name__


def _words(run: RunSight, message: Message) -> str:
    out: list[str] = []
    for block in redacted_message(run.redact, message).content:
        match block:
            case TextBlock():
                out.append(block.text)
            case ThinkingBlock():
                out.append(f"<thinking>{block.thinking}</thinking>")
            case RefusalBlock():
                out.append(block.refusal)
            case ToolUseBlock():
                out.append(f"{block.name}({block.input})")
            case ToolResultBlock():
                out.append(block.text)
            case _:
                out.append(f"<{block.type}>")
    return "\n".join(out)


class About(logging.Filter):
    """Puts the fields of the run at work into every record that passes, as `record.about`. It lets all pass.

    Not as attributes: `record.thread` is the number of an operating system's thread.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the fields."""
        record.about = _about.get()
        return True


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    """Return whom a record is about, and what its `extra` brought."""
    about = record.__dict__.get("about")
    said = {name: value for name, value in record.__dict__.items() if name not in _STANDARD}
    fields = {**(about if isinstance(about, dict) else {}), **said}
    return {name: value for name, value in fields.items() if value != ""}


class JSONFormatter(logging.Formatter):
    """One JSON object a line: `time`, `level`, `logger`, `message`, the run's fields, what `extra` brought, and `error` with its trace."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        out: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        out = {**_fields(record), **out}
        if record.exc_info:
            out["trace"] = self.formatException(record.exc_info)
        if record.stack_info:
            out["stack"] = self.formatStack(record.stack_info)
        line = json.dumps(out, ensure_ascii=False, default=str, separators=(",", ":"))
        return valid_text(line).translate(_ESCAPED)


class TextFormatter(logging.Formatter):
    """A line for people: time, level, logger, message, and behind it whom it is about. The lines of a trace are indented."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the library's name
        """Return the line without a trace."""
        line = super().formatMessage(record)
        whole = " ".join([line, *(f"{name}={value}" for name, value in _fields(record).items())])
        return valid_text(whole).translate(_ESCAPED)

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the library's name
        """Return a trace: what an exception says may hold lines."""
        lines = super().formatException(ei).split("\n")
        return "\n".join(f"  {valid_text(line).translate(_ESCAPED)}" for line in lines)


def configure_logging(form: LogFormat = "text", *, level: int | str = logging.WARNING) -> None:
    """Write the process's logs to stderr in this form. For a server of ours; an application of your own configures its logging itself.

    The level is the house's own. Other libraries stay at warnings: what they say at DEBUG may hold headers and bodies.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JSONFormatter() if form == "json" else TextFormatter())
    handler.addFilter(About())
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger("agentkit").setLevel(level)
