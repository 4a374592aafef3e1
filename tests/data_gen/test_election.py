"""The generated election."""

import numpy as np

from data_gen.election import FEATURES, SIZES, VOTES, election


def test_residents_votes_and_truth_agree():
    generated = election(1, n_counties=80, n_states=5)
    residents, counties = generated.residents, generated.counties
    assert list(residents.columns) == ["county", *FEATURES]
    sizes = residents.groupby("county").size()
    assert sizes.index.equals(counties.index)
    assert sizes.between(*SIZES).all()
    assert counties["votes"].between(*VOTES).all()
    error = (counties["yes"] - counties["votes"] * counties["share"]) / np.sqrt(
        counties["votes"] * counties["share"] * (1 - counties["share"])
    )
    assert np.abs(error).max() < 5
    assert 0.7 < error.std() < 1.3
    women = (residents["sex"] == "f").groupby(residents["county"]).mean()
    mixed = women * counties["women"] + (1 - women) * counties["men"]
    large = sizes > 100
    assert np.abs(mixed - counties["share"])[large].max() < 0.05
    assert (counties["women"] > counties["men"]).all()
    assert counties["state"].nunique() <= 5


def test_a_seed_gives_one_election():
    first, again, other = (election(k, n_counties=20, n_states=3) for k in (1, 1, 2))
    assert first.counties.equals(again.counties)
    assert first.residents.equals(again.residents)
    assert not first.counties.equals(other.counties)
