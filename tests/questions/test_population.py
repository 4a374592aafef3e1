"""Populations: means and totals of labels over groups of bags, and over subgroups of points."""

import numpy as np
import pandas as pd
import pytest

from bdr_stan import BDR, BLR, Bags, BDRClassifier

N, GAP = 300, 0.3


def table(seed, women=0.5):
    """Labels that are averages of points: .2 of each man, .2 + GAP of each woman, and noise."""
    rng = np.random.default_rng(seed)
    share = np.clip(rng.normal(women, 0.08, N), 0.05, 0.95)
    sizes = np.exp(rng.uniform(np.log(10), np.log(300), N)).astype(int)
    points = pd.DataFrame(
        {
            "county": np.repeat([f"c{i:03}" for i in range(N)], sizes),
            "sex": np.where(rng.random(sizes.sum()) < np.repeat(share, sizes), "f", "m"),
            "age": rng.normal(np.repeat(rng.normal(45, 5, N), sizes), 15),
        }
    )
    of_bags = pd.DataFrame(
        {
            "y": 0.2 + GAP * share + rng.normal(0, 0.01, N),
            "region": np.repeat(["east", "north", "west"], N // 3),
            "half": np.tile(["a", "b"], N // 2),
            "people": rng.integers(1000, 10**6, N),
        },
        index=[f"c{i:03}" for i in range(N)],
    )
    points = points.join(of_bags, on="county")
    return Bags.from_dataframe(
        points, "county", ["sex", "age"], metadata=["y", "region", "half", "people"]
    ), of_bags


@pytest.fixture(scope="module")
def county():
    bags, of_bags = table(1)
    return BDR(20, method="laplace").fit(bags, "y", seed=1), bags, of_bags


def covered(predictive, truth):
    lower, upper = predictive.interval(0.95)
    return np.mean((lower < truth) & (truth < upper))


@pytest.mark.slow
def test_subgroups_are_not_shrunk_to_the_average_bag(county):
    model, bags, _ = county
    women, men = bags.where(sex="f"), bags.where(sex="m")
    for subgroup, truth in ((women, 0.2 + GAP), (men, 0.2)):
        found = model.population(subgroup)
        assert abs(found.mean[0] - truth) < 3 * found.sd[0]
        by_county = model.population(subgroup, "county")
        assert len(by_county) == len(subgroup)
        assert by_county.ids.tolist() == subgroup.ids.tolist()
        with pytest.warns(UserWarning, match="lie to one side of the training bags"):
            shrunk = model.predictive(subgroup)
        assert abs(shrunk.mean.mean() - truth) > 10 * shrunk.sd.mean() / np.sqrt(len(subgroup))
    gap = model.population(women, minus=men)
    assert abs(gap.mean[0] - GAP) < 3 * gap.sd[0] < 0.15


@pytest.mark.slow
def test_groups_weights_and_totals(county):
    model, bags, of_bags = county
    people = of_bags["people"]
    truth = (of_bags["y"] * people).groupby(of_bags["region"]).sum()
    totals = model.population(bags, "region", weights="people", total=True)
    means = model.population(bags, "region", weights=people.sample(frac=1, random_state=0))
    in_region = people.groupby(of_bags["region"]).sum()
    assert means.ids.tolist() == ["east", "north", "west"]
    np.testing.assert_allclose(totals.mean, means.mean * in_region, rtol=1e-9)
    np.testing.assert_allclose(totals.sd, means.sd * in_region, rtol=1e-9)
    np.testing.assert_allclose(means.mean, truth / in_region, atol=4 * means.sd.max())
    of_both = model.population(bags, ["region", "half"]).to_dataframe()
    assert of_both.index.name == "region, half"
    assert of_both.index.tolist()[:2] == ["east, a", "east, b"]
    assert (of_both["sd"] > 0).all()


@pytest.mark.slow
def test_errors_of_bags_do_not_average_out(county):
    model, bags, _ = county
    one, every = model.population(bags, "county"), model.population(bags)
    alone = np.sqrt(np.mean(one.sd**2) / N)  # were they independent
    assert every.sd[0] > 1.2 * alone


@pytest.mark.slow
def test_counties_by_themselves_are_those_of_predictive(county):
    model, bags, of_bags = county
    own, training = model.population(bags, "county"), model.predictive(bags)
    assert np.corrcoef(own.mean, training.mean)[0, 1] > 0.99
    assert abs(covered(own, of_bags["y"]) - 0.95) < 0.05


def test_exact_embeddings():
    bags, _ = table(2)
    model = BLR(10, method="exact").fit(bags, "y", seed=1)
    every = model.population(bags, "county")
    np.testing.assert_allclose(every.mean, model.predict(bags), atol=2e-3)
    np.testing.assert_allclose(every.sd, model.predictive(bags).sd, rtol=0.05)


@pytest.mark.slow
def test_share_of_bags_of_the_second_class(county):
    _, bags, of_bags = county
    high = of_bags["y"] > of_bags["y"].median()
    model = BDRClassifier(10, method="laplace").fit(bags, high, seed=1)
    found = model.population(bags, "region")
    share = high.groupby(of_bags["region"]).mean()
    np.testing.assert_allclose(found.mean, share, atol=4 * found.sd.max())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "regoin"}, "by='regoin' is not a column .* did you mean 'region'"),
        ({"weights": "peple"}, "weights='peple' is not a column"),
        ({"weights": np.ones(3)}, r"weights has shape \(3,\), expected \(300,\)"),
        ({"weights": np.full(N, -1.0)}, "the weight of bag 0 .* is -1 .* numbers from 0"),
        ({"by": "region", "weights": np.repeat([0.0, 1.0], [100, 200])}, "all weights .* are zero"),
        ({"minus": True, "weights": np.ones(N)}, "weights are a column of the metadata"),
        ({"by": "region", "minus": slice(0, 100)}, "group 'north' is in only one of the two"),
    ],
)
def test_population_of_nothing(options, message):
    bags, _ = table(3)
    model = BLR(5, method="exact").fit(bags, "y", seed=1)
    if "minus" in options:
        options = options | {"minus": bags if options["minus"] is True else bags[options["minus"]]}
    with pytest.raises(ValueError, match=message):
        model.population(bags, **options)


