"""Simulation-based calibration of two samples per bag; builders.calibration has the method.

One bag in five lacks the second sample, whose true embedding then comes from the prior.
"""

from functools import partial

import numpy as np
import pytest
from builders import calibration, reference
from builders.calibration import FALSE_ALARM, p_values, ranks
from builders.terms import no_effects
from scipy import stats

from bdr_stan.cmdstan.programs import compile_program
from bdr_stan.embedding.coordinates import joined, joint_coordinates
from bdr_stan.embedding.shrinkage import shrinkage_factors
from bdr_stan.families import FAMILIES, NormalNumbers, label_densities
from bdr_stan.labels import Labels
from bdr_stan.models.bdr_glm import bdr_glm_data
from bdr_stan.models.embedding_model import rows_by_size
from bdr_stan.models.likelihoods import family_likelihood, normal_likelihood
from bdr_stan.posterior.mode import find_mode
from bdr_stan.posterior.whitening import whitened_coordinates

pytestmark = pytest.mark.slow

SIMULATIONS = 30  # of each family
DIMENSIONS = {"residents": 2, "houses": 1}
KINDS = {"normal": NormalNumbers(), "poisson": FAMILIES["poisson"]}
PRIORS = {
    "normal": {"intercept_location": 0.5, "intercept_scale": 1.0, "sigma_scale": 0.8},
    "poisson": {"intercept_location": 1.0, "intercept_scale": 0.5},
}
# Predictors of counts on the log scale: tens, not millions.
MEDIANS = {
    "normal": {"rho": (0.8, 1.5), "eta": (0.6, 1.2)},
    "poisson": {"rho": (0.3, 0.5), "eta": (0.6, 1.2)},
}
RHO_LOG_SD, ETA_LOG_SD = 0.4, 0.5


class Problem:
    """Bags, their labels, and the parameters that these were drawn with."""

    def __init__(self, rng, name):
        n = int(rng.integers(12, 21))
        self.name, self.h = name, np.full(n, rng.normal(*list(PRIORS[name].values())[:2]))
        self.true = {"intercept": self.h[0]}
        self.sizes, parts, z, weights = np.zeros((n, 2)), [], [], []
        for m, (sample, d) in enumerate(DIMENSIONS.items()):
            p = reference.random_problem(rng, n=n, d=d)
            lacks = (np.arange(n) % 5 == 0) & (m == 1)
            self.sizes[:, m] = np.where(lacks, 0, p.sizes)
            rho = MEDIANS[name]["rho"][m] * np.exp(RHO_LOG_SD * rng.normal())
            eta = MEDIANS[name]["eta"][m] * np.exp(ETA_LOG_SD * rng.normal())
            alpha = rng.multivariate_normal(np.zeros(d), rho**2 * np.linalg.inv(p.K))
            for i in range(n):
                moments = p.m0, eta * p.R
                if not lacks[i]:
                    moments = reference.embedding_posterior(
                        p.mu[i], p.sizes[i], p.m0, p.Sigma, p.R, eta
                    )
                self.h[i] += (rng.multivariate_normal(*moments) - p.m0) @ alpha
            parts.append(joint_coordinates(p.m0, p.Sigma, p.R, p.K))
            z.append(parts[-1].transform(np.where(lacks[:, None], 0, p.mu)))
            weights.append(alpha)
            self.true |= {f"rho {sample}": rho, f"eta {sample}": eta}
        self.true["weights"], self.coordinates = np.concatenate(weights), joined(parts)
        if name == "normal":
            sigma = self.true["sigma"] = abs(rng.normal(0, PRIORS[name]["sigma_scale"]))
            y = rng.normal(self.h, sigma)
        else:
            y = rng.poisson(np.exp(self.h)).astype(float)
        self.rows = rows_by_size(np.hstack(z), y, self.sizes)


def simulate(rng, name):
    problem = Problem(rng, name)
    return problem, problem.true


