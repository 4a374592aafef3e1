"""The kernels of Muandet et al. (2014), section 4, by their names there."""

import numpy as np

from bdr_stan.kernels import RBF, Linear, Polynomial, median_bandwidth

KERNELS = ("LIN", "POLY2", "POLY3", "RBF")


def kernel_of(name, x):
    """The kernel of this name for points x; RBF has the median squared distance for bandwidth^2."""
    if name == "RBF":
        return RBF(np.sqrt(2) * median_bandwidth([x]))
    return {"LIN": Linear(), "POLY2": Polynomial(2), "POLY3": Polynomial(3)}[name]
