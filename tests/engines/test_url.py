"""Which engine a URL names."""

from pathlib import Path

import anyio
import pytest

from agentkit.engines.memory import MemoryEngine
from agentkit.engines.redis import RedisEngine
from agentkit.engines.sqlite import SQLiteEngine
from agentkit.engines.url import open_engine
from agentkit.errors import ConfigurationError

pytestmark = pytest.mark.pure


def test_memory() -> None:
    assert isinstance(open_engine("memory://"), MemoryEngine)


def test_redis_is_not_asked_before_it_is_used() -> None:
    engine = open_engine("redis://127.0.0.1:1/0?lease=3")

    assert isinstance(engine, RedisEngine)
    assert engine.leases.heartbeat == 1


def test_sqlite_takes_relative_and_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for url, path in [
        ("sqlite:///a%20b.db", tmp_path / "a b.db"),
        (f"sqlite:///{tmp_path}/deep/c.db?lease=3&full_sync=1", tmp_path / "deep" / "c.db"),
    ]:
        engine = open_engine(url)
        assert isinstance(engine, SQLiteEngine)
        anyio.run(engine.aclose)
        assert path.is_file()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("nats://x", "unknown engine 'nats'"),
        ("data.db", "unknown engine ''"),
        ("sqlite://data.db", "three slashes"),
        ("sqlite:///", "three slashes"),
        ("memory://?lease=3", "unknown engine option 'lease'"),
        ("sqlite:///x.db?sync=1", "unknown engine option 'sync'"),
        ("redis://x?lease=soon", "from 0.1 to 3600"),
        ("redis://x?lease=nan", "from 0.1 to 3600"),
    ],
)
def test_what_names_no_engine_is_refused(url: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        open_engine(url)
