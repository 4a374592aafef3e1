"""Ridge regression on mean embeddings: the baselines that know no uncertainty.

The weights are those of least squares with an L2 penalty, in closed form for a whole grid of
penalties from one singular value decomposition of the training embeddings.
"""

from dataclasses import dataclass

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import RegressorMixin
from threadpoolctl import threadpool_limits

from bdr_stan.bags import as_bags, check_labels
from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.kernel_means.kernel_mean import f_kmse, gram_means, s_kmse_shrinkage
from bdr_stan.kernels import draw_frequencies, features_of, rbf
from bdr_stan.estimators.base import DistributionModel
from bdr_stan.results.groups import named_groups

# Penalties tried by default, as parts of the largest squared singular value: four a decade.
_PENALTIES = np.geomspace(1e-12, 1, 49)


class RidgePath:
    """Least squares of y on x with intercept and penalty alpha |beta|^2, for any alpha.

    Parameters
    ----------
    x : array, shape (n, d)
    y : array, shape (n,)

    Attributes
    ----------
    origin : array, shape (d,), average row of x
    level : float, average of y: the prediction at the origin
    largest : float, largest squared singular value of x - origin
    """

    def __init__(self, x, y):
        self.origin, self.level = x.mean(axis=0), float(y.mean())
        left, singular, right = np.linalg.svd(x - self.origin, full_matrices=False)
        kept = singular > singular[0] * max(x.shape) * np.finfo(float).eps
        self._left, self._singular, self._right = left[:, kept], singular[kept], right[kept]
        self._pull = self._left.T @ (y - self.level)
        self._rest = y - self.level - self._left @ self._pull
        self.largest = float(singular[0] ** 2)

    def weights(self, alphas):
        """beta for each of the penalties, shape (l,) and > 0; array, shape (d, l)."""
        s = self._singular[:, None]
        return self._right.T @ (s * self._pull[:, None] / (s**2 + alphas))

    def leave_one_out(self, alphas):
        """Mean squared error for each row of x predicted from the others; array, shape (l,)."""
        shrunk = alphas / (self._singular[:, None] ** 2 + alphas)
        residual = self._rest[:, None] + self._left @ (shrunk * self._pull[:, None])
        # 1 - leverage, as a sum of what is left of each direction; 1 / n is the intercept's.
        outside = 1 - 1 / len(self._rest) - np.sum(self._left**2, axis=1)
        free = np.maximum(outside, 0)[:, None] + self._left**2 @ shrunk
        return np.mean((residual / free) ** 2, axis=0)


