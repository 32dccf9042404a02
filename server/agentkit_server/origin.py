"""Browsers' rules: which pages may speak to this server, and under which names it may be spoken to.

Pure: headers in, refusals and headers out. A browser sends what any page tells it to, with the user's cookies and from inside the user's
network; `Origin` and `Host` are what a page cannot forge. Programs that are no browsers send no `Origin` and are not held up.
Grounds: WHATWG Fetch (CORS), the WICG draft on private network access; research on cross-site WebSockets and DNS rebinding.
"""

import ipaddress
from collections.abc import Sequence
from typing import Final, TypeAlias
from urllib.parse import SplitResult, urlsplit

from agentkit_server.settings import Settings
from agentkit_transports.asgi import Scope
from agentkit_transports.problem import Problem, ProblemError

Headers: TypeAlias = Sequence[tuple[bytes, bytes]]

HEADERS: Final = "agentkit.headers"
"""Where a scope keeps headers for its answer."""
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
METHODS: Final = "GET, HEAD, POST, DELETE"
REQUEST_HEADERS: Final = (
    "accept", "authorization", "content-type", "idempotency-key", "last-event-id", "user-agent", "x-run-id", "x-thread-id",
    # `openai` says with these what it is, also from a page
    *(f"x-stainless-{word}" for word in ("arch", "helper-method", "lang", "os", "package-version", "retry-count", "runtime")),
    "x-stainless-runtime-version", "x-stainless-timeout",
)  # fmt: skip
"""What other sites' pages may send, beside the settings' `cors_headers`."""
RESPONSE_HEADERS: Final = "Location, Retry-After, WWW-Authenticate, X-Run-Id"
"""What their scripts may read."""
PREFLIGHT_AGE: Final = 600
"""Seconds that a browser may remember an answer: a site that is taken off the list is refused soon."""
PROBES: Final = frozenset({"/healthz", "/readyz"})
"""What is asked for under any name: who looks after a container knows its address only. They tell nothing."""
SECURE: Final[Headers] = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (
        b"content-security-policy",
        b"default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
)
"""On every answer that does not say otherwise: nothing of it is a page, a script or an image for others."""


def check_host(scope: Scope, settings: Settings, *, is_open: bool) -> None:
    """Refuse a request that was meant for another host.

    Where hosts are listed, one of them it has to be. Where nobody is asked who it is (`is_open`), what comes from this machine has to
    name this machine: a page whose own name was pointed at 127.0.0.1 does not.

    Raises:
        ProblemError: 421; 400 for two hosts.
    """
    if settings.allowed_hosts:
        if any(_names(pattern, _name_of(_one(scope, b"host"))) for pattern in settings.allowed_hosts):
            return
    elif not is_open or not is_rebound(scope):
        return
    raise ProblemError(
        Problem(421, "unknown_host", "this server has another name (AGENTKIT_ALLOWED_HOSTS)", field="host")
    )


def is_rebound(scope: Scope) -> bool:
    """Tell whether a request came to an address of this machine for itself, and by another name: as of a page whose name was pointed there.

    Raises:
        ProblemError: 400 for two hosts.
    """
    host = _one(scope, b"host")
    return bool(host) and is_local(str((scope.get("server") or ("",))[0])) and not is_local(_name_of(host))


def check_origin(scope: Scope, settings: Settings) -> None:
    """Refuse what a page of another site sends, unless it is listed: sockets, requests that change something, and reads of the API that a
    browser says are such a page's (its scripts could not see the answer, but it would be made and held open).

    Raises:
        ProblemError: 403; 400 for two origins.
    """
    if scope["type"] == "http" and scope["method"] in SAFE_METHODS:
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if (
            _one(scope, b"sec-fetch-site") == "cross-site"
            and path.startswith("/v1/")
            and not is_allowed(_one(scope, b"origin"), scope, settings)
        ):
            raise ProblemError(Problem(403, "forbidden", "not from this origin", field="origin"))
        return
    origin = _one(scope, b"origin")
    if _has(scope, b"origin"):
        if is_allowed(origin, scope, settings):
            return
    elif _one(scope, b"sec-fetch-site") in ("", "same-origin", "none"):
        return
    raise ProblemError(Problem(403, "forbidden", "not from this origin", field="origin"))


