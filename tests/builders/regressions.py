"""Programs of regressions on embeddings, held to densities in landmark weights.

What differs between them is given; the checks are the same.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from bdr_stan.embedding.shrinkage import joint_basis
from bdr_stan.posterior.priors import log_prior_of_scales
from bdr_stan.posterior.scales import maximise_evidence
from builders import reference
from builders.scales import mode_at


def joint_axes(p):
    """Basis of uncertain embeddings: landmark weights alpha are joint_axes @ w."""
    return joint_basis(p.Sigma, p.R)[1]


def principal_axes(p):
    """Basis of exact embeddings: landmark weights beta are principal_axes @ w."""
    return np.linalg.svd(p.mu - p.m0, full_matrices=True)[2].T


@dataclass(frozen=True)
class Regression:
    """A program's regression, with `log_density(problem, weights, intercept, *scales)`."""

    log_density: Callable
    start: dict  # of its scales, in the program's order
    uncertain: bool

    @property
    def weights(self):
        """Name of the landmark weights."""
        return "alpha" if self.uncertain else "beta"

    def basis(self, p):
        return joint_axes(p) if self.uncertain else principal_axes(p)

    def mode(self, p, likelihood, factor):
        """Most probable scales, and the mode of the weights there."""
        intercept = p.priors["intercept_location"], p.priors["intercept_scale"]
        log_prior = log_prior_of_scales(p.priors)
        mode_of = partial(mode_at, (likelihood, factor, intercept))
        return maximise_evidence(mode_of, self.start, log_prior=log_prior)[:2]

    def prior_points(self, p, number=8):
        """Parameters drawn from the prior: landmark weights and scales."""
        rng = np.random.default_rng(7)
        for _ in range(number):
            scales = reference.draw_scales(rng, p.priors, with_eta=self.uncertain)
            if self.uncertain:
                covariance = scales["rho"] ** 2 * np.linalg.inv(p.K)
                weights = rng.multivariate_normal(np.zeros(len(p.K)), covariance)
            else:
                weights = rng.normal(0, scales["rho"], p.mu.shape[1])
            yield {self.weights: weights, **scales}

    def stan_parameters(self, p, data, point):
        w = np.linalg.solve(self.basis(p), point[self.weights])
        t = reference.whiten(data, w, point["intercept"], point["rho"])
        return {"t": t, **{name: point[name] for name in self.start}}

    def density_of_weights(self, model, p, data, point):
        return reference.density_of_weights(model, data, self.stan_parameters(p, data, point))

    def unconstrained(self, p, data, **options):
        """Log density with Jacobians as a function of t and the logarithms of the scales."""
        V, K, rho = self.basis(p), len(self.start), list(self.start).index("rho")

        def function(x):
            scales = np.exp(x[-K:])
            w, intercept, jacobian = reference.unwhiten(data, x[:-K], scales[rho])
            value = self.log_density(p, V @ w, intercept, *scales, **options)
            return value + jacobian + np.sum(x[-K:])

        return function

    def check_density(self, model, p, data, **options):
        points = list(self.prior_points(p))
        stan = [self.density_of_weights(model, p, data, x) for x in points]
        gap = np.subtract([self.log_density(p, **x, **options) for x in points], stan)
        np.testing.assert_allclose(gap, gap[0], atol=1e-8, rtol=1e-12)

    def check_gradient(self, model, p, data, *, tolerance=1e-6, **options):
        function = self.unconstrained(p, data, **options)
        for point in self.prior_points(p, 4):
            parameters = self.stan_parameters(p, data, point)
            x = np.r_[parameters["t"], np.log([parameters[name] for name in self.start])]
            _, gradient = reference.log_density(model, data, parameters, jacobian=True)
            expected = reference.gradient(function, x)
            np.testing.assert_allclose(gradient, expected, rtol=tolerance, atol=tolerance)

    def check_same_density(self, model, p, *datasets):
        density = [
            [self.density_of_weights(model, p, data, x) for data in datasets]
            for x in self.prior_points(p)
        ]
        np.testing.assert_allclose(*np.transpose(density), rtol=1e-8)

    def start_at(self, data):
        return {"t": np.zeros(data["D"] + 1), **self.start}

    def landmark_columns(self, draws, p):
        """Landmark weights, intercept and scales side by side."""
        if self.weights not in draws:
            draws = {**draws, self.weights: draws["w"] @ self.basis(p).T}
        return reference.columns(draws, [self.weights, "intercept", *self.start])