def test_a_bag_without_group():
    bags, _ = table(3)
    model = BLR(5, method="exact").fit(bags, "y", seed=1)
    bags.metadata.loc["c007", "region"] = None
    with pytest.raises(ValueError, match="'region' of the metadata has no value for bag 7"):
        model.population(bags, "region")


@pytest.mark.slow
@pytest.mark.parametrize(("family", "known"), [("binomial", "trials"), ("poisson", "exposure")])
def test_rates_and_totals_of_counts(family, known):
    bags, of_bags = (each[::2] for each in table(4))
    rng = np.random.default_rng(4)
    size = rng.integers(20, 2000, N // 2)
    draw = {"binomial": rng.binomial, "poisson": lambda n, p: rng.poisson(n * p)}[family]
    bags.metadata["n"], bags.metadata["counts"] = size, draw(size, of_bags["y"].clip(0, 1))
    model = BDR(8, kernel="rbf", family=family, method="optimize").fit(
        bags, "counts", seed=1, **{known: "n"}
    )
    rates = model.population(bags, "region")
    by_region = bags.metadata.groupby("region")
    truth = by_region["counts"].sum() / by_region["n"].sum()
    np.testing.assert_allclose(rates.mean, truth, rtol=0.05)
    totals = model.population(bags, "region", total=True)
    np.testing.assert_allclose(totals.mean, rates.mean * by_region["n"].sum(), rtol=1e-9)
    np.testing.assert_allclose(totals.sd, rates.sd * by_region["n"].sum(), rtol=1e-9)
    unweighted = model.population(bags, weights=np.ones(N // 2))
    each = model.population(bags, "county")
    np.testing.assert_allclose(unweighted.mean, each.mean.mean(), rtol=1e-9)
