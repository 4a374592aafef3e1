"""Log likelihood of weights given the totals of bags: value, slope, Fisher information, curvature.

A bag's label has the mean lambda_a = sum_j p_j rate(phi_j' theta), theta = [w; f0].
`bdr_stan.posterior` uses `aggregate_likelihood` to find mode and evidence.
"""

from typing import Any

from bdr_stan.aggregate.likelihoods import Likelihood
from bdr_stan.aggregate.links import Link
from bdr_stan.aggregate.rows import AggregateRows
from bdr_stan.posterior.mode import LogLikelihood
from bdr_stan.types import Array


def given_of_labels(rows: AggregateRows, trials: Array | None) -> dict[str, Any]:
    """What is known of each label, as keywords of `Likelihood.label_density`."""
    errors = {"noise_factor": rows.noise_factor, "error_variance": rows.known_variance}
    return {"trials": trials, **errors}


def aggregate_likelihood(
    rows: AggregateRows,
    y: Array,
    likelihood: Likelihood,
    link: Link,
    *,
    trials: Array | None = None,
    exact_curvature: bool = True,
    rho: float = 0.0,
    **scales: float,
) -> LogLikelihood:
    """The likelihood of ``stan/fast/aggregate_*.stan`` at given scales, as a function of theta.

    `exact_curvature=False` returns the Fisher information instead of the negative Hessian: with
    many rows of points a small part of the work, and nearly as good for Newton steps. `rho` enters
    the means of links that include the residual variance.
    """
    means_at = link.mean_function(rows, rho)
    density = likelihood.label_density(y, **given_of_labels(rows, trials), **scales)

    def log_likelihood(theta):
        mean, by_theta, second = means_at(theta)
        value, score, information, curvature, _ = density(mean)
        fisher = (by_theta.T * information) @ by_theta
        if not exact_curvature:
            return value, by_theta.T @ score, fisher, fisher
        hessian = second(score) - (by_theta.T * curvature) @ by_theta
        return value, by_theta.T @ score, fisher, -hessian

    return log_likelihood
