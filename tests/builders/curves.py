"""Embeddings that move along curves as the label changes, from the definition: dense matrices.

Each coordinate z_k of all bags is normal with mean B c_k and variances tau_k^2 + lambda_k / N_i;
its coefficients c_k are normal, too.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy import stats

from bdr_stan.embedding.label_functions import LabelFunctions, functions_of_numbers
from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.embedding.training import TrainingFeatures
from bdr_stan.kernels import RBF, LandmarkFeatures
from bdr_stan.models import held_out_labels

PRIORS = {
    "level_scale": 1.5,
    "tau_scale": 0.7,
    "amplitude_median": 0.8,
    "amplitude_log_sd": 0.6,
    "curvature_median": 0.5,
    "curvature_log_sd": 0.4,
}


@dataclass(frozen=True)
class CurveProblem:
    """Coordinates z, shape (n, K), of bags with these sizes and labels; lam, shape (K,)."""

    y: np.ndarray
    sizes: np.ndarray
    z: np.ndarray
    lam: np.ndarray
    functions: LabelFunctions
    priors: dict = field(default_factory=lambda: dict(PRIORS))

    @cached_property
    def B(self):
        return self.functions(self.y)

    @property
    def has_curvature(self):
        return self.functions.n_straight + 1 < len(self.functions.smooth)


def give_power(monkeypatch, power):
    """Give models this power of the likelihood in place of the one that held-out bags teach."""

    def given(folds, embedding, y):
        log_density = held_out_labels.held_out_log_density(folds, embedding, y, power, np.zeros(0))
        return power, np.zeros(0), -float(np.nansum(log_density))

    monkeypatch.setattr(held_out_labels, "learned_power", given)


def draw_parameters(rng, functions, K, priors=PRIORS):
    """tau, amplitude, curvature and the curves from their priors."""
    true = {
        "tau": rng.rayleigh(priors["tau_scale"], K),
        "amplitude": rng.lognormal(
            np.log(priors["amplitude_median"]), priors["amplitude_log_sd"], K
        ),
        "curvature": rng.lognormal(np.log(priors["curvature_median"]), priors["curvature_log_sd"]),
    }
    return true | {"curve": rng.normal(0, coefficient_sds(functions, priors, **true))}


def draw_problem(rng, n=24, K=3, functions=None, labels=None, sizes=(1, 4, 40)):
    """A problem from the model, and its parameters."""
    y = 2 + 3 * rng.normal(size=n) if labels is None else labels
    functions = functions or functions_of_numbers(y)
    lam = np.geomspace(0.3, 20, K)
    sizes = np.asarray(rng.choice(sizes, n), float)
    true = draw_parameters(rng, functions, K)
    sd = np.sqrt(true["tau"] ** 2 + lam / sizes[:, None])
    z = rng.normal(functions(y) @ true["curve"].T, sd)
    return CurveProblem(y, sizes, z, lam, functions), true


def coefficient_sds(functions, priors, amplitude, curvature, **_):
    """Prior standard deviations of the coefficients, a row a coordinate, one by one."""
    sds = np.empty((len(amplitude), len(functions.smooth)))
    for k, own in enumerate(amplitude):
        for j, smooth in enumerate(functions.smooth):
            straight = j <= functions.n_straight
            sds[k, j] = own * smooth * (1.0 if straight else curvature)
        sds[k, 0] = priors["level_scale"]
    return sds


def covariance_of(p, k, sds, tau):
    """Of coordinate k of all bags, the curve integrated out."""
    return (p.B * sds[k] ** 2) @ p.B.T + np.diag(tau[k] ** 2 + p.lam[k] / p.sizes)


def log_likelihood(p, tau, amplitude, curvature, **_):
    """The log likelihood of all coordinates, their curves integrated out, shape (K,)."""
    sds = coefficient_sds(p.functions, p.priors, amplitude, curvature)
    each = [
        stats.multivariate_normal.logpdf(p.z[:, k], cov=covariance_of(p, k, sds, tau))
        for k in range(len(tau))
    ]
    return np.array(each)


def log_prior(p, tau, amplitude, curvature):
    priors = p.priors
    value = stats.rayleigh.logpdf(tau, scale=priors["tau_scale"]).sum()
    value += stats.lognorm.logpdf(
        amplitude, priors["amplitude_log_sd"], scale=priors["amplitude_median"]
    ).sum()
    if p.has_curvature:
        value += stats.lognorm.logpdf(
            curvature, priors["curvature_log_sd"], scale=priors["curvature_median"]
        )
    return value


def curve_posterior(p, tau, amplitude, curvature):
    """Mean and covariance of each curve's coefficients, by regression on all bags."""
    sds = coefficient_sds(p.functions, p.priors, amplitude, curvature)
    means, covariances = [], []
    for k in range(len(tau)):
        prior = np.diag(sds[k] ** 2)
        gain = np.linalg.solve(covariance_of(p, k, sds, tau), p.B @ prior).T
        means.append(gain @ p.z[:, k])
        covariances.append(prior - gain @ p.B @ prior)
    return np.array(means), np.array(covariances)


def simulated(rng, n=300, K=4, sizes=(2, 10, 100)):
    """Features of bags that follow the model, and their labels; coordinates are those drawn."""
    y = rng.normal(size=n)
    functions = functions_of_numbers(y)
    size, lam = rng.choice(np.asarray(sizes, float), n), np.geomspace(0.5, 20, K)
    B = functions(y)
    curve = rng.normal(0, [0, 0.7, 0.3, 0.1, 0.03, 0.01][: B.shape[1]], (K, B.shape[1]))
    z = rng.normal(B @ curve.T, np.sqrt(1 + lam / size[:, None]))
    feature_map = LandmarkFeatures(RBF(1.0), 50.0 * np.arange(K)[:, None])  # they know no other
    embedding = Embedding(size, z, np.diag(lam))
    return TrainingFeatures(feature_map, RBF(1.0), embedding, np.arange(n)), y
