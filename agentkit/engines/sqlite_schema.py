"""The SQLite file: how it is opened, what stands in it, how it moves to a newer schema, and what its errors mean.

It starts no thread. A file that is not ours, is newer than we are or is damaged is refused and stays as it is: never made anew.
"""

import secrets
import sqlite3
import time
from pathlib import Path
from typing import Final

from agentkit.errors import EngineError

APPLICATION_ID: Final = 0x414B4954
"""Marks the file as ours in its header ("AKIT")."""
QUICK_CHECK_SIZE: Final = 64 * 1024 * 1024
"""Bytes of a file that is checked whole when it is opened: about a tenth of a second. A larger one tells its faults when they are met."""

_MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    (
        "CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID",
        """CREATE TABLE topics (
            id INTEGER PRIMARY KEY, owner TEXT NOT NULL, agent TEXT NOT NULL, thread TEXT NOT NULL, epoch TEXT NOT NULL,
            head INTEGER NOT NULL DEFAULT 0, first INTEGER NOT NULL DEFAULT 1, bytes INTEGER NOT NULL DEFAULT 0,
            fence INTEGER NOT NULL DEFAULT 0, stamp INTEGER NOT NULL DEFAULT 0, updated REAL NOT NULL DEFAULT 0)""",
        "CREATE UNIQUE INDEX topic_names ON topics (owner, agent, thread)",
        "CREATE INDEX topic_stamps ON topics (stamp)",
        """CREATE TABLE records (
            topic INTEGER NOT NULL, seq INTEGER NOT NULL, type TEXT NOT NULL, kind TEXT NOT NULL, run TEXT NOT NULL,
            block TEXT NOT NULL, time REAL NOT NULL, terminal INTEGER NOT NULL, body BLOB NOT NULL,
            PRIMARY KEY (topic, seq)) WITHOUT ROWID""",
        """CREATE TABLE log_runs (
            topic INTEGER NOT NULL, run TEXT NOT NULL, first INTEGER NOT NULL, ended INTEGER NOT NULL DEFAULT 0,
            PRIMARY KEY (topic, run)) WITHOUT ROWID""",
        """CREATE TABLE threads (
            topic INTEGER PRIMARY KEY, created REAL NOT NULL, updated REAL NOT NULL, title TEXT NOT NULL DEFAULT '',
            metadata TEXT NOT NULL DEFAULT '{}')""",
        """CREATE TABLE messages (
            topic INTEGER NOT NULL, place INTEGER NOT NULL, body BLOB NOT NULL, PRIMARY KEY (topic, place)) WITHOUT ROWID""",
        """CREATE TABLE runs (
            topic INTEGER NOT NULL, place INTEGER NOT NULL, run TEXT NOT NULL, record TEXT NOT NULL, PRIMARY KEY (topic, place)
            ) WITHOUT ROWID""",
        "CREATE UNIQUE INDEX run_names ON runs (topic, run)",
        """CREATE TABLE claims (
            topic INTEGER NOT NULL, key TEXT NOT NULL, run TEXT NOT NULL, PRIMARY KEY (topic, key)) WITHOUT ROWID""",
        """CREATE TABLE leases (
            topic INTEGER PRIMARY KEY, run TEXT NOT NULL, fence INTEGER NOT NULL, expires REAL NOT NULL, ttl REAL NOT NULL)""",
        """CREATE TABLE waiters (
            id INTEGER PRIMARY KEY AUTOINCREMENT, topic INTEGER NOT NULL, run TEXT NOT NULL, expires REAL NOT NULL,
            ttl REAL NOT NULL)""",
        "CREATE INDEX waiter_topics ON waiters (topic)",
        """CREATE TABLE signals (
            id INTEGER PRIMARY KEY AUTOINCREMENT, topic INTEGER NOT NULL, run TEXT NOT NULL, kind TEXT NOT NULL, data TEXT NOT NULL,
            time REAL NOT NULL)""",
    ),
    (
        "ALTER TABLE topics ADD COLUMN erased TEXT NOT NULL DEFAULT ''",
        """CREATE TABLE announced (
            topic INTEGER NOT NULL, run TEXT NOT NULL, expires REAL NOT NULL, ttl REAL NOT NULL, PRIMARY KEY (topic, run)
            ) WITHOUT ROWID""",
    ),
    (
        # The key is topic * 2^36 + number of the last record. With a key of two columns a row of usual size would overflow its page.
        "CREATE TABLE batches (key INTEGER PRIMARY KEY, first INTEGER NOT NULL, heads TEXT NOT NULL, bodies BLOB NOT NULL)",
        """INSERT INTO batches (key, first, heads, bodies)
            SELECT topic * 68719476736 + seq, seq, json_array(json_array(
                type, kind, run, block, terminal, json_array(time), json_array(length(body)))), body FROM records""",
        "DROP TABLE records",
    ),
)
"""Statements that lead from each schema version to the next. What was released is never edited."""
VERSION: Final = len(_MIGRATIONS)

