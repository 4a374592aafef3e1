"""Landmarks and bandwidth of the shrinkage model, learned by gradient descent.

The loss of landmarks u and length scales l is the negative log posterior of the labels' model at
its most probable weights and intercept, given the scales (sigma, rho, eta). There the weights'
own slope is zero, so only what depends on u and l directly counts: mean embeddings, within-bag
covariance and kernel matrix. Its slopes in those three have a closed form in the joint basis; one
more pass over the points leads from them to u and l.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from joblib import effective_n_jobs
from scipy.optimize import minimize
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from bdr_stan.bags import as_bags, check_labels
from bdr_stan.embedding.mean_embedding import CHUNKS_PER_TASK, point_chunks, scatter_factors
from bdr_stan.posterior.evidence import find_mode
from bdr_stan.kernels import rbf, rbf_basis, rbf_features
from bdr_stan.models.likelihoods import normal_likelihood
from bdr_stan.estimators.bdr import BDR
from bdr_stan.embedding.shrinkage import shrinkage_factors
from bdr_stan.cmdstan.progress import status

# After a round of steps the scales follow the landmarks, and the held-out labels decide whether to
# go on: it ends after so many rounds without a better one.
_STEPS_A_ROUND = 5
_PATIENCE = 3
_FARTHEST = np.log(20)  # that a length scale may go from its start
_TIGHT = 1e-14  # the slope is as good as the mode
_CHUNK_BYTES = 1 << 20


def learn_landmarks(model, bags, y, *, validation, max_iter=100, seed=None, progress=False):
    """Landmarks and bandwidth that a shrinkage model learns from the labels.

    Starts at the landmarks and the bandwidth that the model would choose by itself, and lowers
    the penalised loss on the training bags by L-BFGS until the held-out labels are predicted
    worse, with sigma, rho and eta those of highest evidence every five steps.

    Parameters
    ----------
    model : Shrinkage or BDR
        With ``embedding_prior="kernel"``.
    bags : Bags, or list of n arrays, shapes (n_points, p)
    y : array, shape (n,)
    validation : (bags, y)
        Held-out bags and labels, whose mean negative log predictive density at the mode decides
        when to stop.
    max_iter : int, default 100
        Steps of L-BFGS; each costs about two passes over the points.
    seed : int, optional
        Seed of the first landmarks; default the model's `random_state`.
    progress : bool, default False

    Returns
    -------
    estimator, not fitted
        A clone of `model` with the learned `landmarks`, shape (d, p), and `bandwidth`: one
        number, or one length scale per feature if the model's bandwidth is an array.

    Raises
    ------
    ValueError, TypeError
        Unusable bags, labels or parameters; a model of another kind.

    Notes
    -----
    The penalty is that of the weights, alpha' K alpha / (2 rho^2), the squared norm of the
    regression function, which does not change where landmarks move but the function stays.
    Source: Law et al. (2018), section 3.3, where the shrinkage model learns its landmarks.
    """
    if not isinstance(model, BDR) or (model.embedding_prior, model.kernel) != ("kernel", "rbf"):
        raise ValueError(
            "landmarks are learned for Shrinkage and BDR with embedding_prior='kernel' and "
            f"kernel='rbf', found {model}: use one of these"
        )
    if not isinstance(max_iter, (int, np.integer)) or max_iter < 1:
        raise ValueError(f"max_iter must be an integer >= 1, found {max_iter!r}")
    model._check_parameters()
    bags = as_bags(bags)
    y = check_labels(bags, y)
    held = as_bags(validation[0])
    held_y = check_labels(held, validation[1])
    seed = model.random_state if seed is None else seed
    start = model.training_features(bags, seed=seed)
    length = start.bandwidth  # of the start, the unit in which landmarks move
    shape, size = start.landmarks.shape, start.landmarks.size

    def unpacked(x):
        log_ratio = x[size:] if np.ndim(length) else x[size]
        return x[:size].reshape(shape) * length, length * np.exp(log_ratio)

    def at(x):
        landmarks, bandwidth = unpacked(x)
        return clone(model).set_params(
            landmarks=landmarks, bandwidth=bandwidth, bandwidth_scale=1.0
        )

    x = np.append((start.landmarks / length).ravel(), np.zeros(np.size(length)))
    best, best_x, worse, steps = np.inf, x, 0, 0
    bounds = [(None, None)] * size + [(-_FARTHEST, _FARTHEST)] * np.size(length)
    while True:
        here = at(x)
        with threadpool_limits(1, user_api="blas"):
            _, scales, mode, _ = here._prepare(here.training_features(bags), y)
        score = _held_out_nll(here, mode, scales, held, held_y)
        worse = 0 if score < best else worse + 1
        if score < best:
            best, best_x = score, x
        if steps >= max_iter or worse == _PATIENCE:
            return at(best_x)
        loss = ProfiledLoss(here, bags, y, scales)

        def loss_and_slope(x, loss=loss):
            value, by_landmarks, by_log_length = loss(*unpacked(x))
            return value, np.append((by_landmarks * length).ravel(), by_log_length)

        with status(f"step {steps}: held-out NLL {score:.4f}, best {best:.4f}", progress):
            found = minimize(
                loss_and_slope,
                x,
                jac=True,
                method="L-BFGS-B",
                bounds=bounds,
                options={"maxiter": min(_STEPS_A_ROUND, max_iter - steps)},
            )
        steps += max(found.nit, 1)
        x = found.x


def _held_out_nll(model, mode, scales, bags, y):
    """Mean negative log density of labels given the most probable weights."""
    embedding = model._embed(bags, model.landmarks, model.bandwidth)
    at = model.coordinates_
    xi, nu = _moments((embedding.mean - at.m0) @ at.basis, embedding.sizes, at.lam, mode, scales)
    return float(np.mean(0.5 * (np.log(2 * np.pi * nu) + (y - xi) ** 2 / nu)))


def _moments(z, sizes, lam, mode, scales):
    """Mean and variance of each bag's label given the weights, both shape (n,)."""
    w, intercept = mode.theta[:-1], mode.theta[-1]
    s = shrinkage_factors(sizes, lam, scales["eta"])
    nu = scales["eta"] * (1 - s) @ w**2 + scales["sigma"] ** 2
    return intercept + (s * z) @ w, nu


