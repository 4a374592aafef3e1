"""Groups and smooth functions as columns of a regression, and what of metadata they refuse."""

import warnings
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from bdr_stan import Bags
from bdr_stan.embedding.covariates import Covariates, check_columns, learn_covariates
from bdr_stan.results.encoding import decode, encode

TABLE = pd.DataFrame(
    {
        "state": ["Ohio", "Utah", "Ohio", "Iowa", "Utah"],
        "urban": [True, False, False, True, True],
        "code": [3, 1, 3, 2, 1],
        "year": [1990, 2000, 1995, 2010, 2002],
        "lon": [-80.5, -110.0, -82.0, -93.0, -111.0],
        "lat": [40.0, 39.5, 41.0, 42.0, 40.5],
        "people": [10.0, 30.0, 20.0, 50.0, 40.0],
    }
)
ALL = {
    "names": ["people"],
    "groups": ["state", "urban", "code"],
    "smooths": ["year", ["lon", "lat"]],
}


def bags_with(table, ids=None):
    return Bags.from_list([np.ones((2, 1))] * len(table), metadata=table, ids=ids)


def changed(**columns):
    return bags_with(TABLE.assign(**columns))


@pytest.fixture(scope="module")
def learned():
    return learn_covariates(bags_with(TABLE), **ALL)


# ---------------------------------------------------------------- columns


def test_covariates_come_first_then_smooth_functions_then_groups(learned):
    terms = learned.terms
    assert terms.names == ["year", "lon, lat", "state", "urban", "code"]
    assert terms.length_names == ["year", "lon", "lat"]
    n_year, n_place, *levels = terms.n_effects
    assert levels == [3, 2, 3] and terms.n_columns == [1, 2, 0, 0, 0]
    assert list(learned.slices) == ["people", *terms.names]
    ends = np.cumsum([0, 1, n_year, n_place, 3, 2, 3])
    assert [(s.start, s.stop) for s in learned.slices.values()] == list(pairwise(ends))
    assert learned.transform(bags_with(TABLE)).shape == (5, ends[-1])
    names = terms.effect_names
    assert names[0] == "year[1]" and names[n_year] == "lon, lat[1]"
    assert names[n_year + n_place :] == [
        "state=Iowa", "state=Ohio", "state=Utah", "urban=False", "urban=True",
        "code=1", "code=2", "code=3",
    ]  # fmt: skip
    assert learned.named == {
        "covariates": ["people"],
        "groups": ["state", "urban", "code"],
        "smooths": ["year", ["lon", "lat"]],
    }


def test_groups_are_indicators_of_their_levels(learned):
    found = learned.terms.transform(bags_with(TABLE))[:, -8:]
    expected = np.column_stack(
        [TABLE["state"] == level for level in ("Iowa", "Ohio", "Utah")]
        + [TABLE["urban"] == level for level in (False, True)]
        + [TABLE["code"] == level for level in (1, 2, 3)]
    )
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "column, values",
    [
        ("state", pd.Categorical(TABLE["state"], categories=["Utah", "x", "Ohio", "Iowa"])),
        ("state", pd.Series(TABLE["state"], dtype="string")),
        ("code", TABLE["code"].astype(float)),
        ("code", pd.array(TABLE["code"], dtype="Int64")),
        ("code", pd.Categorical(TABLE["code"])),
        ("urban", pd.array(TABLE["urban"], dtype="boolean")),
    ],
)
def test_levels_count_not_their_order_or_type(learned, column, values):
    bags, plain = changed(**{column: values}), bags_with(TABLE)
    again = learn_covariates(bags, **ALL)
    assert again.terms.groups == learned.terms.groups
    for one, other in [(again, bags), (again, plain), (learned, bags)]:
        np.testing.assert_array_equal(one.transform(other), learned.transform(plain))
    assert not learned.terms.new_levels(bags).any()


