"""overdispersion: a fit that says whether its counts are Poisson, or binomial, numbers."""

import warnings

import numpy as np
import pytest
from scipy import stats

from bdr_stan import BDR, BLR, AggregateRegressor, Bags, load
from bdr_stan.estimators import linear
from bdr_stan.kernels import RBF
from bdr_stan.models.overdispersion import WIDER_TOTALS, Overdispersion

SEEDS = range(20)


def country(seed, dispersion, n=60, size=8, level=60.0):
    rng = np.random.default_rng(seed)
    x = np.repeat(rng.uniform(-2, 2, n), size) + 0.2 * rng.normal(size=n * size)
    bags = Bags.from_points(x[:, None], sizes=np.full(n, size))
    effect = rng.gamma(dispersion**-2, dispersion**2, n) if dispersion else np.ones(n)
    mean = bags.sums(level / size * np.exp(0.4 * np.sin(2 * x)))
    return bags, rng.poisson(mean * effect)


def fitted(bags, y, likelihood="poisson", **options):
    model = AggregateRegressor(likelihood, n_landmarks=12, method="optimize", **options)
    return model.fit(bags, y, seed=1)


def warns(seed, dispersion):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted(*country(seed, dispersion), kernel=RBF(0.5), learn_kernel=False)
    return any("scatter more" in str(w.message) for w in caught)


def test_poisson_counts_are_seldom_suspected():
    assert sum(warns(seed, 0.0) for seed in SEEDS) <= 2  # 2% of them are expected


def test_counts_of_more_scatter_are_found():
    assert sum(warns(seed, 0.25) for seed in SEEDS) >= 18


def test_warning_and_report_name_the_likelihood_to_use(tmp_path):
    bags, y = country(1, 0.4)
    with pytest.warns(UserWarning, match=r'The counts scatter more .* use likelihood="negative'):
        model = fitted(bags, y)
    assert 'use likelihood="negative_binomial"' in model.report()
    assert "Likelihood: poisson, link square; the counts scatter more" in model.report()
    model.save(tmp_path / "fit.nc")
    assert load(tmp_path / "fit.nc").report() == model.report()
    wide = fitted(bags, y, "negative binomial")
    assert "Likelihood: negative binomial, link square; dispersion 0." in wide.report()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert "no sign that" in fitted(*country(2, 0.0)).report()


def test_a_gain_counts_from_three():
    assert not Overdispersion(0.1, 2.9).is_clear and Overdispersion(0.1, 3.1).is_clear


def counted(family, scatter, seed=0, n=80):
    """Bags of 5 to 40 points and counts whose predictor is linear in the means of the bags.

    Counts are the expected ones, rounded: without `scatter` they vary less than any family's.
    """
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=n)
    bags = [rng.normal(c, 1.0, (rng.integers(5, 41), 1)) for c in centres]
    h = 0.4 * centres + scatter * rng.normal(size=n)
    if family == "poisson":
        return bags, np.round(20 * np.exp(h)), {}
    return bags, np.round(150 / (1 + np.exp(-h))), {"trials": np.full(n, 150)}


@pytest.mark.parametrize("estimator", [BDR, BLR])
@pytest.mark.parametrize("family", ["poisson", "binomial"])
def test_families_of_bags_are_compared_with_wider_ones(tmp_path, estimator, family):
    """The embeddings' uncertainty of BDR can pass for the scatter: only the evidence tells."""
    wider = {"poisson": "negative_binomial", "binomial": "beta_binomial"}[family]
    options = {"kernel": "rbf", "method": "optimize"}
    bags, y, known = counted(family, 0.5)
    with pytest.warns(UserWarning, match=f"The counts scatter more .* use family='{wider}'"):
        model = estimator(6, family=family, **options).fit(bags, y, seed=1, **known)
    assert "Labels: the counts scatter more about the fitted rates" in model.report()
    model.save(tmp_path / "fit.nc")
    assert load(tmp_path / "fit.nc").report() == model.report()
    wide = estimator(6, family=wider, **options).fit(bags, y, seed=1, **known)
    assert "scatter" not in wide.report()
    bags, y, known = counted(family, 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        model = estimator(6, family=family, **options).fit(bags, y, seed=1, **known)
    assert "Labels: no sign that the counts scatter more" in model.report()


def test_of_many_bags_some_are_compared(monkeypatch):
    monkeypatch.setattr(linear, "_MOST_COMPARED", 50)
    bags, y, _ = counted("poisson", 0.8)
    with pytest.warns(UserWarning, match="scatter more"):
        BLR(6, kernel="rbf", family="poisson", method="optimize").fit(bags, y, seed=1)


def test_binomial_totals_are_compared_with_beta_binomial_ones():
    bags, y, known = counted("binomial", 0.6)
    with pytest.warns(UserWarning, match="than binomial numbers .* use bag_effects=True with"):
        AggregateRegressor("binomial", n_landmarks=6, method="optimize").fit(
            bags, y, seed=1, **known
        )


def test_density_of_beta_binomial_totals_and_its_slopes():
    y, trials = np.array([0.0, 3.0, 40.0]), np.array([5.0, 30.0, 40.0])
    mean, step = np.array([0.2, 0.3, 0.9]), 1e-6
    density = WIDER_TOTALS["binomial"].label_density(y, trials=trials, dispersion=0.4)
    by_scipy = stats.betabinom(trials.astype(int), mean / 0.16, (1 - mean) / 0.16)
    np.testing.assert_allclose(density(mean).value, by_scipy.logpmf(y).sum())
    np.testing.assert_allclose(density(mean).information, trials**2 / by_scipy.var())
    for k in range(3):
        above, below = (density(mean + sign * step * np.eye(3)[k]) for sign in (1, -1))
        slope = (above.value - below.value) / (2 * step)
        np.testing.assert_allclose(density(mean).score[k], slope, rtol=1e-5)
        slope = (above.score[k] - below.score[k]) / (2 * step)
        np.testing.assert_allclose(density(mean).curvature[k], -slope, rtol=1e-5)
        slope = (above.information[k] - below.information[k]) / (2 * step)
        np.testing.assert_allclose(density(mean).information_slope[k], slope, rtol=1e-5)
