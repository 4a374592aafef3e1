"""Columns of the bags' metadata as columns of a regression."""

import warnings

import numpy as np
import pandas as pd
import pytest

from bdr_stan import Bags
from bdr_stan.embedding.covariates import Covariates, check_columns, learn_covariates
from bdr_stan.results.encoding import decode, encode

TABLE = pd.DataFrame(
    {
        "population": [1000, 4000, 2000, 9000],
        "region": ["south", "north", "south", "west"],
        "urban": [True, False, False, False],
    }
)
NAMES = ["population", "region=north", "region=south", "region=west", "urban=False", "urban=True"]


def bags_with(table, ids=None):
    return Bags.from_list([np.ones((2, 1))] * len(table), metadata=table, ids=ids)


def changed(**columns):
    return bags_with(TABLE.assign(**columns))


@pytest.fixture
def learned():
    return learn_covariates(bags_with(TABLE), list(TABLE.columns))


def test_terms_alone_have_no_columns_of_covariates():
    found = learn_covariates(bags_with(TABLE), [], groups=["region"])
    assert found.names == [] and found.mean.shape == found.scale.shape == (0,)
    assert found.transform(bags_with(TABLE)).shape == (4, 3)


def test_numbers_are_standardised_and_levels_centred(learned):
    assert learned.names == NAMES
    found = learned.transform(bags_with(TABLE))
    population = TABLE["population"].to_numpy(float)
    expected = np.column_stack(
        [(population - 4000) / population.std()]
        + [TABLE["region"] == level for level in ("north", "south", "west")]
        + [TABLE["urban"] == level for level in (False, True)]
    )
    expected[:, 1:] -= expected[:, 1:].mean(axis=0)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    np.testing.assert_allclose(learned.scale, [population.std(), 1, 1, 1, 1, 1])


def test_new_bags_are_measured_by_the_training_bags(learned):
    new = pd.DataFrame({"region": ["west"], "urban": [True], "population": [4000]})
    np.testing.assert_allclose(
        learned.transform(bags_with(new)), [[0, -0.25, -0.5, 0.75, -0.75, 0.75]]
    )


@pytest.mark.parametrize(
    "values",
    [
        pd.Categorical(TABLE["region"], categories=["west", "north", "east", "south"]),
        pd.Series(TABLE["region"], dtype="string"),
        TABLE["region"].astype(object),
    ],
)
def test_only_the_levels_count_not_their_order_or_type(learned, values):
    bags = changed(region=values)
    again = learn_covariates(bags, list(TABLE.columns))
    assert again.names == NAMES
    np.testing.assert_array_equal(again.transform(bags), learned.transform(bags_with(TABLE)))
    np.testing.assert_array_equal(learned.transform(bags), learned.transform(bags_with(TABLE)))


def test_weights_in_given_units_predict_the_same(learned, rng):
    gamma = rng.normal(size=(3, 2, 6))
    given = learned.in_given_units(gamma)
    np.testing.assert_allclose(given[..., 0], gamma[..., 0] / learned.scale[0])
    x = learned.transform(bags_with(TABLE))
    np.testing.assert_allclose((given * learned.scale) @ x.T, gamma @ x.T, atol=1e-12)
    shares = np.array([0.25, 0.5, 0.25])  # north, south, west
    np.testing.assert_allclose(given[..., 1:4] @ shares, np.zeros((3, 2)), atol=1e-12)
    np.testing.assert_allclose(given[..., 4] * 0.75 + given[..., 5] * 0.25, 0, atol=1e-12)


def test_they_follow_the_order_in_which_they_are_named():
    assert learn_covariates(bags_with(TABLE), ["urban", "population"]).names == [
        "urban=False", "urban=True", "population"
    ]  # fmt: skip


def test_numbers_of_any_type():
    values = pd.array([1, 4, 2, 9], dtype="Int64")
    columns = learn_covariates(changed(population=values), ["population"])
    assert (columns.names, columns.mean.tolist()) == (["population"], [4.0])


