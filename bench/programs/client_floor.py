"""The floor of a client: a protocol of asyncio, a parser in C (httptools), one split per read, msgspec structs, lists of texts.

It does less than a client has to: no CR, no comments, no errors, no timeouts. `first` is measured against a plain HTTP client (httpx2).
"""

# msgspec is installed in the floor's own environment only.
# mypy: disable-error-code="call-arg, misc"

import asyncio
import json
import os
import ssl
from collections.abc import Callable
from urllib.parse import urlsplit

import consuming
import httptools
import httpx2
import msgspec

PATHS = {
    "anthropic": "/v1/messages",
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "gemini": "/v1beta/models/m:streamGenerateContent?alt=sse",
}


class Text(msgspec.Struct, gc=False):
    text: str


class Reasoning(msgspec.Struct, gc=False):
    text: str


class Delta(msgspec.Struct, gc=False):
    text: str = ""
    thinking: str = ""
    partial_json: str = ""


class Anthropic(msgspec.Struct, gc=False):
    type: str
    delta: Delta | None = None


class ChatDelta(msgspec.Struct, gc=False):
    content: str | None = None
    reasoning_content: str | None = None


class Choice(msgspec.Struct, gc=False):
    delta: ChatDelta


class Chat(msgspec.Struct, gc=False):
    choices: list[Choice]


class Responses(msgspec.Struct, gc=False):
    type: str
    delta: str = ""


class Part(msgspec.Struct, gc=False):
    text: str = ""
    thought: bool = False


class Content(msgspec.Struct, gc=False):
    parts: list[Part]


class Candidate(msgspec.Struct, gc=False):
    content: Content


class Gemini(msgspec.Struct, gc=False):
    candidates: list[Candidate]


Event = Text | Reasoning | None


def anthropic() -> Callable[[bytes], Event]:
    decode = msgspec.json.Decoder(Anthropic).decode

    def read(data: bytes) -> Event:
        event = decode(data)
        delta = event.delta
        if event.type != "content_block_delta" or delta is None:
            return None
        if delta.thinking:
            return Reasoning(delta.thinking)
        text = delta.text or delta.partial_json
        return Text(text) if text else None

    return read


def chat() -> Callable[[bytes], Event]:
    decode = msgspec.json.Decoder(Chat).decode

    def read(data: bytes) -> Event:
        if data == b"[DONE]":
            return None
        choices = decode(data).choices
        if not choices:
            return None
        delta = choices[0].delta
        if delta.content:
            return Text(delta.content)
        return Reasoning(delta.reasoning_content) if delta.reasoning_content else None

    return read


def responses() -> Callable[[bytes], Event]:
    decode = msgspec.json.Decoder(Responses).decode

    def read(data: bytes) -> Event:
        event = decode(data)
        if event.type == "response.output_text.delta":
            return Text(event.delta)
        return Reasoning(event.delta) if event.type == "response.reasoning_summary_text.delta" else None

    return read


def gemini() -> Callable[[bytes], Event]:
    decode = msgspec.json.Decoder(Gemini).decode

    def read(data: bytes) -> Event:
        part = decode(data).candidates[0].content.parts[0]
        if not part.text:
            return None
        return Reasoning(part.text) if part.thought else Text(part.text)

    return read


READERS = {"anthropic": anthropic, "chat": chat, "responses": responses, "gemini": gemini}


class Splitter:
    """Cut what comes at blank lines, once a read."""

    def __init__(self) -> None:
        self.rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        data = self.rest + data
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n")
        *frames, self.rest = data.split(b"\n\n")
        return [frame[frame.find(b"data: ") + 6 :] for frame in frames]


class Client(asyncio.Protocol):
    """Hand out the bytes of a body, a read at a time."""

    def __init__(self, take: Callable[[bytes], None]) -> None:
        self.take = take
        self.parts: list[bytes] = []
        self.on_body = self.parts.append
        self.parser = httptools.HttpResponseParser(self)
        self.done = asyncio.get_running_loop().create_future()

    def on_message_complete(self) -> None:
        self.flush()
        self.done.set_result(None)

    def flush(self) -> None:
        if self.parts:
            self.take(b"".join(self.parts))
            self.parts.clear()

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)
        self.flush()


async def ask(base: str, shape: str, name: str, take: Callable[[bytes], None]) -> None:
    """Make one request and hand the body to `take`."""
    url = urlsplit(base)
    body = json.dumps({"model": name}).encode()
    trust = ssl.create_default_context(cafile=os.environ["SSL_CERT_FILE"]) if url.scheme == "https" else None
    loop = asyncio.get_running_loop()
    assert url.hostname is not None
    assert url.port is not None
    transport, client = await loop.create_connection(lambda: Client(take), url.hostname, url.port, ssl=trust)
    head = f"POST {PATHS[shape]} HTTP/1.1\r\nhost: {url.netloc}\r\ncontent-length: {len(body)}\r\n\r\n"
    transport.write(head.encode() + body)
    await client.done
    transport.close()


async def consume(shape: str, base: str, name: str) -> consuming.Sink:
    sink = consuming.Sink()
    if name == "bench-300-60":
        await first(sink, shape, base, name)
        return sink
    read, split = READERS[shape](), Splitter()
    text, reasoning = sink.text.append, sink.reasoning.append

    def take(data: bytes) -> None:
        count = 0
        for payload in split.feed(data):
            event = read(payload)
            if event is not None:
                count += 1
                (text if type(event) is Text else reasoning)(event.text)
        sink.count += count

    await ask(base, shape, name, take)
    return sink


_http: list[httpx2.AsyncClient] = []


async def first(sink: consuming.Sink, shape: str, base: str, name: str) -> None:
    """Take an answer with a warm HTTP client, up to its first delta and on."""
    if not _http:
        _http.append(httpx2.AsyncClient(timeout=60, trust_env=False))
    read, split = READERS[shape](), Splitter()
    async with _http[0].stream("POST", base + PATHS[shape], json={"model": name}) as answer:
        async for data in answer.aiter_raw():
            for payload in split.feed(data):
                event = read(payload)
                if event is not None:
                    sink.add(event.text, reasoning=type(event) is Reasoning)


if __name__ == "__main__":
    consuming.main(consume)
