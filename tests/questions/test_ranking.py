"""Ranks of districts by their rates."""

import numpy as np
import pandas as pd
import pytest

from bdr_stan import AggregateRegressor, Bags


def country(seed=0, n=30, people=2000.0):
    rng = np.random.default_rng(seed)
    size = rng.integers(5, 30, n)
    bag = np.repeat([f"d{k:02}" for k in range(n)], size)
    rain = np.repeat(rng.uniform(size=n), size) + 0.1 * rng.normal(size=len(bag))
    weight = np.repeat(people / size, size)
    points = pd.DataFrame({"district": bag, "rain": rain, "people": weight})
    effect = np.exp(0.3 * rng.normal(size=n))
    mean = (points["people"] * 0.05 * np.exp(rain)).groupby(points["district"]).sum() * effect
    cases = pd.Series(rng.poisson(mean), mean.index)
    return Bags.from_dataframe(points, "district", ["rain"], weight="people"), cases, mean / people


def test_intervals_of_ranks_hold_the_true_ranks():
    held, found = [], []
    for seed in range(4):
        bags, y, rate = country(seed)
        model = AggregateRegressor(n_landmarks=6, method="laplace").fit(bags, y, seed=1)
        table = model.ranking(bags, top=5).loc[rate.index]
        true = rate.rank(ascending=False)
        held.append((table["lower"] <= true) & (true <= table["upper"]))
        found.append(np.corrcoef(table["rank"], true)[0, 1])
        assert table["in_top"].sum() == pytest.approx(5)
        assert table["rank"].mean() == pytest.approx(15.5)
    assert np.mean(found) > 0.9
    assert 0.9 < np.mean(held) <= 1.0


def test_few_people_say_less():
    widths = []
    for people in (50.0, 5000.0):
        bags, y, _ = country(people=people)
        model = AggregateRegressor(n_landmarks=6, method="laplace").fit(bags, y, seed=1)
        table = model.ranking(bags)
        assert table["rank"].is_monotonic_increasing and "in_top" not in table
        widths.append((table["upper"] - table["lower"]).mean())
    assert widths[0] > 2 * widths[1]


def test_ranks_of_shares_are_by_trials():
    bags, y, _ = country()
    asked = pd.Series(np.linspace(100, 900, len(bags)).round(), y.index)
    yes = np.minimum(y, asked)
    model = AggregateRegressor("binomial", n_landmarks=6, method="laplace", learn_kernel=False)
    model.fit(bags, yes, trials=asked, seed=1)
    table = model.ranking(bags, trials=asked)
    share = model.predict(bags, trials=asked) / asked.to_numpy()
    np.testing.assert_allclose(table["rate"].loc[bags.ids], share, rtol=1e-9)


def test_what_has_no_ranks():
    bags, y, _ = country()
    model = AggregateRegressor(n_landmarks=6, method="laplace", learn_kernel=False)
    model.fit(bags, y, seed=1)
    with pytest.raises(ValueError, match="top must be below the number of bags, 30, found 30"):
        model.ranking(bags, top=30)
    with pytest.raises(ValueError, match="top must be"):
        model.ranking(bags, top=0)
    other = Bags(bags.points + 0.1, bags.offsets, weights=bags.weights, ids=bags.ids)
    with pytest.raises(ValueError, match="has no effect of its own from the fit"):
        model.ranking(other)
    effects = AggregateRegressor(
        "normal", n_landmarks=6, bag_effects=True, method="laplace", learn_kernel=False
    ).fit(bags, y, seed=1)
    assert len(effects.ranking(bags)) == 30
    with pytest.raises(ValueError, match="has no effect of its own from the fit"):
        effects.ranking(other)
    mode = AggregateRegressor("poisson", n_landmarks=6, method="optimize", learn_kernel=False)
    mode.fit(bags, y, seed=1)
    with pytest.raises(ValueError, match="has one draw, so ranks have no uncertainty"):
        mode.ranking(bags)
