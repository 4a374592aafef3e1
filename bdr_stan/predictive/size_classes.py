"""Classes of bags by size, within which conformal regions compare new bags with training bags.

Bounds are quantiles of the sizes of the n training bags and the new bag together, symmetric in the
n + 1 bags: given its class, a new bag is exchangeable with the training bags of the class if all
are exchangeable. Bounds from only the training bags would break this.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from bdr_stan.types import Array

_MOST_CLASSES = 4
_LEAST_RANK = 4  # of the first kept score, if the number of classes is not given
_ROUNDING = 1e-9  # of shares of bags


class SizeClass(NamedTuple):
    """Training bags like a new one: those from `first` to before `end`, sorted by size."""

    number: int  # 1 has the smallest bags
    first: int
    end: int


class SizeClasses:
    """Classes of n training bags by their sizes, shape (n,), for regions of a level.

    At most `n_classes`, or None for as many as have enough bags in each.
    """

    def __init__(self, sizes: Array, level: float, n_classes: int | None) -> None:
        self.order = np.argsort(sizes, kind="stable")
        self.sizes, self.level = sizes[self.order], level
        self.fewest = int(np.ceil(1 / (1 - level) - _ROUNDING))  # of a class, with the new bag
        n = len(sizes)
        if n + 1 < self.fewest:
            raise ValueError(
                f"level={level:g} needs at least {self.fewest - 1} training bags, but the fit has "
                f"{n}: choose a lower level"
            )
        if n_classes is None:
            n_classes = int(np.clip((n + 1) * (1 - level) / _LEAST_RANK, 1, _MOST_CLASSES))
        elif (n + 1) // n_classes < self.fewest:
            raise ValueError(
                f"level={level:g} needs at least {self.fewest - 1} training bags in each size "
                f"class, and the fit has {n} in all: choose by_size={(n + 1) // self.fewest} or "
                "less, or a lower level"
            )
        self.n_classes = n_classes

    def class_of(self, size: float) -> SizeClass:
        """The class of a new bag of this size. Bags of one size stay together."""
        pooled = np.insert(self.sizes, np.searchsorted(self.sizes, size), size)
        n = len(pooled)
        # Changes of size nearest to equal shares of the bags.
        changes = np.append(np.flatnonzero(pooled[1:] > pooled[:-1]) + 1, n)
        shares = np.arange(1, self.n_classes) * n / self.n_classes
        ends = [0]
        for end in np.unique(changes[np.argmin(np.abs(changes - shares[:, None]), axis=1)]):
            if min(end - ends[-1], n - end) >= self.fewest:
                ends.append(int(end))
        ends.append(n)
        number = int(np.searchsorted(ends, np.searchsorted(pooled, size, side="right")))
        return SizeClass(number, ends[number - 1], ends[number] - 1)


class Compared:
    """New bags of sizes (m,), each with the training bags of its size class."""

    def __init__(self, size_classes: SizeClasses, sizes: Array, bags: Any) -> None:
        self.size_classes, self.ids, self.id_name = size_classes, bags.ids, bags.id_name
        of_size = {size: size_classes.class_of(size) for size in np.unique(sizes)}
        self.of_bag = [of_size[size] for size in sizes]

    def __len__(self) -> int:
        return len(self.of_bag)

    def by_class(self) -> Iterator[tuple[Array, Array, int]]:
        """New bags of a class, training bags that they are compared with, and a rank.

        Labels with at least the training bags' score of this rank are kept; 1 is the lowest.
        """
        share = 1 - self.size_classes.level
        for each in sorted(set(self.of_bag)):
            rank = np.floor(share * (each.end - each.first + 1) + _ROUNDING)
            new = np.flatnonzero([own == each for own in self.of_bag])
            yield new, self.size_classes.order[each.first : each.end], int(rank)

    @property
    def described(self) -> dict[str, Any]:
        """What regions report of it."""
        sizes, own = self.size_classes.sizes, self.of_bag
        return {
            "level": self.size_classes.level,
            "size_class": np.array([each.number for each in own], dtype=int),
            "n_like": np.array([each.end - each.first for each in own], dtype=int),
            "sizes_like": np.array([[sizes[each.first], sizes[each.end - 1]] for each in own]),
            "ids": self.ids,
            "id_name": self.id_name,
        }
