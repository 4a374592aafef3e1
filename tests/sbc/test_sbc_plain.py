"""Simulation-based calibration of plain programs: parameters, and labels of new bags.

Their densities are those of the accelerated programs (tests/stan/test_plain.py); here the draws
that users get, by the simulators of test_sbc.py.
"""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from builders import calibration, reference, totals
from builders.calibration import FALSE_ALARM, KEPT, LANDMARKS, p_values, ranks
from scipy import stats

from bdr_stan.cmdstan.programs import program_path
from bdr_stan.embedding.shrinkage import joint_basis
from bdr_stan.models.plain import NODES

pytestmark = pytest.mark.slow

# Weights of plain programs are not whitened, so that rho is explored slowly.
THIN, WARMUP = 15, 500
# Counts of tens, not of millions; classes that depend on their bags.
COUNTS = {"intercept_scale": 0.5, "rho_median": 0.3, "rho_log_sd": 0.3}
WIDE = {"rho_median": 2.0, "eta_median": 1.0}


def draw(rng, program, h, sigma):
    """Labels of linear predictors, shape (n,)."""
    if program == "bdr_probit":
        return rng.binomial(1, stats.norm.cdf(h)).astype(float)
    return rng.poisson(np.exp(h)).astype(float) if sigma is None else rng.normal(h, sigma)


def with_order(rng, program, y):
    """Labels among which no two are equal, so that they have ranks."""
    return y + rng.uniform(size=np.shape(y)) * (program in ("bdr_probit", "bdr_poisson"))


def simulate(rng, program):
    """A problem of bags with labels from true embeddings, the last of which is new to the fit."""
    p = reference.random_problem(rng, n=int(rng.integers(13, 22)), d=LANDMARKS)
    priors = p.priors | {"bdr_probit": WIDE, "bdr_poisson": COUNTS}.get(program, {})
    if program in ("bdr_probit", "bdr_poisson"):
        del priors["sigma_scale"]
    p = replace(p, origin=p.m0, priors=priors)
    true = reference.draw_scales(rng, priors, with_eta=program != "blr")
    if program == "blr":
        embeddings, precision = p.mu, np.eye(LANDMARKS)
    else:
        moments = posterior_embeddings(p, true["eta"])
        embeddings = np.array([rng.multivariate_normal(M, C) for M, C in moments])
        precision = p.K
    true["weights"] = rng.multivariate_normal(
        np.zeros(LANDMARKS), true["rho"] ** 2 * np.linalg.inv(precision)
    )
    h = true["intercept"] + (embeddings - p.m0) @ true["weights"]
    y = draw(rng, program, h, true.get("sigma"))
    return replace(p, y=y), true | {"y_new": with_order(rng, program, y[-1])}


def posterior_embeddings(p, eta):
    """Mean and covariance of each bag's true embedding, in landmark coordinates."""
    return [
        reference.embedding_posterior(mu, N, p.m0, p.Sigma, p.R, eta)
        for mu, N in zip(p.mu, p.sizes, strict=True)
    ]


def fit(model, p, seed, program):
    lam, V = joint_basis(p.Sigma, p.R) if program != "blr" else (np.ones(3), np.eye(LANDMARKS))
    z = (p.mu - p.m0) @ V
    n = len(z) - 1
    y = p.y if "sigma_scale" in p.priors else p.y.astype(int)
    data = {
        "N": n, "N_new": 1, "D": LANDMARKS, "Q": 0,
        "z": z[:n], "z_new": z[n:], "x": np.empty((n, 0)), "x_new": np.empty((1, 0)),
        "size": p.sizes[:n], "size_new": p.sizes[n:],
        "label_sd": np.zeros(n), "label_sd_new": np.zeros(1),
        "known_part": np.zeros(n), "known_part_new": np.zeros(1), **NODES,
        "y": y[:n], "y_at": y[n:],
        "lambda": lam, "prior_factor": np.linalg.cholesky(V.T @ p.K @ V).T,
        "gamma_scale": [], **p.priors,
    }  # fmt: skip
    start = {"intercept": 0.0, "w": np.zeros(LANDMARKS), "gamma": np.empty(0), "u": np.zeros(n)}
    draws = thinned(model, data, {**start, "sigma": 0.4, "rho": 0.8, "eta": 0.5}, seed)
    y_new = with_order(np.random.default_rng(seed), program, draws["y_new"][:, 0])
    return draws | {"weights": draws["w"] @ V.T, "y_new": y_new}


def thinned(model, data, start, seed):
    draws = reference.sample(
        model, data, start, chains=1, warmup=WARMUP, draws=THIN * KEPT, seed=seed, divergent=1,
        adapt_delta=0.95,
    )  # fmt: skip
    return {name: values[0, ::THIN] for name, values in draws.items()}


