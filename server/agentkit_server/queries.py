"""Keep query strings out of uvicorn's own log: a ticket stands in one.

Our server's protocols say nothing there; plain uvicorn writes every path with its query, sockets' even with `access_log=False`.
"""

import logging
import re
from typing import Final

LOGGERS: Final = ("uvicorn.access", "uvicorn.error", "uvicorn.asgi")

_QUERY: Final = re.compile(r"\?[^\s\"']*")


class WithoutQueries(logging.Filter):
    """Cuts what follows a `?` from what a message is made of. It lets every record pass."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Cut it."""
        if isinstance(record.args, tuple):
            record.args = tuple(
                _QUERY.sub("?…", one) if isinstance(one, str) and "?" in one else one for one in record.args
            )
        return True


_FILTER: Final = WithoutQueries()


def hide_queries() -> None:
    """Have uvicorn's loggers leave out queries from now on. Again changes nothing."""
    for name in LOGGERS:
        logging.getLogger(name).addFilter(_FILTER)