def test_sines_are_those_of_a_box_around_the_training_bags(learned):
    smooth = learned.terms.smooths[0]
    assert (smooth.centre, smooth.reach) == (2000, 10)
    place = smooth.place(bags_with(TABLE))
    np.testing.assert_allclose(place[:, 0], [-1, 0, -0.5, 1, 0.2])
    half = np.pi / (2 * smooth.frequency[0, 0])  # of the box: the first sine is half a wave
    order = np.arange(1, len(smooth.mean) + 1)
    np.testing.assert_allclose(smooth.frequency[:, 0], np.pi * order / (2 * half))
    sines = np.sin((place + half) * smooth.frequency[:, 0]) / np.sqrt(half)
    np.testing.assert_allclose(smooth.sines(place), sines - sines.mean(axis=0), atol=1e-12)
    two = learned.terms.smooths[1]
    place = two.place(bags_with(TABLE))
    assert np.abs(place).max(axis=0).tolist() == [1.0, 1.0]
    half = np.pi / (2 * two.frequency.min())
    sines = np.prod(np.sin((place[:, None] + half) * two.frequency), axis=2) / half
    np.testing.assert_allclose(two.sines(place), sines - sines.mean(axis=0), atol=1e-12)


def test_units_of_a_smooth_do_not_matter(learned):
    moved = changed(year=TABLE["year"] / 7 - 3, lon=1e4 * TABLE["lon"])
    again = learn_covariates(moved, **ALL).transform(moved)
    np.testing.assert_allclose(again, learned.transform(bags_with(TABLE)), atol=1e-9)


def test_beyond_the_box_a_smooth_is_as_at_its_edge(learned):
    far, further = (changed(year=[year] * 5) for year in (2300, 2900))
    np.testing.assert_allclose(learned.transform(far), learned.transform(further), atol=1e-12)


# ---------------------------------------------------------------- new bags


def test_each_new_level_has_a_number_of_its_own(learned):
    terms = learned.terms
    new = terms.new_levels(changed(state=["Ohio", "Guam", "Utah", "Guam", "Rota"]))
    assert new.shape == (5, 3) and not new[:, 1:].any()
    assert new[0, 0] == new[2, 0] == 0 < min(new[1, 0], new[4, 0])
    assert new[1, 0] == new[3, 0] != new[4, 0]
    other = terms.new_levels(changed(state=["Rota", "Guam", "Guam", "Guam", "Guam"]))
    assert other[0, 0] == new[4, 0] and other[1, 0] == new[1, 0]  # whatever the other bags
    block = learned.slices["state"]
    x = learned.transform(changed(state=["Ohio", "Guam", "Utah", "Guam", "Rota"]))[:, block]
    np.testing.assert_array_equal(x.sum(axis=1), [1, 0, 1, 0, 0])


def test_new_levels_and_far_bags_are_named(learned):
    terms = learned.terms
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        terms.warn_of_new(bags_with(TABLE))
    new = bags_with(
        TABLE.assign(state=["Guam", "Ohio", "Guam", "Ohio", "Ohio"], lat=[40, 40, 40, 60, 60]),
        ids=list("abcde"),
    )
    with pytest.warns(UserWarning, match="bags") as found:
        terms.warn_of_new(new)
    assert [str(w.message) for w in found] == [
        "group 'state' has levels that no training bag has, such as 'Guam', for 2 of 5 bags: "
        "their effects are drawn from normal(0, term_sd), like the effects of any new level",
        "smooth 'lon, lat': 2 of 5 bags lie outside the range of the training bags, such as bag "
        "3 (id 'd'): there the function is an extrapolation, back to its average",
    ]


def test_each_bag_is_embedded_by_itself(learned):
    part = bags_with(TABLE.iloc[[3, 1]].reset_index(drop=True))
    whole = learned.transform(bags_with(TABLE))
    np.testing.assert_allclose(learned.transform(part), whole[[3, 1]], atol=1e-12)


def test_a_file_keeps_them(learned):
    arrays = {}
    kept = decode(encode(learned.config(), arrays, "covariates"), arrays, dict)
    again = Covariates.from_config(kept)
    assert again.named == learned.named and again.coordinates == learned.coordinates
    new = changed(state=["Guam"] * 5, year=[1980, 1990, 1991, 2005, 2300])
    np.testing.assert_array_equal(again.transform(new), learned.transform(new))
    np.testing.assert_array_equal(again.terms.new_levels(new), learned.terms.new_levels(new))


