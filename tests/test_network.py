import anyio
import pytest

from agentkit import ConfigurationError, connect, generate_text
from agentkit.network import VARIABLE, check_network
from agentkit.testing import no_network

ELSEWHERE = "https://api.example.com/v1"


@pytest.fixture(autouse=True)
def allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


def test_it_forbids_other_machines_for_as_long_as_it_lasts() -> None:
    check_network(ELSEWHERE)
    with no_network():
        with no_network():
            check_network("http://127.0.0.1:8000/v1")
        with pytest.raises(
            ConfigurationError, match=r"a real call to https://api\.example\.com/v1 was refused"
        ):
            check_network(ELSEWHERE)
    check_network(ELSEWHERE)


@pytest.mark.parametrize(("value", "forbids"), [("1", True), ("0", False), ("", False)])
def test_the_environment_forbids_it_too(value: str, forbids: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, value)
    if forbids:
        with pytest.raises(ConfigurationError, match=VARIABLE):
            check_network(ELSEWHERE)
    else:
        check_network(ELSEWHERE)


@pytest.mark.anyio
async def test_a_real_model_refuses_to_connect() -> None:
    model = connect("anthropic:claude-x", key="key-0123456789-secret")
    with anyio.fail_after(20), no_network(), pytest.raises(ConfigurationError, match="was refused") as caught:
        await generate_text(model=model, prompt="hi")

    assert "secret" not in str(caught.value)
