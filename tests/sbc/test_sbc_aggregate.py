"""Simulation-based calibration of rates inside bags; see builders/calibration.py for the method.

The simulator is builders.totals.random_rates: SciPy's distributions, bag by bag.
"""

from dataclasses import replace

import numpy as np
import pytest
from builders import calibration, totals
from builders.calibration import FALSE_ALARM, LANDMARKS, p_values, ranks

from bdr_stan.aggregate.likelihoods import LIKELIHOODS
from bdr_stan.cmdstan.programs import compile_program

pytestmark = pytest.mark.slow

SCALES = ("intercept", "rho", "dispersion", "tau")
# Likelihoods of positive rates, and whether their bags have effects.
WITH_EFFECTS = {"poisson": False, "negative binomial": False, "exponential": True, "gamma": False}


def simulator(likelihood, link, has_effects, n=10):
    """Bags, labels and parameters drawn anew each time."""

    def simulate(rng):
        p, true = totals.random_rates(rng, likelihood, link, n, LANDMARKS, has_effects)
        return p, together(true)

    return simulate


def together(parameters):
    """The scales, and in "weights" those of the features, then the bags' effects."""
    weights = [parameters["w"], *([parameters["effect"]] if "tau" in parameters else [])]
    scales = {name: parameters[name] for name in SCALES if name in parameters}
    return {**scales, "weights": np.concatenate(weights, axis=-1)}


def log_likelihood(p, weights, rho, **scales):
    effects = {"effect": weights[LANDMARKS:]} if p.has_effects else {}
    return totals.log_likelihood(p, w=weights[:LANDMARKS], rho=rho, **scales, **effects)


def fit(model, p, seed):
    # Few slices of bags: each costs reduce_sum as much time as the sums themselves.
    data = totals.stan_data(p) | {"grainsize": 4}
    draws = calibration.thinned(model, data, totals.start_at(p), seed)
    draws = {name: values for name, values in draws.items() if values.size}
    draws |= zip(LIKELIHOODS[p.likelihood].scales, draws.pop("scale", np.empty(0)).T, strict=True)
    draws |= {"tau": draws["tau"][:, 0]} if "tau" in draws else {}
    return together(draws)


@pytest.mark.parametrize("link, seed", [("exp", 11), ("square", 14)])
def test_links_are_calibrated(link, seed):
    """Ranks of what all likelihoods have together, and of each its scales and log likelihood."""
    model = compile_program(f"aggregate_{link}", progress=False)
    each, found = [], {}
    for k, (likelihood, has_effects) in enumerate(WITH_EFFECTS.items()):
        simulate = simulator(likelihood, link, has_effects)
        each.append(ranks(model, simulate, fit, log_likelihood, 16, seed=seed + 100 * k))
        own = {*LIKELIHOODS[likelihood].scales, *["tau"] * has_effects, "log likelihood"}
        found |= {f"{n} of {likelihood}": p for n, p in p_values(each[-1]).items() if n in own}
    assert {n for n in found if n.startswith(("tau", "dispersion"))} == {
        *("tau of exponential", "dispersion of gamma", "dispersion of negative binomial")
    }
    shared = set.intersection(*map(set, each))
    assert shared >= {"intercept", "rho", "weight 0", "log likelihood"}
    found |= p_values({name: np.concatenate([of[name] for of in each]) for name in shared})
    assert min(found.values()) > FALSE_ALARM, found


def test_binomial_is_calibrated():
    model = compile_program("aggregate_binomial", progress=False)
    simulate = simulator("binomial", "logit", has_effects=True)
    found = p_values(ranks(model, simulate, fit, log_likelihood, 40, seed=12))
    assert set(found) >= {"intercept", "rho", "tau", "weight 0", "log likelihood"}
    assert min(found.values()) > FALSE_ALARM, found


def test_ranks_tell_when_points_are_averaged():
    """A bag's rate taken as that of its average point, which Jensen's inequality forbids."""

    def averaged(model, p, seed):
        means = [np.average(psi, axis=0, weights=w)[None] for psi, w in zip(p.psi, p.weights)]
        return fit(model, replace(p, psi=means, weights=[w.sum()[None] for w in p.weights]), seed)

    model = compile_program("aggregate_exp", progress=False)
    simulate = simulator("poisson", "exp", has_effects=False, n=30)
    found = p_values(ranks(model, simulate, averaged, log_likelihood, 24, seed=13))
    assert min(found.values()) < FALSE_ALARM, found
