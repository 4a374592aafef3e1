"""Rates of subsets of the points of districts: their bounds, context and a check."""

import warnings

import numpy as np
import pandas as pd
import pytest

from bdr_stan import RBF, AggregateRegressor, Bags
from bdr_stan.questions.doubts_of_totals import Question, context, totals_alone
from bdr_stan.questions.ecological import SubsetRates

N, SIZE = 40, 200


class Country:
    """Districts of urban and rural people; those of urban districts are ill more often."""

    def __init__(self, context):
        rng = np.random.default_rng(1)
        share = rng.uniform(0.05, 0.95, N)
        urban = rng.random(N * SIZE) < np.repeat(share, SIZE)
        of_people = 0.1 + 0.3 * urban
        rate = (1 - context) * of_people + context * np.repeat(0.1 + 0.3 * share, SIZE)
        self.urban, self.ill = urban, rng.random(N * SIZE) < rate
        ids = [f"d{i:02}" for i in range(N)]
        people = np.column_stack([urban, rng.normal(size=N * SIZE)]).astype(float)
        self.bags = Bags.from_points(
            people,
            sizes=np.full(N, SIZE),
            ids=ids,
            features=["urban", "age"],
            metadata=pd.DataFrame({"asked": np.full(N, SIZE)}, index=ids),
        )
        self.totals = pd.Series(self.bags.sums(self.ill.astype(int)), ids, name="ill")
        self.subset = self.bags.where(urban=1)
        self.truth = self.bags.sums(self.ill & urban) / self.subset.totals


@pytest.fixture(scope="module")
def country():
    return Country(context=0)


@pytest.fixture(scope="module", params=["negative binomial", "poisson", "normal", "binomial"])
def fitted(request, country):
    model = AggregateRegressor(request.param, n_landmarks=4, method="laplace", learn_kernel=False)
    trials = {"trials": "asked"} if request.param == "binomial" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that Laplace's method is approximate
        return model.fit(country.bags, country.totals, draws=300, seed=1, **trials)


def test_bounds_hold_the_truth_and_stand_beside_the_posterior(fitted, country):
    shuffled = country.totals.sample(frac=1, random_state=1)
    table = fitted.bounds(country.bags, shuffled, country.subset, highest_rate=1)
    assert table.index.tolist() == country.subset.ids.tolist()
    assert np.all((table["lowest"] <= country.truth) & (country.truth <= table["highest"]))
    has_effects = fitted.likelihood == "negative binomial"
    district = country.subset.ids if has_effects else False
    of_points = fitted.predict_points(country.subset, district=district)
    by_bag = country.subset.sums(of_points.mean) / country.subset.sizes
    np.testing.assert_allclose(table["mean"], by_bag, rtol=1e-6)
    assert np.all((table["inside"] >= 0) & (table["inside"] <= 1))
    assert table["inside"].mean() > 0.7
    assert np.mean((table["lower"] < 0.4) & (table["upper"] > 0.4)) > 0.8


def test_without_a_highest_rate_the_total_alone_is_a_bound(fitted, country):
    table = fitted.bounds(country.bags, country.totals, country.subset)
    if fitted.likelihood == "binomial":
        assert table["lowest"].max() > 0
        return
    assert np.all(table["lowest"] == 0)
    np.testing.assert_allclose(table["highest"], country.totals / country.subset.totals)


def test_context_moves_rates_towards_the_districts(fitted, country):
    table = fitted.context(country.bags, country.totals, country.subset, shares=[1, 0.5, 0])
    assert table.index.names == ["bag", "share"]
    assert table.index[:3].tolist() == [("d00", 0.0), ("d00", 0.5), ("d00", 1.0)]
    model, half, district = (table.xs(k, level="share")["mean"] for k in (0.0, 0.5, 1.0))
    bounds = fitted.bounds(country.bags, country.totals, country.subset)
    np.testing.assert_allclose(model, bounds["mean"])
    np.testing.assert_allclose(half, (model + district) / 2)
    np.testing.assert_allclose(district, country.totals / SIZE)


def test_a_subset_of_some_districts_is_matched_by_ids(fitted, country):
    some = country.subset[[7, 3]]
    whole = fitted.bounds(country.bags, country.totals, country.subset)
    table = fitted.bounds(country.bags, country.totals, some)
    pd.testing.assert_frame_equal(table, whole.loc[["d07", "d03"]])


