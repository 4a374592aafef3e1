"""Rows of bags whose points lie in partitions, and models of totals on them."""

import dask
import numpy as np
import pytest
from builders.partitions import COLUMNS, partitions, people_table
from numpy.testing import assert_allclose

from bdr_stan import RBF, AggregateRegressor, Bags
from bdr_stan.aggregate.rows import bag_means, square_factors, weighted_sums
from bdr_stan.kernels import LandmarkFeatures
from experiments.papers import BagPixel

OPTIONS = {**COLUMNS, "features": ["age", "income"]}

# Of labels that no Poisson numbers are; tests/models/test_overdispersion.py and tests/results
# assert these warnings.
pytestmark = [
    pytest.mark.filterwarnings("ignore:The counts scatter more:UserWarning"),
    pytest.mark.filterwarnings("ignore:Pareto k-hat:UserWarning"),
]


@pytest.fixture(scope="module")
def in_memory():
    return Bags.from_dataframe(people_table(), **OPTIONS)


@pytest.fixture(scope="module")
def lazy():
    with dask.config.set(scheduler="synchronous"):
        yield Bags.from_dask(partitions(people_table(), 7), **OPTIONS)


def test_rows_and_totals_are_those_in_memory(lazy, in_memory, rng):
    features = LandmarkFeatures(RBF(1.0), in_memory.points[::100])
    theta = rng.normal(size=(3, features.n_columns + 1))
    for rows, rate in ((square_factors, np.square), (weighted_sums, lambda f: f)):
        found, expected = (rows(bags, features) for bags in (lazy, in_memory))
        of_rows = np.square if rows is square_factors else rate
        assert_allclose(found.means(theta, of_rows), expected.means(theta, of_rows), rtol=1e-9)
        assert_allclose(found.total, expected.total)
        assert_allclose(found.noise_factor, expected.noise_factor)
    assert_allclose(
        bag_means(lazy, features, theta, np.exp), bag_means(in_memory, features, theta, np.exp)
    )


@pytest.mark.parametrize("likelihood", ["poisson", "normal"])
def test_fits_to_totals(lazy, in_memory, likelihood):
    y = np.round(np.exp(in_memory.metadata["y"].to_numpy() - 3) * in_memory.totals)
    model = AggregateRegressor(
        likelihood,
        link=None if likelihood == "normal" else "square",
        kernel=RBF(1.5),
        landmarks=in_memory.points[::60],
        method="laplace",
        learn_kernel=False,
    )
    expected = model.fit(in_memory, y, seed=1).predict_table(in_memory)
    found = model.predict_table(lazy)
    assert_allclose(found[["mean", "sd"]], expected[["mean", "sd"]], rtol=1e-8)
    found = model.fit(lazy, y, seed=1).predict(lazy)
    assert_allclose(found, expected["mean"], atol=0.2 * expected["sd"].min())


@pytest.mark.parametrize("likelihood", ["poisson", "binomial"])
def test_predictions_by_links_that_need_points_to_learn(lazy, in_memory, likelihood):
    counts = np.round(np.exp(in_memory.metadata["y"].to_numpy() - 3) + 1)
    trials = {"trials": counts + 5} if likelihood == "binomial" else {}
    model = AggregateRegressor(
        likelihood,
        link=None if trials else "exp",
        n_landmarks=5,
        method="optimize",
        learn_kernel=False,
    )
    expected = model.fit(in_memory, counts, **trials, seed=1).predict(in_memory, **trials)
    assert_allclose(model.predict(lazy, **trials), expected, rtol=1e-8)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (AggregateRegressor(), "kernel_ of that fit and learn_kernel=False"),
        (AggregateRegressor(link="exp", learn_kernel=False), "link 'exp'"),
        (AggregateRegressor("poisson", learn_kernel=False, bag_effects=True), "bag_effects"),
        (AggregateRegressor(learn_kernel=False, landmarks="one per bag"), "bags.load()"),
        (BagPixel(learn_kernel=False), "bags.load()"),
    ],
)
def test_what_needs_the_points_says_so(lazy, model, words):
    with pytest.raises(TypeError) as raised:
        model.fit(lazy, np.arange(40.0), seed=1)
    assert words in str(raised.value)
