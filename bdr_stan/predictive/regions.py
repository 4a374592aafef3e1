"""Regions of the labels of new bags: intervals and their unions, or sets of classes."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from bdr_stan.bags.matching import match_to_ids
from bdr_stan.predictive.classes import class_codes
from bdr_stan.predictive.mixture import label_numbers
from bdr_stan.types import Array, ArrayLike, DataFrame


@dataclass(frozen=True, repr=False)
class ConformalRegions:
    """Base: regions of the labels of n bags; for the attributes see its subclasses."""

    level: float
    size_class: Array
    n_like: Array
    sizes_like: Array
    pareto_k: Array
    ids: Array | None
    id_name: str

    def __len__(self) -> int:
        return len(self.size_class)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({len(self)} bags, level {self.level:g}, "
            f"{len(np.unique(self.size_class))} size classes; to_dataframe(), contains(y))"
        )

    def to_dataframe(self) -> "DataFrame":
        """The regions in a table with one row per bag.

        Returns
        -------
        pandas DataFrame of n rows, indexed by the bags' ids
            For numbers lower, upper and the number of pieces, for classes labels; size_class; sizes
            of the training bags in this class; n_like; pareto_k.
        """
        import pandas as pd

        ids = np.arange(len(self)) if self.ids is None else self.ids
        columns = {
            **self._columns(),
            "size_class": self.size_class,
            "sizes": [f"{low:.4g} to {high:.4g}" for low, high in self.sizes_like],
            "n_like": self.n_like,
            "pareto_k": self.pareto_k,
        }
        return pd.DataFrame(columns, index=pd.Index(ids, name=self.id_name))

    def contains(self, y: ArrayLike) -> Array:
        """Whether each label is in its bag's region.

        Parameters
        ----------
        y : array, shape (n,), or Series, which is matched to the ids of the bags

        Returns
        -------
        array of bool, shape (n,)

        Raises
        ------
        ValueError : another number of labels than bags, or a label that is not a class.
        """
        values = np.asarray(match_to_ids(y, self.ids))
        if values.shape != (len(self),):
            raise ValueError(f"y has shape {values.shape}, but there are {len(self)} bags")
        return self._contain(values)

    def _columns(self) -> dict[str, Any]:
        raise NotImplementedError

    def _contain(self, y: Array) -> Array:
        raise NotImplementedError


@dataclass(frozen=True, repr=False)
class ConformalIntervals(ConformalRegions):
    """Regions of labels that are numbers: an interval per bag, or a union of intervals.

    Attributes
    ----------
    level : float
        Coverage, at least, if bags are exchangeable within their size classes.
    size_class : array, shape (n,)
        Class of sizes of each bag; 1 has the smallest bags.
    n_like, sizes_like : arrays, shapes (n,) and (n, 2)
        Number, and smallest and largest size, of the training bags in this class.
    pareto_k : array, shape (n,)
        Pareto k-hat of the weights that add a bag to the fit, the larger one of both ends of its
        region. Above 0.7 the region is unreliable. NaN if there are no weights.
    ids, id_name : array, shape (n,), or None, and str
        Ids of the bags.
    pieces : list of n arrays, shapes (r, 2)
        Ends of the intervals that form the region. It may be empty (no intervals) if even the best
        label of a bag agrees less with the model than most training labels.
    lower, upper : arrays, shape (n,), units of y
        Ends of the region; NaN if it is empty.

    Examples
    --------
    >>> from bdr_stan import BLR
    >>> from bdr_stan.datasets import digits_bags
    >>> bags, y = digits_bags(60, seed=1)
    >>> model = BLR(5, method="exact").fit(bags[:40], y[:40], seed=1)
    >>> regions = model.conformal(bags[40:], level=0.9)
    >>> regions
    ConformalIntervals(20 bags, level 0.9, 1 size classes; to_dataframe(), contains(y))
    >>> bool(regions.contains(y[40:]).mean() > 0.7)
    True
    """

    pieces: list[Array]

    @property
    def lower(self) -> Array:
        """Lower end of each region."""
        return np.array([p[0, 0] if len(p) else np.nan for p in self.pieces])

    @property
    def upper(self) -> Array:
        """Upper end of each region."""
        return np.array([p[-1, 1] if len(p) else np.nan for p in self.pieces])

    def _columns(self):
        pieces = np.array([len(each) for each in self.pieces], dtype=int)
        return {"lower": self.lower, "upper": self.upper, "pieces": pieces}

    def _contain(self, y):
        y = label_numbers(y)
        within = [(p[:, 0] <= v) & (v <= p[:, 1]) for p, v in zip(self.pieces, y, strict=True)]
        return np.array([bool(each.any()) for each in within])


@dataclass(frozen=True, repr=False)
class ConformalClasses(ConformalRegions):
    """Regions of classes or ordered categories: a set of labels per bag.

    Attributes
    ----------
    level, size_class, n_like, sizes_like, pareto_k, ids, id_name
        As for `ConformalIntervals`; k-hat is the largest over the classes in or nearly in the
        region.
    classes : array, shape (C,)
        All classes.
    is_in : array of bool, shape (n, C)
        Whether each class is in the region of a bag; an empty set is possible.
    labels : list of n arrays
        The classes of each region.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import BLRClassifier
    >>> rng = np.random.default_rng(0)
    >>> y = np.array(["sick", "well"] * 30)
    >>> bags = [rng.normal(0.5 if label == "well" else -0.5, size=(2, 1)) for label in y]
    >>> model = BLRClassifier(n_landmarks=6, method="laplace").fit(bags, y, seed=1)
    >>> regions = model.conformal([np.full((2, 1), -1.5), np.full((2, 1), 0.0)], level=0.9)
    >>> regions.labels
    [array(['sick'], dtype='<U4'), array(['sick', 'well'], dtype='<U4')]
    """

    classes: Array
    is_in: Array

    @property
    def labels(self) -> list[Array]:
        """Classes in each region."""
        return [self.classes[each] for each in self.is_in]

    def _columns(self):
        return {"labels": [each.tolist() for each in self.labels]}

    def _contain(self, y):
        return self.is_in[np.arange(len(self)), class_codes(self.classes, y)]