class RBFNetwork(RegressorMixin, DistributionModel):
    """Ridge regression on the mean embeddings of bags: point predictions, and quick.

    Takes each bag's mean embedding as exact, however few its points, and gives no predictive
    distribution: use `BDR` for one.

    Parameters
    ----------
    n_landmarks : int, default 60
        Landmarks, or frequencies where ``features="fourier"``.
    bandwidth : float, array of shape (p,), or "median", default "median"
        In the units of the points; "median" is sqrt(median squared distance / 2).
    features : {"landmarks", "fourier"}, default "landmarks"
        Gaussian kernel at the landmarks, or random Fourier features of that kernel, a cosine
        and a sine for each frequency.
    alpha : "loo", float or sequence of float, default "loo"
        Penalty on the squared weights, > 0; the intercept is free. Of several the one with the
        lowest squared error on the validation bags of `fit`, else of leave-one-out
        cross-validation. "loo": of 49 from 10^-12 to 1 times the largest squared singular value
        of the centred training embeddings.
    bandwidth_scale : float, default 1
        Factor on the bandwidth.
    landmarks : {"kmeans", "random"} or array, shape (d, p), default "kmeans"
    random_state : int, optional
        Seed where `fit` gets none.

    Attributes
    ----------
    alpha_ : float
        Penalty chosen.
    idata : InferenceData or DataTree
        posterior: intercept (units of y) and beta (landmark), a single draw that is the
        estimate; its attribute inference_method is "ridge".
    landmarks_ : array, shape (d, p)
        The frequencies where ``features="fourier"``.
    bandwidth_ : float or array, shape (p,)

    Notes
    -----
    Minimises sum_i (y_i - intercept - (mu_i - m0)' beta)^2 + alpha |beta|^2, m0 the average
    training embedding. Source: Law et al. (2018), section 5, the RBF network, which they fit by
    stochastic gradients.
    """

    def __init__(
        self,
        n_landmarks=60,
        bandwidth="median",
        *,
        features="landmarks",
        alpha="loo",
        bandwidth_scale=1.0,
        landmarks="kmeans",
        random_state=None,
    ):
        self.n_landmarks = n_landmarks
        self.bandwidth = bandwidth
        self.features = features
        self.alpha = alpha
        self.bandwidth_scale = bandwidth_scale
        self.landmarks = landmarks
        self.random_state = random_state

    def fit(self, bags, y, *, validation=None, seed=None):
        """Fit to bags and their labels.

        Parameters
        ----------
        bags : Bags, or list of n arrays, shapes (n_points, p)
        y : array, shape (n,)
            Label of each bag.
        validation : (bags, y), optional
            Bags and labels by whose squared error alpha is chosen.
        seed : int, optional
            Seed of landmarks and bandwidth; default `random_state`.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            Unusable bags, labels or parameters; raised before any work starts.
        """
        bags = as_bags(bags)
        y = self.check_labels(bags, y)
        self._check_parameters()
        self._check_bags(bags)
        if validation is not None:
            held = as_bags(validation[0])
            held_y = self.check_labels(held, validation[1])
            self._check_bags(held)
            self._check_validation()
            if held.n_features != bags.n_features:
                raise ValueError(
                    f"the validation bags have {held.n_features} features a point, but the "
                    f"training bags {bags.n_features}: pass the same columns in the same order"
                )
        seed = self.random_state if seed is None else seed
        features = self.training_features(bags, seed=seed)
        if validation is not None:
            validation = self._embed(held, features.landmarks, features.bandwidth), held_y
        return self.fit_features(features, y, validation=validation)

    def fit_features(self, features, y, *, validation=None, seed=None):
        """Fit to embedded bags.

        Parameters
        ----------
        features : TrainingFeatures, from `training_features`
        y : array, shape (n,)
        validation : (Embedding, y), optional
            Embedded bags and labels by whose squared error alpha is chosen.
        seed : int, optional
            Not used, as nothing is drawn; the other estimators take one.

        Returns
        -------
        self
        """
        self._adopt(features)
        y = np.asarray(y, float)
        path = RidgePath(self._means(features.embedding), y)
        alphas = self._alphas(path)
        weights = path.weights(alphas)
        best = 0
        if validation is not None:
            self._check_validation()
            held, held_y = validation
            predicted = path.level + (self._means(held) - path.origin) @ weights
            error = np.mean((predicted - np.asarray(held_y, float)[:, None]) ** 2, axis=0)
            best = int(np.argmin(error))
        elif len(alphas) > 1:
            best = int(np.argmin(path.leave_one_out(alphas)))
        self.alpha_ = float(alphas[best])
        row = "frequency" if self.features == "fourier" else "landmark"
        self._groups = named_groups(
            {"intercept": np.full((1, 1), path.level), "beta": weights[None, None, :, best]},
            {},
            {"inference_method": "ridge"},
            {
                "landmarks": (self.landmarks_, [row, "feature"]),
                "m0": (path.origin, ["landmark"]),
                "alpha": (self.alpha_, []),
                **self._bag_constants(features.embedding),
            },
            features.ids,
            y,
        )
        return self

    def predict(self, bags):
        """Predicted label of each bag.

        Parameters
        ----------
        bags : Bags, or list of n arrays, shapes (n_points, p)

        Returns
        -------
        array, shape (n,), units of y
        """
        return self.predict_features(self._embedding(bags))

    def predict_features(self, embedding):
        """Predicted labels of bags embedded at the landmarks of the fit; array, shape (n,)."""
        estimate, m0 = self._groups["posterior"], self._groups["constant_data"]["m0"].values
        beta = estimate["beta"].values[0, 0]
        return estimate["intercept"].values[0, 0] + (self._means(embedding) - m0) @ beta

    def check_labels(self, bags, y):
        """Labels as an array, once they are known to be of use; see `bags.check_labels`."""
        return check_labels(bags, y)

    # ------------------------------------------------------------ parts of a fit

    def _check_parameters(self):
        super()._check_parameters()
        if self.features not in ("landmarks", "fourier"):
            raise ValueError(f"features must be 'landmarks' or 'fourier', found {self.features!r}")
        if self.features == "fourier" and not isinstance(self.landmarks, str):
            raise ValueError("features='fourier' has no landmarks: leave them out")
        if isinstance(self.alpha, str) and self.alpha == "loo":
            return
        try:
            alphas = np.atleast_1d(np.asarray(self.alpha, float))
        except (TypeError, ValueError):
            alphas = np.array([])
        if alphas.ndim != 1 or len(alphas) == 0 or not np.all((alphas > 0) & (alphas < np.inf)):
            raise ValueError(
                f"alpha must be 'loo', a positive number or several, found {self.alpha!r}"
            )

    def _check_bags(self, bags):
        """Raise where the model cannot use bags of this kind."""

    def _check_validation(self):
        if np.isscalar(self.alpha) and self.alpha != "loo":
            raise ValueError(
                f"validation chooses alpha, but alpha is {self.alpha!r}: leave one of them out"
            )

    def _alphas(self, path):
        if isinstance(self.alpha, str):
            return _PENALTIES * (path.largest or 1.0)  # 0 where all bags are the same
        return np.atleast_1d(np.asarray(self.alpha, float))

    def _choose_landmarks(self, bags, seed):
        if self.features == "landmarks":
            return super()._choose_landmarks(bags, seed)
        if not isinstance(self.n_landmarks, (int, np.integer)) or self.n_landmarks < 1:
            raise ValueError(f"n_landmarks must be an integer >= 1, found {self.n_landmarks!r}")
        return draw_frequencies(self.n_landmarks, bags.n_features, seed=seed)

    @property
    def kernel(self):
        """What `embed` calls the features: "rbf" or "fourier"."""
        return "fourier" if self.features == "fourier" else "rbf"

    def _means(self, embedding):
        return embedding.mean

    def _bag_constants(self, embedding):
        return {"bag_size": (embedding.sizes, ["bag"])}

    def _restore(self, idata, config):
        super()._restore(idata, config)
        self.alpha_ = float(self._groups["constant_data"]["alpha"])
        return self


