"""People where rates exceed a threshold, against sums over pixels and draws."""

import numpy as np
import pytest

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
def test_people_of_zones_are_those_of_their_pixels(bags, rate, zones):
    regions = regrouped(bags, zones, "zone")
    n = len(regions.points)
    psi = LandmarkFeatures(Linear(), [[1.0]])
    wet = PointPredictive(
        lambda a, b: np.log(regions.points[a:b, 1:2]), n, psi, rate.theta, LINKS["exp"]
    )
    found = population_at_risk(wet, regions, 0.8)
    np.testing.assert_allclose(found["population"], regions.totals)
    expected, _ = table_of(people_of(regions), wet.draws(np.arange(n)), 0.8)
    np.testing.assert_allclose(found["at_risk"], expected["at_risk"], rtol=1e-9)


def test_what_is_refused(bags, rate):
    plain = Bags.from_list([np.ones((3, 2))])
    with pytest.raises(ValueError, match=f"rates of {len(rate)} points, but the bags have 3"):
        population_at_risk(rate, plain, 1.0)
    for threshold in (np.nan, np.inf, "high", True):
        with pytest.raises(ValueError, match="threshold must be a finite rate, found"):
            population_at_risk(rate, bags, threshold)
    with pytest.raises(ValueError, match="level must be a probability between 0 and 1, found 95"):
        population_at_risk(rate, bags, 1.0, level=95)
