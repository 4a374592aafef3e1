"""AggregateRegressor with coefficients that differ between bags: ecological inference."""

import numpy as np
import pandas as pd
import pytest

from bdr_stan import AggregateRegressor, Bags, load


def tables(rng, n=150):
    """Two groups in each county: their shares and true rates, and the county's rate."""
    share = rng.uniform(0.05, 0.95, n)
    logits = rng.multivariate_normal([-0.3, 1.0], [[0.4, 0.1], [0.1, 0.3]], n)
    rates = 1 / (1 + np.exp(-logits))
    return share, rates, share * rates[:, 0] + (1 - share) * rates[:, 1]


def bags_of(share):
    n = len(share)
    rows = pd.DataFrame(
        {
            "county": np.repeat([f"c{k:03}" for k in range(n)], 2),
            "group": np.tile(["women", "men"], n),
            "people": np.column_stack([share, 1 - share]).ravel(),
        }
    )
    return Bags.from_dataframe(rows, "county", weight="people")


@pytest.fixture(scope="module")
def fitted():
    share, rates, y = tables(np.random.default_rng(0))
    bags = bags_of(share)
    model = AggregateRegressor(
        "normal", n_landmarks=2, bag_effects=["group"], method="laplace", random_state=1
    )
    return model.fit(bags, pd.Series(y, bags.ids), draws=500), bags, y, rates


def test_rates_of_groups_are_nearer_the_truth_than_without(fitted):
    model, bags, y, rates = fitted
    alike = AggregateRegressor("normal", n_landmarks=2, method="laplace", random_state=1)
    alike.fit(bags, y, draws=500)
    for group, true in (("women", rates[:, 0]), ("men", rates[:, 1])):
        subset = bags.where(group=group)
        table, without = (m.bounds(bags, y, subset, highest_rate=1) for m in (model, alike))
        held = (table["lower"] <= true) & (true <= table["upper"])
        assert held.mean() > 0.9
        width, allowed = table["upper"] - table["lower"], table["highest"] - table["lowest"]
        assert width.mean() < 0.9 * allowed.mean()
        error, of_alike = (np.sqrt(np.mean((t["mean"] - true) ** 2)) for t in (table, without))
        assert error < 0.85 * of_alike
        assert np.all(
            (table["lowest"] - 1e-12 <= table["lower"]) & (table["lower"] < table["upper"])
        )
        assert np.all(table["upper"] <= table["highest"] + 1e-12)
        assert table["inside"].between(0, 1).all()


def test_rates_of_groups_add_up_to_the_total(fitted):
    """As those of a county's average, which no draw leaves open."""
    model, bags, y, _ = fitted
    table = model.bounds(bags, y, bags)
    np.testing.assert_allclose(table["mean"], y, rtol=1e-6)
    np.testing.assert_allclose(table["upper"] - table["lower"], 0, atol=1e-6)


def test_training_bags_have_their_own_coefficients(fitted):
    model, bags, y, _ = fitted
    own, new = model.predictive(bags), model.predictive(bags, district=False)
    assert np.abs(own.mean - y).mean() < 0.5 * np.abs(new.mean - y).mean()
    assert np.all(own.sd < new.sd)
    points = model.predict_points(bags)
    rates = points.mean.reshape(-1, 2)
    np.testing.assert_allclose(
        np.sum(rates * bags.weights.reshape(-1, 2), axis=1), own.mean, rtol=1e-6
    )
    average = model.predict_points(bags, district=False).mean.reshape(-1, 2)
    assert np.all(average.std(0) < 1e-6) and np.all(rates.std(0) > 0.03)


def test_new_bags_scatter_as_their_coefficients_do(fitted):
    model = fitted[0]
    share, _, y = tables(np.random.default_rng(1), 400)
    predictive = model.predictive(bags_of(share))
    lower, upper = predictive.interval(0.9)
    assert 0.84 < np.mean((lower < y) & (y < upper)) < 0.98


def test_idata_priors_and_saving(fitted, tmp_path):
    model, bags, y, _ = fitted
    posterior, labels = model.idata.posterior, model.idata.posterior_predictive
    assert posterior["effect_sd"].dims[2:] == ("effect_column",)
    assert posterior["effect_correlation"].dims[2:] == ("effect_column", "other_column")
    assert labels["effect"].dims[2:] == ("bag", "effect_column")
    assert posterior["effect_column"].values[0] == "intercept"
    assert set(model.priors().index) >= {"effect_sd", "effect_correlation", "sigma"}
    model.save(tmp_path / "model.nc")
    again = load(tmp_path / "model.nc")
    subset = bags.where(group="men")
    pd.testing.assert_frame_equal(again.bounds(bags, y, subset), model.bounds(bags, y, subset))
    np.testing.assert_allclose(again.predict(bags), model.predict(bags))


def test_contrasts_share_the_coefficients(fitted):
    model, bags, _, rates = fitted
    women, men = (bags_of(np.full(len(bags), share)) for share in (1 - 1e-9, 1e-9))
    found = model.contrast(women, men)
    assert np.isclose(found.mean.mean(), (rates[:, 0] - rates[:, 1]).mean(), atol=0.1)
    assert np.all(found.sd > 0.05)  # rates of groups differ between counties


def test_the_check_of_context_is_that_of_average_rates(fitted):
    slopes = fitted[0].check_context()
    assert len(slopes) == fitted[1].n_features and np.all(np.isfinite(slopes))


def test_nuts_and_laplace_agree():
    share, _, y = tables(np.random.default_rng(2), 80)
    bags = bags_of(share)
    found = [
        AggregateRegressor(
            "normal", n_landmarks=2, bag_effects=["group"], method=method, random_state=1
        ).fit(bags, y, draws=500, **given).bounds(bags, y, bags.where(group="men"), highest_rate=1)
        for method, given in (("nuts", {"chains": 2, "adapt_delta": 0.95}), ("laplace", {}))
    ]  # fmt: skip
    assert np.abs(found[0]["mean"] - found[1]["mean"]).mean() < 0.02


def test_a_constant_alone():
    share, _, y = tables(np.random.default_rng(3), 60)
    bags = bags_of(share)
    model = AggregateRegressor("normal", n_landmarks=2, bag_effects=True, method="optimize")
    model.fit(bags, y, seed=1)
    assert model.idata.posterior["effect_sd"].shape == (1, 1, 1)
    assert np.abs(model.predict(bags) - y).mean() < np.abs(y - y.mean()).mean()


@pytest.mark.parametrize(
    "given, says",
    [
        ({"likelihood": "poisson", "bag_effects": ["group"]}, "go with likelihood='normal'"),
        ({"bag_effects": []}, "bag_effects must be True, False or a list of columns"),
        ({"bag_effects": "group"}, "bag_effects must be True, False or a list of columns"),
        ({"bag_effects": ["age"]}, "depends on the column 'age', which the points do not have"),
        ({"bag_effects": True, "method": "vb"}, "method='vb' takes no bag_effects"),
    ],
)
def test_refusals(given, says):
    share, _, y = tables(np.random.default_rng(4), 20)
    with pytest.raises(ValueError, match=says):
        AggregateRegressor(**{"likelihood": "normal", **given}).fit(bags_of(share), y)
