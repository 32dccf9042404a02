"""The Redis engine against the conformance table."""

from collections.abc import Callable, Iterator

import pytest
from redis_server import PROGRAM, RedisServer

from agentkit.engines.redis import RedisEngine
from agentkit.testing.engines import ENGINE_CHECKS, EngineCheck

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def server(
    require: Callable[[str, bool, str], None], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RedisServer]:
    require("redis", PROGRAM is not None, "apt-get install redis-server")
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    yield server
    server.kill()


@pytest.mark.parametrize("check", ENGINE_CHECKS, ids=str)
async def test_redis(check: EngineCheck, server: RedisServer) -> None:
    await check.run(lambda: RedisEngine(server.url))
