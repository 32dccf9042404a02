"""The page: files of one folder, and nothing else."""

import re
from pathlib import Path

import pytest
from asgi import client

from agentkit_server import Application
from agentkit_server.routes import page

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A page of the test's own; beside it lies what must not be served."""
    inside = tmp_path / "inspector"
    inside.mkdir()
    (inside / "index.html").write_text("<p>hello")
    (inside / "app.js").write_text("1")
    (inside / "notes.txt").write_text("not for you")
    (inside / ".hidden.js").write_text("not for you")
    (tmp_path / "outside.js").write_text("not for you")
    monkeypatch.setattr(page, "FOLDER", inside)
    return inside


async def test_the_page_is_at_the_root(app: Application) -> None:
    async with client(app) as http:
        answer = await http.get("/")

    assert (answer.status_code, answer.text) == (200, "<p>hello")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"


async def test_the_page_may_load_nothing_from_elsewhere(app: Application) -> None:
    async with client(app) as http:
        answer = await http.get("/")

    policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'self'"
    assert not re.search(r"unsafe|\*|https?:", answer.headers["content-security-policy"])
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_assets_have_their_types(app: Application) -> None:
    async with client(app) as http:
        answer = await http.get("/assets/app.js")

    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/javascript; charset=utf-8")


@pytest.mark.parametrize(
    "name",
    ["none.js", "notes.txt", ".hidden.js", "..%2foutside.js", "%2e%2e/outside.js", "app.js%00", "", "a/b.js"],
)
async def test_nothing_else_is_served(app: Application, name: str) -> None:
    async with client(app) as http:
        answer = await http.get(f"/assets/{name}")

    assert answer.status_code == 404
    assert "not for you" not in answer.text
