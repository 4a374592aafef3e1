"""Landmarks and bandwidth of the shrinkage model, learned by gradient descent.

The loss of landmarks u and length scales l is the negative log posterior of the labels' model at
its mode in weights and intercept, given the scales (sigma, rho, eta). At the mode the derivative by
the weights is zero (the envelope theorem), so only the direct dependence on u and l counts: by mean
embeddings, within-bag covariance and kernel matrix. The gradients by these three have a closed form
in the joint basis; one more pass over the points leads from them to u and l.

The penalty is that of the weights, alpha' K alpha / (2 rho^2), the squared norm of the regression
function, which depends on the landmarks only through that function. Source: Law et al. (2018),
section 3.3, where the shrinkage model learns its landmarks.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from sklearn.base import clone

from bdr_stan.embedding.compression import compress
from bdr_stan.embedding.coordinates import Coordinates, joint_coordinates
from bdr_stan.embedding.mean_embedding import embed, scatter_factors
from bdr_stan.embedding.prior import landmark_matrices
from bdr_stan.embedding.shrinkage import shrinkage_factors
from bdr_stan.kernels import RBF
from bdr_stan.labels import Labels
from bdr_stan.models.bdr import BDRModel
from bdr_stan.models.likelihoods import normal_likelihood
from bdr_stan.posterior.latent_gaussian import most_probable_scales
from bdr_stan.posterior.mode import find_mode

# After each round of steps the scales are fitted to the new landmarks and the held-out labels are
# predicted; the search ends after this many rounds without a better prediction.
_STEPS_PER_ROUND = 5
_PATIENCE = 3
_MAX_LOG_CHANGE = np.log(20)  # of a length scale from its start
_MODE_TOLERANCE = 1e-14  # the error of the gradient is of the order of the error of the mode


def learn_landmarks(model, bags, y, *, validation, seed, max_iter=100):
    """Landmarks and bandwidth that a shrinkage model learns from the labels.

    Starts at the landmarks and the bandwidth that the model would choose, and reduces the penalised
    loss on the training bags by L-BFGS until predictions of the held-out labels get worse. Every
    five steps sigma, rho and eta are set to those of highest evidence.

    Parameters
    ----------
    model : Shrinkage
        With ``embedding_prior="kernel"``, an RBF kernel, and else the settings that it has by
        default.
    bags : Bags, without weights
    y : array, shape (n,), label of each bag
    validation : (bags, y)
        Held-out bags and labels, whose mean negative log predictive density at the mode decides
        when to stop.
    seed : int, of the first landmarks
    max_iter : int, default 100
        Steps of L-BFGS; each costs about two passes over the points.

    Returns
    -------
    estimator, not fitted
        A clone of `model` with the learned `landmarks`, shape (d, p), and `bandwidth`: one length
        per column where the model's bandwidth is an array, else one number.
    """
    held_out, held_out_y = validation
    start = model.training_features(bags, seed=seed)
    unit = start.bandwidth  # of the landmarks in x
    shape, size, n_lengths = start.landmarks.shape, start.landmarks.size, np.size(unit)

    def unpacked(x):
        log_ratio = x[size:] if np.ndim(unit) else x[size]
        return x[:size].reshape(shape) * unit, unit * np.exp(log_ratio)

    x = np.append((start.landmarks / unit).ravel(), np.zeros(n_lengths))
    bounds = [(None, None)] * size + [(-_MAX_LOG_CHANGE, _MAX_LOG_CHANGE)] * n_lengths
    best, best_x, rounds_without, steps = np.inf, x, 0, 0
    while True:
        training = with_landmarks(model, *unpacked(x)).training_features(bags)
        shrinkage = shrinkage_model(training, y)
        scales, mode, _ = most_probable_scales(shrinkage)
        embedding = embed(held_out, training.feature_map)
        score = held_out_nll(coordinates_of(shrinkage), mode, scales, embedding, held_out_y)
        rounds_without = 0 if score < best else rounds_without + 1
        if score < best:
            best, best_x = score, x
        if steps >= max_iter or rounds_without == _PATIENCE:
            return with_landmarks(model, *unpacked(best_x))
        level, prior = shrinkage.level, shrinkage.prior_above_level
        loss = ProfiledLoss(model, bags, y - level, scales, prior)

        def loss_and_slope(x, loss=loss):
            value, by_landmarks, by_log_length = loss(*unpacked(x))
            return value, np.append((by_landmarks * unit).ravel(), by_log_length)

        found = minimize(
            loss_and_slope,
            x,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": min(_STEPS_PER_ROUND, max_iter - steps)},
        )
        steps += max(found.nit, 1)
        x = found.x


def with_landmarks(model, landmarks, bandwidth):
    """A clone of the model with these."""
    return clone(model).set_params(landmarks=landmarks, bandwidth=bandwidth, bandwidth_scale=1.0)


def shrinkage_model(training, y):
    """The statistical model of embedded bags, with R = K."""
    return BDRModel.of_training(training, Labels(y), embedding_prior="kernel")


def coordinates_of(model):
    """The joint basis of a statistical model."""
    return Coordinates.from_constants({name: value for name, (value, _) in model.constants.items()})


def held_out_nll(coordinates, mode, scales, embedding, y):
    """Mean negative log density of labels given the most probable weights."""
    xi, nu = moments(
        coordinates.transform(embedding.mean), embedding.sizes, coordinates.lam, mode, scales
    )
    return float(np.mean(0.5 * (np.log(2 * np.pi * nu) + (y - xi) ** 2 / nu)))


def moments(z, sizes, lam, mode, scales):
    """Mean and variance, both (n,), of each bag's label given the weights at the mode."""
    w, intercept = mode.theta[:-1], mode.theta[-1]
    s = shrinkage_factors(sizes, lam, scales["eta"])
    nu = scales["eta"] * (1 - s) @ w**2 + scales["sigma"] ** 2
    return intercept + (s * z) @ w, nu


