"""Simulation-based calibration of labels of each family; builders.calibration has the method.

The simulators draw true embeddings, and labels of these, which the program sees through points.
"""

from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest
from builders import calibration, reference
from builders.calibration import FALSE_ALARM, LANDMARKS, p_values, ranks
from builders.families import EXAMPLES, FAMILIES, draw_after
from builders.terms import no_effects

from bdr_stan.cmdstan.programs import compile_program
from bdr_stan.embedding.shrinkage import joint_basis, shrinkage_factors
from bdr_stan.families import label_densities
from bdr_stan.labels import Labels
from bdr_stan.models.bdr_glm import bdr_glm_data
from bdr_stan.models.embedding_model import rows_by_size
from bdr_stan.models.likelihoods import family_likelihood
from bdr_stan.posterior.mode import find_mode
from bdr_stan.posterior.whitening import whitened_coordinates

pytestmark = pytest.mark.slow

SIMULATIONS = 16  # of each family
TRIALS, EXPOSURE = 12.0, 3.0  # of every bag, whose order then does not matter
START = {"rho": 0.3, "eta": 0.5}
# Predictors on log and logit scales: counts of tens, not of millions, and shares off 0 and 1.
SANE = {"intercept_scale": 0.5, "rho_median": 0.3, "rho_log_sd": 0.3}


def simulate(rng, name):
    family = FAMILIES[name]
    p = reference.random_problem(rng, n=int(rng.integers(12, 21)), d=LANDMARKS)
    priors = {k: v for k, v in p.priors.items() if k != "sigma_scale"} | SANE
    priors |= {f"{scale}_scale": 0.5 for scale in family.likelihood.scales}
    p = replace(p, origin=p.m0, priors=priors)
    true = reference.draw_scales(rng, priors)
    scales = {s: abs(rng.normal(0, priors[f"{s}_scale"])) for s in family.likelihood.scales}
    true |= {
        "weights": rng.multivariate_normal(
            np.zeros(LANDMARKS), true["rho"] ** 2 * np.linalg.inv(p.K)
        )
    }
    embeddings = [
        rng.multivariate_normal(
            *reference.embedding_posterior(mu, N, p.m0, p.Sigma, p.R, true["eta"])
        )
        for mu, N in zip(p.mu, p.sizes)
    ]
    h = true["intercept"] + (np.array(embeddings) - p.m0) @ true["weights"] + known_part(name)
    if "event" in family.takes:
        entry, end = times_of_study(p)
        y = np.minimum(draw_after(rng, name, h, entry, **scales), end)
    else:
        y = EXAMPLES[name].draw(rng, h, int(TRIALS), **scales).astype(float)
    return replace(p, y=y), true | scales


def times_of_study(p):
    """Entry of all bags, and the end, which about half of the times exceed."""
    return np.exp(p.priors["intercept_location"] + np.array([-0.7, 0.1]))


def known_part(name):
    return np.log(EXPOSURE) if "exposure" in FAMILIES[name].takes else 0.0


def program(name, p):
    """Rows, and what belongs to all labels, as the builder of data and the likelihood take it."""
    lam, V = joint_basis(p.Sigma, p.R)
    rows = rows_by_size((p.mu - p.m0) @ V, p.y, p.sizes)
    n, family = len(p.y), FAMILIES[name]
    trials = np.full(n, TRIALS) if "trials" in family.takes else None
    labels = Labels(rows.rows[:, -1], trials=trials, offset=np.full(n, known_part(name)))
    if "event" in family.takes:
        entry, end = times_of_study(p)
        labels = replace(labels, event=1.0 * (labels.y < end), entry=np.full(n, entry))
    return V, (rows, lam, family, labels)


def fit(model, p, seed, *, name):
    V, (rows, lam, family, labels) = program(name, p)
    factor, n = np.linalg.cholesky(V.T @ p.K @ V).T, len(p.y)
    scales = dict.fromkeys(family.likelihood.scales, 0.4)
    likelihood = family_likelihood(rows, lam, family, labels, eta=START["eta"], **scales)
    intercept = p.priors["intercept_location"], p.priors["intercept_scale"]
    mode = find_mode(likelihood, factor, intercept, rho=START["rho"])
    data = bdr_glm_data(rows, lam, factor, family, labels, p.priors)
    data |= whitened_coordinates(mode, factor, START["rho"]) | no_effects(LANDMARKS + 1)
    data |= {"label_information": np.full(n, 0.3), "label_centre": labels.offset}
    start = {
        "t": np.zeros(LANDMARKS + 1),
        "rho": [START["rho"]],
        "eta": [START["eta"]],
        "scale": list(scales.values()),
        "e": np.zeros(n),
    }
    draws = calibration.thinned(model, data, start, seed)
    found = {name: draws["scale"][:, k] for k, name in enumerate(scales)}
    found |= {name: draws[name][:, 0] for name in ("rho", "eta")}
    return {**draws, **found, "weights": draws["w"] @ V.T}


def log_likelihoods(p, weights, intercept, eta, *, name, rho=None, **scales):
    """Those of all draws, shape (S,), by one call for all bags of all draws."""
    V, (rows, lam, family, labels) = program(name, p)
    z, y, w = rows.rows[:, : len(lam)], rows.rows[:, -1], np.linalg.solve(V, weights.T).T
    s = np.array([shrinkage_factors(rows.bag_size, lam, each)[rows.group] for each in eta])
    mean = np.einsum("snd,nd,sd->sn", s, z, w) + intercept[:, None] + labels.offset
    variance = eta[:, None] * np.einsum("snd,sd->sn", 1 - s, w**2)
    found = label_densities(
        family,
        labels.take(np.tile(np.arange(len(y)), len(eta))),
        mean.ravel(),
        variance.ravel(),
        **{scale: np.repeat(values, len(y)) for scale, values in scales.items()},
    )
    return found.value.reshape(mean.shape).sum(axis=1)


@cache
def ranked(name):
    """Ranks of the simulations of a family."""
    return ranks(
        compile_program("bdr_glm", progress=False),
        partial(simulate, name=name),
        partial(fit, name=name),
        partial(log_likelihoods, name=name),
        SIMULATIONS,
        # else the families share their truths, and so do the ranks of all
        seed=20 + list(FAMILIES).index(name),
        together=True,
    )


def test_parameters_of_all_families_are_calibrated():
    """Ranks of what all families have, of all simulations together."""
    every = [ranked(name) for name in FAMILIES]
    shared = set.intersection(*map(set, every))
    assert shared >= {"intercept", "rho", "eta", "weight 0", "log likelihood"}
    of_uniform = p_values({name: np.concatenate([each[name] for each in every]) for name in shared})
    assert min(of_uniform.values()) > FALSE_ALARM, of_uniform


@pytest.mark.parametrize("name", FAMILIES)
def test_each_family_is_calibrated(name):
    """Ranks of its own scales, and its log likelihood."""
    parameters = ("log likelihood", *FAMILIES[name].likelihood.scales)
    of_uniform = p_values({each: ranked(name)[each] for each in parameters})
    assert min(of_uniform.values()) > FALSE_ALARM, of_uniform