@dataclass(frozen=True)
class ShrunkEmbedding(Embedding):
    """Embedding whose means are shrunk.

    shrinkage : array, shape (n,)
        lambda of each bag.
    """

    shrinkage: np.ndarray


def shrink_embedding(
    embedding, bags, landmarks, bandwidth, *, kernel="rbf", estimator="s-kmse", n_jobs=None
):
    """Shrink the kernel mean of each bag, and embed the result.

    Parameters
    ----------
    embedding : Embedding, of `bags` by `embed` with the same landmarks, bandwidth and kernel
    bags : Bags, without weights
    landmarks : array, shape (d, p)
        Frequencies where `kernel` is "fourier".
    bandwidth : float or array, shape (p,)
    kernel : str
        As for `embed`.
        Features of the embedding. How much to shrink always comes from the Gaussian kernel.
    estimator : {"s-kmse", "f-kmse"}
        See `bdr_stan.kernel_means.kernel_mean`. "s-kmse" takes time in proportion to N_i^2 and little memory;
        "f-kmse" time N_i^3 and memory 50 N_i^2 bytes: about 0.3 s for 1000 points.
    n_jobs : int, optional
        Number of threads, default all cores; each works on a bag of its own.

    Returns
    -------
    ShrunkEmbedding
        A bag of one point keeps its mean.
    """
    prepare, evaluate = features_of(kernel)
    basis = prepare(landmarks, bandwidth)

    def gaussian(x, y):
        return rbf(x, y, bandwidth)

    def points_of(i):
        return bags.read(bags.offsets[i], bags.offsets[i + 1])

    def simple(i):
        points = points_of(i)
        shrinkage = s_kmse_shrinkage(len(points), *gram_means(points, gaussian))
        return embedding.mean[i] / (1 + shrinkage), shrinkage

    def flexible(i):
        points = points_of(i)
        weights, shrinkage = f_kmse(gaussian(points, points))
        features = evaluate(points, basis, np.empty((len(points), basis.n_columns)))
        return weights @ features, shrinkage

    shrink = delayed(simple if estimator == "s-kmse" else flexible)
    with threadpool_limits(1, user_api="blas"):
        threads = Parallel(-1 if n_jobs is None else n_jobs, require="sharedmem")
        means, shrinkage = zip(*threads(shrink(i) for i in range(len(bags))))
    bags.release()
    return ShrunkEmbedding(
        embedding.sizes, np.array(means), embedding.covariance, np.array(shrinkage)
    )