def test_with_context_the_truth_lies_between_model_and_district():
    country = Country(context=0.5)
    model = AggregateRegressor("poisson", n_landmarks=4, method="laplace", learn_kernel=False)
    model.fit(country.bags, country.totals, draws=300, seed=1)
    table = model.context(country.bags, country.totals, country.subset, shares=[0, 0.5, 1])
    rates = [table.xs(k, level="share")["mean"].to_numpy() for k in (0.0, 0.5, 1.0)]
    error = [np.sqrt(np.mean((each - country.truth) ** 2)) for each in rates]
    assert error[1] < 0.7 * min(error[0], error[2])
    bounds = model.bounds(country.bags, country.totals, country.subset, highest_rate=1)
    assert np.all((bounds["lowest"] <= country.truth) & (country.truth <= bounds["highest"]))


def test_effects_that_follow_a_column_are_found(country):
    """Rates that grow with the mean age of a district, by a model of urban and rural alone."""
    rng = np.random.default_rng(3)
    means = rng.normal(size=N)
    age = np.repeat(means, SIZE) + 0.1 * rng.normal(size=N * SIZE)
    bags = Bags.from_points(
        np.column_stack([country.urban, age]),
        sizes=np.full(N, SIZE),
        features=["urban", "age"],
    )
    rate = (0.1 + 0.3 * country.urban) * np.repeat(np.exp(0.5 * means), SIZE)
    y = bags.sums(rng.poisson(rate))
    kernel = RBF(1.0, columns=["urban"])
    model = AggregateRegressor(n_landmarks=4, kernel=kernel, learn_kernel=False, method="laplace")
    slopes = model.fit(bags, y, draws=300, seed=1).check_context()
    assert slopes.index.tolist() == ["urban", "age"]
    assert slopes.loc["age", "lower"] > 0.2
    assert abs(slopes.loc["urban", "mean"]) < 0.5 * slopes.loc["age", "mean"]


def test_doubts_of_a_subset(fitted, country):
    found = fitted.doubts(country.bags, country.totals, country.subset, highest_rate=1)
    table, bounds = (
        found.to_dataframe(),
        fitted.bounds(country.bags, country.totals, country.subset, highest_rate=1),
    )
    weights = country.subset.totals
    low, high = (np.average(bounds[name], weights=weights) for name in ("lowest", "highest"))
    answer, limit = table.loc["Only the totals of bags"]
    assert f"from {low:.3g} to {high:.3g}" in answer and "do not decide" in limit
    overall = country.totals.sum() / country.bags.n_points
    rate = np.average(bounds["mean"], weights=weights)
    assert found.conclusion.startswith(f"the rate of the subset ({rate:.3g}) is above")
    answer, limit = table.loc["Rates that depend on the bag as well (context)"]
    context = fitted.context(country.bags, country.totals, country.subset, shares=0.5)
    at_half = np.average(context["mean"], weights=weights)
    assert f"{at_half:.3g} (" in answer and limit.startswith("No share changes the sign")
    assert at_half > overall


@pytest.mark.parametrize("own, limit", [([0.5, 0.3], "k = 0.75."), ([0.2, 0.1], "No share")])
def test_the_share_at_which_a_conclusion_changes(own, limit):
    """A subset of rate .2, of bags whose points have the rates `own`, among all of rate .35."""
    subset = Bags.from_list([np.zeros((10, 1)), np.zeros((10, 1))])
    weights = np.array([20.0, 30.0]) if limit == "No share" else np.array([10.0, 30.0])
    found = SubsetRates(subset, np.full((50, 2), 0.2), None, weights * own, weights, ["a", "b"])
    question = Question(None, found, np.zeros(2), np.ones(2), 0.95)
    overall = weights @ own / weights.sum()
    assert question.above == (overall < 0.2)
    if limit != "No share":  # .2 + k (.4 - .2) = .35
        assert overall == pytest.approx(0.35)
    assert limit in context(question).limit


def test_a_posterior_outside_of_the_bounds_is_contradicted():
    subset = Bags.from_list([np.zeros((90, 1))])
    found = SubsetRates(
        subset, np.full((50, 1), 0.9), None, np.array([50.0]), np.array([100.0]), ["a"]
    )
    question = Question(None, found, np.array([4 / 9]), np.array([5 / 9]), 0.95)
    assert "from 0.444 to 0.556: the posterior lies outside" in totals_alone(question).answer
    low, high = np.array([0.48]), np.array([0.52])
    question = Question(None, found._replace(rates=found.rates - 0.4), low, high, 0.95)
    assert totals_alone(question).answer.endswith("from 0.48 to 0.52.")
