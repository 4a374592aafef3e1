"""A country's files in a folder with blanks and brackets, and its bags."""

import pytest
from builders.map_files import map_files

from bdr_stan import Bags


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
