"""Letting go of a model's connections: at once, behind the last answer, and never under another model."""

import anyio
import pytest
from provider_server import Gate, ProviderServer, stream
from toys import CLIENTS, GOOD, HELLO, REQUEST, choose, client, collect, data

from agentkit.client import _clients

pytestmark = pytest.mark.anyio


@pytest.fixture(params=CLIENTS)
def anyio_backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    return choose(str(request.param), monkeypatch)


async def test_a_closed_model_lets_its_connection_go_and_connects_again_when_asked() -> None:
    with ProviderServer(GOOD) as server:
        model = client(server.url)
        assert await collect(model) == HELLO

        await model.aclose()
        await model.aclose()
        assert _clients.find(model._address) is None
        assert await collect(model) == HELLO

        assert server.connections == 2


async def test_a_connection_that_two_models_use_goes_with_the_second() -> None:
    with ProviderServer(GOOD) as server:
        one, other = client(server.url), client(server.url)
        assert await collect(one) == HELLO
        assert await collect(other) == HELLO

        await one.aclose()
        assert await collect(other) == HELLO
        await other.aclose()

        assert server.connections == 1
        assert _clients.find(one._address) is None


async def test_an_answer_that_is_being_made_goes_on_to_its_end() -> None:
    gate = Gate()
    whole = stream(data("text Hello", "finish end"))
    with ProviderServer([*whole[:1], gate, *whole[1:]]) as server:
        model = client(server.url)
        with anyio.fail_after(20):
            async with model.stream(REQUEST) as answer, anyio.create_task_group() as group:
                got: list[object] = []

                async def read() -> None:
                    while items := await answer.next():
                        got.extend(items)

                group.start_soon(read)
                await anyio.to_thread.run_sync(server._wait_asked, 1)
                await anyio.wait_all_tasks_blocked()
                await model.aclose()
                gate.open()

    assert got == HELLO


async def test_closing_what_was_never_used_does_nothing() -> None:
    await client("http://127.0.0.1:1").aclose()
