"""overdispersion: a Poisson fit that says whether its counts are Poisson numbers."""

import warnings

import numpy as np
import pytest

from bdr_stan import AggregateRegressor, Bags, load
from bdr_stan.kernels import RBF
from bdr_stan.models.overdispersion import Overdispersion

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
    assert 'use likelihood="negative binomial"' in model.report()
    assert "Likelihood: poisson, link square; the counts scatter more" in model.report()
    model.save(tmp_path / "fit.nc")
    assert load(tmp_path / "fit.nc").report() == model.report()
    wide = fitted(bags, y, "negative binomial")
    assert "Likelihood: negative binomial, link square; dispersion 0." in wide.report()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert "no sign that" in fitted(*country(2, 0.0)).report()


def test_a_gain_counts_from_two():
    assert not Overdispersion(0.1, 1.9).is_clear and Overdispersion(0.1, 2.1).is_clear
