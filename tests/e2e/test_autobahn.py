"""The Autobahn test suite against our WebSocket stack: it runs on Python 2.7 only, so it is skipped where there is none.

Left out: 9.* (messages of megabytes: over our limit, see `hostile/`), 12.* and 13.* (compression: off on purpose).
"""

import json
import os
import subprocess
from pathlib import Path

import pytest
from e2e.browsing import serving

PYTHON = sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob("versions/2.7.*/bin/python"))
PACKAGE = "autobahntestsuite==25.10.1"
START = (
    "import site, sys; site.addsitedir(sys.argv.pop(1)); from autobahntestsuite import wstest; wstest.run()"
)
LEFT_OUT = ["9.*", "12.*", "13.*"]
KNOWN = {"7.1.5"}
"""A fragment, a close, the rest of the message: uvicorn answers with another close code than the suite wants. Nobody is harmed."""
GOOD = {"OK", "NON-STRICT", "INFORMATIONAL"}

pytestmark = [pytest.mark.full, pytest.mark.e2e]


@pytest.fixture(scope="module")
def suite(request: pytest.FixtureRequest) -> tuple[str, str]:
    """A Python 2.7 and the folder that the suite lies in; it is installed once and kept in pytest's cache."""
    if not PYTHON:
        pytest.skip("Python 2.7 is missing: the suite runs on no other (pyenv install 2.7.18)")
    assert request.config.cache is not None
    folder = request.config.cache.mkdir("autobahn") / PACKAGE
    if not (folder / "autobahntestsuite").is_dir():
        options = ["install", "--quiet", "--disable-pip-version-check", "--target", str(folder)]
        done = subprocess.run(
            [str(PYTHON[-1]), "-m", "pip", *options, PACKAGE], capture_output=True, timeout=240, check=False
        )
        if done.returncode:
            pytest.skip(f"{PACKAGE} cannot be installed here: {done.stderr.decode()[-300:]}")
    return str(PYTHON[-1]), str(folder)


@pytest.mark.timeout(400)
def test_the_stack_passes_the_suite(suite: tuple[str, str], tmp_path: Path) -> None:
    python, folder = suite
    with serving(str(Path(__file__).parent / "echo_app.py")) as url:
        servers = [{"agent": "agentkit", "url": f"ws{url.removeprefix('http')}", "options": {"version": 18}}]
        spec = {
            "outdir": str(tmp_path / "reports"),
            "servers": servers,
            "cases": ["*"],
            "exclude-cases": LEFT_OUT,
        }
        (tmp_path / "spec.json").write_text(json.dumps(spec))
        command = [python, "-c", START, folder, "-m", "fuzzingclient", "-s", str(tmp_path / "spec.json")]
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        )  # fmt: skip
    report = tmp_path / "reports/index.json"
    assert report.is_file(), done.stdout[-2000:] + done.stderr[-2000:]

    cases = json.loads(report.read_text())["agentkit"]
    told = {name: (case["behavior"], case["behaviorClose"]) for name, case in cases.items()}
    bad = {name: both for name, both in told.items() if name not in KNOWN and not {*both} <= GOOD}
    print(f"{len(told)} cases, {sum(both == ('OK', 'OK') for both in told.values())} OK")
    assert len(told) > 230
    assert bad == {}
