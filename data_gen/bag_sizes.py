"""Sizes of simulated bags."""

import numpy as np

from bdr_stan.types import Array, is_number


def negative_binomial_sizes(
    random: np.random.Generator | np.random.RandomState, n: int, mean: float, sd: float
) -> Array:
    """Numbers of points of n bags: 1 + a negative binomial number.

    Parameters
    ----------
    random : numpy RandomState or Generator
    n : int, number of bags
    mean : float, > 1, of a size
    sd : float, with sd^2 > mean - 1, of a size

    Returns
    -------
    integers, shape (n,), >= 1

    Raises
    ------
    ValueError : no negative binomial distribution has this mean and sd.
    """
    if not (is_number(mean) and is_number(sd) and mean > 1 and sd**2 > mean - 1):
        raise ValueError(
            f"sizes of mean {mean!r} and sd {sd!r} are not 1 + negative binomial: "
            "choose mean > 1 and sd^2 > mean - 1"
        )
    p = (mean - 1) / sd**2
    return 1 + random.negative_binomial((mean - 1) * p / (1 - p), p, n)
