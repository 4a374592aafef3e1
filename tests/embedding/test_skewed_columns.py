"""Columns with long tails are found, others are not, and a fit warns of them once."""

import warnings

import numpy as np
import pytest

from bdr_stan import BLR, Bags
from bdr_stan.embedding.training import LONG_TAILS
from bdr_stan.kernels import RBF, NormalScores


def columns(rng, n):
    years = np.clip(rng.normal(45, 18, n), 18, 95).round()
    return {
        "normal": rng.normal(size=n),
        "uniform": rng.random(n),
        "exponential": rng.exponential(size=n),
        "gamma": rng.gamma(2, size=n),
        "student": rng.standard_t(5, n),
        "years": years,
        "counts": rng.poisson(0.5, n),
        "category": rng.random(n) < 0.03,
        "income": 30_000 * rng.lognormal(sigma=0.9, size=n),
        "loss": -rng.lognormal(sigma=1.2, size=n),
    }


@pytest.mark.parametrize("n", [2_000, 10_000])
def test_long_tails_are_found_and_no_others(n):
    for seed in range(20):
        table = columns(np.random.default_rng(seed), n)
        found = LONG_TAILS.columns(np.column_stack(list(table.values())).astype(float))
        assert [list(table)[k] for k in found] == ["income", "loss"]


def test_few_points_are_not_judged():
    for seed in range(20):
        table = columns(np.random.default_rng(seed), 200)
        assert len(LONG_TAILS.columns(np.column_stack(list(table.values())).astype(float))) == 0


def test_a_fit_warns_once_of_columns_with_long_tails():
    rng = np.random.default_rng(0)
    points = np.column_stack([rng.normal(size=3000), rng.lognormal(sigma=1.0, size=3000)])
    bags = Bags.from_points(points, sizes=np.full(100, 30), features=["age", "income"])
    y = rng.normal(size=100)
    with pytest.warns(
        UserWarning, match=r"columns with long tails: 'income'; .*logarithms"
    ) as seen:
        model = BLR(5, method="exact").fit(bags, y, seed=1)
    assert len(seen) == 1 and "NormalScores(columns=['income'])" in str(seen[0].message)
    kernel = NormalScores(columns=["income"]) + RBF(columns=["age"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(bags)
        BLR(5, kernel=kernel, method="exact").fit(bags, y, seed=1)
