"""The JavaScript client's types, by TypeScript's own compiler."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TSC = ROOT / "tests/npm/node_modules/typescript/bin/tsc"

pytestmark = [pytest.mark.full, pytest.mark.e2e]


def test_the_clients_types_fit_their_uses(require: Callable[[str, bool, str], None]) -> None:
    node = shutil.which("node")
    require("node", node is not None, "apt-get install nodejs npm")
    require("typescript", TSC.is_file(), "make npm")
    flags = "--noEmit --strict --target es2022 --module esnext --moduleResolution bundler --lib es2022,dom,dom.asynciterable --types"

    done = subprocess.run(
        [str(node), str(TSC), *flags.split(), "", str(ROOT / "tests/typing/client.ts")],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ,
        check=False,
    )

    assert (done.returncode, done.stdout) == (0, "")


def test_the_types_name_all_that_the_module_exports() -> None:
    folder = ROOT / "server/agentkit_server/inspector"

    def exported(name: str) -> set[str]:
        words = [
            line.split() for line in (folder / name).read_text().splitlines() if line.startswith("export ")
        ]
        named = [
            line[line.index(kind) + 1] for line in words for kind in ("function", "class") if kind in line[:3]
        ]
        return {one.partition("(")[0] for one in named}

    assert exported("agentkit-client.js") == exported("agentkit-client.d.ts") == {"follow", "ask", "Problem", "EventDecoder"}  # fmt: skip
