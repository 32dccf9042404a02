"""What all fan-out servers share: how they are asked to produce. Standard library only: it runs in the peers' environments too.

`GET /go?events=N&burst=B&rate=R&ack=PORT` makes a server publish N events, B at once; with a rate R > 0 that many a second, else each burst
once all readers have got the one before: whoever has them sends a datagram from that port. An event holds `{"ts": "ts:NANOSECONDSe"}` beside what an event needs.
"""

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
from urllib.parse import parse_qs

Publish = Callable[[int], Awaitable[None]]
"""Publish so many events at once and return when all readers have been given them."""


def text() -> str:
    """Return a delta's text, with the time in it."""
    return f"ts:{time.monotonic_ns()}e hello"


async def go(query: str, publish: Publish) -> None:
    """Produce what a query asks for."""
    asked = {name: float(values[0]) for name, values in parse_qs(query).items()}
    events, burst, rate = int(asked["events"]), int(asked.get("burst", 1)), asked.get("rate", 0.0)
    loop = asyncio.get_running_loop()
    begun = loop.time()
    with socket.socket(type=socket.SOCK_DGRAM) as readers:
        readers.setblocking(False)
        if not rate:
            readers.connect(("127.0.0.1", int(asked["ack"])))
            readers.send(b"here")
        for number in range(events // burst):
            if rate:
                await asyncio.sleep(max(0.0, begun + number * burst / rate - loop.time()))
            await publish(burst)
            if not rate:
                await loop.sock_recv(readers, 16)
