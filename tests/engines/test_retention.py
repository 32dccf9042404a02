import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.engines.retention import Retention

pytestmark = pytest.mark.pure

SMALL = st.integers(0, 6)


@given(
    st.builds(Retention, SMALL, SMALL, st.floats(0, 6), SMALL),
    st.lists(SMALL, min_size=1, max_size=6),
    SMALL,
    SMALL,
)
def test_a_log_that_is_told_to_stay_would_lose_nothing(
    retention: Retention, sizes: list[int], protected: int, now: int
) -> None:
    entries = [(seq, float(seq), size) for seq, size in enumerate(sizes, 1)]
    head, size = len(sizes), sum(sizes)

    keeps = retention.keeps(1, 1.0, head=head, size=size, now=now)

    first = retention.first_kept(entries, head=head, size=size, protected=protected, now=now)
    assert not keeps or first is None
