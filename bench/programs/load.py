"""Readers: many connections in one process, which counts what each gets. Standard library only.

    python load.py PORT PATH COUNT sse|socket [HELLO LINES] [--stall N]

It prints `ready PORT` once all are connected and greeted. A word `sum N [BURST]` on its input makes it print, as JSON, once each reader has N
deliveries, how many came, and the times from `ts:NANOSECONDSe` in them until now. With a burst it sends a datagram from that port, to who sent
one to it, whenever each has got that many more. `--stall` readers never read.
"""

import base64
import json
import os
import re
import resource
import selectors
import socket
import sys
import time

MARK = re.compile(rb"ts:(\d*)e")
PATIENCE = 60.0
"""Seconds until it gives up."""


class Reader:
    __slots__ = ("count", "socket", "tail")

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.tail = b""
        self.count = 0

    def take(self, data: bytes) -> list[bytes]:
        data = self.tail + data
        found = MARK.findall(data)
        self.count += len(found)
        self.tail = data[data.rfind(b"e") + 1 :][-40:] if found else data[-40:]
        return found


def masked(text: str) -> bytes:
    data = text.encode()
    size = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + len(data).to_bytes(2, "big")
    return b"\x81" + size + b"\0\0\0\0" + data


def connect(port: int, path: str, kind: str, hello: str) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    upgrade = ""
    if kind == "socket":
        key = base64.b64encode(os.urandom(16)).decode()
        upgrade = f"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n"
    connection.sendall(
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept: text/event-stream\r\n{upgrade}\r\n".encode()
    )
    head = b""
    while b"\r\n\r\n" not in head:
        more = connection.recv(65536)
        assert more, f"the server closed: {head!r}"
        head += more
    assert head[9:12] in (b"200", b"101"), head
    for line in hello.splitlines():
        connection.sendall(masked(line))
        assert connection.recv(65536), "the server closed"
    return connection


def quantile(values: list[int], part: float) -> float:
    return values[min(int(len(values) * part), len(values) - 1)] / 1e3 if values else 0.0


def follow(readers: list[Reader], wanted: int, burst: int, acks: socket.socket) -> None:
    """Read until each reader has `wanted` deliveries, and print what came."""
    selector = selectors.EpollSelector()
    for reader in readers:
        reader.socket.setblocking(False)
        selector.register(reader.socket, selectors.EVENT_READ, reader)
    late: list[int] = []
    left = waited = len(readers)
    goal, producer = burst, None
    until = time.monotonic() + PATIENCE
    while left and time.monotonic() < until:
        for key, _ in selector.select(1.0):
            reader = key.data
            data = reader.socket.recv(262144)
            now = time.monotonic_ns()
            before = reader.count
            late.extend(now - int(sent) for sent in reader.take(data) if sent)
            if before < goal <= reader.count:
                waited -= 1
            if burst and not waited:
                producer = producer or acks.recvfrom(16)[1]
                acks.sendto(b"got", producer)
                goal, waited = goal + burst, len(readers)
            if (before < wanted <= reader.count) or not data:
                left -= 1
                if not data:
                    selector.unregister(reader.socket)
    late.sort()
    got = [reader.count for reader in readers]
    said = {"least": min(got), "all": sum(got), "p50": quantile(late, 0.5), "p99": quantile(late, 0.99)}
    print(json.dumps(said), flush=True)


def main() -> None:
    stalled = int(sys.argv[sys.argv.index("--stall") + 1]) if "--stall" in sys.argv else 0
    port, path, count, kind = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
    hello = sys.argv[5] if len(sys.argv) > 5 and not sys.argv[5].startswith("--") else ""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    held = [connect(port, path, kind, hello) for _ in range(stalled)]
    readers = [Reader(connect(port, path, kind, hello)) for _ in range(count)]
    acks = socket.socket(type=socket.SOCK_DGRAM)
    acks.bind(("127.0.0.1", 0))
    acks.settimeout(PATIENCE)
    print("ready", acks.getsockname()[1], flush=True)
    for line in sys.stdin:
        word, *numbers = line.split()
        if word != "sum":
            break
        for reader in readers:
            reader.count = 0
        follow(readers, int(numbers[0]), int(numbers[1]) if len(numbers) > 1 else 0, acks)
    del held


if __name__ == "__main__":
    main()
