"""Standard output and standard error, as what a view writes to."""

from collections.abc import Callable
from typing import TextIO


def flushed(stream: TextIO) -> Callable[[str], None]:
    """Return what writes to `stream` so that it is seen at once."""

    def write(text: str) -> None:
        stream.write(text)
        stream.flush()

    return write
