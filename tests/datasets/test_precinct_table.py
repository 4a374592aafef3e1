"""precinct_table: the shipped table is whole, and what it holds is possible."""

from pathlib import Path

import bdr_stan
from bdr_stan.datasets import precinct_table

GROUPS = ["black", "hispanic", "asian"]


def test_the_table_is_small_and_its_licences_are_shipped():
    folder = Path(bdr_stan.__file__).parent / "datasets"
    assert (folder / "precincts.csv.gz").stat().st_size < 100_000
    assert "MIT License" in (folder / "precincts.txt").read_text()


def test_precincts_and_counties_are_possible():
    table = precinct_table()
    assert not table.isna().any().any() and not table.duplicated().all()
    counties = table.groupby("county")
    of_county = ["state", "democratic", "votes", *[c for c in table if c.startswith("county_")]]
    assert (counties[of_county].nunique() == 1).all().all()
    assert counties.size().max() <= 24
    assert (table["democratic"] <= table["votes"]).all()
    assert (counties["adults"].sum() <= counties["county_adults"].first()).all()
    for prefix in ("", "county_"):
        shares = table[[f"{prefix}{group}" for group in GROUPS]]
        assert (shares >= 0).all().all() and (shares.sum(axis=1) <= 102).all()  # rounded