def test_a_file_without_terms_has_none(learned):
    config = {name: value for name, value in learned.config().items() if name != "terms"}
    again = Covariates.from_config(config)
    assert again.terms.names == [] and again.transform(bags_with(TABLE)).shape == (5, 1)


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    "columns, error, says",
    [
        ({"groups": "state"}, TypeError, r"groups must be a list of names, found 'state': use \["),
        ({"smooths": "year"}, TypeError, r"smooths must be a list of names, found 'year': use \["),
        ({"groups": 7}, TypeError, "groups must be a list of names of metadata, found 7"),
        ({"groups": [1]}, TypeError, r"groups must be a list of names of metadata, found \[1\]"),
        ({"groups": [["a", "b"]]}, TypeError, "groups must be a list of names of metadata, found"),
        (
            {"smooths": [["a", "b", "c"]]},
            TypeError,
            r"smooths must be .*, or of pairs such as \['lon', 'lat'\], found \[\['a', 'b'",
        ),
        ({"smooths": [["a", 1]]}, TypeError, "smooths must be a list of names of metadata, or of"),
        ({"smooths": [[]]}, TypeError, "smooths must be a list of names of metadata, or of"),
        ({"groups": ["a", "b", "a"]}, ValueError, "groups names 'a' twice: leave one of them"),
        ({"smooths": ["a", ["b", "a"]]}, ValueError, "smooths names 'a' twice: leave one of them"),
        (
            {"covariates": ["a"], "groups": ["a"]},
            ValueError,
            "covariates and groups both name 'a': leave one of them out",
        ),
        (
            {"groups": ["a"], "smooths": [["b", "a"]]},
            ValueError,
            "groups and smooths both name 'a': leave one of them out",
        ),
    ],
)
def test_names_must_be_lists_of_different_names(columns, error, says):
    with pytest.raises(error, match=says):
        check_columns(**columns)


def test_good_names_are_taken():
    check_columns(None, None, None)
    check_columns(["a"], ("b",), ["c", ["d"], ("e", "f")])


@pytest.mark.parametrize(
    "bags, columns, error, says",
    [
        (
            Bags.from_list([np.ones((2, 1))]),
            {"groups": ["state"]},
            ValueError,
            "group 'state' is a column of the bags' metadata, but these bags have none: pass",
        ),
        (bags_with(TABLE), {"groups": ["sate"]}, ValueError, "'sate': did you mean 'state'"),
        (bags_with(TABLE), {"smooths": [["lon", "alt"]]}, ValueError, "did you mean 'lat'"),
        (
            bags_with(TABLE.assign(state=["a", None, "b", "a", None]), ids=list("abcde")),
            {"groups": ["state"]},
            ValueError,
            r"group 'state' is missing for bag 1 \(id 'b'\) \(2 in total\): fill it in or leave",
        ),
        (
            changed(year=[1, 2, np.nan, 4, 5]),
            {"smooths": ["year"]},
            ValueError,
            r"smooth 'year' is missing for bag 2 \(1 in total\): fill it in or leave",
        ),
        (
            changed(year=[1, 2, np.inf, 4, 5]),
            {"smooths": ["year"]},
            ValueError,
            "smooth 'year' of bag 2 is inf .* must be finite",
        ),
        (
            bags_with(TABLE),
            {"smooths": ["state"]},
            TypeError,
            "smooth 'state' holds .*: give a column of numbers",
        ),
        (
            bags_with(TABLE),
            {"smooths": ["urban"]},
            TypeError,
            "smooth 'urban' holds bool: give a column of numbers",
        ),
        (
            bags_with(TABLE),
            {"smooths": [["year", "code"]]},
            ValueError,
            "smooth 'code' has 3 different values in the training bags, too few for a function: "
            "use covariates= or groups=",
        ),
        (
            changed(state="Ohio"),
            {"groups": ["state"]},
            ValueError,
            "group 'state' is 'Ohio' for all training bags: there is nothing to compare, so leave",
        ),
        (
            changed(state=pd.to_datetime(["2001-01-01"] * 5)),
            {"groups": ["state"]},
            TypeError,
            "group 'state' holds Timestamp: give numbers, text or booleans",
        ),
        (
            bags_with(pd.concat([TABLE, TABLE["state"]], axis=1)),
            {"groups": ["state"]},
            ValueError,
            "several columns 'state': rename all but one",
        ),
    ],
)
def test_metadata_must_have_them(bags, columns, error, says):
    with pytest.raises(error, match=says):
        learn_covariates(bags, [], **columns)
