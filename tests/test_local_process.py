"""A child process that serves: started when it is needed, again where it died, and never left behind."""

import gc
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from agentkit import local_process
from agentkit.local_process import ServerProcess, Unserved

pytestmark = pytest.mark.anyio


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ServerProcess]:
    """`serve(program)`: a process that runs the text of a program, whose first argument is a weights file."""

    def make(program: str, *arguments: str, timeout: float = 10.0) -> ServerProcess:
        path = tmp_path / "program.py"
        path.write_text(f"import os, sys\n{program}\n")
        monkeypatch.setattr(local_process, "_PROGRAM", path)
        return ServerProcess(Path("/models/toy.gguf"), arguments, timeout=timeout)

    return make


def lives(pid: int | None) -> bool:
    assert pid is not None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_nothing_runs_before_the_address_is_asked_for(serve: Callable[..., ServerProcess]) -> None:
    server = serve("print('http://127.0.0.1:9', flush=True)\nsys.stdin.read()")
    before = server.pid

    with anyio.fail_after(20):
        address = await server.address()

    assert (before, address) == (None, "http://127.0.0.1:9")
    assert lives(server.pid)
    server.stop()


async def test_all_who_ask_share_one_process(serve: Callable[..., ServerProcess]) -> None:
    server = serve("print(f'http://127.0.0.1:{os.getpid()}', flush=True)\nsys.stdin.read()")
    addresses: list[str] = []

    async def ask() -> None:
        addresses.append(await server.address())

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(ask)

    assert addresses == [f"http://127.0.0.1:{server.pid}"] * 5
    server.stop()


async def test_the_program_gets_weights_arguments_and_the_key(serve: Callable[..., ServerProcess]) -> None:
    server = serve(
        "print('|'.join([*sys.argv[1:], os.environ['LLAMA_API_KEY']]), flush=True)\nsys.stdin.read()", "--x"
    )

    with anyio.fail_after(20):
        said = await server.address()

    assert said == f"/models/toy.gguf|--x|{server.key}"
    assert len(server.key) > 24
    server.stop()


async def test_one_that_died_is_started_again(serve: Callable[..., ServerProcess]) -> None:
    server = serve("print(os.getpid(), flush=True)\nsys.stdin.read()")
    with anyio.fail_after(20):
        first = await server.address()
        os.kill(int(first), signal.SIGKILL)
        while server.pid is not None:  # noqa: ASYNC110 - nobody tells of a death
            await anyio.sleep(0.01)

        second = await server.address()

    assert second == str(server.pid)
    assert second != first
    server.stop()


async def test_a_stop_ends_it_and_the_next_question_starts_it(serve: Callable[..., ServerProcess]) -> None:
    server = serve("print(os.getpid(), flush=True)\nsys.stdin.read()")
    with anyio.fail_after(20):
        first = int(await server.address())
        server.stop()
        gone = not lives(first)
        second = int(await server.address())
    server.stop()
    server.stop()

    assert gone
    assert first != second
    assert not lives(second)


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (
            "sys.exit(f'0.00.1 I load\\n0.00.2 E load: {sys.argv[1]} is cut\\n0.00.3 E srv: exiting')",
            "it ended with status 1: load: toy.gguf is cut",
        ),
        ("print('one', file=sys.stderr); sys.exit('No module named x')", "it ended with status 1: No module named x"),
        ("sys.exit(3)", "it ended with status 3: it said nothing"),
        ("print('x' * 9000, file=sys.stderr); os.kill(os.getpid(), 9)", f"it ended with status -9: {'x' * 300}"),
    ],
    ids=["llama.cpp", "Python", "nothing", "killed"],
)  # fmt: skip
async def test_one_that_does_not_come_up_says_why(
    serve: Callable[..., ServerProcess], program: str, reason: str
) -> None:
    server = serve(program)

    with anyio.fail_after(20), pytest.raises(Unserved) as caught:
        await server.address()

    assert str(caught.value) == reason
    server.stop()


async def test_all_who_wait_for_one_that_fails_are_told_and_it_is_tried_once(
    serve: Callable[..., ServerProcess], tmp_path: Path
) -> None:
    tries = tmp_path / "tries"
    server = serve(f"open({str(tries)!r}, 'a').write('x'); sys.stdin.readline(); sys.exit('broken')")
    told: list[str] = []

    async def ask() -> None:
        try:
            await server.address()
        except Unserved as error:
            told.append(str(error))

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(ask)
            while not tries.exists() or not tries.read_text():  # noqa: ASYNC110 - the program has begun
                await anyio.sleep(0.01)
            pid = server.pid
            assert pid is not None
            os.kill(pid, signal.SIGTERM)

    assert told == ["it ended with status -15: it said nothing"] * 3
    assert tries.read_text() == "x"
    server.stop()


async def test_one_that_stays_silent_is_given_up_and_ended(serve: Callable[..., ServerProcess]) -> None:
    server = serve("sys.stdin.read()", timeout=0.2)

    with anyio.fail_after(20), pytest.raises(Unserved, match=r"it did not serve within 0\.2 s"):
        await server.address()

    assert server.pid is None


async def test_one_that_nobody_holds_any_more_is_ended(serve: Callable[..., ServerProcess]) -> None:
    server = serve("print(os.getpid(), flush=True)\nsys.stdin.read()")
    with anyio.fail_after(20):
        pid = int(await server.address())

    del server
    gc.collect()

    assert not lives(pid)


PARENT = """
import anyio, os, pathlib, sys
from agentkit import local_process
local_process._PROGRAM = pathlib.Path(sys.argv[1])
server = local_process.ServerProcess(pathlib.Path("x"))
print(anyio.run(server.address), flush=True)
"""


async def run_parent(tmp_path: Path, more: str = "") -> tuple[int, str]:
    """Run a process that has a server, and `more` in it. Returns the server's process id, and what the parent said of it."""
    program = tmp_path / "program.py"
    program.write_text("import os, sys\nprint(os.getpid(), flush=True)\nsys.stdin.read()\n")
    with anyio.fail_after(20):
        result = await anyio.run_process([sys.executable, "-c", PARENT + more, str(program)])
    assert result.stderr == b""
    first, _, rest = result.stdout.decode().partition("\n")
    return int(first), rest.strip()


async def test_a_process_that_ends_takes_its_server_along(tmp_path: Path) -> None:
    pid, _ = await run_parent(tmp_path)

    assert not lives(pid)


async def test_a_fork_leaves_its_parents_server_alone(tmp_path: Path) -> None:
    pid, later = await run_parent(
        tmp_path,
        "child = os.fork()\n"
        "if child == 0:\n    server.stop()\n    os._exit(0 if server.pid is None else 1)\n"
        "print(os.waitpid(child, 0)[1], anyio.run(server.address))\n",
    )

    assert later == f"0 {pid}"
