"""Bags with several samples: matching by ids, selections, joined metadata."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.model_selection import train_test_split

from bdr_stan import Bags, Samples
from bdr_stan.bags.record import BagsRecord
from bdr_stan.bags.samples import by_name, by_sample, check_one_sample

TOWNS = ["01", "02", "03", "04"]


def bags_of(towns, p, metadata=None):
    """A bag per town whose points have its number, of as many points as its number."""
    points = [np.full((int(town), p), float(town)) for town in towns]
    return Bags.from_list(points, ids=towns, metadata=metadata)


@pytest.fixture
def both():
    people = bags_of(["02", "01", "03"], 2, pd.DataFrame({"state": list("bac")}))
    houses = bags_of(["04", "03", "02"], 1, pd.DataFrame({"state": list("dcb"), "tax": [4, 3, 2]}))
    return Samples({"people": people, "houses": houses})


def check_matched(samples):
    """Each bag has the points and metadata of its own town."""
    for i, town in enumerate(samples.ids):
        for name in samples.samples:
            assert samples.has(name)[i] == (town != {"people": "04", "houses": "01"}[name])
            assert samples.sizes_of(name)[i] == int(town) * samples.has(name)[i]
        assert samples.metadata["state"].iloc[i] == "abcd"[int(town) - 1]
    for name, own in samples.samples.items():
        towns = samples.ids[samples.has(name)]
        assert_array_equal(own.ids[samples.rows(name)], towns)
        found = own.take(samples.rows(name))
        assert_array_equal([bag[0, 0] for bag in found], towns.astype(float))
    assert_array_equal(samples.metadata.index, samples.ids)


def test_bags_are_those_of_the_first_sample_then_the_others(both):
    assert_array_equal(both.ids, ["02", "01", "03", "04"])
    assert len(both) == 4
    assert both.n_points == 2 + 1 + 3 + 4 + 3 + 2
    assert_array_equal(both.sizes, [4, 1, 6, 4])
    check_matched(both)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ([3, 0], ["04", "02"]),
        (slice(1, None), ["01", "03", "04"]),
        ([False, True, True, False], ["01", "03"]),
        (slice(None, None, -1), ["04", "03", "01", "02"]),
        ([], []),
    ],
)
def test_selections_keep_what_belongs_together(both, key, expected):
    chosen = both[key]
    assert_array_equal(chosen.ids, expected)
    assert set(chosen.samples) == {"people", "houses"}
    check_matched(chosen)
    check_matched(chosen[::-1])


def test_the_bags_of_one_sample(both):
    assert_array_equal(both["houses"].ids, ["04", "03", "02"])
    with pytest.raises(KeyError, match="no sample 'house'; did you mean 'houses'"):
        both["house"]
    with pytest.raises(AttributeError, match=r"'where'; use samples\[name\]"):
        both.where(state="a")
    assert both._repr_html_().count("<table>") == 2


def test_splits_of_scikit_learn(both):
    y = pd.Series([1.0, 2.0, 3.0, 4.0], ["01", "02", "03", "04"])
    train, test, y_train, y_test = train_test_split(both, y.loc[both.ids], random_state=0)
    assert len(train) == 3
    for part, labels in ((train, y_train), (test, y_test)):
        check_matched(part)
        assert_array_equal(labels, part.ids.astype(float))


def test_without_ids_bags_are_matched_by_position():
    arrays = [np.zeros((k + 1, 1)) for k in range(4)]
    samples = Samples({"a": Bags.from_list(arrays), "b": Bags.from_list(arrays[::-1])})
    assert samples.ids is None
    assert_array_equal(samples[1:].sizes_of("b"), [3, 2, 1])


def test_metadata_that_differ_are_refused(both):
    other = bags_of(["01", "02"], 1, pd.DataFrame({"state": ["a", "x"]}))
    with pytest.raises(ValueError, match="column 'state' of the metadata of bag '02' is 'b', but"):
        Samples({"people": both.samples["people"], "other": other})
    # A missing value is filled from the other table.
    gap = bags_of(["01", "02"], 1, pd.DataFrame({"state": ["a", None]}))
    joined = Samples({"gap": gap, "people": both.samples["people"]}).metadata
    assert_array_equal(joined["state"], ["a", "b", "c"])


def test_ordered_categories_stay_ordered():
    states = pd.Categorical(["low", "high"], ["low", "high"], ordered=True)
    table = pd.DataFrame({"level": states})
    first, second = bags_of(["01", "02"], 2, table), bags_of(["02", "03"], 1)
    assert Samples({"a": first, "b": second}).metadata["level"].dtype == states.dtype


def test_few_common_bags_are_warned_of():
    first, second = bags_of(TOWNS, 2), bags_of(["04", "05", "06"], 1)
    with (
        pytest.warns(UserWarning, match="only 1 of the 4 bags of the sample 'a'"),
        pytest.warns(UserWarning, match="only 1 of the 3 bags of the sample 'b'"),
    ):
        Samples({"a": first, "b": second})


def test_labels_without_ids_need_the_first_sample_everywhere(both):
    with pytest.raises(
        ValueError, match=r"bag 3 \(id '04'\) has no 'people' \(1 in total\).*pass y"
    ):
        both.check_order(y=[1.0, 2.0, 3.0, 4.0])
    with pytest.raises(ValueError, match="pass y"):
        both.check_order(y=pd.Series([1.0, 2.0, 3.0, 4.0]))  # the default index counts rows
    both.check_order(y=pd.Series(range(4), TOWNS), trials=None, exposure="tax")
    both[:3].check_order(y=[1.0, 2.0, 3.0])


def test_bags_with_one_sample_are_its_only_bags(both):
    people = both["people"]
    assert list(people.samples) == [""]
    assert people.samples[""] is people.of_sample("") is people.load() is people
    assert people.has("").all()
    assert_array_equal(people.sizes_of(""), people.sizes)
    assert by_name(3) == {"": 3}
    assert by_sample(people.samples, lambda name, bags: (name, len(bags)), len) == ("", 3)


def test_values_of_several_samples_are_joined(both):
    sizes = by_sample(both.samples, lambda name, bags: bags.n_points)
    assert sizes == {"people": 6, "houses": 9}
    assert by_name(sizes) is sizes
    assert by_sample(both.samples, lambda name, bags: len(bags), len) == 2
    check_one_sample(both["people"], "not raised")
    with pytest.raises(TypeError, match="only one"):
        check_one_sample(both, "only one", TypeError)


def test_the_bags_that_have_a_sample_are_in_order(both):
    houses = both[::-1].of_sample("houses")
    assert_array_equal(houses.ids, ["04", "03", "02"])
    assert_array_equal(both.of_sample("houses").ids, ["02", "03", "04"])
    record = BagsRecord.from_bags(both)
    assert_array_equal(record.has("houses"), both.has("houses"))
    assert_array_equal(record.take([3, 1]).has("houses"), [True, False])
    assert record.samples["houses"].has("").all()


def test_all_samples_are_loaded(both):
    table = pd.DataFrame({"town": ["02", "03", "02"], "rooms": [4.0, 5.0, 6.0]})
    lazy = Bags.from_dask(dd.from_pandas(table, npartitions=2), "town")
    samples = Samples({"people": both["people"], "houses": lazy})[::-1]
    loaded = samples.load()
    assert loaded["people"] is samples["people"]
    assert_array_equal(loaded["houses"].points, [[5.0], [4.0], [6.0]])
    assert_array_equal(loaded.ids, samples.ids)
