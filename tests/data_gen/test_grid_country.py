"""The small country: counts follow the rates, and rates the truth that is named."""

import numpy as np
import pytest

from data_gen.grid_country import COVARIATES, FEATURES, TRUTHS, grid_country


@pytest.mark.parametrize("truth", TRUTHS)
def test_counts_follow_the_rates(truth):
    country = grid_country(truth, seed=3)
    assert len(country.bags) == 130 and len(country.bags.points) == 180**2
    assert country.bags.features == list(FEATURES)
    expected = country.bags.sums(country.bags.weights * country.rate)
    assert expected.mean() == pytest.approx(200)
    chi2 = np.sum((country.y - expected) ** 2 / expected)
    assert chi2 == pytest.approx(130, abs=5 * np.sqrt(2 * 130))


def test_parts_are_all_districts():
    country = grid_country(seed=1, side=40, n_districts=26)
    train, test = country.part("train"), country.part("test")
    assert (len(train.bags), len(test.bags)) == (20, 6)
    np.testing.assert_array_equal(np.concatenate([train.rate, test.rate]), country.rate)
    np.testing.assert_array_equal(np.concatenate([train.y, test.y]), country.y)


@pytest.mark.parametrize("truth, linear", [("linear", True), ("bump", False)])
def test_effects_are_lines_or_a_bump(truth, linear):
    """Beside the effects of z2 and z3, that of z1 is a line, or best explained by its bump."""
    country = grid_country(truth, seed=2)
    z = country.bags.points[:, : len(COVARIATES)]
    log_rate = np.log(country.rate)

    def left(of_z1):
        X = np.column_stack([np.ones(len(z)), of_z1, z[:, 1], z[:, 2]])
        weights, residual = np.linalg.lstsq(X, log_rate)[:2]
        np.testing.assert_allclose(weights[2:], [-0.4, 0.3], atol=0.15)
        return residual[0] / len(z)

    bump = np.exp(-((z[:, 0] - 0.5) ** 2) / 0.32)
    assert (left(z[:, 0]) < left(bump)) == linear


def test_an_unknown_truth_is_refused():
    with pytest.raises(ValueError, match="unknown truth 'curved': choose from linear, bump"):
        grid_country("curved")
