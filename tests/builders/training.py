"""Training bags for the models, and their problem from the definitions, point by point."""

import numpy as np
from scipy.linalg import sqrtm

from bdr_stan.bags import Bags
from bdr_stan.embedding.training import training_features
from builders import reference
from builders.kernels import COLUMNS, DEFINITIONS, gram
from data_gen.dirichlet import dirichlet_bags

JITTER = 1e-4


def labelled_bags(rng, n=24):
    """Bags of 1 to 30 points around centres of their own, columns named, and labels."""
    sizes = rng.permutation(np.r_[1, 1, rng.choice([2, 5, 12, 30], n - 2)])
    centres = rng.normal(size=(n, 3))
    points = np.repeat(centres, sizes, axis=0) + 0.7 * rng.normal(size=(sizes.sum(), 3))
    y = 5 + 2 * np.tanh(centres[:, 0]) - centres[:, 1] * centres[:, 2] + 0.2 * rng.normal(size=n)
    return Bags.from_points(points, sizes=sizes, features=COLUMNS), y


def training_of(bags, name, landmarks):
    """Their embedding by a kernel of `builders.kernels.DEFINITIONS`, columns named."""
    kernel = DEFINITIONS[name][0]
    return training_features(bags, kernel=kernel, landmarks=landmarks, covariance=True)


def dense_problem(bags, y, definition, u, prior_covariance):
    """A problem in landmark coordinates, with

    prior_covariance(mu, sizes, Sigma, K) the R of the embeddings' prior.
    """
    features = [gram(definition, bag, u).astype(float) for bag in bags]
    mu = np.array([phi.mean(axis=0) for phi in features])
    ridge = JITTER * np.eye(len(u))
    Sigma = np.mean([np.cov(phi.T) for phi in features if len(phi) > 1], axis=0) + ridge
    K = gram(definition, u, u).astype(float) + ridge
    sizes = bags.sizes.astype(float)
    R = prior_covariance(mu, sizes, Sigma, K)
    return reference.Problem(mu, sizes, np.asarray(y, float), Sigma, R, K)


def bags_of_one_size(seed=8):
    """The features of 200 bags of 50 points each, of which labels do not identify eta; labels."""
    data = dirichlet_bags(seed)
    features = training_features(data.bags, n_landmarks=20, covariance=True, seed=1)
    return features, data.y


# ---------------------------------------------------------------- prior covariances R


def of_kernel(mu, sizes, Sigma, K):
    return K


def moment_estimate(mu, sizes, Sigma, origin=None):
    """Covariance of the true embeddings; that of bag i is seen with noise of Sigma / N_i.

    Negative variances are cut in the coordinates Sigma^(-1/2) mu. The prior mean of the embeddings
    is their average unless `origin` is given.
    """
    away = mu - (mu.mean(axis=0) if origin is None else origin)
    total = np.mean([a @ a for a in away])
    between = max(total - np.mean([np.trace(Sigma) / N for N in sizes]), 0.01 * total)
    weights = np.array([1 / (1 + np.trace(Sigma) / (between * N)) for N in sizes])
    weights /= weights.sum()
    B = sum(w * (np.outer(a, a) - Sigma / N) for w, a, N in zip(weights, away, sizes))
    root = np.real(sqrtm(Sigma))
    values, vectors = np.linalg.eigh(np.linalg.solve(root, np.linalg.solve(root, B).T))
    return root @ vectors @ np.diag(np.maximum(values, 0)) @ vectors.T @ root


def scale_between(mu, sizes, Sigma):
    """Moment estimate of the mean squared distance of true embeddings from their average."""
    away = mu - mu.mean(axis=0)
    return np.mean([a @ a - np.trace(Sigma) / N for a, N in zip(away, sizes, strict=True)])


def relative_error_of_scale(mu, sizes, Sigma):
    """Of that estimate, before its limits: bags are left out one by one."""
    n, each = len(mu), np.arange(len(mu))
    residual_variance = [scale_between(mu[each != i], sizes[each != i], Sigma) for i in each]
    trace = np.sqrt((n - 1) ** 2 / n * np.var(residual_variance, ddof=1))
    total = np.mean(np.sum((mu - mu.mean(axis=0)) ** 2, axis=1))
    by_size = np.trace(Sigma) * np.std(1 / sizes)
    error = np.hypot(max(trace, np.sqrt(2 / (n - 1)) * total), by_size)
    return error / scale_between(mu, sizes, Sigma)


def eta_log_sd(mu, sizes, Sigma, prior):
    """Default prior sd of log eta."""
    if prior != "empirical":
        return 2.0
    return np.clip(relative_error_of_scale(mu, sizes, Sigma), 0.1, 2.0)


def empirical(mu, sizes, Sigma, K):
    B = moment_estimate(mu, sizes, Sigma)
    return B + 0.01 * np.trace(B) / np.trace(K) * K


def convolution(u, bandwidth, scale, variance=1.0):
    """Integral of k(x, z) k(z, y) exp(-|z - c|^2 / (2 scale^2)), a sum over a fine grid of z."""

    def prior_covariance(*_):
        centred = u - u.mean(axis=0)
        R = np.full((len(u), len(u)), variance**2)
        for column, b in zip(centred.T, np.broadcast_to(bandwidth, u.shape[1])):
            z = np.linspace(-40, 40, 20_001) * min(b, scale)
            k = np.exp(-((column[:, None] - z) ** 2) / (2 * b**2))
            R = R * ((k * np.exp(-(z**2) / (2 * scale**2))) @ k.T) * (z[1] - z[0])
        return R + JITTER * np.trace(R) / len(R) * np.eye(len(R))

    return prior_covariance