class ProfiledLoss:
    """Loss of landmarks and bandwidth, weights and intercept at their mode.

        J = 1/n min over alpha, intercept of  sum_i (log(2 pi nu_i) + (y_i - xi_i)^2 / nu_i) / 2
            + alpha' K alpha / (2 rho^2) + (intercept's prior)

    `model` gives the settings other than landmarks and bandwidth, `scales` are sigma, rho and eta,
    `intercept_prior` has mean and standard deviation of the normal prior.
    """

    def __init__(self, model, bags, y, scales, intercept_prior):
        self.model, self.bags, self.y, self.scales = model, bags, y, scales
        self.intercept_prior = intercept_prior
        self.mode_found = None  # weights and intercept, where the next search starts

    def __call__(self, landmarks, bandwidth):
        """The loss at landmarks (d, p), its gradient by these, and by the log bandwidth."""
        training = with_landmarks(self.model, landmarks, bandwidth).training_features(self.bags)
        embedding, y = training.embedding, self.y
        K, R, Sigma = landmark_matrices(training, embedding_prior="kernel")
        coordinates = joint_coordinates(embedding.m0, Sigma, R, K)
        z = coordinates.transform(embedding.mean)
        mode = self.mode(coordinates, K, z, embedding.sizes)
        by = embedding_slopes(coordinates, mode, z, y, embedding.sizes, self.scales)
        alpha = coordinates.basis @ mode.theta[:-1]
        location, spread = self.intercept_prior
        value = (
            by.loss
            + 0.5 * alpha @ K @ alpha / self.scales["rho"] ** 2
            + 0.5 * ((mode.theta[-1] - location) / spread) ** 2
        )
        by_gram = by.gram + np.outer(alpha, alpha) / (2 * self.scales["rho"] ** 2)
        moves, stretches = slopes_through_points(self.bags, training, by.mean, by.covariance)
        gram_moves, gram_stretches = kernel_slopes(
            by_gram * RBF(bandwidth)(landmarks, landmarks), landmarks, landmarks, bandwidth
        )
        moves += 2 * gram_moves  # each landmark has a row and a column of the symmetric matrix
        stretches += gram_stretches
        n = len(y)
        if np.ndim(bandwidth) == 0:
            stretches = stretches.sum()
        return value / n, moves / bandwidth / n, stretches / n

    def mode(self, coordinates, K, z, sizes):
        """Most probable weights and intercept, searched from those of the last call."""
        rows = compress(z, self.y, sizes)
        sigma, rho, eta = (self.scales[name] for name in ("sigma", "rho", "eta"))
        start = None
        if self.mode_found is not None:
            alpha, intercept = self.mode_found
            start = np.append(coordinates.basis.T @ (K @ alpha), intercept)  # V^-1 = V'K
        mode = find_mode(
            normal_likelihood(rows, coordinates.lam, sigma=sigma, eta=eta),
            coordinates.prior_factor,
            self.intercept_prior,
            rho=rho,
            start=start,
            tol=_MODE_TOLERANCE,
        )
        self.mode_found = coordinates.basis @ mode.theta[:-1], mode.theta[-1]
        return mode


