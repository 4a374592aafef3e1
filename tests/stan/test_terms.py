"""The programs with groups and smooth functions against SciPy's densities, in any coordinates."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from builders import reference
from builders.terms import (
    Term,
    any_coordinates,
    log_prior,
    unwhiten,
)
from scipy import stats

from bdr_stan.cmdstan.programs import compile_program
from bdr_stan.embedding.compression import compress
from bdr_stan.embedding.shrinkage import joint_basis
from bdr_stan.embedding.terms import Smooth, Terms
from bdr_stan.families import FAMILIES
from bdr_stan.labels import Labels
from bdr_stan.models.bdr import bdr_data, blr_data
from bdr_stan.models.bdr_glm import bdr_glm_data
from bdr_stan.models.embedding_model import rows_by_size

N, D, Q = 40, 3, 1
PROGRAMS = {"blr": ("sigma", "rho"), "bdr": ("sigma", "rho", "eta"), "bdr_glm": ("rho", "eta")}
LEVELS = {"state": 3, "party": 4}
TERMS = Terms(
    {name: list(range(m)) for name, m in LEVELS.items()},
    [
        Smooth(("year",), np.zeros(1), np.ones(1), np.zeros(5)),
        Smooth(("lon", "lat"), np.zeros(2), np.ones(2), np.zeros(6)),
    ],
)
PRIORS = {"term_sd_scale": 0.7, "term_length_median": 0.6, "term_length_log_sd": 0.5}


def random_terms(rng):
    """The terms: sines of one column, of two, two groups; any frequencies will do."""
    smooths = [
        Term(rng.normal(size=(N, len(smooth.mean))), smooth.frequency[: len(smooth.mean)])
        for smooth in TERMS.smooths
    ]
    return smooths + [Term(np.eye(m)[rng.integers(0, m, N)]) for m in LEVELS.values()]


@dataclass(frozen=True)
class Case:
    """A program with its data, and the reference's density of what it samples."""

    name: str
    p: reference.Problem
    basis: np.ndarray
    terms: list
    data: dict

    def split(self, x):
        """Parameters of the program by name; x has them in its order, scales as logarithms."""
        sizes = {"t": D + Q + 1, **dict.fromkeys(PROGRAMS[self.name], 1)}
        sizes |= {"e": N} if self.name == "bdr_glm" else {}
        sizes |= {"t_effect": 18, "term_sd": 4, "term_length": 3}
        blocks = np.split(x, np.cumsum(list(sizes.values()))[:-1])
        return {
            name: block if name in ("t", "e", "t_effect") else np.exp(block)
            for name, block in zip(sizes, blocks, strict=True)
        }

    def points(self, rng, number):
        size = D + Q + 1 + len(PROGRAMS[self.name]) + (N if self.name == "bdr_glm" else 0) + 25
        return 0.5 * rng.normal(size=(number, size))

    def found(self, x):
        """What the program says: log density and gradient."""
        at = self.split(x)
        arrays = ("rho", "eta") if self.name == "bdr_glm" else ()
        at |= {k: float(at[k][0]) for k in PROGRAMS[self.name] if k not in arrays}
        model = compile_program(self.name, progress=False)
        return reference.log_density(model, self.data, at, jacobian=True)

    def expected(self, x):
        """Log density by whitened coordinates and log scales, Jacobians and all."""
        at = self.split(x)
        scales = {name: float(at[name][0]) for name in PROGRAMS[self.name]}
        theta, of_theta = reference.unwhiten_all(self.data, at["t"], scales["rho"])
        share = self.data["intercept_share"]
        share += self.data["intercept_by_term"] @ at["term_sd"] ** 2
        theta[-1] += self.data["intercept_unit"] * (np.sqrt(share) - 1) * at["t"][-1]
        of_theta += 0.5 * np.log(share)
        lengths = at["term_sd"], at["term_length"]
        effects, of_effects = unwhiten(self.data, self.terms, at["t_effect"], theta, *lengths)
        value = of_theta + of_effects + log_prior(self.terms, effects, *lengths, PRIORS)
        value += sum(np.sum(np.log(each)) for each in (*scales.values(), *lengths))
        weights = self.basis @ theta[:D], theta[-1]
        added = np.hstack([term.v for term in self.terms]) @ effects
        gamma, likelihood = theta[D:-1], bool(self.data["use_likelihood"])
        if self.name == "bdr_glm":
            return value + self._of_counts(*weights, gamma, added, at["e"], likelihood, **scales)
        rest = replace(self.p, y=self.p.y - added)
        density = getattr(reference, f"{self.name}_log_density")
        return value + density(rest, *weights, **scales, gamma=gamma, use_likelihood=likelihood)

    def _of_counts(self, alpha, intercept, gamma, added, e, use_likelihood, rho, eta):
        p = self.p
        value = reference.log_prior_of_scales(p.priors, intercept, None, rho, eta, gamma)
        value += stats.multivariate_normal.logpdf(alpha, cov=rho**2 * np.linalg.inv(p.K))
        h, nu = reference.bdr_moments(p, alpha, intercept, 0.0, eta, gamma)
        order = np.argsort(p.sizes, kind="stable")
        h, nu = (h + added)[order], nu[order]
        information = self.data["label_information"]
        q = 1 + nu * information
        u = np.sqrt(nu) * information * (self.data["label_centre"] - h) / q + e / np.sqrt(q)
        value += stats.norm.logpdf(u).sum() - 0.5 * np.log(q).sum()
        counts = stats.poisson.logpmf(p.y[order], np.exp(h + np.sqrt(nu) * u))
        return value + use_likelihood * counts.sum()


