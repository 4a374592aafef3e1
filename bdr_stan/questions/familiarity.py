"""Whether new bags are like the training bags, whatever their size: docs/validation/familiarity.md.

With z the coordinates in which covariances are diagonal, between bags 1 and within bags lambda, the
distance is d^2 = sum_k z_k^2 / (1 + lambda_k / N). Its distribution is that of training bags held
out of the covariances, one per class of bag sizes: small bags are least normal.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy.stats import binom
from sklearn.utils.validation import check_is_fitted

from bdr_stan.bags import BagsLike
from bdr_stan.bags.samples import check_one_sample
from bdr_stan.embedding.coordinates import SavedArrays
from bdr_stan.embedding.mean_embedding import Embedding, embed
from bdr_stan.embedding.prior import landmark_matrices
from bdr_stan.embedding.shrinkage import joint_basis
from bdr_stan.embedding.training import TrainingFeatures
from bdr_stan.predictive.distributions import table_of_bags
from bdr_stan.questions.protocol import Fit, check_has_bags
from bdr_stan.types import Array, DataFrame

_MIN_BAGS = 20  # with fewer no bag could be an outlier at the 5% level
_MOST_DISTANCES = 20_000  # for computing distances
_FOLDS = 10  # more change nothing
_BAGS_PER_CLASS = 30
_MOST_SIZE_CLASSES = 10
_LEVELS = np.unique(np.r_[np.geomspace(1e-6, 1, 121), 0.05, 0.01, 0.001])[::-1]
_TAIL = 0.1  # share of the distances for estimating the decay beyond the largest
UNFAMILIAR = 0.001
# A share of unfamiliar bags due to errors of the tail; and probability of more by chance.
_MOST_BY_ERROR = _MOST_BY_CHANCE = 0.005


@dataclass(frozen=True)
class Familiarity(SavedArrays):
    """Distances of bags from the training bags, and their distribution for training bags."""

    saved: ClassVar = {
        "m0": ("familiarity_m0", "landmark"),
        "basis": ("familiarity_basis", "landmark", "familiarity_component"),
        "lam": ("familiarity_lambda", "familiarity_component"),
        "first_sizes": ("familiarity_size", "size_class"),
        "at_levels": ("familiarity_distance", "size_class", "familiarity_level"),
    }

    m0: Array  # average embedding of the training bags, shape (d,)
    basis: Array  # z = (mu - m0) basis, shape (d, d)
    lam: Array  # within-bag variance of each coordinate, between bags 1, shape (d,)
    first_sizes: Array  # smallest effective size of each class, shape (C,)
    at_levels: Array  # d^2 that bags of each class exceed with probability _LEVELS, shape (C, L)

    @classmethod
    def from_training(cls, training: TrainingFeatures) -> Self | None:
        """That of these bags; None for too few, or without embeddings and covariance."""
        embedding = training.embedding
        if not isinstance(embedding, Embedding) or embedding.covariance is None:
            return None
        if len(embedding.sizes) < _MIN_BAGS:
            return None
        order = np.argsort(np.sum(embedding.deviations.rows**2, axis=1), kind="stable")
        some = np.linspace(0, len(order) - 1, min(len(order), _MOST_DISTANCES)).astype(int)
        embedding = embedding.take(order[some])
        training = replace(training, embedding=embedding)
        distances, fold = np.empty(len(some)), np.arange(len(some)) % _FOLDS
        for k in range(_FOLDS):
            others = replace(training, embedding=embedding.take(fold != k))
            distances[fold == k] = _squared(*_space(others), embedding.take(fold == k))
        sizes, first = embedding.sizes, _first_sizes(embedding.sizes)
        classes = _class_of(first, sizes)
        at_levels = [_quantiles(distances[classes == c]) for c in range(len(first))]
        return cls(*_space(training), first, np.array(at_levels))

    def distance(self, embedding: Embedding) -> Array:
        """Root mean square of the coordinates in standard deviations, shape (n,)."""
        return np.sqrt(_squared(self.m0, self.basis, self.lam, embedding) / len(self.lam))

    def p_values(self, embedding: Embedding) -> Array:
        """Probability that a bag like the training bags is as far from their average, (n,)."""
        squared = _squared(self.m0, self.basis, self.lam, embedding)
        classes = _class_of(self.first_sizes, embedding.sizes)
        p = np.empty(len(squared))
        for c, values in enumerate(self.at_levels):
            members = classes == c
            p[members] = np.exp(np.interp(squared[members], values, np.log(_LEVELS)))
        return p

    @classmethod
    def from_constants(cls, constants: Mapping[str, Array], **others: Any) -> Any:
        """The object from the arrays that a fit keeps; None if there are none."""
        return super().from_constants(constants) if "familiarity_m0" in constants else None


class Familiar(Fit):
    """Detection of out-of-distribution bags."""

    def familiarity(self: Any, bags: BagsLike) -> DataFrame:
        """P-values that detect out-of-distribution bags, from distances to the training bags.

        A bag like the training bags has a p-value of at most 0.05 with probability 0.05, whatever
        its size. Out-of-distribution bags are detected if they have enough points.

        Parameters
        ----------
        bags : Bags, PartitionedBags, or list of n arrays, shapes (n_points, p)

        Returns
        -------
        pandas DataFrame of n rows, indexed by the bags' ids under their column's name
            familiarity, the p-value: about 5 of 100 bags like the training bags are below 0.05; and
            distance, from the average training bag in standard deviations of training bags of the
            same size, about 1 for most of them.

        Raises
        ------
        ValueError
            The fit was to fewer than 20 bags, to bags of one point each, to bags in partitions by
            BLR or with more embeddings than are kept, or saved by an earlier version.
        TypeError
            The bags have several samples.

        Notes
        -----
        Distances are Mahalanobis distances; the covariance is between-bag plus within-bag
        covariance over the bag's size. P-values are ranks among n training bags of similar size,
        each held out of the covariances; below 1 / (n + 1) the tail is extrapolated, down to 1e-6.
        Each concerns one bag, and only its points: neither labels nor covariates enter.
        """
        check_is_fitted(self, "result_")
        self._check_familiarity()
        bags = self.like_training(bags)
        embedding, distances = embed(bags, self.feature_map_), self.training_distances
        columns = {
            "familiarity": distances.p_values(embedding),
            "distance": distances.distance(embedding),
        }
        return table_of_bags(bags, columns)

    @property
    def has_familiarity(self) -> bool:
        """Whether the fit keeps the distances that `familiarity` needs."""
        return self.training_distances is not None

    @property
    def training_distances(self: Any) -> Familiarity | None:
        """Distances of the training bags from their average, if the fit keeps them."""
        fitted = vars(self).get("result_")
        return None if fitted is None else Familiarity.from_constants(fitted.constants)

    def _check_familiarity(self: Any) -> None:
        """Raise if the fit keeps nothing to compare new bags with."""
        if self.has_familiarity:
            return
        what = "familiarity needs bags with one sample, but the model was fitted to several"
        check_one_sample(self.result_, f"{what}: fit one of the samples", TypeError)
        check_has_bags(self, "familiarity")
        n = len(self.result_.labels)
        if n < _MIN_BAGS:
            raise ValueError(f"the fit is to {n} bags, but familiarity needs at least {_MIN_BAGS}")
        raise ValueError(
            "the fit did not store the training distances that familiarity needs, like fits of BLR "
            "to bags in partitions, of embeddings too many to keep, to bags of one point each, and "
            "of earlier versions: fit again to bags in memory, such as a sample of them"
        )


def too_many_unfamiliar(p_values: Array) -> int:
    """Number of bags with p-values of at most `UNFAMILIAR`; 0 if chance explains it."""
    n = int(np.sum(p_values <= UNFAMILIAR))
    return n if binom.sf(n - 1, len(p_values), _MOST_BY_ERROR) <= _MOST_BY_CHANCE else 0


def _space(training: TrainingFeatures) -> tuple[Array, Array, Array]:
    """m0, basis and lambda of the bags by moments."""
    _, R, Sigma = landmark_matrices(training)
    lam, basis = joint_basis(Sigma, R)
    return training.embedding.m0, basis, lam


def _squared(m0, basis, lam, embedding):
    """d^2 of each bag, shape (n,)."""
    z = (embedding.mean - m0) @ basis
    return np.sum(z**2 / (1 + lam / embedding.sizes[:, None]), axis=1)


def _first_sizes(sizes):
    """Smallest size of each class: about as many bags in each, and equal sizes together."""
    n, ordered, starts = len(sizes), np.sort(sizes), [0]
    n_classes = int(np.clip(n // _BAGS_PER_CLASS, 1, _MOST_SIZE_CLASSES))
    for cut in np.arange(1, n_classes) * n // n_classes:
        start = int(np.searchsorted(ordered, ordered[cut]))
        if min(start - starts[-1], n - start) >= _BAGS_PER_CLASS // 2:
            starts.append(start)
    return ordered[starts]


def _class_of(first_sizes, sizes):
    return np.maximum(np.searchsorted(first_sizes, sizes, side="right") - 1, 0)


def _quantiles(distances):
    """Distances that another one exceeds with probability _LEVELS, by their ranks, shape (L,).

    Beyond the largest log d^2, with Hill's (1975) estimate from the k largest, is Lomax: p ~ (S +
    t)^-k, t above the (k + 1)th largest, with sum S over the k largest.
    """
    n, largest = len(distances), np.maximum(np.sort(distances)[::-1], np.finfo(float).tiny)
    n_tail = max(5, int(_TAIL * n))
    excess = np.log(largest[:n_tail] / largest[n_tail])
    of_ranks = np.arange(1, n + 1) / (n + 1)
    values = np.interp(np.log(_LEVELS[::-1]), np.log(of_ranks), largest)[::-1]
    beyond = np.maximum(1 / ((n + 1) * _LEVELS), 1)
    return values * np.exp((excess.sum() + excess[0]) * (beyond ** (1 / n_tail) - 1))
