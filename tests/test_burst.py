"""Reading a body one socket read at a time."""

from collections.abc import AsyncGenerator, Callable

import anyio
import pytest

from agentkit.burst import BurstReader

pytestmark = pytest.mark.anyio


class Network:
    """A socket whose reads bring what `reads` says, each after a real wait; the last is the end."""

    def __init__(self, *reads: bytes) -> None:
        self.reads = list(reads)
        self.count = 0
        self.closed = False
        self.block = False

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        self.count += 1
        with anyio.fail_after(timeout):  # as the HTTP client does: a scope that must not leak into the caller
            await anyio.lowlevel.checkpoint()
            if self.block:
                await anyio.sleep_forever()
        return self.reads.pop(0) if self.reads else b""


async def letters(network: Network) -> AsyncGenerator[bytes]:
    """A body of one part a letter; `!` is a fault."""
    try:
        while data := await network.read(100, timeout=5):
            for letter in data.decode():
                if letter == "!":
                    raise ValueError("broken")
                yield letter.encode()
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.lowlevel.checkpoint()
        network.closed = True


async def tower(network: Network) -> AsyncGenerator[bytes]:
    """A generator over a generator that it does not close: dropping the inner one would warn on trio."""
    async for part in letters(network):
        yield part


async def read_all(reader: BurstReader) -> list[bytes]:
    out = []
    while data := await reader.next():
        out.append(data)
    return out


BODIES = [pytest.param(letters, id="one-generator"), pytest.param(tower, id="tower")]


@pytest.mark.parametrize("body", BODIES)
async def test_the_parts_of_one_read_come_as_one(body: Callable[[Network], AsyncGenerator[bytes]]) -> None:
    network = Network(b"abc", b"d", b"efgh")

    got = await read_all(BurstReader(body(network), network))

    assert got == [b"abc", b"d", b"efgh"]
    assert network.closed


async def test_parts_are_given_out_before_the_next_read_begins() -> None:
    network = Network(b"abc", b"d")
    reader = BurstReader(letters(network), network)

    assert (await reader.next(), network.count) == (b"abc", 1)
    assert (await reader.next(), network.count) == (b"d", 2)
    await reader.aclose()


async def test_without_a_network_each_part_comes_by_itself() -> None:
    assert await read_all(BurstReader(letters(Network(b"abc", b"d")))) == [b"a", b"b", b"c", b"d"]


async def test_a_network_that_takes_no_gate_is_no_hindrance() -> None:
    class Sealed:
        __slots__ = ()

    assert await read_all(BurstReader(letters(Network(b"ab")), Sealed())) == [b"a", b"b"]


async def test_reads_that_pass_the_gate_by_are_not_waited_for_with_parts_in_hand() -> None:
    network, other = Network(b"ab", b"c"), Network()
    reader = BurstReader(letters(network), other)

    assert (await reader.next(), network.count) == (b"a", 1)
    assert await read_all(reader) == [b"b", b"c"]


async def test_a_fault_behind_parts_comes_after_them() -> None:
    network = Network(b"a", b"bc!d")
    reader = BurstReader(letters(network), network)

    assert [await reader.next(), await reader.next()] == [b"a", b"bc"]
    for _ in range(2):
        with pytest.raises(ValueError, match="broken"):
            await reader.next()


async def test_a_timeout_of_the_read_reaches_the_caller_after_all_parts() -> None:
    network = Network(b"ab")

    async def impatient() -> AsyncGenerator[bytes]:
        yield await network.read(1, timeout=5)
        network.block = True
        yield await network.read(1, timeout=0.01)

    reader = BurstReader(impatient(), network)

    assert await reader.next() == b"ab"
    with pytest.raises(TimeoutError):
        await reader.next()
    await reader.aclose()


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("before", [0, 1, 2], ids=["unread", "held", "read"])
async def test_leaving_ends_the_iterator(
    body: Callable[[Network], AsyncGenerator[bytes]], before: int
) -> None:
    network = Network(b"ab", b"cd", b"ef")
    reader = BurstReader(body(network), network)
    for _ in range(before):
        await reader.next()

    await reader.aclose()

    assert network.closed
    assert network.count <= before


@pytest.mark.parametrize("body", BODIES)
async def test_a_cancelled_read_ends_the_iterator(body: Callable[[Network], AsyncGenerator[bytes]]) -> None:
    network = Network(b"ab")
    reader = BurstReader(body(network), network)
    first = await reader.next()
    network.block = True

    with anyio.move_on_after(0.01) as scope:
        await reader.next()

    assert (first, scope.cancelled_caught, network.closed) == (b"ab", True, True)
    assert await reader.next() == b""
    await reader.aclose()


async def test_scopes_of_the_caller_may_end_while_a_step_is_held() -> None:
    network = Network(b"ab", b"c")
    reader = BurstReader(letters(network), network)

    with anyio.fail_after(20):
        first = await reader.next()
    with anyio.fail_after(20):
        rest = [await reader.next(), await reader.next()]

    assert (first, rest) == (b"ab", [b"c", b""])


async def test_a_connection_serves_one_body_after_the_other() -> None:
    network = Network(b"ab")
    first = await read_all(BurstReader(letters(network), network))
    network.reads = [b"cd", b"e"]

    assert (first, await read_all(BurstReader(letters(network), network))) == ([b"ab"], [b"cd", b"e"])
    assert await network.read(1) == b""  # anybody else's read is as it was
