"""Certificates that nobody has signed, for the tests' own servers."""

import shutil
import subprocess
from pathlib import Path

import pytest


def self_signed(folder: Path, names: str = "IP:127.0.0.1") -> Path:
    """Return a file with a certificate for `names` and its key. Skip the test where openssl is missing."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is missing")
    path = folder / "both.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=toys"
    more = ["-addext", f"subjectAltName={names}", "-keyout", str(path), "-out", f"{path}.crt"]
    subprocess.run([*command.split(), *more], check=True, capture_output=True, timeout=30)
    path.write_text(path.read_text() + Path(f"{path}.crt").read_text())
    return path