class ProfiledLoss:
    """Loss of landmarks and bandwidth, weights and intercept at their mode.

        J = 1/n min over alpha, intercept of  sum_i (log(2 pi nu_i) + (y_i - xi_i)^2 / nu_i) / 2
            + alpha' K alpha / (2 rho^2) + (intercept's prior)

    Parameters
    ----------
    model : BDR, prepared
        With `priors_`; its settings count, its landmarks and bandwidth do not.
    bags : Bags
    y : array, shape (n,)
    scales : dict, sigma, rho and eta
    """

    def __init__(self, model, bags, y, scales):
        self.model, self.bags, self.y, self.scales = clone(model), bags, y, scales
        self.intercept_prior = (
            model.priors_["intercept_location"],
            model.priors_["intercept_scale"],
        )
        self._last = None  # most probable weights and intercept, where to begin the next time

    def __call__(self, landmarks, bandwidth):
        """Value of the loss and its slopes.

        Parameters
        ----------
        landmarks : array, shape (d, p)
        bandwidth : float or array, shape (p,)

        Returns
        -------
        value : float
        by_landmarks : array, shape (d, p)
        by_log_bandwidth : float or array, shape (p,)
        """
        model, y = self.model, self.y
        model.set_params(landmarks=landmarks, bandwidth=bandwidth, bandwidth_scale=1.0)
        features = model.training_features(self.bags)
        with threadpool_limits(1, user_api="blas"):
            K, _, _ = model._matrices(features)
            at = model._coordinates(features)
            z = (features.embedding.mean - at.m0) @ at.basis
            mode = self._mode(at, K, z, features.embedding.sizes)
            by = _embedding_slopes(at, mode, z, y, features.embedding.sizes, self.scales)
        alpha = at.basis @ mode.theta[:-1]
        location, spread = self.intercept_prior
        value = (
            by.loss
            + 0.5 * alpha @ K @ alpha / self.scales["rho"] ** 2
            + 0.5 * ((mode.theta[-1] - location) / spread) ** 2
        )
        by_gram = by.gram + np.outer(alpha, alpha) / (2 * self.scales["rho"] ** 2)
        moves, stretches = _slopes_through_points(
            self.bags, features, by.mean, by.covariance, model.covariance, model.tau
        )
        gram_moves, gram_stretches = _kernel_slopes(
            by_gram * rbf(landmarks, landmarks, bandwidth), landmarks, landmarks, bandwidth
        )
        moves += 2 * gram_moves  # each landmark stands in a row and in a column
        stretches += gram_stretches
        n = len(y)
        if np.ndim(bandwidth) == 0:
            stretches = stretches.sum()
        return value / n, moves / bandwidth / n, stretches / n

    def _mode(self, at, K, z, sizes):
        rows = self.model._compressed(z, self.y, sizes)
        sigma, rho, eta = (self.scales[name] for name in ("sigma", "rho", "eta"))
        start = None
        if self._last is not None:
            alpha, intercept = self._last
            start = np.append(at.basis.T @ (K @ alpha), intercept)  # V^-1 = V'K
        mode = find_mode(
            normal_likelihood(rows, at.lam, sigma=sigma, eta=eta),
            at.prior_factor,
            self.intercept_prior,
            rho=rho,
            start=start,
            tol=_TIGHT,
        )
        self._last = at.basis @ mode.theta[:-1], mode.theta[-1]
        return mode


