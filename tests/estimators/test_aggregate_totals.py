"""Rates at points that add up to reported totals."""

import numpy as np
import pandas as pd
import pytest

from bdr_stan import AggregateRegressor, Bags


def country(seed=0, n=25):
    """Districts of weighted points, and their counts."""
    rng = np.random.default_rng(seed)
    size = rng.integers(2, 30, n)
    bag = np.repeat([f"d{k}" for k in range(n)], size)
    points = pd.DataFrame(
        {"rain": rng.uniform(size=len(bag)), "people": rng.gamma(2, 50, len(bag))}
    )
    points["district"] = bag
    mean = (points["people"] * (0.1 + points["rain"]) ** 2).groupby(points["district"]).sum()
    return points, pd.Series(rng.poisson(mean), mean.index, name="cases")


def sums(bags, rates):
    return bags.sums(bags.weights * rates)


@pytest.mark.parametrize(
    "given",
    [
        {"link": "square"},
        {"link": "exp"},
        {"likelihood": "gamma", "link": "exp"},
        {"likelihood": "normal"},
        {"likelihood": "normal", "bag_effects": True},
        {"likelihood": "normal", "bag_effects": ["rain"]},
    ],
)
@pytest.mark.parametrize("method", ["laplace", "optimize"])
def test_rates_add_up(given, method):
    points, y = country()
    points["cases"] = points["district"].map(y + 1)
    bags = Bags.from_dataframe(
        points.sample(frac=1, random_state=1), "district", ["rain"], "people", metadata=["cases"]
    )
    model = AggregateRegressor(**given, n_landmarks=5, method=method, learn_kernel=False)
    model.fit(bags, y + 1, seed=1)
    reported = (2 * y + 3).sample(frac=1, random_state=2)  # of another year
    rates = model.predict_points(bags, totals=reported, n_draws=300)
    expected = reported.loc[bags.ids].to_numpy()
    np.testing.assert_allclose(sums(bags, rates.mean), expected, rtol=1e-9)
    np.testing.assert_allclose(
        sums(bags, model.predict_points(bags, totals="cases", n_draws=300).mean),
        (y + 1).loc[bags.ids],
        rtol=1e-9,
    )
    if method == "laplace":
        lower, upper = rates.interval(0.9)
        several = np.repeat(bags.sizes, bags.sizes) > 1
        assert np.all(lower[several] < upper[several])


def test_a_total_of_zero_has_rates_of_zero():
    points, y = country()
    bags = Bags.from_dataframe(points, "district", ["rain"], weight="people")
    model = AggregateRegressor(n_landmarks=5, method="laplace").fit(bags, y, seed=1)
    y.loc["d3"] = 0
    rates = model.predict_points(bags, totals=y).mean
    of_d3 = np.repeat(bags.ids == "d3", bags.sizes)
    assert np.all(rates[of_d3] == 0) and np.all(rates[~of_d3] > 0)


def test_what_cannot_add_up():
    points, y = country()
    bags = Bags.from_dataframe(points, "district", ["rain"], weight="people")
    model = AggregateRegressor(n_landmarks=5, method="laplace", learn_kernel=False)
    model.fit(bags, y, seed=1)
    with pytest.raises(TypeError, match="totals needs bags in memory, but points are a nda"):
        model.predict_points(bags.points, totals=y)
    with pytest.raises(ValueError, match="the label of bag"):
        model.predict_points(bags, totals=-y - 1)
    with pytest.raises(ValueError, match="totals='case' is not a column"):
        model.predict_points(bags, totals="case")
    logit = AggregateRegressor("binomial", n_landmarks=5, method="laplace", learn_kernel=False)
    logit.fit(bags, np.minimum(y, 5), trials=np.full(len(bags), 5), seed=1)
    with pytest.raises(ValueError, match="totals cannot be imposed on probabilities"):
        logit.predict_points(bags, totals=y)