_WORDS: Final = {
    sqlite3.SQLITE_BUSY: "it is locked by another process",
    sqlite3.SQLITE_LOCKED: "it is locked by another process",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_READONLY: "it is read-only",
    sqlite3.SQLITE_CORRUPT: "it is damaged; restore it from a copy",
    sqlite3.SQLITE_NOTADB: "it is no SQLite database, or its head is damaged",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened",
    sqlite3.SQLITE_IOERR: "it cannot be read or written",
    sqlite3.SQLITE_PERM: "it may not be used",
}


def engine_error(error: sqlite3.Error) -> EngineError:
    """Return what an error of SQLite means, in words without a path."""
    code = getattr(error, "sqlite_errorcode", None)  # absent on errors that sqlite3 itself raises
    words = _WORDS.get(code & 0xFF) if isinstance(code, int) else None
    return EngineError(f"the engine's SQLite file failed: {words or type(error).__name__}")


def connect(path: Path, *, busy_timeout: float, full: bool) -> sqlite3.Connection:
    """Return a connection to a file that exists and was set up by `set_up`.

    Args:
        path: the file.
        busy_timeout: seconds to wait for another process's lock.
        full: flush to the disk at each commit, so that what was acknowledged outlives a power cut.

    Raises:
        sqlite3.Error: it cannot be opened.
    """
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        timeout=busy_timeout,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )
    connection.execute(f"PRAGMA synchronous={'FULL' if full else 'NORMAL'}")
    return connection


def set_patience(connection: sqlite3.Connection, seconds: float) -> None:
    """Set how long a connection waits for another's lock."""
    connection.execute(f"PRAGMA busy_timeout={round(seconds * 1000)}").fetchone()


def set_up(path: Path, *, busy_timeout: float) -> str:
    """Make the file if there is none, bring its schema up to date, and return its secret, from which epochs are made.

    Raises:
        EngineError: it is not ours, newer, damaged, or cannot be opened.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(path, timeout=busy_timeout, isolation_level=None)
    except OSError as error:
        raise EngineError(
            f"the engine's SQLite file cannot be made: {error.strerror or type(error).__name__}"
        ) from None
    except sqlite3.Error as error:
        raise engine_error(error) from None
    try:
        _check(connection, path)
        _use_wal(connection, busy_timeout)
        connection.execute("BEGIN IMMEDIATE")
        _migrate(connection)
        (secret,) = connection.execute("SELECT value FROM meta WHERE key = 'secret'").fetchone()
        connection.execute("COMMIT")
        return str(secret)
    except sqlite3.Error as error:
        raise engine_error(error) from None
    finally:
        connection.close()


def _check(connection: sqlite3.Connection, path: Path) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application != APPLICATION_ID and (application or version or tables):
        raise EngineError("the engine's SQLite file belongs to another program")
    _refuse_newer(version)
    if path.stat().st_size <= QUICK_CHECK_SIZE:
        (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise EngineError("the engine's SQLite file failed: it is damaged; restore it from a copy")


def _refuse_newer(version: int) -> None:
    if version > VERSION:
        raise EngineError(
            f"the engine's SQLite file has schema {version}, this version of agentkit knows {VERSION}"
        )


def _use_wal(connection: sqlite3.Connection, busy_timeout: float) -> None:
    """Switch to the write-ahead log. SQLite does not wait for others here, so that we do."""
    end = time.monotonic() + busy_timeout
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
            time.sleep(0.01)
            continue
        if mode != "wal":
            raise EngineError(
                "the engine's SQLite file lies where there is no shared memory (a network disk?)"
            )
        return


def _migrate(connection: sqlite3.Connection) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    _refuse_newer(
        version
    )  # again, now that nobody else writes: another process may have brought it up meanwhile
    for statements in _MIGRATIONS[version:]:
        for statement in statements:
            connection.execute(statement)
    if version == 0:
        connection.execute("INSERT INTO meta VALUES ('secret', ?)", (secrets.token_hex(16),))
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
    if version != VERSION:
        connection.execute(f"PRAGMA user_version={VERSION}")