def log_likelihood(p, weights, intercept, sigma=None, eta=None, **_):
    """Labels of all bags but the last, their true embeddings integrated out."""
    if eta is None:
        means, variances = p.mu, np.zeros(len(p.mu))
    else:
        moments = posterior_embeddings(p, eta)
        means, variances = zip(*((M, weights @ C @ weights) for M, C in moments), strict=True)
    h = (intercept + (np.array(means) - p.m0) @ weights)[:-1]
    variance, y = np.array(variances)[:-1], p.y[:-1]
    if sigma is not None:
        return stats.norm.logpdf(y, h, np.sqrt(sigma**2 + variance)).sum()
    if p.priors["rho_median"] == WIDE["rho_median"]:
        return stats.norm.logcdf((2 * y - 1) * h / np.sqrt(1 + variance)).sum()
    node, weight = np.polynomial.hermite_e.hermegauss(60)
    rates = np.exp(h[:, None] + np.sqrt(variance)[:, None] * node)
    return np.log(stats.poisson.pmf(y[:, None], rates) @ weight).sum()


SCALES = {
    "bdr": {"sigma", "eta"},
    "blr": {"sigma"},
    "bdr_probit": {"eta"},
    "bdr_poisson": {"eta"},
}


def test_plain_programs_are_calibrated():
    """Ranks of what all programs have together, and of each its scales, labels and likelihood."""
    each, found = [], {}
    for k, (program, scales) in enumerate(SCALES.items()):
        model = calibration.OnStanli(program_path(program, fast=False))
        each.append(
            ranks(
                model,
                partial(simulate, program=program),
                partial(fit, program=program),
                log_likelihood,
                16,
                seed=21 + k,
            )
        )
        own = {name: each[-1][name] for name in {*scales, "y_new", "log likelihood"}}
        found |= {f"{name} of {program}": p for name, p in p_values(own).items()}
    shared = set.intersection(*map(set, each))
    assert shared >= {"intercept", "rho", "weight 0", "y_new", "log likelihood"}
    found |= p_values({name: np.concatenate([of[name] for of in each]) for name in shared})
    assert min(found.values()) > FALSE_ALARM, found


# ---------------------------------------------------------------- totals


def simulate_totals(rng):
    """Bags of points with rates, the last of which is new to the fit."""
    p, true = totals.random_rates(rng, "poisson", "exp", 11, LANDMARKS, False)
    y_new = with_order(rng, "bdr_poisson", p.y[-1])
    return p, {n: true[n] for n in ("intercept", "rho")} | {"weights": true["w"], "y_new": y_new}


def fit_totals(model, p, seed):
    known, new = ({**points(p, bags)} for bags in (slice(-1), slice(-1, None)))
    new["y_at"] = new.pop("y")
    data = known | {n if n == "y_at" else f"{n}_new": v for n, v in new.items()}
    data |= {"D": LANDMARKS, "omitted_new": np.zeros(data["P_new"]), **p.priors}
    start = {"intercept": 0.0, "w": np.zeros(LANDMARKS), "rho": 0.5}
    draws = thinned(model, data, start, seed)
    y_new = with_order(np.random.default_rng(seed), "bdr_poisson", draws["y_new"][:, 0])
    return draws | {"weights": draws["w"], "y_new": y_new}


def points(p, bags):
    """Data of some bags and their points by the names of the training bags."""
    length = np.array([len(psi) for psi in p.psi[bags]])
    return {
        "N": len(length), "P": length.sum(), "length": length,
        "start": 1 + np.cumsum(length) - length,
        "phi": np.concatenate(p.psi[bags]), "weight": np.concatenate(p.weights[bags]),
        "y": p.y[bags].astype(int),
    }  # fmt: skip


def log_likelihood_of_totals(p, weights, rho, intercept, **_):
    seen = replace(
        p, psi=p.psi[:-1], weights=p.weights[:-1], residual_variance=p.residual_variance[:-1],
        y=p.y[:-1],
    )  # fmt: skip
    return totals.log_likelihood(seen, w=weights, rho=rho, intercept=intercept)


def test_plain_totals_are_calibrated():
    model = calibration.OnStanli(program_path("totals_exp_poisson", fast=False))
    found = p_values(
        ranks(model, simulate_totals, fit_totals, log_likelihood_of_totals, 32, seed=22)
    )
    assert set(found) >= {"intercept", "rho", "weight 0", "y_new", "log likelihood"}
    assert min(found.values()) > FALSE_ALARM, found
