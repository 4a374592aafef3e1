"""The kernels of Muandet et al. (2014), section 4, under their names in the paper."""

import numpy as np

from bdr_stan.kernels import RBF, Linear, Polynomial, median_bandwidth

KERNELS = ("LIN", "POLY2", "POLY3", "RBF")


def kernel_of(name, x):
    """The kernel of this name for points x; RBF has bandwidth^2 = median squared distance."""
    if name == "RBF":
        return RBF(np.sqrt(2) * median_bandwidth([x]))
    return {"LIN": Linear(), "POLY2": Polynomial(2), "POLY3": Polynomial(3)}[name]