@dataclass(frozen=True)
class EmbeddingSlopes:
    """Negative log likelihood, and its gradients by what depends on landmarks."""

    loss: float
    mean: np.ndarray  # by each bag's mean embedding, shape (n, d)
    covariance: np.ndarray  # by the within-bag covariance, shape (d, d)
    gram: np.ndarray  # by the kernel matrix K, as the embeddings' prior, shape (d, d)


def embedding_slopes(coordinates, mode, z, y, sizes, scales):
    """Gradients of the negative log likelihood at fixed weights.

    With A = R + Sigma / N, R = eta K, a = A^-1 R alpha and v = mu - m0, the label of a bag has

        xi = intercept + a'v,      d xi = (alpha - a)' dR A^-1 v - a' (dSigma / N) A^-1 v + a' dv
        nu = alpha'R (alpha - a) + sigma^2,  d nu = (alpha - a)' dR (alpha - a) + a' (dSigma / N) a

    In the joint basis V, where V'RV = eta and V'Sigma V = lam, a = V (s w), A^-1 v = V (s z) / eta.
    """
    V, w, eta = coordinates.basis, mode.theta[:-1], scales["eta"]
    xi, nu = moments(z, sizes, coordinates.lam, mode, scales)
    error = y - xi
    by_xi = -error / nu
    by_nu = 0.5 * (1 / nu - (error / nu) ** 2)
    group_size, group = np.unique(sizes, return_inverse=True)
    s = shrinkage_factors(group_size, coordinates.lam, eta)
    shifts = np.zeros_like(s)
    np.add.at(shifts, group, by_xi[:, None] * z)
    shifts *= s / eta
    weight = np.bincount(group, by_nu)[:, None]
    a, rest = s * w, (1 - s) * w  # a and alpha - a in the joint basis, one row per size
    gram = rest.T @ shifts + (weight * rest).T @ rest
    covariance = (a / group_size[:, None]).T @ (weight * a - shifts)
    mean = by_xi[:, None] * (a @ V.T)[group]
    mean -= mean.mean(axis=0)  # m0 is the average of the mean embeddings
    return EmbeddingSlopes(
        0.5 * float(np.sum(np.log(2 * np.pi * nu) + error**2 / nu)),
        mean,
        symmetric(V @ covariance @ V.T),
        eta * symmetric(V @ gram @ V.T),
    )


def symmetric(matrix):
    return (matrix + matrix.T) / 2


def kernel_slopes(by_log_kernel, points, landmarks, bandwidth):
    """Gradients by landmarks, in units of the bandwidth, (d, p), and by its log, one per feature.

    From those by log k(x_j, u_k), `by_log_kernel`, shape (n, d), with

        d log k / d u = (x - u) / l^2,    d log k / d log l = (x - u)^2 / l^2
    """
    centre = landmarks.mean(axis=0)
    x, u = (points - centre) / bandwidth, (landmarks - centre) / bandwidth
    # (x - u)^2 expanded, so that no array of n x d x p is needed.
    cross = by_log_kernel.T @ x
    by_point, by_landmark = by_log_kernel.sum(axis=1), by_log_kernel.sum(axis=0)
    moves = cross - by_landmark[:, None] * u
    stretches = by_point @ x**2 - 2 * np.sum(cross * u, axis=0) + by_landmark @ u**2
    return moves, stretches


def slopes_through_points(bags, training, by_mean, by_covariance):
    """Gradients of mean embeddings and covariance, passed on to `kernel_slopes`.

    The gradient by the features phi_ij of a point in a bag of N_i is

        by_mean_i / N_i + 2 f_i by_covariance (phi_ij - mean_i)

    with f_i the factor of the bag's scatter in the average covariance. The mean in that scatter
    also depends on phi_ij, but its derivative is zero: the mean minimises the scatter.
    """
    mean, phi = training.embedding.mean, training.feature_map(bags.points)
    factors = 2 * scatter_factors(bags, bags.sizes)[:, None]
    bag = np.repeat(np.arange(len(bags)), bags.sizes)
    slopes = factors[bag] * (phi @ by_covariance)
    slopes += (by_mean / bags.sizes[:, None] - factors * (mean @ by_covariance))[bag]
    slopes *= phi
    return kernel_slopes(slopes, bags.points, training.landmarks, training.bandwidth)
