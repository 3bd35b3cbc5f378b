"""The bars of the job `watch`: seconds are measured, and milliseconds are asked for."""

import pytest

from bench.bars import Figures
from bench.jobs.watch import bars


@pytest.mark.parametrize(
    ("middle", "worst", "met"),
    [(0.483, 1.49, [True, True]), (0.501, 1.49, [False, True]), (0.483, 1.51, [True, False])],
)
def test_half_a_second_is_enough_and_one_and_a_half_at_worst(middle, worst, met):
    found = [bar(Figures("lower", middle, 0.009, {})) for bar in bars(worst)]
    assert [one.met for one in found] == met
    assert found[0].found == f"{middle * 1000:.0f} ms"
