"""Tokens: which are good, and that nothing is left to the token."""

import base64
import json
import time
from collections.abc import Mapping
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from starlette.requests import HTTPConnection

from agentkit.errors import ConfigurationError
from agentkit_server.auth_jwt import JWTAuth
from agentkit_server.identity import RIGHTS, Identity
from agentkit_transports.problem import ProblemError

pytestmark = pytest.mark.anyio

SECRET = "a shared secret of more than 32 bytes"
PRIVATE = rsa.generate_private_key(65537, 2048)
PUBLIC = (
    PRIVATE.public_key()
    .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    .decode()
)
OTHER = rsa.generate_private_key(65537, 2048)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def claims(**changed: Any) -> dict[str, Any]:
    now = int(time.time())
    whole = {"iss": "https://id.example", "aud": "agents", "sub": "ann", "exp": now + 600, "iat": now}
    return {name: value for name, value in {**whole, **changed}.items() if value is not None}


def signed(headers: Mapping[str, Any] | None = None, **changed: Any) -> str:
    return jwt.encode(claims(**changed), PRIVATE, "RS256", dict(headers or {}))


def rs256(**options: Any) -> JWTAuth:
    whole: dict[str, Any] = {"algorithms": ["RS256"], "audience": "agents", "issuer": "https://id.example"}
    return JWTAuth(**{"key": PUBLIC, **whole, **options})


async def ask(auth: JWTAuth, token: str) -> Identity | None:
    headers = [(b"authorization", f"Bearer {token}".encode())]
    return await auth.authenticate(
        HTTPConnection({"type": "http", "path": "/", "query_string": b"", "headers": headers})
    )


async def test_a_good_token_says_who_what_and_how_long() -> None:
    expires = int(time.time()) + 600
    token = signed(exp=expires, tenant="team", rights=["read", "fly"], agents=["planner"], exposure="none")

    identity = await ask(rs256(owner_claim="tenant"), token)

    assert identity == Identity(
        "ann", "team", frozenset({"read"}), frozenset({"planner"}), expires + 30.0, "none"
    )


async def test_a_token_may_leave_rights_and_agents_to_us() -> None:
    identity = await ask(rs256(), signed())

    assert identity is not None
    assert (identity.owner, identity.rights, identity.agents) == ("ann", RIGHTS, None)


async def test_rights_may_be_words_in_a_scope() -> None:
    identity = await ask(rs256(rights_claim="scope"), signed(scope="openid read run"))

    assert identity is not None
    assert identity.rights == {"read", "run"}


async def test_an_owner_of_any_script_is_one_owner() -> None:
    one, again = [await ask(rs256(), signed(sub="Änn Ünbekannt/../")) for _ in range(2)]

    assert one is not None
    assert again is not None
    assert one.owner == again.owner
    assert one.owner.startswith("sha256:")


def unsigned() -> str:
    head = base64.urlsafe_b64encode(json.dumps({"alg": "none", "typ": "JWT"}).encode()).rstrip(b"=")
    body = base64.urlsafe_b64encode(json.dumps(claims()).encode()).rstrip(b"=")
    return f"{head.decode()}.{body.decode()}."


def confused() -> str:
    """A token whose shared secret is our public key."""
    import hashlib
    import hmac

    head = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').rstrip(b"=")
    body = base64.urlsafe_b64encode(json.dumps(claims()).encode()).rstrip(b"=")
    said = head + b"." + body
    mac = hmac.new(PUBLIC.encode(), said, hashlib.sha256).digest()
    return (said + b"." + base64.urlsafe_b64encode(mac).rstrip(b"=")).decode()


