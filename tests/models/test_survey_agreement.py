"""bdr_stan.models.joint: what reports state of surveys."""

import numpy as np
import pytest
from scipy import stats

from bdr_stan.models.joint import SurveyAgreement

EVEN = (np.arange(60) + 0.5) / 60


def agreement(centre, percentiles=EVEN):
    return SurveyAgreement(centre + stats.norm.ppf((np.arange(999) + 0.5) / 999), percentiles)


@pytest.mark.parametrize("centre, disagrees", [(3.0, False), (1.0, True), (-4.0, True)])
def test_slopes_whose_interval_includes_0_or_negative_numbers_disagree(centre, disagrees):
    found = agreement(centre)
    assert found.interval == pytest.approx((centre - 1.96, centre + 1.96), abs=0.02)
    assert found.disagrees == disagrees
    assert ("surveys and totals disagree" in found.slope_text) == disagrees
    assert ("surveys and totals agree" in found.slope_text) != disagrees


def test_one_draw_has_no_interval():
    found = SurveyAgreement(np.array([0.7]), EVEN)
    assert "interval" not in found.slope_text
    assert found.slope_text.startswith("slope of the surveys' log odds in the log rate 0.7")


def test_places_at_high_rates_are_found_out():
    assert agreement(3.0).p_value == pytest.approx(1)
    assert "as places drawn like" in agreement(3.0).places_text
    assert "where rates are high" in agreement(3.0, 0.8 + EVEN / 5).places_text
    assert "where rates are low" in agreement(3.0, EVEN / 5).places_text


def test_p_values_of_representative_places_are_uniform():
    rng = np.random.default_rng(1)
    found = [SurveyAgreement(np.ones(2), rng.uniform(size=40)).p_value for _ in range(2000)]
    assert stats.kstest(found, "uniform").pvalue > 1e-3