@dataclass(frozen=True)
class _EmbeddingSlopes:
    """Negative log likelihood, and its slopes in what bags and landmarks say.

    mean : array, shape (n, d), in the mean embedding of each bag
    covariance : array, shape (d, d), in the within-bag covariance
    gram : array, shape (d, d), in the kernel matrix K, as the embeddings' prior
    """

    loss: float
    mean: np.ndarray
    covariance: np.ndarray
    gram: np.ndarray


def _embedding_slopes(at, mode, z, y, sizes, scales):
    """Slopes of the negative log likelihood at fixed weights.

    With A = R + Sigma / N, R = eta K, a = A^-1 R alpha and v = mu - m0, the label of a bag has

        xi = intercept + a'v,           d xi = (alpha - a)' dR A^-1 v - a' (dSigma / N) A^-1 v + a' dv
        nu = alpha'R (alpha - a) + sigma^2,  d nu = (alpha - a)' dR (alpha - a) + a' (dSigma / N) a

    In the joint basis V, where V'RV = eta and V'Sigma V = lam, a = V (s w), A^-1 v = V (s z) / eta.
    """
    V, w, eta = at.basis, mode.theta[:-1], scales["eta"]
    xi, nu = _moments(z, sizes, at.lam, mode, scales)
    error = y - xi
    by_xi = -error / nu
    by_nu = 0.5 * (1 / nu - (error / nu) ** 2)
    group_size, group = np.unique(sizes, return_inverse=True)
    s = shrinkage_factors(group_size, at.lam, eta)
    pull = np.zeros_like(s)
    np.add.at(pull, group, by_xi[:, None] * z)
    pull *= s / eta
    weight = np.bincount(group, by_nu)[:, None]
    kept, lost = s * w, (1 - s) * w
    gram = lost.T @ pull + (weight * lost).T @ lost
    covariance = (kept / group_size[:, None]).T @ (weight * kept - pull)
    mean = by_xi[:, None] * (kept @ V.T)[group]
    mean -= mean.mean(axis=0)  # m0 moves along
    return _EmbeddingSlopes(
        0.5 * float(np.sum(np.log(2 * np.pi * nu) + error**2 / nu)),
        mean,
        _symmetric(V @ covariance @ V.T),
        eta * _symmetric(V @ gram @ V.T),
    )


