"""JSON Web Tokens of an identity provider: checked by PyJWT, with nothing left to the token.

Which algorithms, which key, for whom and by whom is the operator's word; headers of a token that name keys or addresses (`jku`, `x5u`,
`jwk`) are not read. Grounds: RFC 8725 (best practices), RFC 9068.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import anyio
import jwt
from starlette.requests import HTTPConnection

from agentkit.errors import ConfigurationError, quote
from agentkit_server.auth import Auth, bearer
from agentkit_server.identity import EXPOSURES, METRICS, RIGHTS, Identity, owner_key
from agentkit_transports.backend import Action
from agentkit_transports.encoder import Exposure
from agentkit_transports.problem import Problem, ProblemError

logger = logging.getLogger("agentkit.server")

ALGORITHMS: Final = frozenset(
    {"HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)  # fmt: skip
"""What may be allowed. `none` may not."""
MAX_TOKEN: Final = 8192
"""Characters of a token: what a socket's hello may hold, and far more than providers make."""
MIN_SECRET: Final = 32
"""Bytes of a shared secret (RFC 7518 section 3.2, for HS256): shorter ones are found by trying."""


FETCHERS: Final = 4
"""Threads at once that ask the issuer: tokens with made-up key ids must not take the threads that tools and engines need."""
KEY_AGE: Final = 300.0
"""Seconds that a key of the issuer is taken before it is looked for again."""
MAX_KEYS: Final = 64
"""Keys of one issuer: it has a few."""


class JWTAuth(Auth):
    """Tokens that another server signs."""

    def __init__(
        self,
        *,
        algorithms: Sequence[str],
        audience: str,
        issuer: str,
        key: str = "",
        jwks_url: str = "",
        leeway: float = 30.0,
        owner_claim: str = "sub",
        rights_claim: str = "rights",
        agents_claim: str = "agents",
        exposure_claim: str = "exposure",
        timeout: float = 5.0,
    ) -> None:
        """Say which tokens are good.

        Args:
            algorithms: those that are allowed; all with a shared secret, or all with a public key.
            audience: what `aud` has to name.
            issuer: what `iss` has to be.
            key: the shared secret, or the public key as PEM text.
            jwks_url: instead of `key`: where the issuer's public keys are. https, or this machine.
            leeway: seconds that clocks may differ.
            owner_claim: the claim that says whose threads: `sub`, or a tenant's.
            rights_claim: a list, or names with spaces between; what is no right of ours is passed over. Missing: all rights.
            agents_claim: a list of agents' names. Missing: all agents.
            exposure_claim: `full`, `summary` or `none`. Missing: `full`.
            timeout: seconds for the keys to be fetched.

        Raises:
            ConfigurationError: one of them is impossible, or too weak.
        """
        _check_algorithms(algorithms)
        if not audience or not issuer:
            raise ConfigurationError(
                "tokens need an audience and an issuer: others' tokens would be taken too"
            )
        if bool(key) == bool(jwks_url):
            raise ConfigurationError("tokens need either a key or the URL of the issuer's keys")
        is_shared = algorithms[0].startswith("HS")
        if is_shared and (jwks_url or len(key.encode()) < MIN_SECRET or "-----BEGIN" in key):
            raise ConfigurationError(
                f"{algorithms[0]} needs a secret of {MIN_SECRET} bytes, and no public key"
            )
        if jwks_url and not _is_safe(jwks_url):
            raise ConfigurationError("the URL of the issuer's keys begins with https://")
        self._algorithms = list(algorithms)
        self._audience = audience
        self._issuer = issuer
        self._key = key
        self._keys = jwt.PyJWKClient(jwks_url, timeout=timeout) if jwks_url else None
        self._found: dict[str, tuple[float, Any]] = {}
        """Keys of the issuer by their ids, and until when they are taken."""
        self._fetchers: anyio.CapacityLimiter | None = None
        self._leeway = leeway
        self._claims = (owner_claim, rights_claim, agents_claim, exposure_claim)

    async def authenticate(self, request: HTTPConnection) -> Identity | None:
        """Return whom a good token names.

        Raises:
            ProblemError: 503, the issuer's keys cannot be fetched.
        """
        token = bearer(request)
        if token.count(".") != 2 or len(token) > MAX_TOKEN:
            return None
        try:
            return self._identity(jwt.decode(
                token,
                await self._key_of(token),
                algorithms=self._algorithms,
                audience=self._audience,
                issuer=self._issuer,
                leeway=self._leeway,
                options={"require": ["exp", "aud", "iss", "sub"], "enforce_minimum_key_length": True},
            ))  # fmt: skip
        except jwt.PyJWKClientConnectionError:
            logger.warning("the keys of the tokens' issuer cannot be fetched")
            raise ProblemError(Problem(503, "auth_unavailable", retry_after_ms=5000)) from None
        except (jwt.PyJWTError, ConfigurationError, ValueError, TypeError, ArithmeticError, RecursionError):
            return None

    async def _key_of(self, token: str) -> Any:
        """Return the key that is to have signed a token. Unknown ones are looked for at the issuer's, at most twice a minute."""
        if self._keys is None:
            return self._key
        header = jwt.get_unverified_header(token)
        if header.get("alg") not in self._algorithms:
            raise jwt.InvalidAlgorithmError
        kid, now = str(header.get("kid", "")), time.monotonic()
        found = self._found.get(kid)
        if found is not None and now < found[0]:
            return found[1]  # without a thread: who has a good key does not wait behind who has none
        if self._fetchers is None:
            self._fetchers = anyio.CapacityLimiter(FETCHERS)
        key = await anyio.to_thread.run_sync(
            self._keys.get_signing_key_from_jwt, token, limiter=self._fetchers
        )
        if len(self._found) >= MAX_KEYS:
            self._found.clear()
        self._found[kid] = now + KEY_AGE, key.key
        return key.key

    def _identity(self, claims: Mapping[str, Any]) -> Identity:
        """Return whom verified claims name.

        Raises:
            TypeError, ValueError, ConfigurationError: a claim is not what it should be.
        """
        owner, rights, agents, exposure = (claims.get(name) for name in self._claims)
        subject = claims["sub"]
        if not isinstance(owner, str) or not isinstance(subject, str) or not subject:
            raise TypeError
        return Identity(
            subject,
            owner_key(owner),
            RIGHTS if rights is None else _rights(rights),
            None if agents is None else frozenset(_names(agents)),
            float(claims["exp"]) + self._leeway,
            "full" if exposure is None else _exposure(exposure),
        )


def _rights(value: object) -> frozenset[Action]:
    names = set(value.split() if isinstance(value, str) else _names(value))
    return frozenset(right for right in (*RIGHTS, METRICS) if right in names)


def _names(value: object) -> list[str]:
    if not isinstance(value, list):
        raise TypeError
    return [name for name in value if isinstance(name, str)]


def _exposure(value: object) -> Exposure:
    for one in EXPOSURES:
        if value == one:
            return one
    raise ValueError


def _check_algorithms(algorithms: Sequence[str]) -> None:
    unknown = set(algorithms) - ALGORITHMS
    if unknown or not algorithms:
        raise ConfigurationError(
            f"algorithms: {quote(', '.join(sorted(unknown)))}; known: {', '.join(sorted(ALGORITHMS))}"
        )
    if len({name.startswith("HS") for name in algorithms}) > 1:
        raise ConfigurationError("algorithms with a shared secret and with a public key do not mix")


def _is_safe(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "https" or (
        parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1")
    )
