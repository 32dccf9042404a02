"""Every exception of agentkit, drawn as one tree.

AgentKitError
├─ ConfigurationError        you passed or set something impossible
├─ ModelError                .provider .model .request_id .fault .retryable .retry_after
│  ├─ ModelConnectionError   not reached, or broke before an answer
│  ├─ ModelStatusError       .status .body (first 2 KiB)
│  └─ ModelStreamError       the stream said error, or ended without its end; .partial keeps what came
├─ WireError                 a peer's bytes break the format that they claim
├─ ForeignSignatureError     replay state of one dialect was offered to another
├─ ThreadBusy                the thread has a run already, and the caller would not wait
├─ ThreadExists              the thread to be made has messages already
├─ AlreadyStarted            a run of this idempotency key exists; .run
├─ ToolError                 a tool raised, timed out or got arguments that do not fit
├─ OutputError               the model's answer does not fit the output type
├─ HookError                 a hook raised; the cause is chained
├─ EngineError               a log or thread store cannot be reached
│  └─ AppendRejected         a lost lease, or a second end of one run
├─ LimitError                a run went past its steps, tokens, seconds or cost
├─ RemoteError               a server of agents refused, or its run failed there; .status .problem .field .retry_after
│  ├─ RemoteConnectionError  it was not reached, or broke off
│  ├─ AccessError            it does not know us, or does not let us
│  └─ LostEventsError        events of a run cannot be had any more
└─ RunCancelled              by the caller, by a client, or by shutdown

It knows nothing of the rest: what an error carries is plain data. No message holds a key, a header's value or a prompt.
"""

from typing import Any, ClassVar

MAX_QUOTED = 200
"""Characters of foreign text that a message may quote."""


def quote(value: object) -> str:
    """Return `repr(value)`, cut to `MAX_QUOTED` characters: how foreign text enters a message."""
    text = repr(value)
    return text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}…"


class AgentKitError(Exception):
    """The root: catching it catches all that agentkit raises on purpose."""

    code: ClassVar[str] = "error"
    """The word for it on the wire (`run.failed` data `code`, problem documents)."""


class ConfigurationError(AgentKitError):
    """You passed or set something impossible."""

    code = "configuration"


class ModelError(AgentKitError):
    """The model's side failed."""

    code = "model"

    def __init__(
        self,
        message: str,
        *,
        provider: str = "",
        model: str = "",
        request_id: str = "",
        fault: str = "",
        retryable: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.provider = provider
        self.model = model
        self.request_id = request_id
        self.fault = fault
        """What went wrong, in one word for all providers: `authentication`, `permission`, `unknown_model`, `not_found`, `context_overflow`,
        `quota`, `rate_limit`, `safety`, `overloaded`, `timeout`, `conflict`, `invalid_request`, `server_error`; else the provider's own
        word, or "" where nothing tells it."""
        self.retryable = retryable
        """True where asking again can help."""
        self.retry_after = retry_after
        """Seconds that the provider asked to wait, or None."""


class ModelConnectionError(ModelError):
    """The provider was not reached, or the connection broke before an answer."""

    code = "model_connection"


class ModelStatusError(ModelError):
    """The provider answered with an HTTP status that is not 200."""

    code = "model_status"

    def __init__(self, message: str, *, status: int, body: str = "", **info: Any) -> None:
        super().__init__(message, **info)
        self.status = status
        self.body = body
        """The first 2 KiB of the answer."""


class ModelStreamError(ModelError):
    """The stream itself said error, or ended without its end."""

    code = "model_stream"

    def __init__(
        self,
        message: str,
        *,
        kind: str = "provider",
        provider_code: str = "",
        partial: Any = None,
        **info: Any,
    ) -> None:
        super().__init__(message, **info)
        self.kind = kind
        """`provider`: the stream said error. `truncated`: it ended without its end."""
        self.provider_code = provider_code
        """The provider's own word or number for it, as text."""
        self.partial = partial
        """What came before: a `Message`, or None."""


class WireError(AgentKitError):
    """A peer's bytes break the format that they claim."""

    code = "wire"


class ForeignSignatureError(AgentKitError):
    """Replay state of one dialect was offered to another."""

    code = "foreign_signature"


class ThreadBusy(AgentKitError):  # noqa: N818 - reads as what is so, like RunCancelled
    """The thread has a run already, and the caller would not wait."""

    code = "thread_busy"


class ThreadExists(AgentKitError):  # noqa: N818 - reads as what is so, like ThreadBusy
    """The thread that was to be made has messages already: delete it, or choose another name."""

    code = "thread_exists"


class AlreadyStarted(AgentKitError):  # noqa: N818 - reads as what is so, like ThreadBusy
    """A run was started with this idempotency key before: it is the answer to the one who asks again."""

    code = "already_started"

    def __init__(self, message: str, *, run: str) -> None:
        super().__init__(message)
        self.run = run
        """The id of the run that has the key."""


class ToolError(AgentKitError):
    """A tool raised, timed out or got arguments that do not fit; the cause is chained."""

    code = "tool"


class OutputError(AgentKitError):
    """The model's answer does not fit the output type; the message says what does not."""

    code = "output"


class HookError(AgentKitError):
    """A hook raised; the cause is chained."""

    code = "hook"


class EngineError(AgentKitError):
    """A log or thread store cannot be reached, or refuses."""

    code = "engine"


class AppendRejected(EngineError):  # noqa: N818 - reads as what happened, like RunCancelled
    """The log did not take it: a lost lease, or a second end of one run. Nothing was appended."""

    code = "append_rejected"


class LimitError(AgentKitError):
    """A run went past its steps, tokens, seconds or cost."""

    code = "limit"


class RemoteError(AgentKitError):
    """A server of agents refused what was asked of it, or a run failed there."""

    code = "remote"

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        problem: str = "",
        field: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        """The HTTP status, or the close code of a WebSocket; 0 where there was none."""
        self.problem = problem
        """The word for it: a problem's or a failed run's `code`; "" where the server gave none."""
        self.field = field
        """The member, parameter or header at fault, or ""."""
        self.retry_after = retry_after
        """Seconds that the server asked to wait, or None."""


class RemoteConnectionError(RemoteError):
    """The server was not reached, or broke off, for longer than the caller wanted to wait."""

    code = "remote_connection"


class AccessError(RemoteError):
    """The server does not know who asks, or does not let them."""

    code = "access"


class LostEventsError(RemoteError):
    """Events of a run cannot be had any more: what came of it has a hole."""

    code = "lost_events"


class RunCancelled(AgentKitError):  # noqa: N818 - the field's word
    """The run was cancelled: by the caller, by a client, or by shutdown."""

    code = "cancelled"

    def __init__(
        self, message: str = "the run was cancelled", *, reason: str = "", partial: Any = None
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.partial = partial
        """What came before: a `Message`, or None."""
