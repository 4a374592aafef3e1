"""The identity link: rates that are f itself, of which a bag's total is one weighted sum."""

import numpy as np

from bdr_stan.aggregate.links.base import Link
from bdr_stan.aggregate.rows import AggregateRows, weighted_sums
from bdr_stan.bags import Bags
from bdr_stan.kernels import FeatureMap
from bdr_stan.types import Array


class Identity(Link):
    """rate = f, which may be negative."""

    name = "identity"
    program = "blr"
    rate = np.positive
    is_linear = True

    def derivatives(self, f: Array) -> tuple[Array, Array, Array]:
        return f, np.ones_like(f), np.zeros_like(f)

    def rows(self, bags: Bags, features: FeatureMap, *, thin: int | None = None) -> AggregateRows:
        return weighted_sums(bags, features)


IDENTITY = Identity()
