"""What a run of the benchmarks is asked to do."""

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Options:
    """How much is measured."""

    quick: bool = False
    """One round, less work: to see that it runs, not to publish."""
    rounds: int = 5

    @contextlib.contextmanager
    def folder(self) -> Iterator[Path]:
        """Lend a folder."""
        with tempfile.TemporaryDirectory() as name:
            yield Path(name)
