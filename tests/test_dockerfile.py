"""The Dockerfile, step by step, in a clean environment: there may be no Docker here, but what it says can be done."""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]  # has none

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "examples/deploy"
UID = 10001


def steps() -> list[tuple[str, str]]:
    """Return the instructions: word and rest, continued lines joined."""
    text = "\n".join(
        line for line in (ROOT / "Dockerfile").read_text().splitlines() if not line.lstrip().startswith("#")
    )
    found = [line.partition(" ") for line in text.replace("\\\n", " ").splitlines() if line.strip()]
    return [(word, rest.strip()) for word, _, rest in found]


def rest_of(word: str) -> str:
    (rest,) = [rest for found, rest in steps() if found == word]
    return rest


def environment() -> dict[str, str]:
    """Return what ENV sets."""
    words = [word for found, rest in steps() if found == "ENV" for word in shlex.split(rest)]
    return dict(word.split("=", 1) for word in words)


@pytest.mark.pure
def test_it_is_slim_runs_as_nobody_and_looks_after_itself() -> None:
    order = [word for word, _ in steps()]

    assert re.fullmatch(r"python:3\.\d+-slim", rest_of("FROM"))
    assert rest_of("USER") == "agentkit"
    assert order.index("RUN") < order.index("USER") < order.index("CMD")
    assert rest_of("VOLUME") == rest_of("WORKDIR") == environment()["AGENTKIT_DATA"] == "/data"
    assert "/healthz" in rest_of("HEALTHCHECK")
    assert "--insecure-no-auth" not in rest_of("CMD")
    (run,) = [rest for word, rest in steps() if word == "RUN"]
    assert f"--uid {UID}" in run


@pytest.mark.pure
def test_what_it_copies_is_let_through_and_is_there() -> None:
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = [name for word, rest in steps() if word == "COPY" for name in shlex.split(rest)[:-1]]

    assert set(copied) == kept
    assert [name for name in copied if not (ROOT / name).exists()] == []


@dataclass
class Image:
    """What the steps made: a folder in the place of /, and a program."""

    root: Path
    bin: Path

    def inside(self, text: str) -> str:
        """Return a command of the image's with its paths here."""
        return re.sub(r"(?<![\w.])/(src|data)\b", lambda match: str(self.root / match[1]), text)


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    """Do the steps up to CMD; `useradd` is left out: users are the container's."""
    folder = Path(tempfile.mkdtemp(prefix="image-"))
    folder.chmod(0o755)
    try:
        venv.create(folder / "python", with_pip=True)
        made = Image(folder, folder / "python/bin")
        (folder / "data").mkdir()
        for word, rest in steps():
            if word == "COPY":
                *names, target = shlex.split(rest)
                into = Path(made.inside(target))
                for name in names:
                    source = ROOT / name
                    if source.is_dir():
                        shutil.copytree(source, into, ignore=shutil.ignore_patterns("__pycache__"))
                    else:
                        into.mkdir(parents=True, exist_ok=True)
                        shutil.copy(source, into)
            elif word == "RUN":
                for command in rest.split("&&"):
                    if not command.strip().startswith("useradd"):
                        env = {**os.environ, "PATH": f"{made.bin}:{os.environ['PATH']}", **environment()}
                        subprocess.run(
                            shlex.split(made.inside(command)),
                            check=True,
                            capture_output=True,
                            env=env,
                            cwd=folder,
                        )
        assert not (folder / "src").exists()
        yield made
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        port: int = one.getsockname()[1]
        return port


def start(image: Image, folder: Path, port: int, **more: str) -> "subprocess.Popen[str]":
    """Run CMD where nothing but /data can be written, and not as root."""
    command = [image.inside(word) for word in json.loads(rest_of("CMD"))]
    command[0] = str(image.bin / command[0])
    command[command.index("--port") + 1] = str(port)
    env = {name: image.inside(value) for name, value in environment().items()}
    env |= {"AGENTKIT_METRICS_PORT": "0", "PATH": "/usr/bin:/bin", "HOME": str(image.root / "data"), **more}
    folder.chmod(0o555)
    user = UID if os.geteuid() == 0 else None
    if user is not None:
        os.chown(image.root / "data", UID, UID)
    return subprocess.Popen(
        command, cwd=folder, env=env, user=user, group=user, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )  # fmt: skip


