"""A country's files in a folder with blanks and brackets, and its bags."""

import geopandas as gpd
import numpy as np
import pytest
import shapely
from builders.map_files import in_crs, map_files, neighbours

from bdr_stan import Bags
from bdr_stan.maps import to_raster


@pytest.fixture
def country(tmp_path, rng):
    folder = tmp_path / "my maps (copy)"
    folder.mkdir()
    return map_files(folder, rng)


@pytest.fixture
def bags(country):
    with pytest.warns(UserWarning, match="lack data"):
        return Bags.from_rasters(
            country.covariates, country.districts, country.population, id="NAME_2"
        )


@pytest.fixture
def zones(rng):
    """Polygons that share the land of the districts in another way."""
    parts = neighbours(rng, 5, shapely.box(1.3, 0.7, 28.6, 18.9))
    shapes = [in_crs(part) for part in parts]
    return gpd.GeoDataFrame({"zone": list("abcde")}, geometry=shapes, crs="EPSG:32736")


@pytest.fixture
def months(bags, rng):
    """Rasters of two months: a rate, its interval and exceedance, and the elevation."""

    def month(level):
        rate = level * rng.gamma(3, 1, len(bags.points))
        layers = {
            "mean": rate,
            "sd": rate / 4,
            "quantile_0.05": rate / 3,
            "quantile_0.95": 2 * rate,
        }
        exceedance = {"exceedance_1.5": rate / (rate + 1.5), "elevation": bags.points[:, 0]}
        return to_raster(layers | exceedance, bags)

    return {"May <1>": month(1.0), "June": month(2.0)}


@pytest.fixture
def table(country):
    """Predictions of the districts, in another order than their polygons' numbers."""
    table = country.table.assign(predicted=np.arange(8) * 9.5, name="a < b").set_index("NAME_2")
    return table.sample(frac=1, random_state=1)
