"""Pixels of districts in other polygons, against reading the rasters anew."""

import numpy as np
import pytest
import shapely
from builders.map_files import in_crs, read

from bdr_stan import AggregateRegressor, Bags
from bdr_stan.maps import regrouped


@pytest.mark.parametrize("fractional", [True, False])
def test_zones_are_those_of_the_rasters(country, bags, zones, fractional, tmp_path):
    zones.to_file(tmp_path / "zones.gpkg")
    with pytest.warns(UserWarning, match="lack data") as record:
        found = regrouped(bags, tmp_path / "zones.gpkg", "zone", fractional=fractional)
    assert {w.filename for w in record if w.category is UserWarning} == {__file__}
    expected = read(country, districts=zones, id="zone", fractional=fractional)
    assert list(found.ids) == list("abcde") and found.features == bags.features
    np.testing.assert_array_equal(found.offsets, expected.offsets)
    np.testing.assert_array_equal(found.points, expected.points)
    np.testing.assert_allclose(found.weights, expected.weights, rtol=1e-9)


@pytest.mark.parametrize("fractional", [True, False])
def test_zones_of_areas(country, zones, fractional):
    rain = {"rain": country.covariates["rain"]}
    options = {"covariates": rain, "weight": None, "fractional": fractional}
    found = regrouped(read(country, **options), zones, "zone", fractional=fractional)
    expected = read(country, districts=zones, id="zone", **options)
    np.testing.assert_array_equal(found.points, expected.points)
    np.testing.assert_allclose(found.totals, expected.totals, rtol=1e-9)


def test_totals_of_zones_have_a_posterior(bags, zones):
    y = np.random.default_rng(3).poisson(0.01 * bags.totals)
    model = AggregateRegressor("poisson", n_landmarks=5, learn_kernel=False, method="vb")
    model.fit(bags, y, draws=50, seed=1)
    with pytest.warns(UserWarning, match="lack data"):
        other = regrouped(bags, zones, "zone")
    predictive = model.predictive(other)
    by_pixel = other.sums(other.weights * model.predict_points(other).mean)
    np.testing.assert_allclose(predictive.mean, by_pixel, rtol=1e-9)
    assert predictive.mean.sum() == pytest.approx(model.predict(bags).sum(), rel=1e-9)
    lower, upper = predictive.interval(0.9)
    assert np.all(lower < predictive.mean) and np.all(predictive.mean < upper)


def test_zones_beyond_the_districts_are_told(bags, zones):
    away = zones.set_geometry([in_crs(shapely.box(90, 90, 99, 99)), *zones.geometry[1:]])
    with pytest.warns(UserWarning, match="left out 1 of 5 districts: 'a' .no pixels with data."):
        regrouped(bags, away.set_crs(zones.crs), "zone")


def test_zones_that_cannot_be_used(bags, zones):
    with pytest.raises(ValueError, match="no pixels: make them by Bags.from_rasters"):
        regrouped(Bags.from_list([np.ones((3, 2))]), zones, "zone")
    with pytest.raises(ValueError, match="no column 'district'"):
        regrouped(bags, zones)