def test_a_file_keeps_them(learned):
    arrays = {}
    kept = decode(encode(learned.config(), arrays, "covariates"), arrays, dict)
    again = Covariates.from_config(kept)
    assert again.names == NAMES and again.levels == learned.levels
    np.testing.assert_array_equal(
        again.transform(bags_with(TABLE)), learned.transform(bags_with(TABLE))
    )


@pytest.mark.parametrize("name, value", [("population", 7.5), ("region", "north")])
def test_what_all_bags_share_says_nothing(name, value):
    bags = changed(**{name: value})
    with pytest.warns(UserWarning, match=f"covariate '{name}' is the same for all training bags"):
        columns = learn_covariates(bags, [name])
    np.testing.assert_array_equal(columns.transform(bags), np.zeros((4, 1)))
    np.testing.assert_array_equal(columns.scale, [1.0])


@pytest.mark.parametrize(
    "names, error, says",
    [
        ("region", TypeError, r"must be a list of names, found 'region': use \['region'\]"),
        (7, TypeError, "must be a list of names of metadata, found 7"),
        ([1], TypeError, r"must be a list of names of metadata, found \[1\]"),
        (["a", "b", "a"], ValueError, "covariates names 'a' twice: leave one of them out"),
    ],
)
def test_names_must_be_a_list_of_different_names(names, error, says):
    with pytest.raises(error, match=says):
        check_columns(covariates=names)


@pytest.mark.parametrize(
    "bags, names, says",
    [
        (Bags.from_list([np.ones((2, 1))]), ["region"], "these bags have none: pass metadata"),
        (bags_with(TABLE), ["popluation"], "no column 'popluation': did you mean 'population'?"),
        (bags_with(TABLE), ["xyz"], "no column 'xyz': it has 'population', 'region', 'urban'"),
        (
            bags_with(pd.concat([TABLE, TABLE["region"]], axis=1)),
            ["region"],
            "several columns 'region': rename all but one",
        ),
        (
            bags_with(TABLE.assign(population=[1, np.nan, 2, np.nan]), ids=list("abcd")),
            ["population"],
            r"'population' is missing for bag 1 \(id 'b'\) \(2 in total\): fill it in",
        ),
        (
            changed(region=["south", "north", None, "west"]),
            ["region"],
            r"'region' is missing for bag 2 \(1 in total\)",
        ),
        (
            changed(population=[1, 2, 3, np.inf]),
            ["population"],
            "of bag 3 is inf .* must be finite",
        ),
    ],
)
def test_metadata_must_have_them(bags, names, says):
    with pytest.raises(ValueError, match=says):
        learn_covariates(bags, names)


def test_what_is_no_number_text_or_boolean_is_refused():
    days = pd.to_datetime(["2001-01-01"] * 4)
    with pytest.raises(TypeError, match="covariate 'population' holds Timestamp: give numbers"):
        learn_covariates(changed(population=days), ["population"])


def test_new_bags_must_be_of_known_levels_and_kinds(learned):
    with pytest.raises(ValueError, match="'region' of bag 1 is 'east', which no training bag has"):
        learned.transform(changed(region=["south", "east", "south", "east"]))
    with pytest.raises(TypeError, match="'population' holds .*, but in the training bags it holds"):
        learned.transform(changed(population=["few", "few", "many", "many"]))
    with pytest.raises(ValueError, match="no column 'urban'"):
        learned.transform(bags_with(TABLE[["population", "region"]]))


@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_numbers_in_other_units_are_noticed(learned, factor):
    with pytest.warns(UserWarning, match=r"'population', .* in 100% of the bags: .* its units"):
        learned.of_bags(changed(population=factor * TABLE["population"]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learned.of_bags(bags_with(TABLE))
        learned.of_bags(changed(population=[0, 10_000, 20_000, 2000]))
        learned.of_bags(bags_with(TABLE.assign(population=1.0)[:1]))  # a single bag may differ
