"""Log likelihood of weights given the totals of bags: value, slope, Fisher information, curvature.

A bag's label has the mean lambda_a = sum_j p_j rate(phi_j' theta), theta = [w; f0].
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from bdr_stan.aggregate.likelihoods import LabelDensity, Likelihood
from bdr_stan.aggregate.links import Link
from bdr_stan.aggregate.rows import AggregateRows
from bdr_stan.labels import Labels
from bdr_stan.posterior.mode import LogLikelihood
from bdr_stan.types import Array


@dataclass(frozen=True)
class Totals:
    """Labels of n bags with their likelihood, and the link of the rates that they are totals of."""

    labels: Labels
    likelihood: Likelihood
    link: Link

    @property
    def y(self) -> Array:
        """The totals, shape (n,)."""
        return self.labels.y

    def minus(self, y: Array) -> Self:
        """The same with labels that are less by y, shape (n,)."""
        return replace(self, labels=replace(self.labels, y=self.y - y))

    def density(self, rows: AggregateRows, **scales: float) -> Callable[[Array], LabelDensity]:
        """`Likelihood.label_density` of the labels of the bags of `rows`."""
        return self.likelihood.label_density(
            self.y,
            trials=self.labels.trials,
            noise_factor=rows.noise_factor,
            error_variance=rows.known_variance,
            **scales,
        )

    @property
    def error_variance(self) -> Array | float:
        """Variances of the labels' errors, (n,): of normal totals, else relative, at most 1.

        The error of a count of 0 or near it is taken as one of a label as large as the error.
        """
        label_sd = self.labels.label_sd
        if label_sd is None:
            return 0.0
        return (label_sd / (1.0 if self.link.is_linear else np.maximum(self.y, label_sd))) ** 2


def aggregate_likelihood(
    rows: AggregateRows,
    totals: Totals,
    *,
    exact_curvature: bool = True,
    rho: float = 0.0,
    **scales: float,
) -> LogLikelihood:
    """The likelihood of ``stan/fast/aggregate_*.stan`` at given scales, as a function of theta.

    `exact_curvature=False` returns the Fisher information instead of the negative Hessian: with
    many rows of points a small part of the work, and nearly as good for Newton steps. `rho` enters
    the means of links that include the residual variance.
    """
    means_at, density = totals.link.mean_function(rows, rho), totals.density(rows, **scales)

    def log_likelihood(theta):
        mean, by_theta, second = means_at(theta)
        value, score, information, curvature, _ = density(mean)
        fisher = (by_theta.T * information) @ by_theta
        if not exact_curvature:
            return value, by_theta.T @ score, fisher, fisher
        hessian = second(score) - (by_theta.T * curvature) @ by_theta
        return value, by_theta.T @ score, fisher, -hessian

    return log_likelihood
