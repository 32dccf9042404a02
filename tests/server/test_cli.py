"""The command: which agents its options give, and what it refuses, in one line."""

import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentkit.errors import ConfigurationError
from agentkit_server.cli import app, is_loopback
from agentkit_server.command_agents import agent_name, demo_agents


def listed(
    model: str = "", base_url: str = "", files: list[Path] | None = None, dialect: str = ""
) -> list[tuple[object, ...]]:
    body = demo_agents(model, base_url, files or [], dialect).body()["agents"]
    assert isinstance(body, list)
    return [(one["name"], one["provider"], one["default"]) for one in body if isinstance(one, dict)]


def test_without_options_scripted_is_the_default() -> None:
    assert listed() == [
        ("scripted", "scripted", True),
        ("replay", "replay", False),
        ("tools", "scripted", False),
        ("redacted", "replay", False),
        ("failing", "scripted", False),
        ("approval", "scripted", False),
    ]


def test_a_model_is_the_default_and_gives_its_agent_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")

    assert listed("anthropic:claude-sonnet-4-5")[0] == ("claude-sonnet-4-5", "anthropic", True)


def test_a_model_may_be_on_another_server() -> None:
    agents = listed("openai-chat:org/some model", "http://127.0.0.1:9/v1")

    assert (agents[0][0], agents[0][2]) == ("org-some-model", True)


def test_a_named_file_is_played_and_is_the_default(tmp_path: Path) -> None:
    file = tmp_path / "mine.sse"
    file.write_text("data: [DONE]\n\n")

    assert [one for one in listed(files=[file], dialect="openai-chat") if one[2]] == [
        ("replay", "replay", True)
    ]


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("anthropic:claude-sonnet-4-5", "claude-sonnet-4-5"),
        ("ollama:qwen3:8b", "qwen3-8b"),
        ("x:../../etc", "etc"),
        ("x:", "model"),
        ("x:" + "m" * 200, "m" * 128),
    ],
)
def test_a_models_name_becomes_an_agents(model: str, name: str) -> None:
    assert agent_name(model) == name


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False),
     ("10.0.0.1", False), ("localhost.example.org", False), ("", False)],
)  # fmt: skip
def test_what_only_this_machine_reaches(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["--host", "0.0.0.0"], "add --insecure-no-auth", id="an open address"),
        pytest.param(["--base-url", "http://127.0.0.1:1"], "--base-url goes with --model", id="a URL alone"),
        pytest.param(["--dialect", "openai-chat"], "--dialect goes with --replay", id="a dialect alone"),
        pytest.param(
            ["--replay", "none.sse", "--dialect", "openai-chat"], "cannot read 'none.sse'", id="no file"
        ),
        pytest.param(
            ["--replay", "none.sse", "--dialect", "morse"], "unknown dialect 'morse'", id="no dialect"
        ),
        pytest.param(["--model", "nobody:nothing"], "unknown provider 'nobody'", id="no provider"),
        pytest.param(
            ["--host", "no.such.host.invalid", "--insecure-no-auth"], "is no address", id="no address"
        ),
    ],
)
def test_what_cannot_be_is_one_clear_line(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(app, ["serve", "--port", "0", *arguments])

    assert result.exit_code == 1
    assert said in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_busy_port_is_one_clear_line_that_names_the_way_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = CliRunner().invoke(app, ["serve", "--port", str(port)])

    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
    for word in (str(port), "--port", "PORT="):
        assert word in result.stderr


@pytest.mark.parametrize(("value", "said"), [("-1", "AGENTKIT_BODY_SIZE"), ("many", "AGENTKIT_BODY_SIZE")])
def test_a_setting_that_cannot_be_is_named(monkeypatch: pytest.MonkeyPatch, value: str, said: str) -> None:
    monkeypatch.setenv("AGENTKIT_BODY_SIZE", value)
    result = CliRunner().invoke(app, ["serve", "--port", "0"])

    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert said in result.stderr


def test_a_model_without_a_provider_is_refused() -> None:
    with pytest.raises(ConfigurationError):
        demo_agents("just-a-model", "", [], "")


def test_the_command_keeps_threads_in_a_folder_that_can_be_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("AGENTKIT_ENGINE")
    monkeypatch.setattr("uvicorn.Server.run", lambda self, sockets: sockets[0].close())
    result = CliRunner().invoke(app, ["serve", "--port", "0", "--data", str(tmp_path / "kept")])

    assert result.exit_code == 0, result.stderr
    assert (tmp_path / "kept" / "agentkit.db").is_file()


def test_an_engine_that_cannot_be_is_one_clear_line() -> None:
    result = CliRunner().invoke(app, ["serve", "--port", "0", "--engine", "carrier-pigeon://x"])

    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "unknown engine 'carrier-pigeon'" in result.stderr
