"""People where rates exceed a threshold, against sums over pixels and draws."""

from dataclasses import replace

import numpy as np
import pytest
from builders.map_files import read

from bdr_stan import Bags, PointPredictive
from bdr_stan.aggregate.links import LINKS
from bdr_stan.kernels import LandmarkFeatures, Linear
from bdr_stan.maps import population_at_risk, regrouped

S = 30


@pytest.fixture
def rate(bags, rng):
    """Rates exp(w x + c) of the standardised rain, of each district its own effect."""
    rain = (bags.points[:, 1:2] - bags.points[:, 1].mean()) / bags.points[:, 1].std()
    return PointPredictive(
        lambda a, b: rain[a:b],
        len(rain),
        LandmarkFeatures(Linear(), [[1.0]]),
        rng.normal(0, 1, (S, 2)),
        LINKS["exp"],
        effects=rng.normal(0, 0.5, (S, len(bags))),
        bag=np.repeat(np.arange(len(bags)), bags.sizes),
    )


def table_of(people, rates, threshold, weights=None):
    """Rows of the table by their definition, from people, (units, n), and rates, (S, n)."""
    weights = np.full(S, 1 / S) if weights is None else weights
    at_risk = (rates > threshold) @ people.T
    mean = rates @ people.T / people.sum(axis=1)
    return {
        "population": people.sum(axis=1),
        "rate": weights @ mean,
        "exceedance": weights @ (mean > threshold),
        "at_risk": weights @ at_risk,
        "share": weights @ at_risk / people.sum(axis=1),
    }, at_risk


def people_of(bags):
    return (np.repeat(np.arange(len(bags)), bags.sizes) == np.arange(len(bags))[:, None]) * (
        np.ones(len(bags.points)) if bags.weights is None else bags.weights
    )


def test_people_of_districts(bags, rate):
    found = population_at_risk(rate, bags, 0.8, level=0.8)
    expected, at_risk = table_of(people_of(bags), rate.draws(np.arange(len(rate))), 0.8)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-9, atol=1e-12)
    ends = np.quantile(at_risk, [0.1, 0.9], axis=0)
    np.testing.assert_allclose(found[["lower", "upper"]].T, ends, rtol=1e-9, atol=1e-9)
    assert list(found.index) == list(bags.ids) and found.index.name == bags.id_name
    assert 0 < found["share"].min() < found["share"].max() < 1
    mean_exceedance = people_of(bags) @ rate.exceedance(0.8)
    np.testing.assert_allclose(found["at_risk"], mean_exceedance, rtol=1e-9)


def test_draws_with_weights(bags, rate, rng):
    counts = rng.multinomial(60, rng.dirichlet(np.ones(S)))
    rate.weights = counts / 60
    found = population_at_risk(rate, bags, 0.8)
    rates = rate.draws(np.arange(len(rate)))
    expected, at_risk = table_of(people_of(bags), rates, 0.8, rate.weights)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-9, atol=1e-12)
    ends = np.quantile(
        np.repeat(at_risk, counts, axis=0), [0.025, 0.975], axis=0, method="inverted_cdf"
    )
    np.testing.assert_allclose(found[["lower", "upper"]].T, ends, rtol=1e-9, atol=1e-9)


def test_points_without_weights_or_pixels_are_counted(rng):
    bags = Bags.from_points(rng.normal(size=(20, 1)), sizes=[5, 15])
    psi = LandmarkFeatures(Linear(), [[1.0]])
    rate = PointPredictive(
        lambda a, b: bags.points[a:b], 20, psi, rng.normal(0, 1, (S, 2)), LINKS["exp"]
    )
    found = population_at_risk(rate, bags, 1.0)
    np.testing.assert_array_equal(found["population"], [5, 15])
    expected, _ = table_of(people_of(bags), rate.draws(np.arange(20)), 1.0)
    np.testing.assert_allclose(found["at_risk"], expected["at_risk"], rtol=1e-9)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_people_of_zones_have_the_rates_of_their_districts(country, bags, rate, zones):
    """A pixel of two districts and two zones: each zone has both rates by their people."""
    regions = regrouped(bags, zones, "zone")
    found = population_at_risk(rate, bags, 0.8, zones=regions)
    people, cell = np.zeros((len(regions), len(rate))), bags.pixels.cell
    zone = np.repeat(np.arange(len(regions)), regions.sizes)
    for z, c, w in zip(zone, regions.pixels.cell, regions.weights):
        shared = cell == c
        people[z, shared] += w * bags.weights[shared] / bags.weights[shared].sum()
    expected, _ = table_of(people, rate.draws(np.arange(len(rate))), 0.8)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found["population"], regions.totals)
    districts = population_at_risk(rate, bags, 0.8)
    np.testing.assert_allclose(
        found[["population", "at_risk"]].sum(), districts[["population", "at_risk"]].sum()
    )
    same = regrouped(bags, country.table, "NAME_2")
    again = population_at_risk(rate, bags, 0.8, zones=same)
    np.testing.assert_allclose(again["population"], districts["population"])


def test_what_is_refused(country, bags, rate, zones):
    plain = Bags.from_list([np.ones((3, 2))])
    with pytest.raises(ValueError, match=f"rates of {len(rate)} points, but the bags have 3"):
        population_at_risk(rate, plain, 1.0)
    for threshold in (np.nan, np.inf, "high", True):
        with pytest.raises(ValueError, match="threshold must be a finite rate, found"):
            population_at_risk(rate, bags, threshold)
    with pytest.raises(ValueError, match="level must be a probability between 0 and 1, found 95"):
        population_at_risk(rate, bags, 1.0, level=95)
    with pytest.raises(ValueError, match="the bags have no pixels"):
        population_at_risk(rate, bags, 1.0, zones=plain)
    larger = bags.pixels.grid.window(slice(0, 99), slice(0, 99))
    other = replace(bags.pixels, grid=larger)
    elsewhere = Bags(bags.points, bags.offsets, ids=bags.ids, pixels=other)
    with pytest.raises(ValueError, match=r"on another grid than the bags: make them by regrouped"):
        population_at_risk(rate, bags, 1.0, zones=elsewhere)
    rain = {"rain": country.covariates["rain"]}
    more = read(country, covariates=rain, districts=zones, id="zone")
    with pytest.raises(
        ValueError, match=r"of the zones has pixels that the bags lack \(\d+ in total\)"
    ):
        population_at_risk(rate, bags, 1.0, zones=more)
