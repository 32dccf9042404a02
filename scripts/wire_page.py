"""Make the tables of `docs/wire.md` from what the code does: `python scripts/wire_page.py` rewrites them.

Events and frames are read from their classes, codes from the enumerations; nothing in the tables is written by hand. A test compares.
"""

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from types import UnionType
from typing import Any, Final, get_args

from agentkit import envelope, events
from agentkit.events import Event
from agentkit_transports import client_frames

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "wire.md"
_MARK: Final = "<!-- {}: scripts/wire_page.py -->\n"
_END: Final = "<!-- end -->\n"

DATA: Final = {
    "reasoning": "`kind`: delta, summary, signature or state; `provider`; `text`?; `data`: for signature and state `{bytes}`",
    "tool_result": "`call`, `name`, `status`: ok, error, denied or interrupted; `content`: its parts",
    "custom": "the application's own; `type` is its name",
}
"""Where the wire's data is not the event's members."""


def event_rows() -> Iterator[str]:
    """Yield a row a type: name, when, data."""
    yield "| type | when | data |"
    yield "|---|---|---|"
    for kind in get_args(Event):
        name = "reasoning" if kind is events.Reasoning else kind.type
        when = (
            "A piece of thinking or of a summary; a signature or opaque state"
            if name == "reasoning"
            else first_line(kind)
        )
        yield f"| `{name}` | {when} | {DATA.get(name) or members(kind)} |"


def members(kind: type) -> str:
    """Return the members of an event's data on the wire."""
    hidden = envelope._COMMON | envelope._IN_PROCESS
    words = member_words(kind)
    out = []
    for field in fields(kind):
        if field.name in hidden:
            continue
        is_optional = field.default is None or (field.default is MISSING and field.default_factory is None)
        said = words.get(field.name, "")
        out.append(f"`{field.name}`{'?' if is_optional else ''}{f': {said}' if said else ''}")
    return "; ".join(out) or "–"


def member_words(kind: type) -> dict[str, str]:
    """Return the string under each member of a class, as a clause."""
    body = ast.parse(inspect.getsource(kind)).body[0]
    assert isinstance(body, ast.ClassDef)
    out: dict[str, str] = {}
    before = ""
    for line in body.body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            before = line.target.id
        elif isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) and before:
            said = " ".join(str(line.value.value).split()).rstrip(".")
            out[before] = said if said[:2].isupper() else said[:1].lower() + said[1:]
    return out


def frame_rows() -> Iterator[str]:
    """Yield a row a client frame: op, what it says, members."""
    yield "| `op` | says | members |"
    yield "|---|---|---|"
    union, _ = get_args(client_frames.ClientFrame)
    for kind in get_args(union):
        model: Any = kind
        names = [
            f"`{name}`{'' if field.is_required() else '?'}"
            for name, field in model.model_fields.items()
            if name != "op"
        ]
        (op,) = get_args(model.model_fields["op"].annotation)
        yield f"| `{op}` | {first_line(model)} | {', '.join(names)} |"


def first_line(kind: type | UnionType) -> str:
    """Return the first line of a class's docstring, without its full stop."""
    return re.sub(r"\.$", "", (inspect.getdoc(kind) or "").splitlines()[0]).replace("|", "\\|")


TABLES: Final = {"events": event_rows, "frames": frame_rows}


def page(text: str) -> str:
    """Return the page with its tables made anew.

    Raises:
        ValueError: a table's marks are missing.
    """
    for name, rows in TABLES.items():
        before, mark, rest = text.partition(_MARK.format(name))
        _, end, after = rest.partition(_END)
        if not mark or not end:
            raise ValueError(f"{PAGE.name} has no table {name}")
        text = before + mark + "\n".join(rows()) + "\n" + end + after
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
