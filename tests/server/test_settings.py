"""Settings come from the environment, and what cannot be is refused."""

import pytest
from pydantic import ValidationError

from agentkit_server import Settings


def test_the_environment_sets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTKIT_BODY_SIZE", "77")
    monkeypatch.setenv("AGENTKIT_RETRY_MS", "[1, 2]")
    monkeypatch.setenv("AGENTKIT_REQUIRE", "all")

    settings = Settings()

    assert (settings.body_size, settings.retry_ms) == (77, (1, 2))


@pytest.mark.parametrize(
    ("name", "value"),
    [("BODY_SIZE", "0"), ("SEND_TIMEOUT", "-1"), ("EXPOSURE", "some"), ("RETRY_MS", "[2, 1]")],
)
def test_what_cannot_be_is_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(f"AGENTKIT_{name}", value)

    with pytest.raises(ValidationError):
        Settings()


def test_every_setting_says_why() -> None:
    undescribed = [name for name, field in Settings.model_fields.items() if not field.description]

    assert undescribed == []