class FreqShrinkage(RBFNetwork):
    """Ridge regression on shrunk mean embeddings: each bag's kernel mean moves towards zero.

    How far is chosen for each bag by itself, at prediction as in the fit, by the leave-one-out
    score of its kernel mean; labels and the other bags play no part. A bag of one point stays
    unshrunk. Points count equally: bags with weights are refused.

    Parameters
    ----------
    estimator : {"s-kmse", "f-kmse"}, default "s-kmse"
        "s-kmse": one factor a bag, at a cost of N_i^2. "f-kmse": one factor for each principal
        direction of the bag's points, at a cost of N_i^3 in time and N_i^2 in memory.
    n_landmarks, bandwidth, features, alpha, bandwidth_scale, landmarks, random_state
        As for `RBFNetwork`.

    Attributes
    ----------
    shrinkage_ : array, shape (n,)
        lambda of each training bag; in constant_data too.
    alpha_, idata, landmarks_, bandwidth_
        As for `RBFNetwork`.

    Source: Law et al. (2018), section 5, with the estimators of Muandet et al. (2014).
    """

    def __init__(
        self,
        n_landmarks=60,
        bandwidth="median",
        *,
        estimator="s-kmse",
        features="landmarks",
        alpha="loo",
        bandwidth_scale=1.0,
        landmarks="kmeans",
        random_state=None,
    ):
        super().__init__(
            n_landmarks,
            bandwidth,
            features=features,
            alpha=alpha,
            bandwidth_scale=bandwidth_scale,
            landmarks=landmarks,
            random_state=random_state,
        )
        self.estimator = estimator

    @property
    def shrinkage_(self):
        return self._groups["constant_data"]["shrinkage"].values

    def _check_parameters(self):
        super()._check_parameters()
        if self.estimator not in ("s-kmse", "f-kmse"):
            raise ValueError(f"estimator must be 's-kmse' or 'f-kmse', found {self.estimator!r}")

    def _check_bags(self, bags):
        if bags.weights is not None:
            raise ValueError(
                f"{type(self).__name__} counts points equally, but the bags have weights: leave "
                "them out, or use RBFNetwork"
            )

    def _embed(self, bags, landmarks, bandwidth, **options):
        self._check_bags(bags)
        plain = super()._embed(bags, landmarks, bandwidth, **options)
        return shrink_embedding(
            plain, bags, landmarks, bandwidth, kernel=self.kernel, estimator=self.estimator
        )

    def _means(self, embedding):
        if not isinstance(embedding, ShrunkEmbedding):
            raise TypeError(
                f"the embedding is not shrunk: use {type(self).__name__}.training_features, or "
                "shrink_embedding"
            )
        return embedding.mean

    def _bag_constants(self, embedding):
        return {**super()._bag_constants(embedding), "shrinkage": (embedding.shrinkage, ["bag"])}