def asked(port: int, path: str, key: str = "") -> int:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", headers={"Authorization": f"Bearer {key}"} if key else {}
    )
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


@pytest.mark.full
@pytest.mark.timeout(300)  # a fresh environment, filled from the package index
def test_its_steps_give_a_server_that_needs_nothing_but_its_data(image: Image, tmp_path: Path) -> None:
    said = subprocess.run(
        [image.bin / "agentkit", "key", "ann"], check=True, capture_output=True, text=True
    ).stdout
    key, line = said.splitlines()[1].strip(), said.splitlines()[3].strip()
    port = free_port()
    check = json.loads(rest_of("HEALTHCHECK").partition("CMD ")[2])
    check = [str(image.bin / check[0]), *(word.replace(":8000", f":{port}") for word in check[1:])]
    here = Path(tempfile.mkdtemp(prefix="cwd-"))

    refused = start(image, here, free_port())
    _, why = refused.communicate(timeout=20)
    server = start(image, here, port, AGENTKIT_API_KEYS=line)
    try:
        end = time.monotonic() + 30
        while asked(port, "/readyz") != 200:
            assert server.poll() is None, server.communicate()
            assert time.monotonic() < end
            time.sleep(0.1)
        healthy = subprocess.run(check, check=False, env={}).returncode
        statuses = [asked(port, "/v1/agents"), asked(port, "/v1/agents", key), asked(port, "/metrics", key)]
        server.send_signal(signal.SIGTERM)
        told, errors = server.communicate(timeout=20)
    finally:
        server.kill()
        here.rmdir()

    assert refused.returncode == 1
    assert "AGENTKIT_API_KEYS" in why
    assert healthy == 0
    assert statuses == [401, 200, 404] or statuses == [401, 200, 403]
    assert server.returncode == 0, errors
    assert "metrics are at" in told
    assert (image.root / "data/agentkit.db").is_file()
    assert not (image.root / ".agentkit").exists()


@pytest.mark.pure
def test_the_compose_files_servers_are_read_only_and_get_time_to_drain() -> None:
    made = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    server = made["services"]["agentkit"]

    assert server["read_only"] is True
    assert server["cap_drop"] == ["ALL"]
    assert int(server["stop_grace_period"].removesuffix("s")) > 10 + 3
    assert "ports" not in server
    assert set(made["networks"]) == {"inside", "metrics"}
    assert "--insecure-no-auth" not in (DEPLOY / "compose.yaml").read_text()


@pytest.mark.pure
@pytest.mark.parametrize(
    ("name", "needed"),
    [
        ("nginx.conf", ["proxy_buffering off;", "gzip off;", "proxy_read_timeout 75s;", "location = /metrics", "$connection_upgrade"]),
        ("Caddyfile", ["flush_interval -1", "read_timeout 75s", "respond /metrics 404"]),
    ],
)  # fmt: skip
def test_proxies_hold_nothing_back_and_hand_out_no_metrics(name: str, needed: list[str]) -> None:
    text = (DEPLOY / name).read_text()

    assert [word for word in needed if word not in text] == []
    assert "$request_uri" not in text  # it holds tickets
    assert not re.search(r"^\s*encode\b", text, re.MULTILINE)


@pytest.mark.pure
def test_the_readme_is_short() -> None:
    assert len((DEPLOY / "README.md").read_text().splitlines()) <= 40


@pytest.mark.full
@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not here")
def test_nginx_reads_its_file(tmp_path: Path) -> None:
    text = (DEPLOY / "nginx.conf").read_text().replace("server agentkit:8000", "server 127.0.0.1:8000")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=x", "-keyout", tmp_path / "key.pem", "-out", tmp_path / "cert.pem"],
        check=True, capture_output=True,
    )  # fmt: skip
    (tmp_path / "nginx.conf").write_text(text.replace("/etc/nginx/tls", str(tmp_path)))

    done = subprocess.run(
        ["nginx", "-t", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf"), "-g", f"pid {tmp_path}/pid; error_log stderr;"],
        check=False, capture_output=True, text=True,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