def demand_origin(scope: Scope, settings: Settings) -> None:
    """Refuse a request that a browser sends with the user's cookie, where it does not tell which page it comes from.

    A read by the server's own page has no Origin; then the browser says that it is from the same one.

    Raises:
        ProblemError: 403.
    """
    if _has(scope, b"origin"):
        if is_allowed(_one(scope, b"origin"), scope, settings):
            return
    elif (
        scope["type"] == "http"
        and scope["method"] in SAFE_METHODS
        and _one(scope, b"sec-fetch-site") in ("", "same-origin", "none")
    ):
        return  # "": a browser before 2023; its cookie is SameSite=Strict
    raise ProblemError(Problem(403, "forbidden", "a cookie alone is not enough: no origin", field="origin"))


def is_allowed(origin: str, scope: Scope, settings: Settings) -> bool:
    """Tell whether an Origin is a listed one, or the server's own."""
    return origin.lower() in settings.allowed_origins or _is_own(origin.lower(), scope)


def preflight(scope: Scope, settings: Settings) -> Headers | None:
    """Return the answer's headers to a browser that asks what another site's page may do, or None where this is no such question.

    Raises:
        ProblemError: 403, the site is not listed.
    """
    if scope["method"] != "OPTIONS" or not _has(scope, b"access-control-request-method"):
        return None
    if _one(scope, b"origin").lower() not in settings.allowed_origins:
        raise ProblemError(Problem(403, "forbidden", "not from this origin", field="origin"))
    headers = [
        (b"access-control-allow-methods", METHODS.encode()),
        (b"access-control-allow-headers", ", ".join((*REQUEST_HEADERS, *settings.cors_headers)).encode()),
        (b"access-control-max-age", b"%d" % PREFLIGHT_AGE),
    ]
    if _one(scope, b"access-control-request-private-network") == "true":
        headers.append((b"access-control-allow-private-network", b"true"))
    return headers


def add_headers(scope: Scope, settings: Settings, headers: list[tuple[bytes, bytes]]) -> None:
    """Add to an answer's headers what every answer says, and for a listed site's page that it may read it."""
    present = {name.lower() for name, _ in headers}
    headers += [one for one in SECURE if one[0] not in present]
    headers += scope.get(HEADERS, ())
    if not settings.allowed_origins or b"access-control-allow-origin" in present:
        return
    headers.append((b"vary", b"Origin"))
    origins = [value for name, value in scope["headers"] if name == b"origin"]
    if len(origins) == 1 and origins[0].decode("latin-1").lower() in settings.allowed_origins:
        headers += [
            (b"access-control-allow-origin", origins[0]),
            (b"access-control-allow-credentials", b"true"),
            (b"access-control-expose-headers", RESPONSE_HEADERS.encode()),
        ]


def _has(scope: Scope, name: bytes) -> bool:
    return any(one == name for one, _ in scope["headers"])


def _one(scope: Scope, name: bytes) -> str:
    """Return a header that may stand once, "" where it is missing.

    Raises:
        ProblemError: 400, it stands twice: two readers might take different ones.
    """
    values = [value for one, value in scope["headers"] if one == name]
    if len(values) > 1:
        raise ProblemError(Problem(400, "malformed", f"{name.decode()} stands twice", field=name.decode()))
    return values[0].decode("latin-1") if values else ""


def _is_own(origin: str, scope: Scope) -> bool:
    """Tell whether an origin is that of a page from here: the same host and port, and never less safe."""
    parts = _parts(origin) if _is_plain(origin.removeprefix("http://").removeprefix("https://")) else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.netloc:
        return False
    if scope.get("scheme") in ("https", "wss") and parts.scheme == "http":
        return False
    return parts.netloc.lower() == _one(scope, b"host").lower()


def _name_of(host: str) -> str:
    """Return the name in a Host, "?" where it is none."""
    parts = _parts(f"//{host}") if _is_plain(host) else None
    return (parts.hostname or "").rstrip(".") if parts is not None else "?"


def _is_plain(host: str) -> bool:
    """Tell whether text is a host and a port, and nothing that a parser of URLs could take for more."""
    return host.isascii() and not set(host) & set("/?#@\\ \t,") and host.count("[") == host.count("]") < 2


def _parts(url: str) -> SplitResult | None:
    try:
        return urlsplit(url)
    except ValueError:  # brackets around what is no address
        return None


def _names(pattern: str, name: str) -> bool:
    return name.endswith(pattern[1:]) if pattern.startswith("*.") else name == pattern


def is_local(name: str) -> bool:
    """Tell whether a name or an address is this machine for itself."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback
