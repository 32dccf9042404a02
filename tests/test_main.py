import io
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

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

    assert (status, reading["text"]) == (1, "Grüße ")
    assert reading["error"] == {
        "kind": "wire",
        "code": "",
        "message": "anthropic-messages payload is not JSON: '{'",
        "retryable": False,
        "partial": True,
    }


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
