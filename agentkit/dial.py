"""Connect a TCP socket to a host by whichever of its addresses answers first.

Not pure: it looks a name up and connects. Asyncio only, any of its loops: uvloop has no race of its own. Source: RFC 8305 (Happy Eyeballs),
sections 4 and 5: the families take turns, and the next address is tried when the one before has failed or kept silent for a while.
"""

import asyncio
import ipaddress
import socket
from itertools import chain, zip_longest
from typing import Any, Final, TypeAlias

import anyio

_HEAD_START: Final = 0.25
"""Seconds that an address is alone with before the next is tried too; what the RFC recommends."""

_Address: TypeAlias = tuple[socket.AddressFamily, Any]


async def dial(host: str, port: int) -> socket.socket:
    """Return a connected, non-blocking socket. It has no bound of its own: the caller's scope ends the wait.

    Args:
        host: a name, or an address without brackets.
        port: its port.

    Raises:
        OSError: the name is unknown, or no address took the connection; what the first of them said.
    """
    addresses = await _look_up(host, port)
    if len(addresses) == 1:
        return await _connect(addresses[0])
    won: list[socket.socket] = []
    faults: dict[int, OSError] = {}

    async def attempt(place: int, failed: anyio.Event) -> None:
        try:
            connected = await _connect(addresses[place])
        except OSError as error:
            faults[place] = error
            failed.set()
            return
        if won:
            connected.close()
            return
        won.append(connected)
        tasks.cancel_scope.cancel()

    try:
        async with anyio.create_task_group() as tasks:
            for place in range(len(addresses)):
                failed = anyio.Event()
                tasks.start_soon(attempt, place, failed)
                with anyio.move_on_after(_HEAD_START):
                    await failed.wait()
    except BaseException:
        for connected in won:
            connected.close()
        raise
    if not won:
        raise faults[0]
    return won[0]


async def _look_up(host: str, port: int) -> list[_Address]:
    """Return the addresses in the order to try them: the first one's family begins, then they take turns."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    else:  # it only converts: not worth a thread
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    first = [(family, address) for family, _, _, _, address in found if family == found[0][0]]
    others = [(family, address) for family, _, _, _, address in found if family != found[0][0]]
    return [one for one in chain.from_iterable(zip_longest(first, others)) if one is not None]


async def _connect(where: _Address) -> socket.socket:
    family, address = where
    connected = socket.socket(family, socket.SOCK_STREAM)
    try:
        connected.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connected, address)
    except BaseException:
        connected.close()
        raise
    return connected
