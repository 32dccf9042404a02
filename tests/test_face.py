"""The face of the core: what it hands on, and what asking for it loads."""

import subprocess
import sys

import pytest

import agentkit
import agentkit_server

CHECKED = {
    "annotated_types",
    "pydantic.main",
    "pydantic.types",
    "pydantic.json_schema",
    "agentkit.tool_schema",
}
"""What pydantic builds schemas with: for who has tools, or reads a thread."""
HTTP = {"httpx2", "ssl", "email", "agentkit.client", "agentkit.provider_table"}
LATER = {
    *(
        "aiohttp",
        "asyncio",
        "httpcore2",
        "httptools",
        "importlib.metadata",
        "msgspec",
        "opentelemetry",
        "redis",
        "rich",
        "sqlite3",
        "starlette",
    ),
    *("subprocess", "trio", "agentkit.http_transport", "agentkit.engines.redis", "agentkit.engines.sqlite"),
    *("agentkit.local_model", "agentkit.local_process", "agentkit.otel", "agentkit.testing"),
}
DIALECTS = {
    f"agentkit.dialects.{name}"
    for name in ("anthropic_messages", "openai_responses", "openai_chat", "gemini")
}


def loaded(program: str) -> set[str]:
    """Return the modules that a fresh interpreter has after `program`."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys; before = set(sys.modules)\n{program}\nprint(*set(sys.modules) - before)",
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    return set(done.stdout.split())


def test_the_face_is_complete_and_in_order() -> None:
    public = [getattr(agentkit, name) for name in agentkit.__all__]
    names = [
        name
        for name, value in vars(agentkit).items()
        if not name.startswith("_") and getattr(value, "__module__", "").startswith("agentkit.")
    ]

    assert list(agentkit.__all__) == sorted(agentkit.__all__)
    assert set(names) <= set(agentkit.__all__) <= set(dir(agentkit))
    assert None not in public
    assert callable(agentkit.tool)  # the function, not the room of that name


def test_the_face_says_which_name_it_does_not_know() -> None:
    with pytest.raises(AttributeError, match=r"module 'agentkit' has no attribute 'agnet'"):
        agentkit.agnet  # type: ignore[attr-defined]  # noqa: B018 - what is tried


def test_a_room_of_the_face_is_there_without_being_imported() -> None:
    assert "agentkit.events" in loaded("import agentkit; agentkit.events.TextDelta")


def test_the_face_of_the_server_hands_on_names_and_rooms_in_the_same_way() -> None:
    assert [getattr(agentkit_server, name) for name in agentkit_server.__all__].count(None) == 0
    assert list(agentkit_server.__all__) == sorted(agentkit_server.__all__)
    assert set(agentkit_server.__all__) <= set(dir(agentkit_server))
    assert "agentkit_server.auth_keys" in loaded("import agentkit_server; agentkit_server.auth_keys.new_key")
    with pytest.raises(AttributeError, match=r"module 'agentkit_server' has no attribute 'srve'"):
        agentkit_server.srve  # type: ignore[attr-defined]  # noqa: B018 - what is tried


@pytest.mark.parametrize(
    ("program", "unwanted"),
    [
        pytest.param("import agentkit", LATER | HTTP | CHECKED | DIALECTS | {"agentkit.agent"}, id="import"),
        pytest.param("from agentkit import Agent", LATER | HTTP | CHECKED | DIALECTS, id="agent"),
        pytest.param(
            "from agentkit import connect; connect('ollama:x')",
            (LATER - {"importlib.metadata"}) | CHECKED | DIALECTS,  # httpx2 asks for its own version
            id="connect",
        ),
        pytest.param(
            "import agentkit.log", LATER | HTTP | CHECKED | DIALECTS | {"agentkit.agent"}, id="room"
        ),
    ],
)
def test_what_is_not_needed_is_not_loaded(program: str, unwanted: set[str]) -> None:
    assert sorted(loaded(program) & unwanted) == []


@pytest.mark.parametrize(
    ("program", "unwanted"),
    [
        pytest.param(
            "import agentkit_server.cli",
            {
                "agentkit.agent",
                "agentkit_server.app",
                "agentkit_server.demo",
                "asyncio",
                "httpx2",
                "starlette",
                "uvicorn",
            },
            id="command",
        ),
        pytest.param(
            "import agentkit_server.app",
            {
                "agentkit.engines.sqlite",
                "agentkit_server.auth_jwt",
                "agentkit_server.demo",
                "agentkit_server.openapi",
            }
            | {"agentkit_server.wire_schema", "jwt", "rich", "sqlite3", "typer"},
            id="app",
        ),
    ],
)
def test_a_server_loads_only_what_it_serves_with(program: str, unwanted: set[str]) -> None:
    assert sorted(loaded(program) & unwanted) == []
