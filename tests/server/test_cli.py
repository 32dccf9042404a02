"""The command: which agents its options give, and what it refuses, in one line."""

import json
import socket
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import agentkit_server
from agentkit.errors import ConfigurationError
from agentkit_server import command
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


def test_what_the_core_reads_can_be_asked_of_the_command_too(tmp_path: Path) -> None:
    body = tmp_path / "body.sse"
    body.write_text("data: [DONE]\n\n")

    told = CliRunner().invoke(app, ["decode", "--dialect", "openai-chat", str(body)])
    lost = CliRunner().invoke(app, ["encode", "--provider", "nobody", "--model", "m", str(tmp_path / "none")])

    assert (told.exit_code, json.loads(told.stdout)["text"]) == (0, "")
    assert (lost.exit_code, lost.stdout) == (1, "")


def test_a_missing_package_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "typer", None)
    monkeypatch.delitem(sys.modules, "agentkit_server.cli")

    with pytest.raises(SystemExit) as end:
        command.main(["serve"])

    assert end.value.code == 1
    assert capsys.readouterr().err == (
        "agentkit: the command needs typer, of the extra server: pip install 'agentkit-live[server]'\n"
    )


def test_a_missing_package_of_a_name_is_told_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jwt", None)
    monkeypatch.delitem(sys.modules, "agentkit_server.auth_jwt", raising=False)
    monkeypatch.delitem(vars(agentkit_server), "JWTAuth", raising=False)

    with pytest.raises(
        ImportError, match=r"needs jwt, of the extra server: pip install 'agentkit-live\[server\]'"
    ):
        _ = agentkit_server.JWTAuth


@pytest.mark.parametrize(
    "address", ["127.0.0.1:8000/v1/agents/a", "localhost:8000", "host.example/v1/agents/a"]
)
def test_an_address_without_its_scheme_is_no_model(address: str) -> None:
    told = CliRunner().invoke(app, ["chat", address, "hi"])

    assert (told.exit_code, told.stderr) == (
        1,
        f"agentkit: '{address}' looks like an address: begin it with http:// or https://\n",
    )


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("ALLOWED_ORIGINS", "https://a.example", 'expected a JSON list, such as ["https://app.example"]'),
        ("JWT_ALGORITHMS", "RS256", 'expected a JSON list, such as ["RS256"]'),
        ("BODY_SIZE", "big", "Input should be a valid integer, unable to parse string as an integer"),
    ],
)
def test_a_wrong_variable_is_named_with_what_it_should_be(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    monkeypatch.setenv(f"AGENTKIT_{name}", value)

    told = CliRunner().invoke(app, ["serve", "--port", "0", "--engine", "memory://"])

    assert (told.exit_code, told.stderr) == (1, f"agentkit: AGENTKIT_{name}: {said}\n")
