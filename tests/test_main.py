import io
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentkit.__main__ import main
from agentkit.dialects.table import DIALECTS

BODY = (
    b'data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Gr\xc3\xbc\xc3\x9fe \\ud83c"}}\n\n'
    b'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}\n\n'
)


def decode(
    capfdbinary: pytest.CaptureFixture[bytes], *arguments: str
) -> tuple[int, dict[str, object], bytes]:
    status = main(["decode", "--dialect", "anthropic-messages", *arguments])
    out, err = capfdbinary.readouterr()
    return status, json.loads(out) if out else {}, err


def test_decode_prints_what_a_file_holds(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    (tmp_path / "a.sse").write_bytes(BODY)

    status, reading, err = decode(capfdbinary, str(tmp_path / "a.sse"))

    assert (status, reading["text"], reading["finish"], err) == (0, "Grüße \ufffd", "stop", b"")


def test_decode_reads_standard_input(
    capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(BODY)))

    status, reading, _ = decode(capfdbinary, "-")

    assert (status, reading["order"]) == (0, ["text"])


def test_decode_prints_what_came_before_broken_bytes_and_fails(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    (tmp_path / "a.sse").write_bytes(BODY + b"data: {\n\n")

    status, reading, _ = decode(capfdbinary, str(tmp_path / "a.sse"))

    assert (status, reading["text"]) == (1, "Grüße \ufffd")
    assert reading["error"] == {
        "kind": "wire",
        "code": "",
        "message": "anthropic-messages payload is not JSON: '{'",
        "retryable": False,
        "partial": True,
    }


@pytest.mark.parametrize(
    ("end", "kind"),
    [
        pytest.param(b"", "truncated", id="cut"),
        pytest.param(b'event: error\ndata: {"error":{"message":"Overloaded"}}\n\n', "provider", id="error"),
    ],
)
def test_decode_fails_where_the_stream_did_not_end_well(
    end: bytes, kind: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    start = (
        b'data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Half"}}\n\n'
    )
    (tmp_path / "a.sse").write_bytes(start + end)

    status, reading, err = decode(capfdbinary, str(tmp_path / "a.sse"))

    assert (status, reading["text"], err) == (1, "Half", b"")
    assert isinstance(reading["error"], dict)
    assert reading["error"]["kind"] == kind


def test_decode_says_which_file_cannot_be_read(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    status, reading, err = decode(capfdbinary, "/nowhere/a.sse")

    assert (status, reading) == (1, {})
    assert err == b"cannot read /nowhere/a.sse: No such file or directory\n"


def test_think_tags_are_looked_for_only_when_asked(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    (tmp_path / "a.sse").write_bytes(
        b'data: {"choices":[{"index":0,"delta":{"content":"<think>hm</think>a"}}]}\n\ndata: [DONE]\n\n'
    )
    arguments = ["decode", "--dialect", "openai-chat", str(tmp_path / "a.sse")]

    texts = []
    for more in ([], ["--think-tags"]):
        assert main([*arguments, *more]) == 0
        texts.append(json.loads(capfdbinary.readouterr().out)["text"])

    assert texts == ["<think>hm</think>a", "a"]


@pytest.mark.parametrize("arguments", [[], ["decode"], ["decode", "--dialect", "none", "x"]], ids=str)
def test_a_wrong_command_line_says_how(
    arguments: list[str], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)

    assert caught.value.code == 2
    assert b"usage: python -m agentkit" in capfdbinary.readouterr().err


def test_it_runs_as_a_module_in_a_terminal_of_any_encoding(tmp_path: Path) -> None:
    (tmp_path / "a.sse").write_bytes(BODY)

    done = subprocess.run(
        [sys.executable, "-m", "agentkit", "decode", "--dialect", "anthropic-messages", str(tmp_path / "a.sse")],
        capture_output=True, check=True, timeout=30, env={"PYTHONIOENCODING": "ascii"},
    )  # fmt: skip

    assert json.loads(done.stdout)["text"] == "Grüße \ufffd"


def test_every_dialect_stands_in_the_table_by_its_own_name() -> None:
    assert {name: dialect.name for name, dialect in DIALECTS.items()} == {name: name for name in DIALECTS}


THREAD = [
    {"role": "user", "content": [{"type": "text", "text": "Grüße"}]},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "c2ln", "signature_format": "anthropic-messages",
             "origin": {"dialect": "anthropic-messages", "provider": "anthropic", "model": "demo"}},
            {"type": "text", "text": "Hallo"},
        ],
    },
    {"role": "user", "content": [{"type": "text", "text": "more"}]},
]  # fmt: skip
TOOLS = [{"name": "f", "description": "A tool.", "parameters": {"type": "object"}}]


@pytest.fixture
def thread(tmp_path: Path) -> str:
    (tmp_path / "thread.json").write_text(json.dumps(THREAD))
    (tmp_path / "tools.json").write_text(json.dumps(TOOLS))
    return str(tmp_path / "thread.json")


def encode(capfdbinary: pytest.CaptureFixture[bytes], *arguments: str) -> tuple[int, dict[str, Any], str]:
    status = main(["encode", *arguments])
    out, err = capfdbinary.readouterr()
    return status, json.loads(out) if out else {}, err.decode()


def test_encode_prints_the_request_that_would_be_sent(
    thread: str, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-very-secret")
    tools = str(Path(thread).with_name("tools.json"))

    status, shown, err = encode(
        capfdbinary, "--dialect", "anthropic-messages", "--provider", "anthropic", "--model", "demo",
        "--system", "Be brief.", "--tools", tools, "--budget", "2000", thread,
    )  # fmt: skip

    assert (status, err) == (0, "")
    assert "secret" not in json.dumps(shown)
    assert (shown["method"], shown["url"]) == ("POST", "https://api.anthropic.com/v1/messages")
    assert {"x-api-key": "[key]", "anthropic-version": "2023-06-01"}.items() <= shown["headers"].items()
    assert shown["notices"] == []
    assert shown["body"] == {
        "model": "demo",
        "max_tokens": 8192,
        "system": "Be brief.",
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Grüße"}]},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                                              {"type": "text", "text": "Hallo"}]},
            {"role": "user", "content": [{"type": "text", "text": "more"}]},
        ],
        "tools": [{"name": "f", "description": "A tool.", "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "auto"},
        "thinking": {"type": "enabled", "budget_tokens": 2000},
        "stream": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("provider", "url", "header"),
    [
        ("openai", "https://api.openai.com/v1/responses", {"authorization": "Bearer [key]"}),
        ("deepseek", "https://api.deepseek.com/chat/completions", {"authorization": "Bearer [key]"}),
        (
            "google",
            "https://generativelanguage.googleapis.com/v1beta/models/demo:streamGenerateContent?alt=sse",
            {"x-goog-api-key": "[key]"},
        ),
        ("ollama", "http://127.0.0.1:11434/api/chat", {"accept": "application/x-ndjson"}),
    ],
)
def test_encode_needs_no_key_and_tells_what_is_left_out(
    provider: str,
    url: str,
    header: dict[str, str],
    thread: str,
    capfdbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("OPENAI_API_KEY", "DEEPSEEK_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY", "OLLAMA_API_KEY"):
        monkeypatch.delenv(name, raising=False)

    status, shown, _ = encode(capfdbinary, "--provider", provider, "--model", "demo", thread)

    assert (status, shown["url"]) == (0, url)
    assert header.items() <= shown["headers"].items()
    assert [notice["code"] for notice in shown["notices"]] == ["foreign_thinking"]


def test_encode_takes_another_server_and_standard_input(
    capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(json.dumps(THREAD[:1]).encode())))

    arguments = ["--provider", "compatible", "--model", "demo", "--base-url", "http://localhost:9", "--effort", "low", "-"]  # fmt: skip
    status, shown, _ = encode(capfdbinary, *arguments)

    assert (status, shown["url"]) == (0, "http://localhost:9/v1/chat/completions")
    assert shown["body"]["reasoning_effort"] == "low"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(["--provider", "nobody", "--model", "m"], "unknown provider 'nobody'", id="provider"),
        pytest.param(["--provider", "compatible", "--model", "m"], "pass base_url=", id="no address"),
        pytest.param(["--provider", "google", "--model", "m", "--foreign", "raise"], "means nothing to google:m", id="foreign"),
        pytest.param(["--provider", "google", "--model", "m", "--tools", "THREAD"], "lists no tools: [0.name]", id="tools"),
        pytest.param(["--provider", "anthropic", "--model", "m", "--budget", "-1"], "budget", id="reasoning"),
    ],
)  # fmt: skip
def test_encode_says_what_is_wrong(
    arguments: list[str], words: str, thread: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    arguments = [thread if argument == "THREAD" else argument for argument in arguments]

    status, shown, err = encode(capfdbinary, *arguments, thread)

    assert (status, shown) == (1, {})
    assert words in err


@pytest.mark.parametrize("content", [b"{", b"[{}]", b"\xff"], ids=["no JSON", "no messages", "no UTF-8"])
def test_encode_refuses_what_is_no_thread(
    content: bytes, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    (tmp_path / "t.json").write_bytes(content)

    status, _, err = encode(capfdbinary, "--provider", "google", "--model", "m", str(tmp_path / "t.json"))

    assert status == 1
    assert err.startswith(f"cannot encode {tmp_path / 't.json'}: ")
