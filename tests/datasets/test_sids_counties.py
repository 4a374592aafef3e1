"""sids_counties: the shipped counties are whole, and small."""

from pathlib import Path

import bdr_stan
from bdr_stan.datasets import sids_counties


def test_the_file_is_small_and_its_licence_is_shipped():
    folder = Path(bdr_stan.__file__).parent / "datasets"
    assert (folder / "sids.geojson.gz").stat().st_size < 20_000
    assert "Redistributions of source code" in (folder / "sids.txt").read_text()


def test_counties_are_polygons_with_possible_counts():
    counties = sids_counties()
    assert counties["county"].is_unique and counties.geometry.is_valid.all()
    assert counties.crs == "EPSG:4326"
    for years in ("1974", "1979"):
        assert (counties[f"deaths_{years}"] < counties[f"births_{years}"]).all()
    # Cressie (1993, page 386): 667 deaths of 329,962 children born 1974 to 1978.
    assert counties[["deaths_1974", "births_1974"]].sum().tolist() == [667, 329_962]
