"""A provider that answers with made streams: four formats, in one burst or at a pace. A program of its own, with the standard library only.

    python provider.py [CERTIFICATE KEY]

It prints its port. What is wanted stands in the model's name, which every client passes on: `bench-burst-20000` is 20,000 deltas as fast as
the socket takes them, one event a chunk of HTTP; `bench-300-2000` is one socket write per delta, 300 µs apart; `bench-tool-20000` is a call
with arguments of that many pieces (Anthropic's format). Half of the deltas are reasoning, half are text.
"""

import contextlib
import json
import re
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import cache

WORD = "ts:e eleven "
"""A delta's text. Programs that count deliveries look for `ts:…e`."""
WANTED = re.compile(rb"bench-(burst|tool|\d+)-(\d+)")
HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\n"
    b"request-id: req_1\r\ntransfer-encoding: chunked\r\n\r\n"
)


def frame(value: object, name: str = "", end: str = "\n\n") -> bytes:
    event = f"event: {name}\n" if name else ""
    return f"{event}data: {json.dumps(value, separators=(',', ':'))}{end}".encode()


def anthropic(count: int, *, tool: bool = False) -> Iterator[bytes]:
    def event(kind: str, **members: object) -> bytes:
        return frame({"type": kind, **members}, kind)

    usage = {"input_tokens": 3, "output_tokens": 1}
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": [],
        "usage": usage,
    }
    yield event("message_start", message={**message, "stop_reason": None, "stop_sequence": None})
    if tool:
        start: dict[str, object] = {"type": "tool_use", "id": "toolu_1", "name": "write_file", "input": {}}
        yield event("content_block_start", index=0, content_block=start)
        pieces = ['{"text":"', *[WORD] * (count - 2), '"}']
        for piece in pieces:
            delta = {"type": "input_json_delta", "partial_json": piece}
            yield event("content_block_delta", index=0, delta=delta)
        yield event("content_block_stop", index=0)
    for index, kind in enumerate(() if tool else ("thinking", "text")):
        extra = {"signature": ""} if kind == "thinking" else {}
        yield event("content_block_start", index=index, content_block={"type": kind, kind: "", **extra})
        delta = {"type": f"{kind}_delta", kind: WORD}
        yield from [event("content_block_delta", index=index, delta=delta)] * (count // 2)
        if kind == "thinking":
            signed = {"type": "signature_delta", "signature": "c2lnbmF0dXJl"}
            yield event("content_block_delta", index=index, delta=signed)
        yield event("content_block_stop", index=index)
    reason = {"stop_reason": "tool_use" if tool else "end_turn", "stop_sequence": None}
    yield event("message_delta", delta=reason, usage={"output_tokens": count})
    yield event("message_stop")


def chat(count: int) -> Iterator[bytes]:
    common = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}

    def event(delta: dict[str, object], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return frame({**common, "choices": [choice]})

    yield event({"role": "assistant", "content": ""})
    for member in ("reasoning_content", "content"):
        yield from [event({member: WORD})] * (count // 2)
    yield event({}, "stop")
    usage = {"prompt_tokens": 3, "completion_tokens": count, "total_tokens": count + 3}
    yield frame({**common, "choices": [], "usage": usage})
    yield b"data: [DONE]\n\n"


def responses(count: int) -> Iterator[bytes]:
    number = iter(range(10**9))

    def event(kind: str, **members: object) -> bytes:
        return frame({"type": kind, **members, "sequence_number": next(number)}, kind)

    half, text = count // 2, WORD * (count // 2)
    response: dict[str, object] = {
        "id": "resp_1", "object": "response", "created_at": 1, "status": "in_progress", "model": "m", "output": [],
        "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "usage": None, "metadata": {},
    }  # fmt: skip
    yield event("response.created", response=response)
    summary = {"type": "summary_text", "text": ""}
    place = {"item_id": "rs_1", "output_index": 0, "summary_index": 0}
    yield event(
        "response.output_item.added", output_index=0, item={"id": "rs_1", "type": "reasoning", "summary": []}
    )
    yield event("response.reasoning_summary_part.added", **place, part=summary)
    for _ in range(half):
        yield event("response.reasoning_summary_text.delta", **place, delta=WORD)
    yield event("response.reasoning_summary_text.done", **place, text=text)
    yield event("response.reasoning_summary_part.done", **place, part={**summary, "text": text})
    thought = {"id": "rs_1", "type": "reasoning", "summary": [{**summary, "text": text}]}
    yield event("response.output_item.done", output_index=0, item=thought)
    said = {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress"}
    yield event("response.output_item.added", output_index=1, item={**said, "content": []})
    part: dict[str, object] = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    place = {"item_id": "msg_1", "output_index": 1, "content_index": 0}
    yield event("response.content_part.added", **place, part=part)
    for _ in range(half):
        yield event("response.output_text.delta", **place, delta=WORD, logprobs=[])
    yield event("response.output_text.done", **place, text=text, logprobs=[])
    yield event("response.content_part.done", **place, part={**part, "text": text})
    whole = {**said, "status": "completed", "content": [{**part, "text": text}]}
    yield event("response.output_item.done", output_index=1, item=whole)
    usage = {
        "input_tokens": 3, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": count,
        "output_tokens_details": {"reasoning_tokens": half}, "total_tokens": count + 3,
    }  # fmt: skip
    yield event(
        "response.completed",
        response={**response, "status": "completed", "output": [thought, whole], "usage": usage},
    )


def gemini(count: int) -> Iterator[bytes]:
    usage = {"promptTokenCount": 3, "candidatesTokenCount": 9, "totalTokenCount": 12}

    def event(part: dict[str, object], **members: object) -> bytes:
        candidate = {"content": {"parts": [part], "role": "model"}, "index": 0, **members}
        said = {
            "candidates": [candidate],
            "usageMetadata": usage,
            "modelVersion": "gemini",
            "responseId": "r1",
        }
        return frame(said, end="\r\n\r\n")

    yield from [event({"text": WORD, "thought": True})] * (count // 2)
    yield from [event({"text": WORD})] * (count // 2)
    yield event({"text": ""}, finishReason="STOP")


FORMATS: dict[bytes, Callable[[int], Iterator[bytes]]] = {
    b"messages": anthropic,
    b"completions": chat,
    b"responses": responses,
    b"streamGenerateContent": gemini,
}


@cache
def pieces(path: bytes, mode: bytes, count: int) -> list[bytes]:
    """Return the chunks of HTTP of one answer."""
    made = next(make for word, make in FORMATS.items() if word in path)
    events = anthropic(count, tool=True) if mode == b"tool" else made(count)
    return [b"%x\r\n%b\r\n" % (len(event), event) for event in events] + [b"0\r\n\r\n"]


@cache
def burst(path: bytes, mode: bytes, count: int) -> bytes:
    return b"".join(pieces(path, mode, count))


def requests(connection: socket.socket) -> Iterator[bytes]:
    """Yield whole requests."""
    data = b""
    while True:
        while b"\r\n\r\n" not in data:
            if not (more := connection.recv(65536)):
                return
            data += more
        head, _, _ = data.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        size = len(head) + 4 + (int(length[1]) if length else 0)
        while len(data) < size:
            data += connection.recv(65536)
        yield data[:size]
        data = data[size:]


def serve(connection: socket.socket) -> None:
    with contextlib.suppress(OSError), connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for request in requests(connection):
            path = request.split(b" ", 2)[1].partition(b"?")[0]
            wanted = WANTED.search(request)
            assert wanted is not None, request
            mode, count = wanted[1], int(wanted[2])
            connection.sendall(HEAD)
            if not mode.isdigit():
                connection.sendall(burst(path, mode, count))
                continue
            due = time.perf_counter()
            for piece in pieces(path, mode, count):
                connection.sendall(piece)
                due += int(mode) / 1e6
                while (left := due - time.perf_counter()) > 0:
                    time.sleep(left if left > 0.0002 else 0)


def main() -> None:
    tls = None
    if len(sys.argv) > 2:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(sys.argv[1], sys.argv[2])
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    print(listener.getsockname()[1], flush=True)
    while True:
        connection, _ = listener.accept()
        if tls is not None:
            connection = tls.wrap_socket(connection, server_side=True)
        threading.Thread(target=serve, args=(connection,), daemon=True).start()


if __name__ == "__main__":
    main()
