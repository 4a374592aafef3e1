"""What a fit keeps of its bags: values in other units are noticed, others are not."""

import warnings

import numpy as np
import pandas as pd
import pytest

from bdr_stan import BLR, Bags, RBFNetwork
from bdr_stan.bags.record import column_ranges, warn_of_other_ranges


def people(rng, n=60):
    town = np.repeat(np.arange(n), rng.integers(1, 30, n))
    level = rng.normal(size=n)[town]
    return pd.DataFrame(
        {
            "town": town,
            "age": 40 + 5 * level + rng.normal(scale=10, size=len(town)),
            "income": 30_000 * np.exp(0.5 * level + rng.normal(scale=0.6, size=len(town))),
            "height": (300 + 100 * rng.normal(size=n))[town],  # of the town
            "sex": np.where(rng.random(len(town)) < 0.5, "f", "m"),
        }
    )


@pytest.fixture(scope="module")
def fitted():
    bags = Bags.from_dataframe(people(np.random.default_rng(0)), "town")
    return BLR(5, method="exact").fit(bags, np.random.default_rng(1).normal(size=60), seed=1)


@pytest.mark.filterwarnings("ignore:columns")
def test_columns_in_other_units_are_noticed(fitted, tmp_path):
    table = people(np.random.default_rng(2))
    fitted.save(tmp_path / "fit.nc")
    for model in (fitted, BLR.load(tmp_path / "fit.nc")):
        words = r"100% of the nonzero values of column 'income', .* outside .* check that its units"
        with pytest.warns(UserWarning, match=words):
            model.predict(table.assign(income=table["income"] / 1000))
    with pytest.warns(UserWarning, match="column 'height'"):
        fitted.predict(table.assign(height=table["height"] * 3.28 + 1000))


@pytest.mark.filterwarnings("ignore:columns")
def test_new_bags_of_the_same_kind_are_not(fitted):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.filterwarnings("ignore", "columns that are the same")
        for seed in range(3, 103):
            bags = Bags.from_dataframe(people(np.random.default_rng(seed), 8), "town")
            warn_of_other_ranges(bags, fitted.result_.settings["column_ranges"])
        fitted.predict(Bags.from_points([[90.0, 1e6, 900.0, 1, 0]], sizes=[1]))  # a single bag
        bags = Bags.from_dataframe(people(np.random.default_rng(3)), "town")
        older = Bags(bags.points + np.array([5, 0, 0, 0, 0]), bags.offsets, features=bags.features)
        fitted.contrast(older, bags)


@pytest.mark.filterwarnings("ignore:constant columns")
@pytest.mark.parametrize("value, other", [(1.0, 0.0), (0.0, 1.0), (True, False), (0.1, 7.0)])
def test_a_column_that_did_not_vary_in_training_is_named(tmp_path, value, other):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"town": np.repeat(np.arange(40), 5), "x": rng.normal(size=200)})
    bags = Bags.from_dataframe(table.assign(urban=value), "town")
    BLR(5, method="exact").fit(bags, rng.normal(size=40), seed=1).save(tmp_path / "fit.nc")
    model = BLR.load(tmp_path / "fit.nc")
    changed = table.assign(urban=np.where(table["town"] < 10, other, value))
    with pytest.warns(UserWarning, match=r"column 'urban' is .* at all .* but not at 25% of the"):
        model.predict(changed)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.filterwarnings("ignore", "constant columns")
        model.predict(table.assign(urban=value))


@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_zeros_do_not_hide_other_units(factor):
    rng = np.random.default_rng(0)
    income = 30_000 * rng.lognormal(sigma=0.6, size=(1000, 1)) * (rng.random((1000, 1)) > 0.3)
    train = Bags.from_points(income, sizes=np.full(20, 50))
    with pytest.warns(UserWarning, match="100% of the nonzero values of column 0, .* outside"):
        warn_of_other_ranges(
            Bags.from_points(factor * income, sizes=[500, 500]), column_ranges(train)
        )


def test_a_rare_category_is_no_other_unit():
    rng = np.random.default_rng(0)
    rare = Bags.from_points((rng.random((1000, 1)) < 0.004) * 1.0, sizes=[500, 500])
    never = Bags.from_points(np.zeros((1000, 1)), sizes=[500, 500])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for train in (rare, never):
            warn_of_other_ranges(
                Bags.from_points(np.ones((40, 1)), sizes=[20, 20]), column_ranges(train)
            )


def test_ranges_of_points_in_a_memory_map(tmp_path):
    points = np.random.default_rng(0).normal(size=(1000, 2))
    np.save(tmp_path / "points.npy", points)
    mapped = Bags(np.load(tmp_path / "points.npy", mmap_mode="r"), [0, 400, 1000])
    np.testing.assert_array_equal(column_ranges(mapped), np.quantile(points, [0.01, 0.99], axis=0))
    model = RBFNetwork(2).fit(mapped, [3, 4], seed=1)
    assert len(model.predict(mapped)) == 2
