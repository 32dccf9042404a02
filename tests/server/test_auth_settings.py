"""Authentication from the environment: what it says is done, half of it is an error, and nothing of it is repeated."""

from pathlib import Path

import pytest
from starlette.requests import HTTPConnection
from typer.testing import CliRunner

from agentkit.errors import ConfigurationError
from agentkit_server.auth import AnyOf, NoAuth
from agentkit_server.auth_jwt import JWTAuth
from agentkit_server.auth_keys import APIKeyFile, APIKeys, new_key
from agentkit_server.auth_settings import auth_from_environment
from agentkit_server.cli import app

pytestmark = pytest.mark.anyio

TOKENS = {
    "AGENTKIT_JWT_ALGORITHMS": '["HS256"]',
    "AGENTKIT_JWT_KEY": "canary-secret-of-more-than-32-bytes-long",
    "AGENTKIT_JWT_ISSUER": "https://id.example",
    "AGENTKIT_JWT_AUDIENCE": "agents",
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def test_nothing_set_asks_nobody() -> None:
    assert isinstance(auth_from_environment(), NoAuth)


def test_each_way_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    line = new_key("ann")[1]
    (tmp_path / "keys").write_text(line)

    with monkeypatch.context() as one:
        one.setenv("AGENTKIT_API_KEYS", line)
        assert isinstance(auth_from_environment(), APIKeys)
    with monkeypatch.context() as one:
        one.setenv("AGENTKIT_API_KEYS_FILE", str(tmp_path / "keys"))
        assert isinstance(auth_from_environment(), APIKeyFile)
    with monkeypatch.context() as one:
        for name, value in TOKENS.items():
            one.setenv(name, value)
        assert isinstance(auth_from_environment(), JWTAuth)


async def test_two_ways_are_tried_in_turn_and_each_speaks_for_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key, line = new_key("ann")
    monkeypatch.setenv("AGENTKIT_API_KEYS", f"{new_key('bob')[1]} ; {line} rights=read")
    for name, value in TOKENS.items():
        monkeypatch.setenv(name, value)
    auth = auth_from_environment()
    headers = [(b"authorization", f"Bearer {key}".encode())]

    identity = await auth.authenticate(
        HTTPConnection({"type": "http", "path": "/", "query_string": b"", "headers": headers})
    )

    assert isinstance(auth, AnyOf)
    assert identity is not None
    assert identity.subject == "ann"
    assert await auth.authorize(identity, "read", "planner", "t1")
    assert not await auth.authorize(identity, "run", "planner", "t1")


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"AGENTKIT_JWT_ALGORITHMS": ""}, id="no JSON"),
        pytest.param({"AGENTKIT_JWT_ALGORITHMS": "[]"}, id="no algorithm"),
        pytest.param({"AGENTKIT_JWT_ALGORITHMS": '["none"]'}, id="none"),
        pytest.param({"AGENTKIT_JWT_AUDIENCE": ""}, id="no audience"),
        pytest.param({"AGENTKIT_JWT_KEY": ""}, id="no key"),
        pytest.param({"AGENTKIT_JWT_KEY_FILE": "/none/canary"}, id="a file that is not there"),
        pytest.param({"AGENTKIT_JWT_LEEWAY": "long"}, id="no number"),
        pytest.param({"AGENTKIT_API_KEYS": "ann canary"}, id="a key that is not hashed"),
        pytest.param({"AGENTKIT_API_KEYS_FILE": "/none/keys"}, id="no file of keys"),
    ],
)
def test_half_of_it_is_an_error_and_the_secret_is_not_told(
    monkeypatch: pytest.MonkeyPatch, changed: dict[str, str]
) -> None:
    for name, value in {**TOKENS, **changed}.items():
        monkeypatch.setenv(name, value)

    with pytest.raises(ConfigurationError) as caught:
        auth_from_environment()

    assert "canary-secret" not in str(caught.value)


def test_the_command_makes_a_key_that_its_line_knows() -> None:
    made = CliRunner().invoke(app, ["key", "ann"])
    refused = CliRunner().invoke(app, ["key", "ann and bob"])

    assert made.exit_code == 0
    assert "ak_" in made.output
    assert "ann sha256:" in made.output
    assert refused.exit_code == 1


@pytest.mark.parametrize(
    ("keys", "said"),
    [("", "no authentication"), (new_key("ann")[1], "--dialect goes with")],
    ids=["nobody", "a key"],
)
def test_other_machines_are_served_once_people_are_asked_who_they_are(
    monkeypatch: pytest.MonkeyPatch, keys: str, said: str
) -> None:
    monkeypatch.setenv("AGENTKIT_API_KEYS", keys)

    refused = CliRunner().invoke(app, ["serve", "--host", "0.0.0.0", "--dialect", "x"])

    assert refused.exit_code == 1
    assert said in refused.output
