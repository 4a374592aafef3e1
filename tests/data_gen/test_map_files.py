"""data_gen.map_files: the generated country as rasters and polygons."""

import geopandas as gpd
import numpy as np
import pytest
import rasterio
import shapely
from click.testing import CliRunner
from exactextract import exact_extract

from bdr_stan import Bags
from data_gen import map_files
from data_gen.malaria import FEATURES, load_country, write_country


@pytest.fixture(scope="module")
def country(tmp_path_factory):
    folder = tmp_path_factory.mktemp("country")
    write_country(folder, n_pixels=2000, n_districts=30, seed=3)
    return load_country(folder)


@pytest.fixture(scope="module")
def files(country, tmp_path_factory):
    return map_files.write_map_files(country, tmp_path_factory.mktemp("maps") / "straight")


def test_rasters_are_the_columns_of_the_points(country, files):
    assert list(files["covariates"]) == list(FEATURES[:-2])
    for k, (name, path) in enumerate(files["covariates"].items()):
        with rasterio.open(path) as file:
            assert file.crs == "EPSG:32736" and file.shape == country.shape
            assert np.allclose(file.res, 1000 * country.pixel_km, rtol=1e-12)
            image = file.read(1, masked=True).astype(float).filled(np.nan)
            assert file.nodata == -9999 if name == "elevation" else np.isnan(file.nodata)
        expected = country.image(country.bags.points[:, k])
        gap = 0.5 if name == "elevation" else 0
        np.testing.assert_allclose(image, expected, rtol=0, atol=gap)


def test_rates_of_people_are_in_cases(country, files):
    with rasterio.open(files["population"]) as people, rasterio.open(files["rate"]) as rate:
        expected = np.nansum(people.read(1).astype(float) * rate.read(1))
    assert expected == pytest.approx(np.sum(country.bags.weights * country.rate), rel=1e-6)
    assert country.y.sum() == pytest.approx(expected, abs=5 * expected**0.5)


def test_districts_follow_their_pixels(country, tmp_path):
    files = map_files.write_map_files(country, tmp_path / "exact", simplify=0)
    bags = Bags.from_rasters(files["covariates"], files["districts"], files["population"])
    np.testing.assert_array_equal(bags.sizes, country.bags.sizes)
    np.testing.assert_allclose(bags.totals, 1000 * country.bags.totals, rtol=1e-6)
    assert list(bags.metadata["cases"]) == list(country.y) and bags.ids[3] == "D003"


def test_straight_borders_cut_pixels_and_leave_no_gap(country, files):
    table = gpd.read_file(files["districts"])
    assert table.is_valid.all() and shapely.coverage_is_valid(np.array(table.geometry))
    parts = exact_extract(str(files["rate"]), table, "coverage", output="pandas")["coverage"]
    cut = np.concatenate(parts.to_numpy())
    assert 0.1 < np.mean(cut < 0.999) < 0.6
    area = table.area.sum() / (1000 * country.pixel_km) ** 2
    assert area == pytest.approx(2000, rel=0.02)


def test_folders_that_exist_are_left_alone(country, files, tmp_path):
    folder = files["rate"].parent
    with pytest.raises(FileExistsError, match="exists: remove it, or choose another folder"):
        map_files.write_map_files(country, folder)
    assert len(list(folder.iterdir())) == 4
    with pytest.raises(FileNotFoundError, match="there is no folder .*no: create it first"):
        map_files.write_map_files(country, tmp_path / "no" / "maps")
    assert list(tmp_path.iterdir()) == []


def test_what_is_interrupted_leaves_nothing(country, tmp_path, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(map_files, "_districts", interrupt)
    with pytest.raises(KeyboardInterrupt):
        map_files.write_map_files(country, tmp_path / "maps")
    assert list(tmp_path.iterdir()) == []


def test_command_line(tmp_path):
    folder = tmp_path / "my maps (copy)"
    arguments = ["--pixels", "400", "--districts", "20", "-o", str(folder)]
    run = CliRunner().invoke(map_files.main, arguments)
    assert run.exit_code == 0 and "20 districts, 400 pixels" in run.output
    assert len(gpd.read_file(folder / "districts.gpkg")) == 20
    run = CliRunner().invoke(map_files.main, arguments)
    assert run.exit_code == 1 and "exists: remove it" in run.output