def _symmetric(matrix):
    return (matrix + matrix.T) / 2


def _kernel_slopes(by_log_kernel, points, landmarks, bandwidth):
    """Slopes in landmarks, in units of the bandwidth, and in its logarithm, one a feature.

    From those in log k(x_j, u_k), `by_log_kernel`, shape (n, d), as

        d log k / d u = (x - u) / l^2,    d log k / d log l = (x - u)^2 / l^2
    """
    centre = landmarks.mean(axis=0)
    x, u = (points - centre) / bandwidth, (landmarks - centre) / bandwidth
    crossed = by_log_kernel.T @ x
    of_points, of_landmarks = by_log_kernel.sum(axis=1), by_log_kernel.sum(axis=0)
    moves = crossed - of_landmarks[:, None] * u
    stretches = of_points @ x**2 - 2 * np.sum(crossed * u, axis=0) + of_landmarks @ u**2
    return moves, stretches


def _slopes_through_points(bags, features, by_mean, by_covariance, covariance, tau):
    """Slopes of the mean embeddings and of their covariance, passed on to `_kernel_slopes`.

    The slope in the features phi_ij of a point, of weight w_ij in its bag, is

        w_ij (by_mean_i / sum_j w_ij + 2 f_i by_covariance (phi_ij - mean_i))

    f_i the factor of the bag's scatter in the covariance: by moving, the mean of a bag leaves its
    scatter as it is.
    """
    landmarks, bandwidth = features.landmarks, features.bandwidth
    embedding = features.embedding
    d = len(landmarks)
    if bags.weights is None:
        totals = np.diff(bags.offsets)
    else:
        totals = np.add.reduceat(bags.weights, bags.offsets[:-1])
    factors = scatter_factors(bags, embedding.sizes, covariance, tau)
    if factors is None:
        factors = np.zeros(len(bags))
    constant = by_mean / totals[:, None]
    constant -= 2 * factors[:, None] * (embedding.mean @ by_covariance)
    basis = rbf_basis(landmarks, bandwidth)
    chunks = point_chunks(bags.offsets, max(16, _CHUNK_BYTES // (8 * d)))
    longest = max(stop - start for start, stop, _, _ in chunks)

    def run(task):
        phi, by_phi = np.empty((2, longest, d))
        moves, stretches = np.zeros_like(landmarks), np.zeros(landmarks.shape[1])
        for start, stop, first, last in task:
            points = bags.read(start, stop)
            n = stop - start
            sizes = np.diff(np.clip(bags.offsets[first : last + 1], start, stop))
            bag = np.repeat(np.arange(first, last), sizes)
            values = rbf_features(points, basis, phi[:n])
            slopes = np.matmul(values, by_covariance, out=by_phi[:n])
            slopes *= 2 * factors[bag, None]
            slopes += constant[bag]
            slopes *= values
            if bags.weights is not None:
                slopes *= bags.weights[start:stop, None]
            parts = _kernel_slopes(slopes, points, landmarks, bandwidth)
            bags.release()
            moves += parts[0]
            stretches += parts[1]
        return moves, stretches

    tasks = [chunks[k : k + CHUNKS_PER_TASK] for k in range(0, len(chunks), CHUNKS_PER_TASK)]
    with (
        threadpool_limits(1, user_api="blas"),
        ThreadPoolExecutor(min(effective_n_jobs(-1), len(tasks))) as threads,
    ):
        moves, stretches = zip(*threads.map(run, tasks))
    return sum(moves), sum(stretches)