def fit(model, p, seed):
    d, n, family = p.coordinates, len(p.sizes), KINDS[p.name]
    rho, eta = (np.array(MEDIANS[p.name][each])[d.sample] for each in ("rho", "eta"))
    labels = Labels(p.rows.rows[:, -1])
    if p.name == "normal":
        likelihood = normal_likelihood(p.rows, d.lam, sigma=0.5, eta=eta, sample=d.sample)
    else:
        likelihood = family_likelihood(p.rows, d.lam, family, labels, eta=eta, sample=d.sample)
    own = PRIORS[p.name]
    intercept = own["intercept_location"], own["intercept_scale"]
    mode = find_mode(likelihood, d.prior_factor, intercept, rho=rho)
    priors = {**own, "rho_log_sd": RHO_LOG_SD}
    for m, sample in enumerate(DIMENSIONS):
        priors |= {f"{each}_median[{sample}]": MEDIANS[p.name][each][m] for each in ("rho", "eta")}
        priors[f"eta_log_sd[{sample}]"] = ETA_LOG_SD
    data = bdr_glm_data(p.rows, d.lam, d.prior_factor, family, labels, priors, samples=DIMENSIONS)
    blocks = tuple(DIMENSIONS.values())
    data |= whitened_coordinates(mode, d.prior_factor, rho, blocks) | no_effects(len(rho) + 1)
    counts = p.name == "poisson"
    data |= {"label_information": np.full(n, 0.3 * counts), "label_centre": np.ones(n)}
    start = {
        "t": np.zeros(len(rho) + 1),
        **{each: list(MEDIANS[p.name][each]) for each in ("rho", "eta")},
        "scale": [] if counts else [0.5],
        "e": np.zeros(n * counts),
    }
    draws = calibration.thinned(model, data, start, seed)
    found = {"intercept": draws["intercept"], "weights": draws["w"] @ d.basis.T}
    for m, sample in enumerate(DIMENSIONS):
        found |= {f"{each} {sample}": draws[each][:, m] for each in ("rho", "eta")}
    return found if counts else {**found, "sigma": draws["scale"][:, 0]}


def log_likelihoods(p, weights, intercept, sigma=None, **scales):
    """Those of all draws, shape (S,)."""
    d, y, z = p.coordinates, p.rows.rows[:, -1], p.rows.rows[:, : weights.shape[1]]
    w = np.linalg.solve(d.basis, weights.T).T
    eta = np.column_stack([scales[f"eta {sample}"] for sample in DIMENSIONS])[:, d.sample]
    sizes = p.rows.bag_size[:, d.sample]
    s = np.array([shrinkage_factors(sizes, d.lam, each)[p.rows.group] for each in eta])
    mean = np.einsum("snd,nd,sd->sn", s, z, w) + intercept[:, None]
    variance = np.einsum("snd,sd->sn", 1 - s, eta * w**2)
    if sigma is not None:
        sd = np.sqrt(variance + sigma[:, None] ** 2)
        return stats.norm.logpdf(y, mean, sd).sum(axis=1)
    found = label_densities(
        FAMILIES["poisson"], Labels(np.tile(y, len(eta))), mean.ravel(), variance.ravel()
    )
    return found.value.reshape(mean.shape).sum(axis=1)


def test_two_samples_are_calibrated():
    model = compile_program("bdr_glm", progress=False)
    each = {
        name: ranks(
            model,
            partial(simulate, name=name),
            fit,
            log_likelihoods,
            SIMULATIONS,
            seed=30 + k,  # else both share their truths, and so do the ranks pooled below
            together=True,
        )
        for k, name in enumerate(KINDS)
    }
    of_normal, of_counts = each["normal"], each["poisson"]
    assert set(of_normal) == {*of_counts, "sigma"}
    assert len(of_counts) == 1 + 2 * 2 + sum(DIMENSIONS.values()) + 1
    pooled = {name: np.concatenate([of_normal[name], of_counts[name]]) for name in of_counts}
    found = p_values(pooled)
    found |= {f"{name} of one": p for name, p in p_values(of_normal).items()}
    found |= {f"{name} of counts": p for name, p in p_values(of_counts).items()}
    assert min(found.values()) > FALSE_ALARM, found
