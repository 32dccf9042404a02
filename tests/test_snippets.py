"""Every fenced `python` block of the README and of docs/ runs, with a stand-in for the models.

A block runs in a namespace of its own, top-level `await` and all. An HTML comment on the line before its fence changes that:

- `<!-- snippet: continues -->`: in the namespace of the block before it, after that one.
- `<!-- snippet: with NAME -->`: in the namespace that `PREPARED[NAME]` makes.
- `<!-- snippet: skip: REASON -->`: not at all, because of the reason.
- `<!-- snippet: stop -->`: it serves for ever; it is stopped after a moment.
"""

import ast
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import httpx2
import pytest
from stand_in import StandIn

import agentkit
from agentkit import Agent
from agentkit.testing import Call, ScriptedModel
from agentkit_server import APIKeys, create_app
from agentkit_server.auth_keys import new_key, parse_keys

ROOT = Path(__file__).parents[1]
FILES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
SECONDS = 20
"""That a block may take: a guard."""

_BLOCK = re.compile(
    r"^(?:[ ]*<!--\s*snippet:\s*(?P<mark>[^\n]*?)\s*-->[ ]*\n+)?(?P<indent>[ ]*)```python[^\n]*\n(?P<code>.*?)^(?P=indent)```",
    re.MULTILINE | re.DOTALL,
)


def with_agent() -> dict[str, Any]:
    """`agent`: one that answers."""
    return {"agent": Agent("assistant", model=StandIn())}


def with_suspended() -> dict[str, Any]:
    """`agent`, whose model asks for `delete`; the document defines the tool."""
    return {"model": ScriptedModel([Call("delete", {"path": "/tmp/x"})], "done", repeat=True)}


def with_site() -> dict[str, Any]:
    """Nothing, but `mysite.settings` can be imported: the least that Django wants."""
    settings = ModuleType("mysite.settings")
    settings.__dict__.update(SECRET_KEY="only in this test", ROOT_URLCONF="mysite.settings", urlpatterns=[])
    sys.modules.update({"mysite": ModuleType("mysite"), "mysite.settings": settings})
    return {}


def with_guarded() -> dict[str, Any]:
    """`app`: a server that asks who one is; `ann`: the header of somebody whom it knows."""
    key, line = new_key("ann")
    agent = Agent("planner", model=ScriptedModel("Hello.", repeat=True))
    app = create_app([agent], auth=APIKeys(parse_keys(line)))
    return {"app": app, "ann": {"Authorization": f"Bearer {key}"}, "httpx2": httpx2}


PREPARED: Mapping[str, Callable[[], dict[str, Any]]] = {
    "agent": with_agent,
    "guarded app": with_guarded,
    "deleting model": with_suspended,
    "a Django site": with_site,
}


@dataclass
class Snippet:
    """One block, and those that it goes on from."""

    place: str
    """File and line."""
    mark: str
    codes: list[tuple[str, str]]
    """Place and code, the blocks before first."""


def snippets(text: str, name: str) -> list[Snippet]:
    """Return the blocks of a document.

    Raises:
        ValueError: a mark that nobody knows, a skip without a reason, or a first block that continues.
    """
    out: list[Snippet] = []
    for match in _BLOCK.finditer(text):
        mark = match["mark"] or ""
        place = f"{name}:{text.count(chr(10), 0, match.start('code')) + 1}"
        if not re.fullmatch(r"|continues|stop|skip: \S.*|with (.+)", mark):
            raise ValueError(f"{place}: unknown mark {mark!r}")
        code = inspect.cleandoc("\n" + match["code"]) if match["indent"] else match["code"]
        before: list[tuple[str, str]] = []
        if mark == "continues":
            if not out:
                raise ValueError(f"{place}: continues nothing")
            before, mark = out[-1].codes, out[-1].mark
        out.append(Snippet(place, mark, [*before, (place, code)]))
    return out


ALL = [s for path in FILES for s in snippets(path.read_text(), str(path.relative_to(ROOT)))]
RUN = [snippet for snippet in ALL if not snippet.mark.startswith("skip")]


async def run(snippet: Snippet) -> None:
    """Run a block after those that it goes on from."""
    prepared = snippet.mark.removeprefix("with ") if snippet.mark.startswith("with ") else ""
    namespace: dict[str, Any] = {"__name__": "snippet", **(PREPARED[prepared]() if prepared else {})}
    with anyio.move_on_after(0.5 if snippet.mark == "stop" else SECONDS) as scope:
        for place, code in snippet.codes:
            name, _, line = place.rpartition(":")
            # As many lines before it as in the document, so that a traceback names the document's line.
            padded = "\n" * (int(line) - 1) + code
            outcome = eval(compile(padded, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), namespace)
            if inspect.isawaitable(outcome):
                await outcome
    assert snippet.mark == "stop" or not scope.cancelled_caught, f"{snippet.place} took over {SECONDS} s"


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("snippet", RUN, ids=lambda snippet: snippet.place)
async def test_a_snippet_runs(snippet: Snippet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(agentkit, "connect", StandIn)
    monkeypatch.setattr("agentkit.providers.connect", StandIn)

    await run(snippet)


def test_there_are_snippets() -> None:
    assert any(snippet.place.startswith("README.md") for snippet in RUN)


DOCUMENT = """
```python
x = 1
```
<!-- snippet: continues -->
```python
y = x + 1
```

- indented:

  ```python
  z = 3
  ```

```sh
ls
```
<!-- snippet: skip: needs a server -->
```python
raise ValueError
```
"""


def test_blocks_are_found_with_their_marks() -> None:
    assert snippets(DOCUMENT, "d.md") == [
        Snippet("d.md:3", "", [("d.md:3", "x = 1\n")]),
        Snippet("d.md:7", "", [("d.md:3", "x = 1\n"), ("d.md:7", "y = x + 1\n")]),
        Snippet("d.md:13", "", [("d.md:13", "z = 3")]),
        Snippet("d.md:21", "skip: needs a server", [("d.md:21", "raise ValueError\n")]),
    ]


@pytest.mark.parametrize("mark", ["skip", "skip:", "continues", "soon"])
def test_a_mark_that_says_nothing_is_refused(mark: str) -> None:
    with pytest.raises(ValueError, match=r"d\.md:3"):
        snippets(f"<!-- snippet: {mark} -->\n```python\n```\n", "d.md")


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_broken_block_fails_at_the_documents_line() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        await run(Snippet("d.md:7", "", [("d.md:7", "import anyio\nawait anyio.sleep(0)\n1 / 0\n")]))

    entry = caught.traceback[-1]
    assert (entry.path if isinstance(entry.path, str) else entry.path.name, entry.lineno + 1) == ("d.md", 9)
