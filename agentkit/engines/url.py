"""`open_engine`: an engine from its URL."""

from urllib.parse import parse_qsl, unquote, urlsplit

from agentkit.engine import Engine
from agentkit.engines.memory import MemoryEngine
from agentkit.engines.retention import Retention
from agentkit.errors import ConfigurationError, quote

KNOWN = "memory://, sqlite:///path, redis://host:port/db"


def open_engine(url: str, *, retention: Retention | None = None) -> Engine:
    """Return the engine that a URL names.

    `sqlite:///data.db` is a file of the working directory, `sqlite:////srv/data.db` an absolute path; `?full_sync=1` makes every commit
    outlive a power cut. `redis://` and `rediss://` are as the redis client reads them; the server is first asked when something is. Both
    take `?lease=15`: seconds after which a run whose process is silent counts as lost.

    Args:
        url: which engine, and where.
        retention: how much of each log is kept.

    Raises:
        ConfigurationError: an unknown engine or option, or its driver is not installed.
        EngineError: the file cannot be used.
    """
    parts = urlsplit(url)
    match parts.scheme:
        case "memory":
            _options(parts.query, ())
            return MemoryEngine(retention=retention)
        case "sqlite":
            options = _options(parts.query, ("lease", "full_sync"))
            path = unquote(parts.path[1:])
            if parts.netloc or not path:
                raise ConfigurationError("an SQLite engine's URL is sqlite:///path, with three slashes")
            from agentkit.engines.sqlite import SQLiteEngine

            return SQLiteEngine(
                path, retention=retention, lease=_lease(options), full_sync=options.get("full_sync") == "1"
            )
        case "redis" | "rediss":
            try:
                from agentkit.engines.redis import RedisEngine
            except ImportError:
                raise ConfigurationError(
                    "the Redis engine needs its driver: pip install agentkit-live[redis]"
                ) from None
            options = _options(parts.query, ("lease",))
            return RedisEngine(parts._replace(query="").geturl(), retention=retention, lease=_lease(options))
        case _:
            raise ConfigurationError(f"unknown engine {quote(parts.scheme)}; known: {KNOWN}")


def _options(query: str, known: tuple[str, ...]) -> dict[str, str]:
    options = dict(parse_qsl(query, keep_blank_values=True))
    for name in options:
        if name not in known:
            raise ConfigurationError(
                f"unknown engine option {quote(name)}; known: {', '.join(known) or 'none'}"
            )
    return options


def _lease(options: dict[str, str]) -> float:
    try:
        lease = float(options.get("lease", "15"))
    except ValueError:
        lease = 0.0
    if not 0.1 <= lease <= 3600:
        raise ConfigurationError("an engine's lease is a number of seconds from 0.1 to 3600")
    return lease