BAD = [
    pytest.param(lambda: "", id="nothing"),
    pytest.param(lambda: "garbage", id="garbage"),
    pytest.param(lambda: "a.b.c", id="three parts of garbage"),
    pytest.param(lambda: signed() + "x" * 9000, id="too long"),
    pytest.param(lambda: signed(exp=int(time.time()) - 60), id="expired"),
    pytest.param(lambda: signed(exp=None), id="without an end"),
    pytest.param(lambda: signed(exp="soon"), id="an end that is none"),
    pytest.param(lambda: signed(exp=10**400), id="an end past all numbers"),
    pytest.param(lambda: signed(nbf=int(time.time()) + 600), id="not yet valid"),
    pytest.param(lambda: signed(iat=int(time.time()) + 600), id="from the future"),
    pytest.param(lambda: signed(aud="others"), id="for others"),
    pytest.param(lambda: signed(aud=None), id="for nobody"),
    pytest.param(lambda: signed(iss="https://evil.example"), id="by others"),
    pytest.param(lambda: signed(iss=None), id="by nobody"),
    pytest.param(lambda: signed(sub=None), id="of nobody"),
    pytest.param(lambda: signed(sub=""), id="of an empty name"),
    pytest.param(lambda: signed(agents="planner"), id="agents as text"),
    pytest.param(lambda: signed(rights={"read": 1}), id="rights as an object"),
    pytest.param(lambda: signed(exposure="everything"), id="an exposure that is none"),
    pytest.param(lambda: signed({"crit": ["x"], "x": 1}), id="a critical header nobody knows"),
    pytest.param(unsigned, id="alg none"),
    pytest.param(confused, id="HS256 with our public key"),
    pytest.param(lambda: jwt.encode(claims(), OTHER, "RS256"), id="another key"),
    pytest.param(lambda: jwt.encode(claims(), PRIVATE, "RS512"), id="an algorithm that is not allowed"),
    pytest.param(lambda: signed()[:-4] + "AAAA", id="a changed signature"),
]


@pytest.mark.parametrize("token", BAD)
async def test_no_other_token_is_good(token: Any) -> None:
    assert await ask(rs256(), token()) is None


async def test_a_token_names_no_key_and_no_address() -> None:
    own = jwt.algorithms.RSAAlgorithm.to_jwk(OTHER.public_key(), as_dict=True)
    headers = {"jwk": own, "jku": "http://127.0.0.1:9/keys", "x5u": "http://127.0.0.1:9/cert"}

    assert await ask(rs256(), jwt.encode(claims(), OTHER, "RS256", headers)) is None


async def test_an_empty_owner_is_nobody() -> None:
    assert await ask(rs256(owner_claim="tenant"), signed(tenant="")) is None
    assert await ask(rs256(owner_claim="tenant"), signed()) is None


async def test_a_shared_secret_works_and_names_no_other_algorithm() -> None:
    auth = rs256(algorithms=["HS256"], key=SECRET)

    assert await ask(auth, jwt.encode(claims(), SECRET, "HS256")) is not None
    assert await ask(auth, signed()) is None


async def test_keys_that_cannot_be_fetched_are_no_refusal() -> None:
    auth = rs256(key="", jwks_url="http://127.0.0.1:9/keys", timeout=1)

    with pytest.raises(ProblemError, match="503 auth_unavailable"):
        await ask(auth, signed({"kid": "one"}))
    assert await ask(auth, jwt.encode(claims(), SECRET, "HS256")) is None


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"algorithms": []}, id="no algorithm"),
        pytest.param({"algorithms": ["none"]}, id="none"),
        pytest.param({"algorithms": ["RS256", "HS256"]}, id="secret and public keys"),
        pytest.param({"audience": ""}, id="no audience"),
        pytest.param({"issuer": ""}, id="no issuer"),
        pytest.param({"key": ""}, id="no key"),
        pytest.param({"jwks_url": "https://id.example/keys"}, id="two keys"),
        pytest.param({"key": "", "jwks_url": "http://id.example/keys"}, id="keys from the open net"),
        pytest.param({"algorithms": ["HS256"], "key": "short"}, id="a short secret"),
        pytest.param({"algorithms": ["HS256"], "key": PUBLIC}, id="a public secret"),
    ],
)
def test_what_is_impossible_or_weak_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        rs256(**options)

    assert "short" not in str(caught.value)


async def test_keys_come_from_the_issuer_and_made_up_ids_keep_nobody_waiting() -> None:
    import http.server
    import threading

    asked: list[str] = []
    own = jwt.algorithms.RSAAlgorithm.to_jwk(PRIVATE.public_key(), as_dict=True)
    body = json.dumps({"keys": [{**own, "kid": "one", "use": "sig", "alg": "RS256"}]}).encode()

    class Issuer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Issuer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            auth = rs256(key="", jwks_url=f"http://127.0.0.1:{server.server_address[1]}/keys")
            good = [await ask(auth, signed({"kid": "one"})) for _ in range(5)]
            bad = [await ask(auth, signed({"kid": f"no-{number}"})) for number in range(20)]
            none = await ask(auth, signed())
        finally:
            server.shutdown()
            thread.join()

    assert all(identity is not None for identity in good)
    assert bad == [None] * 20
    assert none is None
    assert len(asked) <= 2
