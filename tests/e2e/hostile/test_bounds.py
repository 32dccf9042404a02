"""Part C of the threats, as far as bounds go: sizes, depth, numbers, names and places in a feed. See `lines`."""

import asyncio
import json
from typing import Any

import pytest
from e2e.hostile.conftest import House
from e2e.peers import Raw
from e2e.servers import until
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

pytestmark = [pytest.mark.e2e, pytest.mark.anyio]

THREAD = "/v1/agents/quick/threads/bounds"


@pytest.fixture
def anyio_backend() -> str:
    """Sockets are asyncio's."""
    return "asyncio"


def socket(house: House) -> Any:
    return connect(
        f"ws://127.0.0.1:{house.port}/v1/ws",
        subprotocols=["agentkit.v1"],  # type: ignore[list-item]  # a NewType of str
        proxy=None,
        additional_headers=house.by("ann"),
        max_size=None,
    )


def post(house: House, body: bytes, *headers: str) -> tuple[int, bytes]:
    key = f"authorization: Bearer {house.keys['ann']}"
    return house.raw("POST", f"{THREAD}/runs", key, "content-type: application/json", *headers, body=body)


async def test_52_what_is_too_large_is_refused_before_it_is_read(house: House) -> None:
    status, _ = post(house, b'{"input":"' + b"x" * 20_000 + b'"}')
    with Raw(house.port) as peer:
        peer.send(
            f"POST {THREAD}/runs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            f"authorization: Bearer {house.keys['ann']}\r\ncontent-length: 99999999999\r\n\r\n" + '{"input"'
        )
        lying = peer.read_until(b"\r\n\r\n")
    async with socket(house) as link:
        with pytest.raises(ConnectionClosed):
            await link.send("x" * 65_537)
            await asyncio.wait_for(link.recv(), 20)

    assert status == 413
    assert lying.startswith(b"HTTP/1.1 413")
    assert link.close_code == 1009


DEPTHS = [b"[" * 100_000, b'{"a":' * 3_000, b'{"input":' + b"[" * 65 + b"]" * 65 + b"}"]


@pytest.mark.parametrize("body", DEPTHS, ids=["never closed", "objects", "one level too many"])
async def test_54_what_is_too_deep_is_no_fault_of_ours(house: House, body: bytes) -> None:
    status, _ = post(house, body[:20_000])
    async with socket(house) as link:
        await link.send(
            '{"op":"run","rid":"1","agent":"quick","thread":"bounds","input":' + "[" * 3000 + "]" * 3000 + "}"
        )
        answer = json.loads(await asyncio.wait_for(link.recv(), 20))

    assert status == 400
    assert answer["problem"]["status"] == 400


NUMBERS = [
    "9" * 5000,
    "-" + "9" * 30,
    "1e999",
    "-1e999",
    "NaN",
    "Infinity",
    "-Infinity",
    "0x10",
    "01",
    "1.",
    "+1",
]


@pytest.mark.parametrize("number", NUMBERS, ids=[one[:8] for one in NUMBERS])
async def test_55_56_numbers_that_nobody_can_hold_are_refused(house: House, number: str) -> None:
    status, _ = post(house, f'{{"input":"x","metadata":{{"n":{number}}}}}'.encode())
    async with socket(house) as link:
        await link.send(f'{{"op":"ping","t":{number}}}')
        answer = json.loads(await asyncio.wait_for(link.recv(), 20))

    assert status in (400, 422)
    assert answer["op"] == "err"


CURSORS = ["-1", "abcdefgh--1", "abcdefgh-9223372036854775808", "abcdefgh-18446744073709551616", "abcdefgh-1e3",
           "abcdefgh-+1", "abcdefgh- 1", "abcdefgh-\uff11", "abcdefgh-", "-", "a/b-1", "abcdefgh-1%00", "x" * 60_000]  # fmt: skip


@pytest.mark.parametrize(
    "cursor", CURSORS, ids=[one[:24].encode("unicode_escape").decode() for one in CURSORS]
)
def test_57_63_what_is_no_place_in_a_feed_is_refused(house: House, cursor: str) -> None:
    key = f"authorization: Bearer {house.keys['ann']}"
    codes = [
        house.raw("GET", f"{THREAD}/events", key, f"last-event-id: {cursor.encode().decode('latin-1')}")[0]
    ]
    if len(cursor) < 1000:
        codes.append(house.ask("GET", f"{THREAD}/events", "ann", params={"after": cursor}).status_code)

    assert set(codes) <= {400, 431}


def test_64_of_two_places_the_header_wins_and_a_parameter_stands_once(house: House) -> None:
    key = f"authorization: Bearer {house.keys['ann']}"
    doubled = house.raw("GET", f"{THREAD}/events?after=now&after=earliest", key)[0]
    conflict, head = house.head(f"{THREAD}/events?after=x", key, "last-event-id: abcdefgh-1")

    assert doubled == 400
    assert conflict == 200
    assert b"text/event-stream" in head


async def test_61_keys_that_stand_twice_or_mean_something_elsewhere_are_refused(house: House) -> None:
    for body in (
        b'{"input":"a","input":"b"}',
        b'{"input":"a","__proto__":{"x":1}}',
        b'{"input":"a","constructor":1}',
        json.dumps({f"k{n}": n for n in range(1_000)}).encode(),
    ):
        assert post(house, body)[0] in (400, 422)


NAMES = [
    "..%2f..%2fetc",
    "%00",
    "a%00b",
    "%2e%2e",
    "a%0d%0ax",
    "*",
    "%3e",
    "a%2fb",
    "%7bx%7d",
    "%20",
    "a" * 300,
    "%ff",
]


@pytest.mark.parametrize("name", NAMES, ids=[one[:12] for one in NAMES])
def test_62_names_name_one_thing_or_nothing(house: House, name: str) -> None:
    key = f"authorization: Bearer {house.keys['ann']}"
    targets = [
        f"/v1/agents/{name}/threads/t1/events", f"/v1/agents/quick/threads/{name}/events",
        f"{THREAD}/runs/{name}", f"{THREAD}/events?run={name}", f"/assets/{name}",
    ]  # fmt: skip

    assert {house.raw("GET", target, key)[0] for target in targets} <= {400, 404}


def test_90_one_run_too_many_is_refused_and_others_go_on(house: House) -> None:
    runs = "/v1/agents/held/threads/many-{}/runs"
    begun = [house.ask("POST", runs.format(number), "ann", json={"input": "x"}) for number in range(10)]
    over = house.ask("POST", runs.format("over"), "ann", json={"input": "x"})
    well = house.is_well()
    for number, answer in enumerate(begun):
        house.ask("POST", f"{runs.format(number)}/{answer.json()['run']}/cancel", "ann")
    until(lambda: house.ask("POST", f"{THREAD}/chat", "ann", json={"message": "x"}).status_code == 200)

    assert {answer.status_code for answer in begun} == {202}
    assert (over.status_code, over.json()["status"]) == (429, 429)
    assert int(over.headers["retry-after"]) > 0
    assert house.ask("GET", runs.format("over"), "ann").json() == {"runs": []}
    assert well
