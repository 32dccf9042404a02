"""What the house promises about itself: sizes, floors, pins, and what a wheel holds."""

import ast
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {
    "agentkit": ROOT / "agentkit",
    "agentkit_transports": ROOT / "transports/agentkit_transports",
    "agentkit_server": ROOT / "server/agentkit_server",
}
MODULES = sorted(path for package in PACKAGES.values() for path in package.rglob("*.py"))
MAX_LINES = 500
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:home|root|Users|work)/[\w.-]+")
"""A path that only one machine has: a home, or the workplace of who wrote it."""

pure = pytest.mark.pure


def inside(path: Path) -> str:
    return str(path.relative_to(ROOT))


def tracked() -> list[Path]:
    """The project's text files: what git keeps, or would keep."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    paths = [ROOT / name for name in os.fsdecode(listed.stdout).split("\0") if name]
    return [path for path in paths if path.is_file() and b"\0" not in path.read_bytes()]


@pure
def test_no_file_is_too_long() -> None:
    counted = {inside(path): len(path.read_text().splitlines()) for path in MODULES}

    assert {name: lines for name, lines in counted.items() if lines > MAX_LINES} == {}


@pure
def test_every_module_says_what_it_is() -> None:
    # The face of a package may be empty; a room without a word on its door may not.
    rooms = [path for path in MODULES if path.name != "__init__.py" or path.read_text().strip()]

    assert [inside(path) for path in rooms if not ast.get_docstring(ast.parse(path.read_text()))] == []


@pure
def test_no_room_hides_an_import_of_ours_from_the_running_program() -> None:
    # The faces name for checkers what they load later; a room may do so with a library that takes long to load.
    hiding = []
    for path in MODULES:
        blocks = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.If)]
        hidden = [
            ast.unparse(line)
            for node in blocks
            if "TYPE_CHECKING" in ast.dump(node.test)
            for line in node.body
        ]
        if path.name != "__init__.py" and any(re.match(r"(from|import) agentkit", line) for line in hidden):
            hiding.append(inside(path))

    assert hiding == []


def dialect_of(module: str) -> str:
    """Whose file in `dialects/` this is; "" for a neutral one, which serves several."""
    owners = ("anthropic", "openai_responses", "openai_chat", "gemini", "ollama")
    return next((owner for owner in owners if module.startswith(owner)), "")


@pure
def test_no_part_of_a_dialect_knows_another_dialect() -> None:
    knowing = []
    for path in sorted((PACKAGES["agentkit"] / "dialects").glob("*.py")):
        named = re.findall(r"agentkit\.dialects(?:\.| import )(\w+)", path.read_text())
        others = {dialect_of(name) for name in named} - {"", dialect_of(path.stem)}
        if path.stem != "table" and others:
            knowing.append((path.name, sorted(others)))

    assert knowing == []


@pure
def test_every_package_is_typed() -> None:
    assert [name for name, path in PACKAGES.items() if not (path / "py.typed").is_file()] == []


@pure
def test_shelves_and_tests_are_no_packages() -> None:
    shelves = [ROOT / "transports", ROOT / "server", ROOT / "tests", *(ROOT / "tests").rglob("*/")]

    assert [inside(path) for path in shelves if (path / "__init__.py").exists()] == []


@pure
def test_constraints_are_plain_sorted_pins() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()

    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+]+", line)] == []
    assert lines == sorted(lines, key=str.lower)


@pure
def test_every_requirement_has_a_pin() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = [
        *project["project"]["dependencies"],
        *(line for extra in project["project"]["optional-dependencies"].values() for line in extra),
        *project["dependency-groups"]["dev"],
        *project["build-system"]["requires"],
    ]
    names = {re.split(r"[\[<>=~!; ]", line, maxsplit=1)[0].lower() for line in wanted} - {"agentkit-live"}
    pinned = {
        line.partition("==")[0].lower().replace("_", "-")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
    }

    assert names - pinned == set()


def test_nothing_names_a_path_of_one_machine() -> None:
    found = {
        inside(path): hits
        for path in tracked()
        if (hits := MACHINE_PATH.findall(path.read_text(errors="replace"))) and path != Path(__file__)
    }

    assert found == {}


def test_importing_the_core_imports_no_server_and_no_second_loop() -> None:
    strangers = "starlette uvicorn redis trio sse_starlette httptools msgspec openai typer"
    program = f"import sys, agentkit; print([name for name in {strangers.split()} if name in sys.modules])"

    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert answer.stdout.strip() == "[]"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project as a wheel, built with the hatchling of this environment: nothing is fetched."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-deps",
            "--no-build-isolation",
            "-w",
            folder,
            ROOT,
        ],
        capture_output=True,
        check=True,
    )
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_the_three_packages_whole_and_nothing_else(wheel: Path) -> None:
    kept = {
        str(Path(name, path.relative_to(package)))
        for name, package in PACKAGES.items()
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}

    assert held == kept


IMPORT_ALL = "import agentkit, agentkit_transports, agentkit_server; print(agentkit.__file__)"


def test_the_wheel_imports_without_the_checkout(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    # -S leaves out the .pth file that points at the checkout; the dependencies are put back by hand.
    path = [str(tmp_path), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]

    answer = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = {path!r}; {IMPORT_ALL}"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert Path(answer.stdout.strip()) == tmp_path / "agentkit" / "__init__.py"


@pytest.mark.full
@pytest.mark.timeout(300)  # a fresh environment, filled from the package index
def test_the_wheel_installs_into_a_fresh_environment(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "fresh", with_pip=True)
    program = tmp_path / "fresh/bin/python"
    constraints = ROOT / "constraints.txt"

    subprocess.run(
        [program, "-m", "pip", "install", "--quiet", "-c", constraints, f"{wheel}[server]"],
        capture_output=True,
        check=True,
        cwd=tmp_path,
    )
    answer = subprocess.run(
        [program, "-I", "-c", IMPORT_ALL], capture_output=True, text=True, check=True, cwd=tmp_path
    )

    assert Path(answer.stdout.strip()).is_relative_to(tmp_path / "fresh")
