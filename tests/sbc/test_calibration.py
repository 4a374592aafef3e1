"""The test of ranks in builders.calibration: false alarms, and power against posteriors off truth.

Ranks of true values among exact draws, without a fit.
"""

import numpy as np
import pytest
from builders.calibration import FALSE_ALARM, KEPT, p_value
from scipy import stats


@pytest.mark.parametrize("n_sims", [16, 40])
def test_uniform_ranks_seldom_alarm(n_sims):
    ranks = np.random.default_rng(1).integers(0, KEPT + 1, (200_000, n_sims))
    assert np.mean(p_value(ranks) < FALSE_ALARM) < FALSE_ALARM


def share_of_alarms(n_sims, shift, width):
    """Of posteriors a number of standard deviations too high, and too wide by a factor."""
    rng = np.random.default_rng(2)
    true = rng.normal(size=(5000, n_sims))
    ranks = rng.binomial(KEPT, stats.norm.cdf((true - shift) / width))
    return np.mean(p_value(ranks) < FALSE_ALARM)


@pytest.mark.parametrize("shift, width", [(0.75, 1), (-0.75, 1), (0, 0.5), (0, 2)])
def test_forty_ranks_tell_of_a_shifted_narrow_or_wide_posterior(shift, width):
    assert share_of_alarms(40, shift, width) > 0.6


@pytest.mark.parametrize("shift, width", [(1.5, 1), (0, 1 / 3), (0, 4)])
def test_sixteen_ranks_tell_of_a_gross_fault(shift, width):
    assert share_of_alarms(16, shift, width) > 0.6
