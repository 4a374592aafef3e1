"""county_table: raw rows in random order, one vote per county."""

import pandas as pd
import pytest

from bdr_stan.datasets import county_table


def test_a_county_has_one_vote_and_up_to_500_people_in_no_order():
    people = county_table(60, seed=3)
    assert list(people.columns) == ["county", "age", "income", "region", "vote"]
    by_county = people.groupby("county")
    assert len(by_county) == 60
    assert by_county["vote"].nunique().max() == 1
    assert by_county.size().min() >= 1 and by_county.size().max() <= 500
    assert not people["county"].is_monotonic_increasing
    pd.testing.assert_frame_equal(people, county_table(60, seed=3))


@pytest.mark.parametrize("column", ["age", "income"])
def test_the_vote_follows_the_people(column):
    people = county_table(400)
    large = people.groupby("county").filter(lambda county: len(county) > 50).groupby("county")
    assert large[column].mean().corr(large["vote"].first()) > 0.3


@pytest.mark.parametrize("seed", range(4))
def test_ages_are_ages(seed):
    age = county_table(seed=seed)["age"]
    assert age.min() >= 18 and age.max() <= 100 and not age.duplicated().any()
