"""Nodes of deviations: as many as the labels at hand need."""

import numpy as np
import pytest

from bdr_stan.families import FAMILIES, label_densities
from bdr_stan.labels import Labels
from bdr_stan.models import bdr_glm as nodes


def problem(variance, n=400):
    rng = np.random.default_rng(2)
    mean, v = rng.normal(size=n), np.full(n, variance)
    y = rng.poisson(np.exp(mean + np.sqrt(v) * rng.normal(size=n))).astype(float)
    found = label_densities(FAMILIES["poisson"], Labels(y), mean, v)
    information = found.curvature / (1 - v * found.curvature)
    return Labels(y), mean, v, information, mean + found.slope / found.curvature


@pytest.mark.parametrize("variance", [0.0, 0.1, 2.0, 20.0])
def test_the_fewest_that_are_accurate(variance):
    given = problem(variance)
    data = nodes.deviation_nodes(FAMILIES["poisson"], *given)
    assert data["K"] == len(data["node"]) == len(data["log_node_weight"])
    np.testing.assert_allclose(np.exp(data["log_node_weight"]).sum(), 1)
    np.testing.assert_allclose(np.exp(data["log_node_weight"]) @ data["node"] ** 2, 1)
    exact = label_densities(FAMILIES["poisson"], *given[:3]).value

    def error(number):
        return np.abs(found_by(number, given) - exact).mean()

    assert error(data["K"]) < 0.02 / 20
    fewer = [number for number in (5, 9, 17, 33) if number < data["K"]]
    assert all(error(number) > 0.02 / 20 for number in fewer)


def test_wide_variances_need_more_than_narrow_ones():
    few, many = (nodes.deviation_nodes(FAMILIES["poisson"], *problem(v))["K"] for v in (0.1, 20.0))
    assert few == 5 < many


def found_by(number, given):
    """Log densities by a rule written from its definition, weights of which sum to 1."""
    labels, mean, v, information, centre = given
    node, weight = np.polynomial.hermite_e.hermegauss(number)
    weight /= weight.sum()
    q = 1 + v * information
    u = (np.sqrt(v) * information * (centre - mean) / q)[:, None] + node / np.sqrt(q)[:, None]
    h = mean[:, None] + np.sqrt(v)[:, None] * u
    density = FAMILIES["poisson"].terms(y=labels.y[:, None], h=h).value
    ratio = np.exp(density - 0.5 * u**2 + 0.5 * node**2)
    return np.log(ratio @ weight / np.sqrt(q))
