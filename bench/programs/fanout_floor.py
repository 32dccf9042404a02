"""The floor of a fan-out: transports of asyncio, one write of shared bytes per reader and burst. The argument `socket` frames WebSockets.

With a provider's URL and a model's name it is the floor of a pipeline too: `GET /run` makes one request and publishes what each read of it brings.
It does less than a server has to: no back-pressure, no replay, no lag policy, no HTTP but what a reader says.
"""

# mypy: disable-error-code="call-arg, misc, no-any-return"

import asyncio
import base64
import hashlib
import re
import sys
import time

import client_floor
import msgspec
import producing

encode = msgspec.json.Encoder().encode
readers: list[asyncio.Transport] = []
kind = sys.argv[1]


class Data(msgspec.Struct, gc=False):
    text: str


class Envelope(msgspec.Struct, gc=False):
    v: int
    id: str
    seq: int
    type: str
    agent: str
    thread: str
    run: str
    step: int
    block: str
    time: float
    data: Data


class Log:
    """Numbers."""

    seq = 0


def frame(text: str, what: str = "text.delta") -> bytes:
    Log.seq += 1
    run = "run_0123456789abcdef"
    id = f"0123abcd-{Log.seq}"  # noqa: A001 - the field's name
    body = encode(
        Envelope(1, id, Log.seq, what, "bench", "main", run, 1, f"{run}.1.0", time.time(), Data(text))
    )
    if kind == "sse":
        event = b"id: %b\nevent: %b\ndata: %b\n\n" % (id.encode(), what.encode(), body)
        return b"%x\r\n%b\r\n" % (len(event), event)
    return b"\x81\x7e" + len(body).to_bytes(2, "big") + body


def write(data: bytes) -> None:
    for reader in readers:
        reader.write(data)


async def publish(burst: int) -> None:
    write(b"".join([frame(producing.text()) for _ in range(burst)]))
    await asyncio.sleep(0)


async def run() -> None:
    read, split = client_floor.anthropic(), client_floor.Splitter()

    def take(data: bytes) -> None:
        frames = []
        for payload in split.feed(data):
            event = read(payload)
            if event is not None:
                frames.append(
                    frame(event.text, "text.delta" if type(event) is client_floor.Text else "reasoning")
                )
        if frames:
            write(b"".join(frames))

    await client_floor.ask(sys.argv[2], "anthropic", sys.argv[3], take)


class Server(asyncio.Protocol):
    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        path = data.split(b" ", 2)[1].decode()
        if path.startswith(("/go", "/run")):
            work = producing.go(path.partition("?")[2], publish) if path.startswith("/go") else run()
            self.task = asyncio.ensure_future(work)
            self.task.add_done_callback(self.answer)
        elif kind == "sse":
            self.transport.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
            )
            readers.append(self.transport)
        else:
            key = re.search(rb"(?i)sec-websocket-key: (\S+)", data)
            assert key is not None
            accept = base64.b64encode(hashlib.sha1(key[1] + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
            self.transport.write(
                b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
                b"sec-websocket-accept: " + accept + b"\r\n\r\n"
            )
            readers.append(self.transport)

    def answer(self, task: "asyncio.Task[None]") -> None:
        task.result()
        self.transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the shape of a protocol
        if self.transport in readers:
            readers.remove(self.transport)


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