def case(rng, name, use_likelihood=True):
    p = reference.with_covariates(rng, reference.random_problem(rng, n=N, d=D), Q)
    terms = random_terms(rng)
    v = np.hstack([term.v for term in terms])
    priors = p.priors | PRIORS
    plain = reference.any_coordinates(rng, D, Q) | any_coordinates(
        rng, len(TERMS.names), v.shape[1], D + Q + 1
    )
    plain["use_likelihood"] = int(use_likelihood)
    options = {"terms": TERMS}
    if name == "blr":
        priors = {k: value for k, value in priors.items() if not k.startswith("eta")}
        rows = compress(np.column_stack([p.mu - p.m0, p.x, v]), p.y, np.ones(N))
        data = blr_data(rows, priors, n_covariates=Q, **options)
        return Case(name, p, np.eye(D), terms, data | plain)
    lam, V = joint_basis(p.Sigma, p.R)
    factor = np.linalg.cholesky(V.T @ p.K @ V).T
    columns = np.column_stack([(p.mu - p.m0) @ V, p.x, v])
    if name == "bdr":
        data = bdr_data(compress(columns, p.y, p.sizes), lam, factor, priors, **options)
        return Case(name, p, V, terms, data | plain)
    del priors["sigma_scale"]
    p = replace(p, y=rng.poisson(3.0, N).astype(float))
    rows = rows_by_size(columns, p.y, p.sizes)
    data = bdr_glm_data(
        rows, lam, factor, FAMILIES["poisson"], Labels(rows.rows[:, -1]), priors, **options
    )
    plain |= {"label_information": rng.uniform(0, 3, N), "label_centre": rng.normal(size=N)}
    return Case(name, p, V, terms, data | plain)


@pytest.fixture(autouse=True)
def few_sines(monkeypatch):
    """Fewer sines than of a fit, as differences take a density for each."""
    monkeypatch.setattr("bdr_stan.embedding.terms._N_SINES", {1: 5, 2: 6})


@pytest.mark.parametrize("name", PROGRAMS)
def test_data_are_what_the_program_declares(rng, name):
    data = case(rng, name).data
    assert set(data) == set(compile_program(name, progress=False).src_info()["inputs"])
    assert (data["D"], data["Q"], data["B"], data["U"], data["L"]) == (D, Q, 4, 18, 3)
    assert list(data["n_effects"]) == [5, 6, 3, 4] and list(data["n_columns"]) == [1, 2, 0, 0]
    assert np.all(data["squared_frequency"][11:] == 0)
    assert np.all(data["squared_frequency"][:5, 1] == 0)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("use_likelihood", [True, False])
def test_log_density_and_gradient(rng, name, use_likelihood):
    one = case(rng, name, use_likelihood)
    points = one.points(rng, 4)
    found = [one.found(x) for x in points]
    expected = np.array([one.expected(x) for x in points])
    gap = expected - [value for value, _ in found]
    np.testing.assert_allclose(gap, gap[0], rtol=1e-10, atol=1e-8 + 1e-11 * np.abs(expected).max())
    for x, (_, gradient) in zip(points[:2], found):
        slope = reference.gradient(one.expected, x)
        np.testing.assert_allclose(
            gradient, slope, rtol=1e-6, atol=1e-7 * max(10.0, np.abs(slope).max())
        )
