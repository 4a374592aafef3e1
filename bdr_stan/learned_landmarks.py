"""Landmarks and bandwidth of the shrinkage model, learned by gradient descent.

The loss of landmarks u and length scales l is the negative log posterior of the labels' model at
its mode in weights and intercept, given the scales (sigma, rho, eta). At the mode the derivative by
the weights is zero (the envelope theorem), so only the direct dependence on u and l counts: by mean
embeddings, within-bag covariance and kernel matrix. The gradients by these three have a closed form
in the joint basis; one more pass over the points leads from them to u and l.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from sklearn.base import clone

from bdr_stan.bags import Bags, BagsLike, as_bags, check_labels
from bdr_stan.embedding.compression import compress
from bdr_stan.embedding.coordinates import Coordinates, joint_coordinates
from bdr_stan.embedding.mean_embedding import CHUNKS_PER_TASK, embed, scatter_factors
from bdr_stan.embedding.prior import landmark_matrices
from bdr_stan.embedding.shrinkage import shrinkage_factors
from bdr_stan.embedding.training import TrainingFeatures
from bdr_stan.estimators.bdr import BDR, Shrinkage
from bdr_stan.estimators.validation import check_counts, check_seed, checked_validation
from bdr_stan.kernels import RBF
from bdr_stan.models.bdr import bdr_model
from bdr_stan.models.likelihoods import normal_likelihood
from bdr_stan.posterior.latent_gaussian import LatentGaussianModel, most_probable_scales
from bdr_stan.posterior.mode import find_mode
from bdr_stan.progress import status
from bdr_stan.threads import limited_blas, map_in_threads
from bdr_stan.types import Array, ArrayLike, check_flags

# After each round of steps the scales are fitted to the new landmarks and the held-out labels are
# predicted; the search ends after this many rounds without a better prediction.
_STEPS_PER_ROUND = 5
_PATIENCE = 3
_MAX_LOG_CHANGE = np.log(20)  # of a length scale from its start
_MODE_TOLERANCE = 1e-14  # the error of the gradient is of the order of the error of the mode
_CHUNK_BYTES = 1 << 20


def learn_landmarks(
    model: BDR | Shrinkage,
    bags: BagsLike,
    y: ArrayLike,
    *,
    validation: tuple[BagsLike, ArrayLike],
    max_iter: int = 100,
    seed: int | None = None,
    progress: bool | None = None,
) -> BDR | Shrinkage:
    """Landmarks and bandwidth that a shrinkage model learns from the labels.

    Starts at the landmarks and the bandwidth that the model would choose, and reduces the penalised
    loss on the training bags by L-BFGS until predictions of the held-out labels get worse. Every
    five steps sigma, rho and eta are set to those of highest evidence.

    Parameters
    ----------
    model : Shrinkage or BDR
        With ``embedding_prior="kernel"``.
    bags : Bags, or list of n arrays, shapes (n_points, p)
    y : array, shape (n,), label of each bag
    validation : (bags, y)
        Held-out bags and labels, whose mean negative log predictive density at the mode decides
        when to stop.
    max_iter : int, default 100
        Steps of L-BFGS; each costs about two passes over the points.
    seed : int, optional
        Seed of the first landmarks; default `random_state` of the model.
    progress : bool, optional
        None reports progress on stderr every ten seconds, True each round of steps, False nothing.

    Returns
    -------
    estimator, not fitted
        A clone of `model` with the learned `landmarks`, shape (d, p), and `bandwidth`: one length
        per column, learned separately where the model's bandwidth is "ard" or an array, else in
        fixed proportions; one number where the start is one.

    Raises
    ------
    ValueError, TypeError
        Invalid bags, labels or parameters; a model of another kind.

    Notes
    -----
    The penalty is that of the weights, alpha' K alpha / (2 rho^2), the squared norm of the
    regression function, which depends on the landmarks only through that function. Source: Law
    et al. (2018), section 3.3, where the shrinkage model learns its landmarks.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import Shrinkage, learn_landmarks
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=40)
    >>> bags = [rng.normal([mean, 0], size=(30, 2)) for mean in y]  # the second column is noise
    >>> model = Shrinkage(n_landmarks=5, bandwidth="ard", embedding_prior="kernel")
    >>> learned = learn_landmarks(model, bags[:30], y[:30], validation=(bags[30:], y[30:]), seed=1)
    >>> learned.landmarks.shape
    (5, 2)
    >>> bool(learned.bandwidth[0] < learned.bandwidth[1])
    True
    """
    shrinks = isinstance(model, (BDR, Shrinkage))
    if not shrinks or model.embedding_prior != "kernel" or model.kernel not in ("auto", "rbf"):
        raise ValueError(
            "landmarks are learned for Shrinkage and BDR with embedding_prior='kernel' and "
            f"kernel='rbf', found {model}: use one of these"
        )
    check_counts(max_iter=max_iter)
    check_seed(seed, "seed")
    model.check_parameters()
    for name in ("covariates", "groups", "smooths"):
        if getattr(model, name):
            raise ValueError(
                f"landmarks are learned without {name}: learn them with {name}=None, then fit "
                f"learned.set_params({name}=...)"
            )
    if model.family != "normal":
        raise ValueError(
            f"landmarks are learned from normal labels: learn them with family='normal', then fit "
            f"learned.set_params(family={model.family!r})"
        )
    if model.label_noise != "constant":
        raise ValueError(
            "landmarks are learned with label_noise='constant': learn them so, then fit "
            "learned.set_params(label_noise='size')"
        )
    check_flags(progress=progress is None or progress)
    bags = as_bags(bags)
    y = check_labels(bags, y)
    held_out, held_out_y = checked_validation(validation, bags)
    start = model.training_features(bags, seed=seed)
    unit: Any = start.bandwidth  # of the landmarks in x
    kernel: Any = start.kernel
    n_lengths = np.size(kernel.bandwidth)  # 1 where the columns' spreads are the kernel's units
    shape, size = start.landmarks.shape, start.landmarks.size

    def unpacked(x):
        log_ratio = x[size:] if n_lengths > 1 else x[size]
        return x[:size].reshape(shape) * unit, unit * np.exp(log_ratio)

    def with_landmarks(x):
        landmarks, bandwidth = unpacked(x)
        return clone(model).set_params(
            landmarks=landmarks, bandwidth=bandwidth, bandwidth_scale=1.0
        )

    x = np.append((start.landmarks / unit).ravel(), np.zeros(n_lengths))
    best, best_x, rounds_without, steps, position = np.inf, x, 0, 0, ""
    bounds = [(None, None)] * size + [(-_MAX_LOG_CHANGE, _MAX_LOG_CHANGE)] * n_lengths
    with status("Learning landmarks", progress is None, after=10, detail=lambda: position):
        while True:
            training = with_landmarks(x).training_features(bags)
            shrinkage = shrinkage_model(model, training, y)
            scales, mode, _ = most_probable_scales(shrinkage)
            embedding = embed(held_out, training.feature_map)
            score = _held_out_nll(_coordinates(shrinkage), mode, scales, embedding, held_out_y)
            rounds_without = 0 if score < best else rounds_without + 1
            if score < best:
                best, best_x = score, x
            if steps >= max_iter or rounds_without == _PATIENCE:
                return with_landmarks(best_x)
            level, prior = shrinkage.level, shrinkage.prior_above_level
            loss = ProfiledLoss(model, bags, y - level, scales, prior)

            def loss_and_slope(x, loss=loss):
                value, by_landmarks, by_log_length = loss(*unpacked(x))
                if n_lengths == 1:
                    by_log_length = np.sum(by_log_length)
                return value, np.append((by_landmarks * unit).ravel(), by_log_length)

            position = f"step {steps}: held-out NLL {score:.4f}, best {best:.4f}"
            with status(position, bool(progress)):
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


def shrinkage_model(
    model: BDR | Shrinkage, training: TrainingFeatures, y: Array
) -> LatentGaussianModel:
    """The statistical model of an estimator on embedded bags."""
    with limited_blas():
        return bdr_model(
            training,
            y,
            embedding_prior=model.embedding_prior,
            prior=model.prior,
            lossless=model.compress,
        )


def _coordinates(model):
    return Coordinates.from_constants({name: value for name, (value, _) in model.constants.items()})


def _held_out_nll(coordinates, mode, scales, embedding, y):
    """Mean negative log density of labels given the most probable weights."""
    xi, nu = _moments(
        coordinates.transform(embedding.mean), embedding.sizes, coordinates.lam, mode, scales
    )
    return float(np.mean(0.5 * (np.log(2 * np.pi * nu) + (y - xi) ** 2 / nu)))


def _moments(z, sizes, lam, mode, scales):
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

    def __init__(
        self,
        model: BDR | Shrinkage,
        bags: Bags,
        y: Array,
        scales: dict[str, float],
        intercept_prior: tuple[float, float],
    ):
        self.model, self.bags, self.y, self.scales = clone(model), bags, y, scales
        self.intercept_prior = intercept_prior
        self.mode_found = None  # weights and intercept, where the next search starts

    def __call__(
        self, landmarks: Array, bandwidth: float | Array
    ) -> tuple[float, Array, float | Array]:
        """The loss at landmarks (d, p), its gradient by these, and by the log bandwidth."""
        model, y = self.model, self.y
        model.set_params(landmarks=landmarks, bandwidth=bandwidth, bandwidth_scale=1.0)
        training = model.training_features(self.bags)
        embedding = training.embedding
        with limited_blas():
            K, R, Sigma = landmark_matrices(training, embedding_prior="kernel")
            coordinates = joint_coordinates(embedding.m0, Sigma, R, K)
            z = coordinates.transform(embedding.mean)
            mode = self._mode(coordinates, K, z, embedding.sizes)
            by = _embedding_slopes(coordinates, mode, z, y, embedding.sizes, self.scales)
        alpha = coordinates.basis @ mode.theta[:-1]
        location, spread = self.intercept_prior
        value = (
            by.loss
            + 0.5 * alpha @ K @ alpha / self.scales["rho"] ** 2
            + 0.5 * ((mode.theta[-1] - location) / spread) ** 2
        )
        by_gram = by.gram + np.outer(alpha, alpha) / (2 * self.scales["rho"] ** 2)
        moves, stretches = _slopes_through_points(
            self.bags, training, by.mean, by.covariance, model.covariance, model.tau
        )
        gram_moves, gram_stretches = _kernel_slopes(
            by_gram * RBF(bandwidth)(landmarks, landmarks), landmarks, landmarks, bandwidth
        )
        moves += 2 * gram_moves  # each landmark has a row and a column of the symmetric matrix
        stretches += gram_stretches
        n = len(y)
        if np.ndim(bandwidth) == 0:
            stretches = stretches.sum()
        return value / n, moves / bandwidth / n, stretches / n

    def _mode(self, coordinates, K, z, sizes):
        rows = compress(z, self.y, sizes, lossless=self.model.compress)
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
class _EmbeddingSlopes:
    """Negative log likelihood, and its gradients by what depends on landmarks."""

    loss: float
    mean: Array  # by each bag's mean embedding, shape (n, d)
    covariance: Array  # by the within-bag covariance, shape (d, d)
    gram: Array  # by the kernel matrix K, as the embeddings' prior, shape (d, d)


def _embedding_slopes(coordinates, mode, z, y, sizes, scales):
    """Gradients of the negative log likelihood at fixed weights.

    With A = R + Sigma / N, R = eta K, a = A^-1 R alpha and v = mu - m0, the label of a bag has

        xi = intercept + a'v,      d xi = (alpha - a)' dR A^-1 v - a' (dSigma / N) A^-1 v + a' dv
        nu = alpha'R (alpha - a) + sigma^2,  d nu = (alpha - a)' dR (alpha - a) + a' (dSigma / N) a

    In the joint basis V, where V'RV = eta and V'Sigma V = lam, a = V (s w), A^-1 v = V (s z) / eta.
    """
    V, w, eta = coordinates.basis, mode.theta[:-1], scales["eta"]
    xi, nu = _moments(z, sizes, coordinates.lam, mode, scales)
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
    return _EmbeddingSlopes(
        0.5 * float(np.sum(np.log(2 * np.pi * nu) + error**2 / nu)),
        mean,
        _symmetric(V @ covariance @ V.T),
        eta * _symmetric(V @ gram @ V.T),
    )


def _symmetric(matrix):
    return (matrix + matrix.T) / 2


def _kernel_slopes(by_log_kernel, points, landmarks, bandwidth):
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


def _slopes_through_points(bags, training, by_mean, by_covariance, covariance, tau):
    """Gradients of mean embeddings and covariance, passed on to `_kernel_slopes` in one pass.

    The gradient by the features phi_ij of a point with weight w_ij in its bag is

        w_ij (by_mean_i / sum_j w_ij + 2 f_i by_covariance (phi_ij - mean_i))

    with f_i the factor of the bag's scatter in the covariance. The mean in that scatter also
    depends on phi_ij, but its derivative is zero: the mean minimises the scatter.
    """
    landmarks, bandwidth = training.landmarks, training.bandwidth
    embedding, feature_map = training.embedding, training.feature_map
    d = len(landmarks)
    factors = scatter_factors(bags, embedding.sizes, covariance, tau)
    if factors is None:
        factors = np.zeros(len(bags))
    constant = by_mean / bags.totals[:, None]  # the terms that are the same for all points of a bag
    constant -= 2 * factors[:, None] * (embedding.mean @ by_covariance)
    chunks = bags.chunks(max(16, _CHUNK_BYTES // (8 * d)))
    longest = max(chunk.stop - chunk.start for chunk in chunks)

    def run(task):
        phi, by_phi = np.empty((2, longest, d))
        moves, stretches = np.zeros_like(landmarks), np.zeros(landmarks.shape[1])
        for chunk in task:
            start, stop, bag = chunk.start, chunk.stop, chunk.bag
            points = bags.read(start, stop)
            n = stop - start
            values = feature_map(points, phi[:n])
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
    moves, stretches = zip(*map_in_threads(run, tasks, None), strict=True)
    return sum(moves), sum(stretches)
