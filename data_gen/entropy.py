"""Sets of points from one Gaussian distribution of the plane, turned by random angles.

    A 2 x 2 with entries ~ uniform(0, 1), b_i ~ uniform(0, pi), R(b) the rotation by b
    points of set i ~ normal(0, R(b_i) A A' R(b_i)')

The label of a set is the differential entropy of the first coordinate, log(2 pi e v_i) / 2 with
v_i its variance: one number, smooth in the angle, that a single point does not identify.
"""

from typing import NamedTuple

import numpy as np

from bdr_stan.bags import Bags


class EntropySets(NamedTuple):
    """Sets, their labels and the truth."""

    bags: Bags
    y: np.ndarray  # (n,), entropy of the first coordinate, nats
    angle: np.ndarray  # (n,), b, radians


def entropy_sets(seed, *, n_bags=100, n_points=500):
    """Draw A, the angles and the points.

    Parameters
    ----------
    seed : int, >= 0; one A for each
    n_bags : int, >= 2; the paper has 100, of which it trains on 25
    n_points : int, >= 1, in every set; the paper has 500

    Returns
    -------
    EntropySets

    Raises
    ------
    ValueError : an argument outside its range.

    Source: Szabo et al. (2016), "Learning theory for distribution regression", section 6, after
    Poczos et al. (2012).
    """
    for name, value, least in [("n_bags", n_bags, 2), ("n_points", n_points, 1)]:
        if not (value >= least and value == int(value)):
            raise ValueError(f"{name} must be a whole number, >= {least}, found {value}")
    rng = np.random.default_rng(seed)
    a = rng.uniform(size=(2, 2))
    angle = rng.uniform(0, np.pi, n_bags)
    cosine, sine = np.cos(angle), np.sin(angle)
    turned = np.array([[cosine, -sine], [sine, cosine]]).transpose(2, 0, 1) @ a
    points = rng.standard_normal((n_bags, n_points, 2)) @ turned.transpose(0, 2, 1)
    variance = np.sum(turned[:, 0] ** 2, axis=1)
    y = 0.5 * np.log(2 * np.pi * np.e * variance)
    bags = Bags(points.reshape(-1, 2), np.arange(n_bags + 1) * n_points)
    return EntropySets(bags, y, angle)
