"""The Swiss roll of Law et al. (2018, aggregate outputs), number for number.

    angle t = 1.5 pi (1 + 2u), width 21v, u and v ~ uniform(0, 1)
    point (t cos t, width, t sin t), sorted by the third coordinate, then cut into bags
    poisson:  outcome of a point ~ Poisson(0.5 t), from 2.36 to 7.07
    normal:   outcome of a point ~ normal((t - 4.7124) / 9.4246, 0.1), mean from 0 to 1

The label of a bag is the sum of its points' outcomes. Bags are slices of the roll, in which
outcomes vary widely: one label has little information about a point, but points of many bags share
the angle. Points have 18 dimensions, rotated and standardised.
"""

from dataclasses import dataclass

import numpy as np

from bdr_stan.bags import Bags
from data_gen.bag_sizes import negative_binomial_sizes

SPLITS = ("train", "early_stop", "validation", "test")
LIKELIHOODS = ("poisson", "normal")
N_FEATURES = 18
NORMAL_SD = 0.1


@dataclass(frozen=True)
class Split:
    """Bags of a Swiss roll, and the truth.

    Attributes
    ----------
    bags : Bags, n of them, points in R^18, standardised as the training points are
    y : array, shape (n,), label of each bag, the sum of its outcomes
    outcomes : array, shape (N_points,), count or number drawn at each point
    rate : array, shape (N_points,), its mean
    roll : array, shape (N_points, 3), the points on the roll, for figures
    """

    bags: Bags
    y: np.ndarray
    outcomes: np.ndarray
    rate: np.ndarray
    roll: np.ndarray


def swiss_roll(
    data_seed=0, *, n_bags=100, n_test=500, likelihood="poisson", mean_size=150, size_sd=50
):
    """Train, early-stop, validation and test bags as the authors drew them.

    Parameters
    ----------
    data_seed : int, 0 to 4 in the paper's experiments
    n_bags : int, >= 2, bags of each split but the test split; the paper has 50, 100, .. 350
    n_test : int, >= 2
    likelihood : "poisson" or "normal"
    mean_size, size_sd : float, mean and sd of the number of points in a bag
        1 more than a negative binomial number; 150 and 50 are the paper's.

    Returns
    -------
    dict, "train", "early_stop", "validation", "test" -> Split

    Raises
    ------
    ValueError : an argument outside its range.

    Notes
    -----
    NumPy's legacy stream, one roll per split. Order of a split's draws: sizes, angles, widths,
    three normal numbers per point (noise of sd 0), outcomes in the order of bags.

    Source: Law et al. (2018), Variational Learning on Aggregate Outputs with Gaussian Processes,
    section 4.1.
    """
    if likelihood not in LIKELIHOODS:
        raise ValueError(f"unknown likelihood {likelihood!r}: choose 'poisson' or 'normal'")
    for name, value in [("n_bags", n_bags), ("n_test", n_test)]:
        if not (value >= 2 and value == int(value)):
            raise ValueError(f"{name} must be a whole number, >= 2, found {value}")
    seeds = np.random.RandomState(data_seed).randint(2**32, size=len(SPLITS), dtype=np.int64)
    drawn = {}
    for name, seed in zip(SPLITS, seeds):
        random = np.random.RandomState(seed)
        sizes = negative_binomial_sizes(
            random, n_test if name == "test" else n_bags, mean_size, size_sd
        )
        drawn[name] = sizes, *_draw(random, sizes.sum(), likelihood)
    # A roll has 3 coordinates: the other 15 rows of the rotation would meet zeros.
    rotation = np.linalg.qr(np.random.RandomState(23).uniform(0, 2, (N_FEATURES, N_FEATURES)))[0]
    rotated = {name: roll @ rotation[:3] for name, (_, roll, _, _) in drawn.items()}
    mean, sd = rotated["train"].mean(axis=0), rotated["train"].std(axis=0)
    splits = {}
    for name, (sizes, roll, rate, outcomes) in drawn.items():
        bags = Bags.from_points((rotated[name] - mean) / sd, sizes=sizes)
        y = np.add.reduceat(outcomes, bags.offsets[:-1])
        splits[name] = Split(bags, y, outcomes, rate, roll)
    return splits


def _draw(random, n, likelihood):
    """Points on the roll, means and outcomes of n points, highest first."""
    t = 1.5 * np.pi * (1 + 2 * random.rand(n))
    width = 21 * random.rand(n)
    random.randn(3, n)  # the authors' noise of sd 0: the outcomes come after it in the stream
    roll = np.column_stack([t * np.cos(t), width, t * np.sin(t)])
    order = np.argsort(-roll[:, 2])
    roll, t = roll[order], t[order]
    if likelihood == "poisson":
        rate = 0.5 * t
        return roll, rate, random.poisson(rate)
    rate = (t - 4.7124) / 9.4246
    return roll, rate, random.normal(rate, NORMAL_SD)
