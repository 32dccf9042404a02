"""Small requests to a server of agents: JSON there and back, made again where that can help and can do no harm.

Not pure: it connects and waits, for `call_timeout` seconds at most. What must not happen twice carries an idempotency key, or is
repeated only where the server has surely not done it.
"""

import json
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeVar

import anyio

from agentkit.content import JsonValue, valid_text
from agentkit.errors import ConfigurationError, RemoteConnectionError, WireError, quote
from agentkit_transports.clients.http import Answer, Door, check_type
from agentkit_transports.clients.refusal import Cut, Refused

MAX_ANSWER: Final = 64 * 1024 * 1024
"""Bytes of one answer: a long thread's messages with their images."""

T = TypeVar("T")


async def ask(
    door: Door,
    method: str,
    path: str,
    body: Mapping[str, JsonValue] | None = None,
    *,
    key: str = "",
    repeatable: bool = True,
) -> dict[str, JsonValue]:
    """Return the JSON object that a request is answered with; {} for 204.

    Args:
        door: the server.
        method: GET, POST, DELETE.
        path: behind the root, with its query.
        body: JSON, or None.
        key: an idempotency key, or "".
        repeatable: False where a second request would do it twice: then it is only made again if the first surely did nothing.

    Raises:
        RemoteConnectionError: no answer in time.
        AgentKitError: refused; see `refusal`.
        WireError: the answer is no JSON object.
    """

    async def once() -> dict[str, JsonValue]:
        answer = await send(door, method, path, body, accept="application/json", key=key)
        try:
            if answer.status == 204:
                return {}
            check_type(answer, "application/json")
            data = await answer.read_all(MAX_ANSWER + 1)
        finally:
            await answer.aclose()
        return _object(data)

    return await insist(door, once, repeatable=repeatable)


async def send(
    door: Door,
    method: str,
    path: str,
    body: Mapping[str, JsonValue] | None,
    *,
    accept: str,
    key: str = "",
    silence: float | None = None,
) -> Answer:
    """Make one request; see `Door.send`. The answer is the caller's to close."""
    headers = {"accept": accept}
    headers |= {"idempotency-key": key} if key else {}
    headers |= {"content-type": "application/json"} if body is not None else {}
    content = None if body is None else _encode(body)
    patience = silence or door.settings.call_timeout
    return await door.send(method, f"{door.root}{path}", headers=headers, content=content, silence=patience)


async def insist(door: Door, once: Callable[[], Awaitable[T]], *, repeatable: bool = True) -> T:
    """Return what `once` gives, trying again after cuts and, once in a row, with another token.

    Raises:
        RemoteConnectionError: it failed for `call_timeout` seconds, or may have been done.
        AccessError: no token is good enough.
        AgentKitError: what else `once` raises.
    """
    settings, attempt, refused = door.settings, 0, False
    deadline = anyio.current_time() + settings.call_timeout
    while True:
        try:
            return await once()
        except Refused as refusal:
            if refused or not door.credentials.refuse(refusal.token):
                raise refusal.error from None
            refused = True
        except Cut as cut:
            attempt += 1
            delay = settings.delay(attempt, cut.delay, random.random)
            if not (repeatable or cut.unsent):
                raise RemoteConnectionError(f"no answer, and it may have been done: {cut}") from cut
            if anyio.current_time() + delay > deadline:
                said = f"no answer from {door.root} for {settings.call_timeout:g} s: {cut}"
                raise RemoteConnectionError(said, retry_after=cut.delay) from cut
            await anyio.sleep(delay)


async def all_pages(door: Door, path: str, name: str) -> list[dict[str, JsonValue]]:
    """Return the items of a list that comes in pages; see `ask`."""
    items: list[dict[str, JsonValue]] = []
    after: JsonValue = ""
    while True:
        answer = await ask(door, "GET", f"{path}?after={after}" if after else path)
        items += objects(answer, name)
        found = answer.get("next")
        if not isinstance(found, str) or found == after:
            return items
        after = found


def objects(answer: Mapping[str, JsonValue], name: str) -> list[dict[str, JsonValue]]:
    """Return the objects of a list in an answer.

    Raises:
        WireError: it is no such list.
    """
    items = answer.get(name)
    if not isinstance(items, list):
        raise WireError(f"the answer should hold a list {name}, got {quote(items)}")
    return [item for item in items if isinstance(item, dict)]


def text_of(answer: Mapping[str, JsonValue], name: str) -> str:
    """Return a member that is text.

    Raises:
        WireError: it is missing, or something else.
    """
    value = answer.get(name)
    if not isinstance(value, str):
        raise WireError(f"the answer should hold text as {name}, got {quote(value)}")
    return value


def _encode(body: Mapping[str, JsonValue]) -> bytes:
    try:
        text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (ValueError, TypeError, RecursionError) as error:
        raise ConfigurationError(f"the request is not JSON: {quote(str(error))}") from None
    return valid_text(text).encode()


def _object(data: bytes) -> dict[str, JsonValue]:
    if len(data) > MAX_ANSWER:
        raise WireError(f"the answer has more than {MAX_ANSWER} bytes")
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        raise WireError(f"the answer should be JSON, got {quote(data[:100])}") from None
    if not isinstance(value, dict):
        raise WireError(f"the answer should be a JSON object, got {quote(data[:100])}")
    return value
