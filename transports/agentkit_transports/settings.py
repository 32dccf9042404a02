"""Every timer and bound of the hub, and what it counts. Plain values."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HubSettings:
    """Times are seconds, sizes bytes."""

    heartbeat: float = 15.0
    """Between two signs of life of an SSE stream, ± 20 %: proxies cut silent connections after 30 to 120 s."""
    send_timeout: float = 10.0
    """A send that has not gone through after this long: the reader is cut. It comes back with its cursor, which is cheap."""
    lag_records: int = 10_000
    """Further behind than this, and not catching up for `lag_timeout`: the reader is cut."""
    lag_timeout: float = 30.0
    batch_size: int = 64 * 1024
    """Pending frames are joined up to this size: one send. It is also what a reader that stops reading may cost, beside its socket."""
    page_size: int = 256
    """Records that are read and encoded before the loop gets its turn."""
    merge_behind: int = 256
    """A reader that asked for merged deltas gets them while it is further behind than this."""
    merge_page_size: int = 1024
    """As `page_size`, for such a reader: merging costs less than half of encoding and sending."""
    slice_size: int = 512
    """Readers that are written to before the loop gets its turn."""
    position_records: int = 500
    """A filtered reader is told its position after so many records that it did not see."""
    cached_views: int = 8
    """Views of a topic whose frames are kept for readers that come later or fall behind."""
    cache_size: int = 256 * 1024
    """Of the frames kept for one view, and never more than the ring's records."""
    shared_size: int = 1024 * 1024
    """Of the batches kept for one view while readers are behind, and never more than `batch_size` for each of its readers."""
    retry_ms: tuple[int, int] = (1000, 4000)
    """A reconnection waits between these milliseconds, by chance for each reader: so that a thousand do not come back at once."""


@dataclass(slots=True)
class HubStats:
    """Counted since the hub was made."""

    encoded: int = 0
    """Records put into a protocol's bytes: once for each record and view."""
    written: int = 0
    """Batches handed to a connection."""
    tasks: int = 0
    """Times that a reader needed a task of its own."""
    gaps: int = 0
    cuts: int = 0
    """Readers that did not keep up."""
    replays: int = 0
    """Readers that came back with a cursor and were given all that followed it."""
    merged: int = 0
    """Records that went into another one, for readers far behind that asked for it."""
