"""How a client's feed looks: the protocol it speaks, and which records it gets.

Pure: predicates and a table. An encoder is a fold over one topic's records: from the first one on, `step` gives bytes and the next state.
Most have no state (`folds` is False) and may begin anywhere. It does not read logs and it does not send.
Grounds: design.md §7 (filters, views).
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

from agentkit.errors import WireError, quote
from agentkit.log import Cursor, Gap, Record, Topic
from agentkit_transports.protocols.ag_ui import AGUI, Options
from agentkit_transports.protocols.ai_sdk import UIMessageStream
from agentkit_transports.protocols.native import NativeSocket, NativeSSE
from agentkit_transports.protocols.openai_chat import ChatCompletions

Exposure: TypeAlias = Literal["full", "summary", "none"]

KINDS: Final = ("delta", "summary", "signature", "state")
MAX_TYPES: Final = 32
"""Names in one filter: each record is compared with each."""

_TYPE = re.compile(r"[a-z][a-z0-9_.-]{0,63}", re.ASCII)
_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.~:-]{0,127}", re.ASCII)


@dataclass(frozen=True, slots=True)
class View:
    """What a reader sees of a topic, and in which words. Readers with equal views share their bytes."""

    protocol: str = "native"
    """A key of `PROTOCOLS`."""
    options: tuple[tuple[str, str], ...] = ()
    """What the protocol's own encoder wants to know."""
    exposure: Exposure = "full"
    """How much of the reasoning: `full`; `summary`: the provider's text about it; `none`."""
    types: tuple[str, ...] = ()
    """Only these types; `x` stands for `x` and `x.*`, `reasoning` also for `reasoning_block.*`. () is all."""
    kinds: tuple[str, ...] = ()
    """Only these kinds of `reasoning`; other types are not touched. () is all."""
    run: str = ""
    """Only this run's records, and the feed ends with it. "" is all."""
    named: bool = True
    """SSE: name the frames (`event:`)."""
    merge: bool = False
    """Merge adjacent deltas of one block while the reader is far behind. Not for protocols that fold."""
    beside: bool = False
    """With a run: also what the application says on the thread outside of any run."""

    @property
    def is_filtered(self) -> bool:
        """True where a reader may miss records by its own wish: it is then told its position."""
        return bool(self.types or self.kinds or self.run or self.exposure != "full")

    def admits(self, record: Record) -> bool:
        """Tell whether a reader of this view gets `record`."""
        if self.run and record.run != self.run and (record.run or not self.beside):
            return False
        name = record.type
        if name == "reasoning":
            if self.kinds and record.kind not in self.kinds:
                return False
            if self.exposure == "none" or (self.exposure == "summary" and record.kind != "summary"):
                return False
        elif self.exposure == "none" and name.startswith("reasoning_block."):
            return False
        if not self.types:
            return True
        for wanted in self.types:
            if name == wanted or name.startswith(f"{wanted}."):
                return True
            if wanted == "reasoning" and name.startswith("reasoning_block."):
                return True
        return False


def parse_view(
    *,
    types: Iterable[str] = (),
    kinds: Iterable[str] = (),
    run: str = "",
    named: str = "1",
    merge: str = "0",
    protocol: str = "native",
    exposure: Exposure = "full",
) -> View:
    """Return the view that a client's words ask for.

    Args:
        types: the values of `types`, each a name or names with commas between (`?types=text,reasoning&types=image`).
        kinds: the values of `kinds`, likewise.
        run: a run's id, or "".
        named: "1" or "0".
        merge: "1" or "0".
        protocol: a key of `PROTOCOLS`, chosen by the route, not by the client.
        exposure: what the operator allows, not what the client says.

    Raises:
        WireError: a value is not what its field allows. The message begins with the field's name.
    """
    names = _split(types)
    if len(names) > MAX_TYPES:
        raise WireError(f"types: at most {MAX_TYPES} names, got {len(names)}")
    for name in names:
        if _TYPE.fullmatch(name) is None:
            raise WireError(f"types: {quote(name)} is not the name of an event type")
    chosen = _split(kinds)
    for kind in chosen:
        if kind not in KINDS:
            raise WireError(f"kinds: {quote(kind)} is none of {', '.join(KINDS)}")
    if run and _RUN.fullmatch(run) is None:
        raise WireError(f"run: {quote(run)} is not the id of a run")
    if named not in ("0", "1"):
        raise WireError(f"named: {quote(named)} is neither 0 nor 1")
    if merge not in ("0", "1"):
        raise WireError(f"merge: {quote(merge)} is neither 0 nor 1")
    return View(protocol, (), exposure, tuple(names), tuple(chosen), run, named == "1", merge == "1")


def _split(values: Iterable[str]) -> list[str]:
    """Return the names in `values`, sorted, each once: equal wishes become equal views."""
    return sorted({name for value in values if value for name in value.split(",")})


class Encoder(Protocol):
    """Records → a protocol's bytes, for one topic and view. Pure: the same records give the same bytes."""

    @property
    def folds(self) -> bool:
        """True where bytes depend on the records before: such a view has a run, and folds from the run's first record on."""
        ...

    def start(self) -> object:
        """Return the state before the first record."""
        ...

    def step(self, state: object, record: Record) -> tuple[object, bytes]:
        """Return the next state and the bytes of `record`; b"" where it has no word for it. `state` is not changed: readers share it."""
        ...

    def is_over(self, state: object) -> bool:
        """Tell whether the feed ends here, before its run has ended: some protocols say an end where a run waits for a person."""
        ...

    def join(self, frames: Sequence[bytes]) -> bytes:
        """Return what is sent for several steps' bytes, none of them empty: at most a byte between two. For () what stands around them."""
        ...

    def hello(self, after: Cursor, head: int, *, resumed: bool, retry_ms: int) -> bytes:
        """Return what opens a feed, or b""."""
        ...

    def gap(self, gap: Gap, after: Cursor) -> bytes:
        """Return what tells a loss, or b"". The feed goes on behind `after`; where the loss is `deleted`, it ends here."""
        ...

    def position(self, cursor: Cursor) -> bytes:
        """Return what moves a filtered reader's cursor, or b""."""
        ...

    def end(self, cursor: Cursor) -> bytes:
        """Return what follows the terminal record of the view's run, or b""."""
        ...

    def closing(self, retry_ms: int) -> bytes:
        """Return what a server says that ends the feed before its end, or b""."""
        ...

    def beat(self) -> bytes:
        """Return a sign of life, or b"" where the transport has its own."""
        ...


PROTOCOLS: Final[dict[str, Callable[[Topic, View], Encoder]]] = {
    "native": lambda _, view: NativeSSE(named=view.named, exposure=view.exposure),
    "native.socket": lambda topic, _: NativeSocket(topic.path),
    "openai_chat": lambda topic, view: ChatCompletions(topic.agent, view.options),
    "ai_sdk": lambda _, view: UIMessageStream.of(view.options),
    "ag_ui": lambda topic, view: AGUI(Options.of(topic.thread, view.options)),
}
"""What we speak to clients: a name, and what makes an encoder for a topic and a view."""
