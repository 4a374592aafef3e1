"""Cross-validation folds of bags: shuffled, or spatial regions."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.model_selection import BaseCrossValidator, KFold, StratifiedKFold, check_cv

from bdr_stan.aggregate.rows import mean_points
from bdr_stan.bags import Bags, BagsLike, as_bags
from bdr_stan.estimators.validation import check_folds
from bdr_stan.types import Array, check_seed, is_integer

__all__ = ["SpatialBlocks"]


class SpatialBlocks(BaseCrossValidator):
    """Spatial block cross-validation of bags, as a scikit-learn splitter.

    Random folds estimate the error for a bag with known neighbours, for example a district that
    sent no report. Whole regions estimate the error far from known bags, for example in maps of
    unsurveyed areas; use them if bags near each other have similar labels.

    Parameters
    ----------
    n_splits : int, default 5
        Number of regions, each held out once.
    columns : pair of str or int, default ("lon", "lat")
        Coordinate columns of the points, in the same unit, by name or number.
    random_state : int, default 0
        Seed of k-means.

    Notes
    -----
    The location of a bag is the weighted mean of its points in the two columns. Regions are
    clusters of these locations by scikit-learn's k-means, so their numbers of bags differ. Bags
    near a border still have neighbours across it. Use it as `cv` in scikit-learn and in
    `bdr_stan.tune`. Source: Roberts et al. (2017), "Cross-validation strategies for data with
    temporal, spatial, hierarchical, or phylogenetic structure".

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import Bags, SpatialBlocks
    >>> islands = np.repeat([[0, 0], [0, 9], [9, 0], [9, 9]], 100, axis=0)
    >>> points = islands + np.random.default_rng(0).uniform(size=(400, 2))
    >>> bags = Bags.from_points(points, sizes=[10] * 40, features=["lon", "lat"])
    >>> [len(held_out) for _, held_out in SpatialBlocks(n_splits=4).split(bags)]
    [10, 10, 10, 10]
    """

    def __init__(
        self,
        n_splits: int = 5,
        columns: Sequence[str | int] = ("lon", "lat"),
        *,
        random_state: int = 0,
    ):
        self.n_splits = n_splits
        self.columns = columns
        self.random_state = random_state

    def split(
        self, bags: BagsLike, y: Any = None, groups: Any = None
    ) -> Iterator[tuple[Array, Array]]:
        """Indices of training and of held-out bags, int arrays, region by region.

        `bags` are Bags, or a list of n arrays, shapes (n_points, p); `y` and `groups` are ignored.
        Raises ValueError or TypeError for invalid settings, an unknown column, or fewer distinct
        locations than regions.
        """
        regions = self.regions(bags)
        for k in range(self.n_splits):
            yield np.flatnonzero(regions != k), np.flatnonzero(regions == k)

    def get_n_splits(self, bags: Any = None, y: Any = None, groups: Any = None) -> int:
        """Number of regions; `bags`, `y` and `groups` are not used, as in scikit-learn."""
        return self.n_splits

    def regions(self, bags: BagsLike) -> Array:
        """Number of the region of each bag, from 0; int array, shape (n,). Raises as `split`."""
        if not is_integer(self.n_splits) or self.n_splits < 2:
            raise ValueError(f"n_splits must be an integer >= 2, found {self.n_splits!r}")
        check_seed(self.random_state)
        centres = bag_centres(as_bags(bags), self.columns)
        n_places = len(np.unique(centres, axis=0))
        if n_places < self.n_splits:
            raise ValueError(
                f"n_splits is {self.n_splits}, but the bags have {n_places} distinct locations: "
                "choose at most as many regions"
            )
        kmeans = KMeans(self.n_splits, n_init=10, random_state=self.random_state)
        return kmeans.fit_predict(centres)


def bag_centres(bags: Bags, columns: Sequence[str | int]) -> Array:
    """Locations of bags, (n, 2): weighted means of points in two `columns`, names or numbers."""
    if isinstance(columns, str) or not np.iterable(columns) or len(list(columns)) != 2:
        raise TypeError(f"columns must be two names or numbers of columns, found {columns!r}")
    names = list(bags.features or [])
    number: dict[Any, int] = {name: k for k, name in enumerate(names)}
    number |= {k: k for k in range(bags.n_features)}
    for column in columns:
        if column not in number:
            listed = ", ".join(names) or f"numbers 0 to {bags.n_features - 1}"
            raise ValueError(
                f"the points have no column {column!r} for the locations of bags: choose "
                f"columns=(x, y) from {listed}"
            )
    return mean_points(bags).points[:, [number[column] for column in columns]]


def shuffled_folds(cv: Any, y: Array, classes: bool, seed: int) -> Any:
    """A splitter; a number of folds is shuffled, as bags may be sorted; of `classes` by strata."""
    check_folds(cv, len(y))
    if not isinstance(cv, (int, np.integer)):
        return check_cv(cv, y, classifier=classes)
    kind = StratifiedKFold if classes else KFold
    return kind(cv, shuffle=True, random_state=seed)
