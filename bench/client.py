"""What a delta costs from the provider's socket to a list of chunks: CPU microseconds of this process, in bursts over loopback.

    python bench/client.py [DELTAS ...]

The provider is a process of its own that sends the whole answer at once, one event a chunk of HTTP: the worst case for the HTTP client.
`no bursts` shows what reading by the socket read saves behind it: the same work, but a list a chunk.
"""

import contextlib
import multiprocessing
import multiprocessing.connection
import socket
import statistics
import sys
import time
from collections.abc import Iterator
from unittest import mock

import anyio

from agentkit import burst
from agentkit.content import Message
from agentkit.model import ModelRequest
from agentkit.providers import connect

ROUNDS = 5
REQUEST = ModelRequest([Message.user("hi")])


def anthropic_events(count: int) -> Iterator[bytes]:
    """Half of the deltas are thinking, half are text."""
    yield b'event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":3,"output_tokens":1}}}\n\n'
    for index, (block, delta) in enumerate((("thinking", "thinking_delta"), ("text", "text_delta"))):
        name = block.encode()
        yield (
            b'event: content_block_start\ndata: {"type":"content_block_start","index":%d,'
            b'"content_block":{"type":"%b","%b":""}}\n\n' % (index, name, name)
        )
        event = (
            b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,'
            b'"delta":{"type":"%b","%b":"eleven char"}}\n\n' % (index, delta.encode(), name)
        )
        for _ in range(count // 2):
            yield event
        yield b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n' % index
    yield b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}}\n\n'
    yield b'event: message_stop\ndata: {"type":"message_stop"}\n\n'


def chat_events(count: int) -> Iterator[bytes]:
    """Half of the deltas are reasoning, half are text."""
    frame = (
        b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":'
        b'[{"index":0,"delta":{"%b":"eleven char"},"finish_reason":null}]}\n\n'
    )
    for field in (b"reasoning_content", b"content"):
        for _ in range(count // 2):
            yield frame % field
    yield b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


EVENTS = {"/v1/messages": anthropic_events, "/v1/chat/completions": chat_events}


def serve(pipe: multiprocessing.connection.Connection, count: int) -> None:
    """Answer every request with one burst; the pipe gets the port."""
    bodies = {
        path: b"".join(b"%x\r\n%b\r\n" % (len(event), event) for event in events(count)) + b"0\r\n\r\n"
        for path, events in EVENTS.items()
    }
    listener = socket.create_server(("127.0.0.1", 0))
    pipe.send(listener.getsockname()[1])
    while True:
        connection, _ = listener.accept()
        with connection:
            request = b""
            while b"\r\n\r\n" not in request or not request.endswith(b"}"):
                request += connection.recv(65536)
            head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
            with contextlib.suppress(OSError):
                connection.sendall(head + bodies[request.split(b" ", 2)[1].decode()])


async def measure(name: str, port: int) -> tuple[float, int, int]:
    """Return CPU seconds, chunks and lists of one answer."""
    model = connect(name, key="none", base_url=f"http://127.0.0.1:{port}")
    chunks = lists = 0
    async with model.stream(REQUEST) as answer:
        started = time.process_time()
        while items := await answer.next():
            chunks += len(items)
            lists += 1
        return time.process_time() - started, chunks, lists


def report(label: str, name: str, port: int, count: int) -> None:
    """Print the median of some rounds."""
    rounds = [anyio.run(measure, name, port) for _ in range(ROUNDS)]
    seconds = statistics.median(taken for taken, _, _ in rounds)
    _, chunks, lists = rounds[-1]
    print(f"{label:34}{count:>9}{chunks:>9}{lists:>9}{seconds / count * 1e6:>12.2f}")


def main() -> None:
    """Measure and print."""
    print(f"{'':34}{'deltas':>9}{'chunks':>9}{'lists':>9}{'µs a delta':>12}")
    for count in [int(given) for given in sys.argv[1:]] or [20_000]:
        ours, theirs = multiprocessing.Pipe()
        server = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs, count), daemon=True)
        server.start()
        port = ours.recv()
        try:
            for name in ("anthropic:m", "openai-chat:m"):
                report(name.partition(":")[0], name, port, count)
                with mock.patch.object(burst, "_gate", return_value=None):
                    report(f"{name.partition(':')[0]}, no bursts", name, port, count)
        finally:
            server.terminate()
            server.join()


if __name__ == "__main__":
    main()
