"""Base of elements of an RKHS with inner products: exact kernel means and covariance operators."""

from functools import cached_property
from typing import Any

import numpy as np

from bdr_stan.kernels import Kernel


class HilbertMean:
    """Base of the means of distributions and of operators: a subclass has `kernel` and `inner`."""

    kernel: Kernel

    def inner(self, other: Any) -> float:
        """Inner product with another element of the same space."""
        raise NotImplementedError

    @cached_property
    def norm(self) -> float:
        """Norm in this space."""
        return float(np.sqrt(max(self.inner(self), 0.0)))

    def distance(self, other: Any) -> float:
        """Distance to another element, for kernel means also to a `KernelMean`.

        Its error relative to the norms is about 1e-8: it is the root of a difference of nearly
        equal squares.
        """
        squared = self.norm**2 - 2 * self.inner(other) + other.norm**2
        return float(np.sqrt(max(squared, 0.0)))
