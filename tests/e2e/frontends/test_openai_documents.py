"""What the documents tell users of OpenAI's clients to type."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable

import pytest
from checkers.chat_chunks import check_answer
from e2e.frontends.documents import code_of
from e2e.frontends.stand import Frontends, Node

from agentkit_server.demo import ANSWER, REASONING

pytestmark = [pytest.mark.full, pytest.mark.e2e, pytest.mark.timeout(120)]

SECTION = "## OpenAI clients"


def test_the_python_block_prints_reasoning_and_answer(frontends: Frontends) -> None:
    [code] = code_of("docs/frontends.md", "python", frontends.url, section=SECTION)

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )

    assert (done.returncode, done.stdout) == (0, REASONING + ANSWER), done.stderr


@pytest.mark.parametrize("number", [0, 1], ids=["openai", "openai-compatible"])
def test_the_javascript_blocks_print_reasoning_and_answer(
    number: int, node: Node, frontends: Frontends
) -> None:
    code = code_of("docs/frontends.md", "js", frontends.url, section=SECTION)[number]

    assert node.text(code) == REASONING + ANSWER


def test_the_requests_of_open_webui_are_answered(
    frontends: Frontends, require: Callable[[str, bool, str], None]
) -> None:
    require("curl", shutil.which("curl") is not None, "apt-get install curl")
    [_, requests] = code_of("examples/open-webui.md", "bash", frontends.url)
    commands = re.split(r"^# \d\..*\n", requests, flags=re.MULTILINE)[1:]

    said = [
        subprocess.run(["bash", "-c", one], capture_output=True, timeout=60, check=True).stdout
        for one in commands
    ]

    models, stream, title = said
    assert "scripted" in [model["id"] for model in json.loads(models)["data"]]
    assert check_answer(stream, usage=True).content == ANSWER
    assert json.loads(title)["choices"][0]["message"]["content"] == ANSWER
