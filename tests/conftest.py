"""Shared by all tests: what a test needs and may not find, where handed data lies, and which tests run when.

Not here: servers, browsers and other services. They stand beside the tests that use them.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# No test of this house talks to a stranger. Its own servers stand on loopback.
os.environ["AGENTKIT_NO_NETWORK"] = "1"
# Nor does it leave a folder behind, or find what another one left: the command keeps its threads in memory unless a test says where.
os.environ["AGENTKIT_ENGINE"] = "memory://"

SHARED = Path(__file__).resolve().parents[2] / "shared"

TIMEOUTS = {"pure": 40, "faults": 60, "local": 120, "browser": 120}
"""Seconds that a marker gives a test; the largest counts, and an explicit `timeout` marker wins over all."""

# No deadline and no complaint about slowness: on a busy machine both judge the machine, not the code. In CI the examples
# are the same every time, so that a red run is about the change; by hand they differ.
settings.register_profile(
    "agentkit", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize="CI" in os.environ
)
settings.load_profile("agentkit")


def _require(name: str, found: bool, hint: str) -> None:
    if found:
        return
    if os.environ.get("AGENTKIT_REQUIRE") == "all":
        pytest.fail(f"{name} is missing and AGENTKIT_REQUIRE=all: {hint}")
    pytest.skip(f"{name} is missing: {hint}")


@pytest.fixture(scope="session")
def require() -> Callable[[str, bool, str], None]:
    """`require(name, found, hint)`: skip where `name` is missing, fail where AGENTKIT_REQUIRE=all promises it.

    For what `.ci/run` installs: services, browsers, the local model. Handed data that is missing is a plain `pytest.skip`.
    """
    return _require


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the folders of handed data, and the switch between `make test` and `make test-full`."""
    parser.addoption(
        "--recordings", type=Path, default=SHARED / "recordings", help="folder of handed recordings"
    )
    parser.addoption(
        "--cases", type=Path, default=Path(__file__).parent / "bugcases", help="folder of bug cases"
    )
    parser.addoption("--full", action="store_true", help="run only what is marked `full`")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `-m pure`, or `--full`, leave out the files that have no such test: to import all of them takes longer than the pure tests."""
    wanted = "full" if config.option.full else config.option.markexpr
    named = {Path(argument.partition("::")[0]).resolve() for argument in config.args}
    if wanted not in ("pure", "full") or not collection_path.match("test_*.py") or collection_path in named:
        return None
    return True if f"mark.{wanted}" not in collection_path.read_text() else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose, order and bound the tests.

    `make test` runs what is not marked `full`, `make test-full` only that. Markers set the time a test may take. What uses Chromium
    goes last: Playwright keeps an event loop running in this thread from then on, in which no other loop can run.
    """
    full = config.getoption("--full")
    chosen: list[pytest.Item] = []
    dropped: list[pytest.Item] = []
    for item in items:
        (chosen if (item.get_closest_marker("full") is not None) == full else dropped).append(item)
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = chosen
    # Playwright's loop stays on the main thread from its first test to the session's end: no other loop runs after it.
    items.sort(key=lambda item: isinstance(item, pytest.Function) and "chromium" in item.fixturenames)
    for item in items:
        # With several workers (`-n`): a file stays in one, for its fixtures; what uses Chromium is a group of its own, which comes later.
        is_browser = isinstance(item, pytest.Function) and "chromium" in item.fixturenames
        item.add_marker(pytest.mark.xdist_group(f"{item.location[0]}{' browser' * is_browser}"))
        seconds = [limit for marker, limit in TIMEOUTS.items() if item.get_closest_marker(marker)]
        if seconds and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(max(seconds)))
    items.sort(key=lambda item: isinstance(item, pytest.Function) and "chromium" in item.fixturenames)


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """The core runs on both; tests of transports and server override this with asyncio."""
    return str(request.param)
