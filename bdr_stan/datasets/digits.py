"""Bags of handwritten digits, from scikit-learn's data."""

import numpy as np

from bdr_stan.bags import Bags
from bdr_stan.types import Array, check_counts, is_integer

_SPLITS = ("train", "test")
# P(size >= k) falls like k^-0.25: half of the bags have at most 5 points, a tenth more than 100.
_SIZE_TAIL = 0.25


def digits_bags(
    n_bags: int, *, seed: int, split: str = "train", max_size: int = 300
) -> tuple[Bags, Array]:
    """Bags of handwritten digits, as if each were a few photographs of one person.

    Bag i has its own distribution over the digits 0 to 9, a normal around a centre from uniform(0,
    9) with an sd from uniform(0.5, 2.5), cut to the digits. Its points are images of digits drawn
    from it; its label is the mean of the *distribution*, and a bag of few images has little
    information about it. Sizes are heavy-tailed from 1 to `max_size`.

    Parameters
    ----------
    n_bags : int, >= 1, number of bags
    seed : int, >= 0; the splits of one seed differ
    split : "train" (default) or "test", without images in common
    max_size : int, >= 1, default 300, largest number of images in a bag

    Returns
    -------
    bags : Bags, n_bags of them, points of 64 pixels in [0, 1]
    y : array, shape (n_bags,), labels in (0, 9), in digits

    Raises
    ------
    ValueError : an argument outside its range.

    Notes
    -----
    Each half has about 90 images of each digit, so their distributions differ slightly, and a fit
    to large bags of one half is biased for large bags of the other. For test bags from the same
    distribution use the same split with another seed.

    Examples
    --------
    >>> from bdr_stan.datasets import digits_bags
    >>> bags, y = digits_bags(20, seed=1)
    >>> len(bags), bags.n_features, y.shape
    (20, 64, (20,))
    >>> test, _ = digits_bags(20, seed=1, split="test", max_size=50)
    >>> bool(test.sizes.max() <= 50)
    True
    """
    from sklearn.datasets import load_digits

    if split not in _SPLITS:
        raise ValueError(f"unknown split {split!r}: choose 'train' or 'test'")
    check_counts(n_bags=n_bags, max_size=max_size)
    if not is_integer(seed) or seed < 0:
        raise ValueError(f"seed must be an integer >= 0, found {seed!r}")
    rng = np.random.default_rng([seed, _SPLITS.index(split)])
    images, digits = load_digits(return_X_y=True)
    # Every second image of each digit, so both halves have all digits and all writers.
    halves = [np.flatnonzero(digits == digit)[_SPLITS.index(split) :: 2] for digit in range(10)]

    sizes = _heavy_tailed_sizes(rng, n_bags, max_size)
    centre = rng.uniform(0, 9, (n_bags, 1))
    spread = rng.uniform(0.5, 2.5, (n_bags, 1))
    share = np.exp(-((np.arange(10) - centre) ** 2) / (2 * spread**2))
    share /= share.sum(axis=1, keepdims=True)
    drawn = np.concatenate([rng.choice(10, size, p=p) for size, p in zip(sizes, share)])
    n_images = np.array([len(half) for half in halves])
    place = rng.integers(n_images[drawn])
    rows = [halves[digit][k] for digit, k in zip(drawn, place)]
    return Bags.from_points(images[rows] / 16, sizes=sizes), share @ np.arange(10)


def _heavy_tailed_sizes(rng: np.random.Generator, n_bags: int, max_size: int) -> Array:
    """Whole numbers from 1 to max_size, a Pareto distribution cut at max_size + 1."""
    beyond = (max_size + 1) ** -_SIZE_TAIL
    survival = rng.uniform(beyond, 1, n_bags)
    return np.minimum(survival ** (-1 / _SIZE_TAIL), max_size).astype(int)
