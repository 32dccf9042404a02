"""A server that answers exactly the bytes that a test wrote, one scripted answer after the other, and notes what was asked."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


@dataclass
class Answer:
    """One answer; the connection ends behind it."""

    body: bytes = b""
    status: int = 200
    content_type: str = "text/event-stream"
    headers: dict[str, str] = field(default_factory=dict)
    hold: bool = False
    """True: the connection stays open, silent, until the server ends."""


class Streams:
    """What a server says.

    Attributes:
        answers: by path, in turn; the last one again and again.
        asked: by path, the headers of each request, with names in lower case.
    """

    def __init__(self) -> None:
        self.answers: dict[str, list[Answer]] = {}
        self.asked: dict[str, list[dict[str, str]]] = {}
        self.over = threading.Event()
        self.url = ""

    def put(self, path: str, *answers: Answer) -> str:
        """Answer a path so; returns it."""
        self.answers[path] = list(answers)
        self.asked[path] = []
        return path


@contextmanager
def raw_streams() -> Iterator[Streams]:
    """Serve; every other path is an empty page."""
    streams = Streams()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = urlsplit(self.path).path
            answers = streams.answers.get(path, [Answer(b"<!doctype html>", content_type="text/html")])
            streams.asked.setdefault(path, []).append(
                {name.lower(): value for name, value in self.headers.items()}
            )
            answer = answers.pop(0) if len(answers) > 1 else answers[0]
            self.send_response(answer.status)
            if answer.content_type:
                self.send_header("Content-Type", answer.content_type)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body)
            if answer.hold:
                self.wfile.flush()
                streams.over.wait(30)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    streams.url = f"http://127.0.0.1:{server.server_address[1]}/"
    thread = threading.Thread(target=server.serve_forever, name="raw streams")
    thread.start()
    try:
        yield streams
    finally:
        streams.over.set()
        server.shutdown()
        server.server_close()
        thread.join(5)
