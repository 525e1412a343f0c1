"""The closest window is found in one pass, and is the best of all windows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from clicket.search.ranking.term_match import best_window

WEIGHTS = {"a": 1.0, "b": 2.5, "c": 0.3, "d": 4.0}
POSITIONS = st.dictionaries(st.integers(0, 80), st.sampled_from(sorted(WEIGHTS)), max_size=30).map(
    lambda found: sorted(found.items())
)


@given(POSITIONS)
def test_the_best_window_weighs_as_much_as_the_best_of_all_windows(positions: list[tuple[int, str]]) -> None:
    windows = [{term for at, term in positions if first <= at < first + 16} for first in range(81)]
    assert round(best_window(positions, WEIGHTS), 6) == round(
        max(sum(WEIGHTS[one] for one in each) for each in windows), 6
    )
