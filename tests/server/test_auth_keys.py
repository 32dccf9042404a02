"""Static keys: what a line may say, who is let in, and that a line that is gone ends its key."""

import hashlib
import os
from pathlib import Path

import pytest
from asgi import client
from server.people import THREAD, make_guarded
from starlette.requests import HTTPConnection

from agentkit.errors import ConfigurationError
from agentkit_server.auth_keys import APIKeyFile, APIKeys, new_key, parse_keys
from agentkit_server.identity import Identity

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def request(*authorization: str) -> HTTPConnection:
    headers = [(b"authorization", one.encode("latin-1")) for one in authorization]
    return HTTPConnection({"type": "http", "path": "/", "query_string": b"", "headers": headers})


async def test_a_new_key_is_known_by_its_line_and_no_other_key_is() -> None:
    key, line = new_key("ann")
    keys = APIKeys(parse_keys(line))

    assert key not in line
    assert await keys.authenticate(request(f"Bearer {key}")) == Identity("ann", "ann")
    assert await keys.authenticate(request(f"bearer  {key} ")) == Identity("ann", "ann")


@pytest.mark.parametrize(
    "said",
    [
        pytest.param([], id="nothing"),
        pytest.param(["Bearer"], id="no token"),
        pytest.param(["Bearer "], id="an empty one"),
        pytest.param(["Bearer {key}x"], id="longer"),
        pytest.param(["Basic {key}"], id="another scheme"),
        pytest.param(["Bearer {key}", "Bearer {key}"], id="twice"),
        pytest.param(["Bearer \xff\xfe"], id="not ASCII"),
        pytest.param(["Bearer {digest}"], id="what is stored"),
    ],
)
async def test_others_are_not(said: list[str]) -> None:
    key, line = new_key("ann")
    digest = hashlib.sha256(key.encode()).hexdigest()
    keys = APIKeys(parse_keys(line))

    assert await keys.authenticate(request(*(one.format(key=key, digest=digest) for one in said))) is None


def test_a_line_says_whose_threads_and_what_may_be_done() -> None:
    digest = "sha256:" + "ab" * 32
    text = f"""
    # people
    ann {digest} owner=team rights=read,run agents=planner,other exposure=summary expires=2030-01-31T00:00:00+00:00
    """

    (key,) = parse_keys(text)

    assert key.identity == Identity(
        "ann",
        "team",
        frozenset({"read", "run"}),
        frozenset({"planner", "other"}),
        1_896_048_000.0,
        "summary",
    )


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("ann secret-in-the-clear", id="a key instead of its hash"),
        pytest.param("ann sha256:" + "zz" * 32, id="no hash"),
        pytest.param("ann sha256:" + "ab" * 31, id="a short one"),
        pytest.param("ann sha256:" + "ab" * 32 + " rights=fly", id="no such right"),
        pytest.param("ann sha256:" + "ab" * 32 + " owner=", id="no owner"),
        pytest.param("ann sha256:" + "ab" * 32 + " colour=red", id="no such option"),
        pytest.param("ann sha256:" + "ab" * 32 + " owner=a owner=b", id="an option twice"),
        pytest.param("ann sha256:" + "ab" * 32 + " exposure=some", id="no such exposure"),
        pytest.param("ann sha256:" + "ab" * 32 + " expires=soon", id="no date"),
    ],
)
def test_a_line_that_says_something_else_is_refused_and_not_repeated(line: str) -> None:
    with pytest.raises(ConfigurationError, match=r"keys\.txt, line 2: ") as caught:
        parse_keys(f"\n{line}", "keys.txt")

    assert "secret" not in str(caught.value)
    assert "abab" not in str(caught.value)


def test_two_keys_of_one_name_are_refused() -> None:
    lines = new_key("ann")[1] + ";" + new_key("ann")[1]

    with pytest.raises(ConfigurationError, match="two keys"):
        APIKeys(parse_keys(lines))


async def test_a_line_that_is_gone_ends_the_key_and_a_file_that_is_gone_ends_all(tmp_path: Path) -> None:
    now = 0.0
    (ann, first), (bob, second) = new_key("ann"), new_key("bob")
    path = tmp_path / "keys"
    path.write_text(f"{first}\n{second}\n")
    keys = APIKeyFile(path, clock=lambda: now)
    identity = await keys.authenticate(request(f"Bearer {ann}"))
    assert identity is not None

    path.write_text(f"{second}\n")
    os.utime(path, (1, 1))
    before = await keys.authorize(identity, "read", "planner", "t1")
    now = 2.0
    after = await keys.authorize(identity, "read", "planner", "t1")
    known = [await keys.authenticate(request(f"Bearer {key}")) for key in (ann, bob)]
    path.unlink()
    now = 4.0
    gone = await keys.authenticate(request(f"Bearer {bob}"))

    assert (before, after, gone) == (True, False, None)
    assert known == [None, Identity("bob", "bob")]


async def test_another_key_of_the_name_ends_what_the_old_one_opened(tmp_path: Path) -> None:
    now = 0.0
    stolen, line = new_key("ann")
    path = tmp_path / "keys"
    path.write_text(line)
    keys = APIKeyFile(path, clock=lambda: now)
    app = make_guarded(keys)
    async with client(app) as http:
        signed = await http.post(
            "https://testserver/v1/session", headers={"authorization": f"Bearer {stolen}"}
        )
        cookie = {"cookie": signed.headers["set-cookie"].partition(";")[0]}
        before = await http.get(f"{THREAD}/runs", headers=cookie)
        path.write_text(new_key("ann")[1] + "\n")
        now = 2.0
        after = await http.get(f"{THREAD}/runs", headers=cookie)

    assert (signed.status_code, before.status_code, after.status_code) == (204, 200, 404)
    await app.aclose()


@pytest.mark.parametrize("option", ["exposure=none", "owner=team", "expires=2020-01-31T00:00:00+00:00"])
async def test_a_session_does_not_outlive_what_its_keys_line_said(tmp_path: Path, option: str) -> None:
    now = 0.0
    key, line = new_key("ann")
    path = tmp_path / "keys"
    path.write_text(line)
    app = make_guarded(APIKeyFile(path, clock=lambda: now))
    by_key = {"authorization": f"Bearer {key}"}
    async with client(app) as http:
        await http.post(f"{THREAD}/chat", json={"message": "x"}, headers=by_key)
        signed = await http.post("https://testserver/v1/session", headers=by_key)
        cookie = {"cookie": signed.headers["set-cookie"].partition(";")[0]}
        before = await http.get(f"{THREAD}/messages", headers=cookie)
        path.write_text(f"{line} {option}")
        now = 2.0
        after = await http.get(f"{THREAD}/messages", headers=cookie)

    assert (before.status_code, after.status_code) == (200, 404)
    assert "thinking" in before.text
    await app.aclose()


async def test_fewer_rights_in_the_file_hold_for_who_is_here_already(tmp_path: Path) -> None:
    now = 0.0
    key, line = new_key("ann")
    path = tmp_path / "keys"
    path.write_text(line)
    keys = APIKeyFile(path, clock=lambda: now)
    identity = await keys.authenticate(request(f"Bearer {key}"))
    assert identity is not None

    path.write_text(f"{line} rights=read")
    now = 2.0

    assert await keys.authorize(identity, "read", "planner", "t1")
    assert not await keys.authorize(identity, "run", "planner", "t1")


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot read the keys"):
        APIKeyFile(tmp_path / "none")
