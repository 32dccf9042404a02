"""Rows A: a provider's stream, from the socket to typed deltas with their blocks folded. What a client costs, per delta."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

from bench import peers
from bench.options import Options
from bench.row import Row, interleave
from bench.stand import Case, ours, provider, run

FORMATS = ("anthropic", "chat", "responses", "gemini")
BOUNDS = {"ai-query": 1 / 5, "anthropic SDK": 1 / 15, "openai SDK": 1 / 25, "pydantic-ai": 1 / 60}
NAMES = {
    "anthropic": "Anthropic Messages",
    "chat": "chat completions",
    "responses": "OpenAI Responses",
    "gemini": "Gemini",
}


def cases() -> tuple[list[Case], dict[str, str]]:
    """Return who takes part, and why others do not."""
    found = [
        ours("agentkit", "client_ours.py"),
        ours("agentkit, stock transport", "client_ours.py", AGENTKIT_FAST="0"),
        ours("agentkit, with watchers' events", "client_ours.py", BENCH_EVENTS="1"),
    ]
    missing = {}
    wanted = {
        "floor": ("floor", ("client_floor.py",)),
        "ai-query": ("ai-query", ("client_peers.py", "ai-query")),
        "anthropic SDK": ("anthropic", ("client_peers.py", "anthropic")),
        "openai SDK": ("openai", ("client_peers.py", "openai")),
        "pydantic-ai": ("pydantic-ai", ("client_peers.py", "pydantic-ai")),
    }
    for name, (environment, words) in wanted.items():
        python, why = peers.find(environment)
        if python:
            found.insert(1 if name == "floor" else len(found), Case(name, python, words))
        else:
            missing[name] = why
    return found, missing


def measure(options: Options) -> list[Row]:
    """Measure bursts, a pace, and the time to the first delta."""
    count, paced = (5_000, 500) if options.quick else (20_000, 3_000)
    rows = {
        f"{shape}:burst:{count}": Row(
            "A", f"{NAMES[shape]}, {count:,} deltas in a burst", "µs a delta", "floor", 2.0, dict(BOUNDS)
        )
        for shape in (FORMATS[:2] if options.quick else FORMATS)
    }
    for shape in FORMATS[:1] if options.quick else FORMATS[:2]:
        rows[f"{shape}:300:{paced}"] = Row(
            "A2", f"{NAMES[shape]}, one delta each 300 µs", "µs a delta", "floor", 1.3
        )
    rows["anthropic:first:60"] = Row("A4", "the first delta, warm client", "ms", "floor", 1.3)
    everybody, missing = cases()
    with provider() as server:
        url = f"http://127.0.0.1:{server.port}"
        interleave(options.rounds, everybody, lambda case, _: _take(case, url, rows))
    for row in rows.values():
        row.missing |= missing
    return [*rows.values(), *_tls(options, count)]


def _take(case: Case, url: str, rows: dict[str, Row]) -> None:
    said: dict[str, dict[str, Any]] = {}
    for found in run(case, url, *(_less(case, word) for word in rows)):
        same = next((word for word in rows if _less(case, word) == found.get("word")), "None")
        said[same] = found
    failed = said.get("None", {}).get("error", "")
    for word, row in rows.items():
        line = said.get(word)
        if line is None:
            row.put(case.name, None, failed)
        elif "error" in line:
            row.put(case.name, None, line["error"])
        else:
            row.put(case.name, line["ms"] if "ms" in line else line["us"])


def _less(case: Case, word: str) -> str:
    """Give one that takes a hundred times as long a quarter of the deltas in a burst: what it costs for each is the same."""
    shape, mode, count = word.split(":")
    return f"{shape}:{mode}:{int(count) // 4}" if case.name == "pydantic-ai" and mode == "burst" else word


def _tls(options: Options, count: int) -> list[Row]:
    """The same over TLS, for the floor and us."""
    python, why = peers.find("floor")
    word = f"anthropic:burst:{count}"
    row = Row("A", f"{NAMES['anthropic']}, {count:,} deltas in a burst, over TLS", "µs a delta", "floor", 2.0)
    if not python or shutil.which("openssl") is None:
        row.missing["floor"] = why or "openssl, to make a certificate, is not here"
        return [row]
    with options.folder() as folder:
        certificate, key = certify(folder)
        trust = {"SSL_CERT_FILE": certificate}
        both = [
            Case("floor", python, ("client_floor.py",), trust),
            ours("agentkit", "client_ours.py", **trust),
        ]
        with provider(certificate, key) as server:
            url = f"https://localhost:{server.port}"
            interleave(options.rounds, both, lambda case, _: _take(case, url, {word: row}))
    return [row]


def certify(folder: Path) -> tuple[str, str]:
    """Make a certificate for this machine; return its file and its key's."""
    certificate, key = str(folder / "certificate.pem"), str(folder / "key.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
         "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    return certificate, key


def growth(options: Options) -> list[Row]:
    """Measure whether anything grows faster than the stream."""
    counts = (2_000, 20_000) if options.quick else (5_000, 20_000, 80_000, 200_000)
    low, high = (2_000, 20_000) if options.quick else (20_000, 200_000)
    everybody = [ours("agentkit", "client_ours.py")]
    for name, environment, word in (
        ("ai-query", "ai-query", "ai-query"),
        ("anthropic SDK, stream helper", "anthropic", "anthropic-helper"),
    ):
        python, _ = peers.find(environment)
        if python and not options.quick:
            everybody.append(Case(name, python, ("client_peers.py", word)))
    curves = {
        f"anthropic:burst:{count}": Row("growth", f"{count}", "µs a delta", most=None) for count in counts
    }
    calls = {
        f"anthropic:tool:{count}": Row("growth, arguments", f"{count}", "µs a delta") for count in (low, high)
    }
    with provider() as server:
        url = f"http://127.0.0.1:{server.port}"

        def take(case: Case, _: int) -> None:
            _take(case, url, curves)
            if case.name == "agentkit":
                _take(case, url, calls)

        interleave(min(options.rounds, 3), everybody, take)
    rows = []
    for what, found in (("text and reasoning", curves), ("tool arguments", calls)):
        row = Row("A3", f"growth of the cost of a delta, {low:,} → {high:,}: {what}", "×", most=1.1)
        mode = "burst" if found is curves else "tool"
        for name in found[f"anthropic:{mode}:{high}"].figures:
            ends = (found[f"anthropic:{mode}:{end}"].figures[name] for end in (high, low))
            for large, small in zip(*ends, strict=True):
                row.put(name, large / small if large is not None and small else None)
        rows.append(row)
    return [*rows, *curves.values()]
