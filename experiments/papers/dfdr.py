"""Distribution-free distribution regression: densities of bags, and smoothing in their distance.

No kernel means: the density of each bag is estimated separately, and the label of a
new bag is the average of the labels of bags with a similar density.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import Any, NamedTuple, Self

import numpy as np

from bdr_stan.bags import Bags, BagsLike, as_bags, check_labels
from bdr_stan.estimators.validation import check_choice, checked_validation
from bdr_stan.kernel_means.set_kernels import BagMeans
from bdr_stan.kernels import RBF, Kernel, check_bandwidth
from bdr_stan.parameters import estimator
from bdr_stan.types import Array, ArrayLike, Seed, check_counts
from experiments.papers.density_distances import (
    densities_at,
    l1_distances,
    l2_distances,
    overlap_kernel,
    smoothed_labels,
)
from experiments.papers.kernel_grids import set_kernels
from experiments.papers.on_bags import RegressorOnBags, Validation

# Bandwidths of the densities tried by default, as parts of the median rule, and of the smoothing,
# as parts of the median distance between the training bags' densities.
BANDWIDTHS = 2.0 ** np.arange(-5, 1)
SMOOTHINGS = 2.0 ** np.arange(-5, 1.25, 0.5)


@estimator
class DFDR(RegressorOnBags):
    """Kernel density estimate of each bag, and a weighted average of labels of similar bags.

        p_i(z) = mean_j normal(z | x_ij, h^2 I)
        f(B) = sum_i w_i y_i / sum_i w_i,  w_i = exp(-D(p_i, p_B)^2 / (2 b^2))

    Parameters
    ----------
    distance : {"l2", "l1"}, default "l2"
        D between densities: the root of the integrated squared difference, from all pairs of
        points exactly, or the integrated absolute difference, by importance sampling.
    bandwidths : sequence of float, optional
        h to try, > 0, in the units of the points; default 1/32, 1/16, .., 1 times the median rule
        on columns divided by their standard deviations, h then in these.
    n_samples : int, default 2000
        Points for the integrals of "l1", drawn from the average density of the training bags.
    random_state : int, optional
        Seed where `fit` gets none.

    Attributes
    ----------
    bandwidth_, smoothing_ : float
        h and b (as part of the median distance) chosen.
    table_ : pandas.DataFrame
        One row per h: bandwidth, smoothing, rmse; the best first.
    label_bandwidth_ : float
        b itself.

    Notes
    -----
    h and b are chosen by the squared error on validation bags, else by leave-one-out; b of 2^-5,
    2^-4.5, .., 2 times the median distance between the training bags' densities. "l2" omits a
    factor of all distances, on which the result does not depend. Source: Poczos, Singh, Rinaldo,
    Wasserman (2013), "Distribution-free distribution regression"; their weights have a bounded
    support, with which some bags have no neighbour.

    Examples
    --------
    >>> import numpy as np
    >>> from experiments.papers import DFDR
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=40)
    >>> bags = [rng.normal(mean, size=(50, 1)) for mean in y]
    >>> model = DFDR().fit(bags[:30], y[:30], seed=1)
    >>> bool(model.score(bags[30:], y[30:]) > 0.8)
    True
    """

    _: KW_ONLY
    distance: str = "l2"
    bandwidths: Sequence[float] | None = None
    n_samples: int = 2000
    random_state: int | None = None

    def fit(
        self, bags: BagsLike, y: ArrayLike, *, validation: Validation = None, seed: Seed = None
    ) -> Self:
        """Fit to bags and their labels, (n,); `seed` replaces `random_state`.

        `validation`, bags and labels, are those by whose squared error the bandwidths are chosen,
        by default leave-one-out. Unusable arguments raise ValueError or TypeError at once.
        """
        bags = as_bags(bags)
        y = check_labels(bags, y)
        self.check_parameters()
        rng = np.random.default_rng(self.seed_of(seed))
        together, held_out_y = bags, y
        if validation is not None:
            held_out, held_out_y = checked_validation(validation, bags)
            together = Bags.concatenate([bags, held_out])
        bandwidths, units = self.bandwidths, None
        if bandwidths is None:
            rule: Any = RBF().resolved(bags, seed=rng)
            bandwidths, units = BANDWIDTHS * rule.bandwidth, rule.units
        bandwidths = np.atleast_1d(bandwidths).astype(float)
        scores = []
        for h, distances, densities in self._distances(bags, together, bandwidths, units, rng):
            unit = _median_distance(distances[: len(bags)], h)
            if validation is None:
                np.fill_diagonal(distances, np.inf)  # which leaves the bag itself out
            else:
                distances = distances[len(bags) :]
            errors = [
                np.mean((smoothed_labels(distances, y, b * unit) - held_out_y) ** 2)
                for b in SMOOTHINGS
            ]
            best = int(np.argmin(errors))
            scores.append(
                _Score(
                    float(np.sqrt(errors[best])),
                    float(h),
                    float(SMOOTHINGS[best]),
                    unit,
                    densities,
                )
            )
        scores.sort(key=lambda score: score.rmse)
        chosen = scores[0]
        self.bandwidth_, self.smoothing_ = chosen.bandwidth, chosen.smoothing
        self.label_bandwidth_ = chosen.smoothing * chosen.unit
        self.table_ = _table(scores)
        self.densities_, self.labels_ = chosen.densities, y
        self.keep_record(bags)
        return self

    def predict(self, bags: BagsLike) -> Array:
        """Predicted label of each bag; array, shape (n,), units of y."""
        bags = self.like_training(bags)
        distances = self.densities_.distances(bags)
        return smoothed_labels(distances, self.labels_, self.label_bandwidth_)

    # ------------------------------------------------------------ parts of a fit

    def _distances(self, bags, together, bandwidths, units, rng):
        """For each bandwidth, distances of all bags from the first n, the training bags.

        Also the densities of the training bags, for predictions.
        """
        n = len(bags)
        if self.distance == "l2":
            grams = set_kernels(together, [overlap_kernel(h, units) for h in bandwidths])
            for h, gram in zip(bandwidths, grams, strict=True):
                squares = gram.diagonal().copy()  # without the matrix
                distances = l2_distances(gram[:, :n], squares, squares[:n])
                yield h, distances, _AllPairs(bags, overlap_kernel(h, units), squares[:n])
            return
        rows = rng.choice(len(bags.points), self.n_samples, p=bags.point_shares / n)
        centres = bags.read_rows(np.sort(rows))
        noise = rng.standard_normal((self.n_samples, bags.n_features))
        for h in bandwidths:
            samples = centres + h * (noise if units is None else noise * units)
            densities = densities_at(together, samples, h, units)
            average = densities[:n].mean(axis=0)
            densities /= average
            sampled = _Sampled(samples, h, units, average, densities[:n])
            yield h, l1_distances(densities, densities[:n]), sampled

    def check_parameters(self) -> None:
        """Raise ValueError for an invalid parameter."""
        check_choice(self.distance, "distance", ("l1", "l2"))
        if self.bandwidths is not None:
            if np.size(self.bandwidths) == 0:
                raise ValueError("bandwidths is empty: give at least one number")
            for value in np.atleast_1d(self.bandwidths):
                check_bandwidth(value, "bandwidths")
        check_counts(n_samples=self.n_samples)


class _AllPairs(NamedTuple):
    """Densities of training bags for the L2 distance, which takes all pairs of points."""

    bags: Bags
    kernel: Kernel
    squared_norms: Array  # (n,)

    def distances(self, bags):
        """Distances of the densities of m bags from these, shape (m, n)."""
        return l2_distances(
            set_kernels(bags, [self.kernel], self.bags)[0],
            BagMeans(bags, self.kernel).squared_norms(),
            self.squared_norms,
        )


class _Sampled(NamedTuple):
    """The same for the L1 distance, at samples of the average density."""

    samples: Array  # (n_samples, p)
    bandwidth: float
    units: Array | None  # (p,)
    average: Array  # density at the samples, (n_samples,)
    densities: Array  # of the bags, relative to the average, (n, n_samples)

    def distances(self, bags):
        """Distances of the densities of m bags from these, shape (m, n)."""
        densities = densities_at(bags, self.samples, self.bandwidth, self.units)
        return l1_distances(densities / self.average, self.densities)


class _Score(NamedTuple):
    """A bandwidth of the densities with the best smoothing."""

    rmse: float
    bandwidth: float
    smoothing: float  # as part of `unit`
    unit: float  # median distance between the training bags' densities
    densities: _AllPairs | _Sampled


def _median_distance(distances, bandwidth):
    """Median distance between the training bags' densities."""
    median = np.median(distances[np.triu_indices(len(distances), 1)])
    if not median > 0:
        raise ValueError(
            f"most bags have the same density at bandwidth {bandwidth:g}: leave this bandwidth out"
        )
    return float(median)


def _table(scores):
    import pandas as pd

    rows = [(score.bandwidth, score.smoothing, score.rmse) for score in scores]
    return pd.DataFrame(rows, columns=["bandwidth", "smoothing", "rmse"])
