"""Shared by all tests: what a test needs and may not find, and where handed data lies."""

import os
from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"


def require(name: str, found: bool, hint: str) -> None:
    """Skip where `name` is missing on a newcomer's machine; fail where AGENTKIT_REQUIRE=all promises it."""
    if found:
        return
    if os.environ.get("AGENTKIT_REQUIRE") == "all":
        pytest.fail(f"{name} is missing and AGENTKIT_REQUIRE=all: {hint}")
    pytest.skip(f"{name} is missing: {hint}")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--recordings", type=Path, default=SHARED / "recordings", help="folder of handed recordings"
    )
    parser.addoption(
        "--cases", type=Path, default=Path(__file__).parent / "bugcases", help="folder of bug cases"
    )
    parser.addoption("--full", action="store_true", help="run only what is marked `full`")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """`make test` runs what is not marked `full`, `make test-full` runs only that."""
    full = config.getoption("--full")
    chosen = [item for item in items if (item.get_closest_marker("full") is not None) == full]
    dropped = [item for item in items if item not in set(chosen)]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = chosen


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """The core runs on both; tests of transports and server override this with asyncio."""
    return str(request.param)
