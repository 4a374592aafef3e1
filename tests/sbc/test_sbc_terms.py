"""Simulation-based calibration of groups and smooth functions; builders.calibration has the method.

Embeddings are exact. Effects come from the prior of tests' own formulas, labels bag by bag.
"""

from dataclasses import replace

import numpy as np
import pytest
from builders import calibration, reference
from builders.calibration import FALSE_ALARM, LANDMARKS, p_values, ranks
from builders.terms import Term, effect_sds
from scipy import stats

from bdr_stan.cmdstan.programs import compile_program
from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.embedding.terms import Smooth, Terms
from bdr_stan.families import FAMILIES
from bdr_stan.labels import Labels
from bdr_stan.models.bdr import BLRModel
from bdr_stan.models.bdr_glm import FamilyModel
from bdr_stan.posterior.mode import find_mode

pytestmark = pytest.mark.slow

SINES, LEVELS = 8, 5
PRIORS = {"term_sd_scale": 0.7, "term_length_median": 0.8, "term_length_log_sd": 0.4}
# Predictors on the log scale: counts of tens, not of millions.
SANE = {"intercept_scale": 0.5, "rho_median": 0.3, "rho_log_sd": 0.3}
START = {"rho": 0.6, "term_sd[1]": 0.5, "term_sd[2]": 0.5, "term_length[1]": 0.8}


@pytest.fixture(scope="module", autouse=True)
def few_sines():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bdr_stan.embedding.terms._N_SINES", {1: SINES})
        yield


def terms_of():
    smooth = Smooth(("year",), np.zeros(1), np.ones(1), np.zeros(SINES))
    return Terms({"state": list(range(LEVELS))}, [smooth])


def simulate(rng, counts=False):
    """Bags in groups, along a column; labels, or counts, of intercept, embedding and effects."""
    n = int(rng.integers(20, 31))
    p = reference.random_problem(rng, n=n, d=LANDMARKS)
    own = ("eta_median", "eta_log_sd", *(["sigma_scale"] if counts else []))
    priors = {k: v for k, v in p.priors.items() if k not in own} | (SANE if counts else {})
    smooth, priors = terms_of().smooths[0], priors | PRIORS
    blocks = [
        Term(smooth.sines(rng.uniform(-1, 1, (n, 1))), smooth.frequency),
        Term(np.eye(LEVELS)[rng.integers(0, LEVELS, n)]),
    ]
    v = np.hstack([block.v for block in blocks])
    true = reference.draw_scales(rng, priors, with_eta=False)
    sd = np.abs(rng.normal(0, priors["term_sd_scale"], 2))
    length = 0.8 * np.exp(0.4 * rng.normal(size=1))
    effects = rng.normal(0, effect_sds(blocks, sd, length))
    beta = rng.normal(0, true["rho"], LANDMARKS)
    h = true["intercept"] + (p.mu - p.m0) @ beta + v @ effects
    y = rng.poisson(np.exp(h)) if counts else rng.normal(h, true["sigma"])
    true |= {"sd of smooth": sd[0], "sd of groups": sd[1], "length": length[0]}
    true |= {"weights": np.r_[beta, effects], **shown(effects)}
    return replace(p, y=y.astype(float), x=v, priors=priors), true


def shown(effects):
    """The function at two places, and the effect of a level, shape (...) each."""
    at = terms_of().smooths[0].sines(np.array([[-0.9], [0.4]]))
    places = effects[..., :SINES] @ at.T
    return {"at -0.9": places[..., 0], "at 0.4": places[..., 1], "level": effects[..., SINES]}


def fit(program, p, seed, counts=False):
    """Thinned draws of weights, effects and scales."""
    embedding, terms = Embedding(p.sizes, p.mu, None, covariates=p.x), terms_of()
    if counts:
        model = FamilyModel(
            embedding, Labels(p.y), FAMILIES["poisson"], terms=terms, prior=p.priors
        )
    else:
        model = BLRModel(embedding, Labels(p.y), terms=terms, prior=p.priors)
    own = {} if counts else {"sigma": 0.4}
    mode = find_mode(
        model.likelihood(**own),
        model.prior_factor,
        model.intercept_prior,
        rho=START["rho"],
        gamma_scales=model.gamma_scales(START),
    )
    data = model.data | model.whitening(START, mode)
    rho = [0.6] if counts else 0.6
    start = {"t": np.zeros(LANDMARKS + 1), "t_effect": np.zeros(SINES + LEVELS), "rho": rho, **own}
    start |= {"term_sd": [0.5, 0.5], "term_length": [0.8], "eta": [], "scale": [], "e": []}
    draws = calibration.thinned(program, data, start, seed)
    effects = draws["term_effect"]
    return {
        **draws,
        "weights": np.column_stack([draws["w"] @ model.weight_basis.T, effects]),
        "sd of smooth": draws["term_sd"][:, 0],
        "sd of groups": draws["term_sd"][:, 1],
        "length": draws["term_length"][:, 0],
        **shown(effects),
        "rho": draws["rho"].ravel(),
    }


def log_likelihood(p, weights, intercept, sigma=None, **_):
    h = intercept + (p.mu - p.m0) @ weights[:LANDMARKS] + p.x @ weights[LANDMARKS:]
    if sigma is None:
        return stats.poisson.logpmf(p.y, np.exp(h)).sum()
    return stats.norm.logpdf(p.y, h, sigma).sum()


NAMES = {"intercept", "rho", "sd of smooth", "sd of groups", "length", "at 0.4", "level"}


def test_terms_of_normal_labels_are_calibrated():
    model = compile_program("blr", progress=False)
    found = p_values(ranks(model, simulate, fit, log_likelihood, 32, seed=30))
    assert set(found) >= NAMES | {"sigma", "weight 0", "log likelihood"}
    assert min(found.values()) > FALSE_ALARM, found


def test_terms_of_counts_are_calibrated():
    model = compile_program("bdr_glm", progress=False)
    found = p_values(
        ranks(
            model,
            lambda rng: simulate(rng, counts=True),
            lambda model, p, seed: fit(model, p, seed, counts=True),
            log_likelihood,
            32,
            seed=31,
        )
    )
    assert set(found) >= NAMES | {"weight 0", "log likelihood"}
    assert min(found.values()) > FALSE_ALARM, found


def test_ranks_tell_when_groups_are_not_pooled():
    """Levels that all have effects of standard deviation 1, whatever term_sd."""

    def unpooled(rng):
        p, true = simulate(rng)
        effects = rng.normal(0, 1.0, LEVELS)
        change = effects - true["weights"][-LEVELS:]
        true["weights"] = np.r_[true["weights"][:-LEVELS], effects]
        true |= shown(true["weights"][LANDMARKS:])
        return replace(p, y=p.y + p.x[:, -LEVELS:] @ change), true

    model = compile_program("blr", progress=False)
    found = p_values(ranks(model, unpooled, fit, log_likelihood, 16, seed=32))
    assert found["sd of groups"] < FALSE_ALARM, found
