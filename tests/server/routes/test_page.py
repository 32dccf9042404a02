"""The page: files of one folder, and nothing else."""

import re
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agentkit_server import Application, create_app
from agentkit_server.routes import page
from agentkit_server.settings import Settings

pytestmark = pytest.mark.anyio

REAL = page.FOLDER


def near(
    app: Application, client_host: str = "127.0.0.1", base: str = "http://localhost"
) -> httpx2.AsyncClient:
    """Return a client on this machine, or elsewhere."""
    transport = httpx2.ASGITransport(app=app, client=(client_host, 1))
    return httpx2.AsyncClient(transport=transport, base_url=base)


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
    async with near(app) as http:
        answer = await http.get("/")

    assert (answer.status_code, answer.text) == (200, "<p>hello")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"


async def test_the_page_may_load_nothing_from_elsewhere(app: Application) -> None:
    async with near(app) as http:
        answer = await http.get("/")

    policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'self'"
    assert not re.search(r"unsafe|\*|https?:", answer.headers["content-security-policy"])
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_assets_have_their_types(app: Application) -> None:
    async with near(app) as http:
        answer = await http.get("/assets/app.js")

    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/javascript; charset=utf-8")


@pytest.mark.parametrize(
    "name",
    ["none.js", "notes.txt", ".hidden.js", "..%2foutside.js", "%2e%2e/outside.js", "app.js%00", "", "a/b.js"],
)
async def test_nothing_else_is_served(app: Application, name: str) -> None:
    async with near(app) as http:
        answer = await http.get(f"/assets/{name}")

    assert answer.status_code == 404
    assert "not for you" not in answer.text


@pytest.mark.parametrize(
    ("audience", "asked", "client_host", "status"),
    [
        ("loopback", "http://127.0.0.1:8000", "127.0.0.1", 200),
        ("loopback", "http://localhost:8000", "::1", 200),
        ("loopback", "http://[::1]:8000", "::ffff:127.0.0.1", 200),
        ("loopback", "http://agents.example", "127.0.0.1", 404),
        ("loopback", "http://127.0.0.1:8000", "192.0.2.7", 404),
        ("everybody", "http://agents.example", "192.0.2.7", 200),
        ("off", "http://127.0.0.1:8000", "127.0.0.1", 404),
    ],
    ids=["loopback", "by name", "IPv6", "through a proxy", "from outside", "everybody", "off"],
)
async def test_the_page_is_for_this_machine_unless_it_is_said_otherwise(
    audience: Any, asked: str, client_host: str, status: int
) -> None:
    app = create_app(
        [],
        settings=Settings(page=audience, allowed_hosts=("agents.example", "127.0.0.1", "localhost", "::1")),
    )
    async with near(app, client_host, asked) as http:
        page = await http.get("/")
        asset = await http.get("/assets/app.js")

    assert (page.status_code, asset.status_code) == (status, status)


async def test_the_client_module_is_at_the_root_for_pages_of_any_origin(
    app: Application, folder: Path
) -> None:
    (folder / "agentkit-client.js").write_text("export const follow = 1;")
    (folder / "agentkit-client.d.ts").write_text("export const follow: 1;")

    async with near(app) as http:
        module = await http.get("/agentkit-client.js")
        types = await http.get("/agentkit-client.d.ts")

    assert (module.status_code, module.text) == (200, "export const follow = 1;")
    assert module.headers["content-type"] == "text/javascript; charset=utf-8"
    assert module.headers["access-control-allow-origin"] == "*"
    assert types.status_code == 200


def test_what_the_page_loads_is_at_most_150_kilobytes() -> None:
    loaded = [path for path in REAL.iterdir() if path.suffix in (".html", ".js", ".css", ".svg")]

    assert len(loaded) > 20
    assert sum(path.stat().st_size for path in loaded) <= 150_000
