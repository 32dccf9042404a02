import math
from typing import Any

import pytest

from agentkit.errors import ConfigurationError
from agentkit_transports.clients import ClientSettings

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    "wrong", [{"idle_timeout": 0}, {"first_delay": -1}, {"longest_delay": math.nan}, {"connect_timeout": "1"}, {"give_up_after": 0}, {"max_event_size": True}],
    ids=repr,
)  # fmt: skip
def test_impossible_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        ClientSettings(**wrong)


def test_the_pause_grows_to_its_bound_and_is_jittered() -> None:
    settings = ClientSettings(first_delay=1, longest_delay=5)

    assert [settings.delay(attempt, None, lambda: 0.0) for attempt in (1, 2, 3, 4, 10_000)] == [1, 2, 4, 5, 5]
    assert settings.delay(3, None, lambda: 0.5) == 3


def test_what_a_server_asks_is_kept_never_earlier_and_never_for_ever() -> None:
    settings = ClientSettings(first_delay=1, longest_delay=5, longest_asked=60)

    assert [settings.delay(1, asked, lambda: 0.0) for asked in (0.0, 0.2, 7.0, 1e9)] == [0, 0.2, 7, 60]
    assert settings.delay(1, 10.0, lambda: 0.5) == 11
    assert settings.delay(4, 0.001, lambda: 0.0) == 5
