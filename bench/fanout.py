"""Rows C to F: one producer, many readers. What a delivery costs the server; what an idle reader holds; how late it comes."""

import json
import time
from contextlib import ExitStack
from typing import Any

from bench import peers
from bench.options import Options
from bench.row import Row, interleave
from bench.stand import LOAD, Case, ours, program

TOPIC = "agents/bench/threads/main"
FEED = f"/v1/{TOPIC}/events?after=now"
HELLO = "\n".join(
    json.dumps(frame)
    for frame in ({"op": "hello"}, {"op": "sub", "rid": "1", "topic": TOPIC, "after": "now"})
)
OTHER_SERVER = "ai-query's server"
LOADER = ours("readers", "load.py")
SERVER = ours("agentkit", "fanout_ours.py")


def case(name: str, environment: str, *words: str) -> tuple[Case | None, str]:
    python, why = peers.find(environment)
    return (Case(name, python, words), "") if python else (None, why)


def place(of: Case, kind: str) -> tuple[str, str]:
    """Return where a server's readers connect, and what they say."""
    if of.name == OTHER_SERVER:
        return "/agent/bench/events", ""
    if of.name != "agentkit":
        return ("/events" if kind == "sse" else "/ws"), ""
    return (FEED, "") if kind == "sse" else ("/v1/ws", HELLO)


def deliver(of: Case, kind: str, readers: int, events: int, *more: str, burst: int = 0) -> dict[str, Any]:
    """Start a server and readers, publish in bursts or 100 a second, and return what the readers got and what the server spent."""
    path, hello = place(of, kind)
    with ExitStack() as stack:
        server = stack.enter_context(program(of))
        words = (str(server.port), path, str(readers), kind, *((hello,) if hello else ()), *more)
        load = stack.enter_context(program(LOADER, *words, core=LOAD))
        ready, _, ack = load.first.partition(" ")
        if ready != "ready":
            raise RuntimeError(f"{of.name}: {load.first}")
        time.sleep(0.2)
        begun = server.cpu()
        load.say(f"sum {events} {burst}")
        server.ask(f"/go?events={events}&" + (f"burst={burst}&ack={ack}" if burst else "rate=100"))
        said = load.hear()
        said["cpu"] = server.cpu() - begun
        return said


def measure(options: Options) -> list[Row]:
    """Measure deliveries, memory and lateness."""
    rows = []
    few = options.quick
    shapes = [("sse", 100, 1, 1.3), ("sse", 100, 16, 2.0), ("socket", 100, 1, 1.3), ("socket", 100, 16, 2.0)]
    if not few:
        shapes.insert(2, ("sse", 1000, 1, 1.5))
    for kind, readers, burst, most in shapes:
        title = "SSE" if kind == "sse" else "WebSocket"
        how = "one event at a time" if burst == 1 else f"bursts of {burst}"
        row = Row(
            "C" if kind == "sse" else "D",
            f"{title}, {readers:,} readers, {how}",
            "µs a delivery",
            "floor",
            most,
        )
        other = (
            ("sse-starlette", "sse-starlette") if kind == "sse" else ("websockets.broadcast()", "websockets")
        )
        row.peers[other[0]] = 1.0
        if kind == "sse":
            row.peers[OTHER_SERVER] = 1.0
        events = {1: 60_000, 16: 320_000}[burst] // readers // (6 if few else 1) // burst * burst
        everybody = [SERVER]
        for name, environment, *words in (
            ("floor", "floor", "fanout_floor.py", kind),
            (*other, "fanout_peers.py", other[1]),
            *([(OTHER_SERVER, "ai-query", "fanout_peers.py", "ai-query-server")] if kind == "sse" else []),
        ):
            found, why = case(name, environment, *words)
            if found is None:
                row.missing[name] = why
            else:
                everybody.append(found)

        def take(
            of: Case,
            _: int,
            row: Row = row,
            kind: str = kind,
            readers: int = readers,
            events: int = events,
            burst: int = burst,
        ) -> None:
            try:
                said = deliver(of, kind, readers, events, burst=burst)
            except Exception as error:
                row.put(of.name, None, str(error))
                return
            whole = said["all"] == readers * events
            row.put(
                of.name,
                said["cpu"] / said["all"] * 1e6 if whole else None,
                f"{said['all']} of {readers * events} came",
            )

        interleave(options.rounds, everybody, take)
        rows.append(row)
    return [*rows, *memory(options), *lateness(options)]


def memory(options: Options) -> list[Row]:
    """Measure what an idle reader holds."""
    readers = 500 if options.quick else 5000
    rows = []
    for kind, title, most in (("sse", "SSE", 14.0), ("socket", "WebSocket", 20.0)):
        row = Row("E", f"{title}, an idle reader of {readers:,}", "KiB", most=most)
        path, hello = place(SERVER, kind)
        for _ in range(1 if options.quick else min(options.rounds, 3)):
            with program(SERVER) as server:
                time.sleep(1.0)
                with program(
                    LOADER, str(server.port), path, "50", kind, *((hello,) if hello else ()), core=LOAD
                ):
                    before = server.memory()  # with what the first readers loaded
                    words = (str(server.port), path, str(readers), kind, *((hello,) if hello else ()))
                    with program(LOADER, *words, core=LOAD) as load:
                        assert load.first.startswith("ready"), load.first
                        time.sleep(0.5)
                        row.put("agentkit", (server.memory() - before) / readers / 1024)
        rows.append(row)
    return rows


def lateness(options: Options) -> list[Row]:
    """Measure how long an event takes to its readers at 100 a second, and whether one that stalls is felt."""
    events = 100 if options.quick else 300
    paced = Row("F", "SSE, 100 readers, 100 events a second: emit → receive, p50", "µs", "floor", 1.3)
    stalled = Row("F", "the same while one reader more does not read", "µs", "without it", 1.1)
    everybody = [SERVER]
    for name, environment, *words in (
        ("floor", "floor", "fanout_floor.py", "sse"),
        ("sse-starlette", "sse-starlette", "fanout_peers.py", "sse-starlette"),
    ):
        found, why = case(name, environment, *words)
        if found is None:
            paced.missing[name] = why
        else:
            everybody.append(found)

    def take(of: Case, _: int) -> None:
        try:
            found = deliver(of, "sse", 100, events)["p50"]
        except Exception as error:
            paced.put(of.name, None, str(error))
            return
        paced.put(of.name, found)
        if of is SERVER:
            stalled.put("without it", found)
            stalled.put("agentkit", deliver(of, "sse", 100, events, "--stall", "1")["p50"])

    interleave(options.rounds, everybody, take)
    return [paced, stalled]
