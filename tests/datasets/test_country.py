"""country_files: rasters and districts that fit together."""

import numpy as np
import pytest

from bdr_stan import Bags
from bdr_stan.datasets import country_files
from bdr_stan.datasets.country import COVARIATES


def test_files_make_bags_whose_rates_give_the_cases(tmp_path):
    folder = country_files(tmp_path / "country", side=30, n_districts=12, seed=3)
    rasters = {name: folder / f"{name}.tif" for name in [*COVARIATES, "rate"]}
    bags = Bags.from_rasters(rasters, folder / "districts.gpkg", weight=folder / "population.tif")
    assert len(bags) == 12 and bags.sizes.sum() >= 900
    cases = bags.metadata["cases"].to_numpy()
    rate = bags.points[:, bags.features.index("rate")]
    expected = np.add.reduceat(bags.weights * rate, bags.offsets[:-1])
    # pixels on borders count here by their area
    assert np.abs(np.log(cases / expected)).max() < 4 * 0.3
    assert np.corrcoef(np.log(cases), np.log(expected))[0, 1] > 0.9


def test_a_folder_that_exists_stays(tmp_path):
    with pytest.raises(FileExistsError, match="remove it, or choose another folder"):
        country_files(tmp_path)
