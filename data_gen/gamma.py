"""The gamma bags of Law et al. (2018), number for number.

    y_i ~ uniform(4, 8), points x_ij in R^5 with i.i.d. entries chi-square(y_i) / y_i,
    plus normal(0, noise) in the fixed-size experiment.

The marginal variance 2 / y_i, and hence the information in a bag of few points, depends on the
label. No predictions are better than `optimal_predictive`, the posterior under this very model.
``python -m data_gen.gamma --help`` writes bags to a file.
"""

import click
import numpy as np
from scipy.special import gammaln, logsumexp, roots_legendre

from bdr_stan.bags import Bags, as_bags
from bdr_stan.predictive import GridPredictive
from bdr_stan.predictive.grid import trapezoid_weights
from data_gen import check_output, write_table

SPLITS = {"train": 1000, "early_stop": 500, "validation": 500, "test": 1000}
SIZES = (5, 20, 100, 1000)
N_FEATURES = 5
LABELS = (4.0, 8.0)
SMALLEST_NOISE = 0.05  # with less, the table of the noisy density becomes too large
_STEPS_PER_NOISE = 20  # of that table, in x
_N_LABELS = 801  # of the grid of the posterior


def gamma_bags(data_seed=23, *, s5=25, fixed_size=None, noise=0.0, splits=tuple(SPLITS)):
    """Train, early-stop, validation and test bags as the authors drew them.

    Parameters
    ----------
    data_seed : int, 23 for varying sizes (Figures 4 and 5), 23 .. 32 for fixed size (Table 1)
    s5 : number from 0 to 50, percentage of bags of 5 points; of 20 and of 100 points there
        are 25% each, of 1000 the rest
    fixed_size : int, number of points in every bag, instead of varying sizes; Table 1 has 1000
    noise : float, >= 0, sd of the noise added to each coordinate; Table 1 has 1
    splits : names out of "train", "early_stop", "validation", "test", which to generate

    Returns
    -------
    dict, split -> (Bags, y), y of shape (n,): n = 1000, 500, 500, 1000 bags of points in R^5

    Raises
    ------
    ValueError : an argument outside its range, or an unknown split.

    Source: Law et al. (2018), section 5.1 (NumPy's legacy random stream, so the data are theirs).
    """
    if fixed_size is None and not 0 <= s5 <= 50:
        raise ValueError(f"s5 must be a percentage from 0 to 50, found {s5}")
    if fixed_size is not None and not (fixed_size >= 1 and fixed_size == int(fixed_size)):
        raise ValueError(f"fixed_size must be a whole number of points, >= 1, found {fixed_size}")
    if not noise >= 0:
        raise ValueError(f"noise is a standard deviation and must be >= 0, found {noise}")
    for split in splits:
        if split not in SPLITS:
            raise ValueError(f"unknown split {split!r}: choose from {', '.join(SPLITS)}")
    seeds = np.random.RandomState(data_seed).randint(2**32, size=4, dtype=np.int64)
    seed_of = dict(zip(SPLITS, seeds))
    return {
        split: _split(seed_of[split], bag_sizes(SPLITS[split], s5, fixed_size), noise)
        for split in splits
    }


def bag_sizes(n_bags, s5, fixed_size=None):
    """Sizes of a split before they are shuffled: shares s5, 25, 25 percent, the rest 1000."""
    if fixed_size is not None:
        return np.full(n_bags, int(fixed_size))
    counts = [int(n_bags * share / 100) for share in (s5, 25, 25)]
    return np.repeat(SIZES, [*counts, n_bags - sum(counts)])


def _split(seed, sizes, noise):
    """One split from its own stream: sizes, labels, then bag by bag points and noise."""
    random = np.random.RandomState(seed)
    random.shuffle(sizes)
    y = random.uniform(*LABELS, len(sizes))
    points = np.empty((sizes.sum(), N_FEATURES))
    stop = 0
    for label, size in zip(y, sizes):
        start, stop = stop, stop + size
        points[start:stop] = random.chisquare(label, (size, N_FEATURES)) / label
        # Drawn even when noise is 0: the random numbers of the next bag come after these.
        points[start:stop] += random.normal(0, noise, (size, N_FEATURES))
    return Bags.from_points(points, sizes=sizes), y


def optimal_predictive(bags, *, noise=0.0):
    """Bayes-optimal predictions of gamma bags: the posterior of y under the model that made them.

    Parameters
    ----------
    bags : Bags, or list of n arrays, shapes (n_points, p), entries i.i.d. as in `gamma_bags`
    noise : float, the sd of the noise in the points, 0 or at least 0.05

    Returns
    -------
    GridPredictive

    Raises
    ------
    ValueError : `noise` is out of range, or 0 where an entry is not positive.

    Notes
    -----
    Without noise the number, the sum and the sum of logarithms of a bag's entries are sufficient.
    With noise the density of an entry is tabulated; interpolation in the table is linear in its
    values, so the weights of a bag at the table's nodes are sufficient, and one matrix product
    gives the likelihood.
    """
    bags = as_bags(bags)
    grid = np.linspace(*LABELS, _N_LABELS)
    if not (noise == 0 or noise >= SMALLEST_NOISE):
        raise ValueError(f"noise must be 0 or at least {SMALLEST_NOISE}, found {noise}")
    if noise == 0:
        log_density = _exact_log_likelihood(bags, grid)
    else:
        log_density = _tabulated_log_likelihood(bags, grid, noise)
    log_density -= logsumexp(log_density, b=trapezoid_weights(grid), axis=1, keepdims=True)
    return GridPredictive(lambda i: iter([log_density[i]]), grid, len(bags), 1)


def _exact_log_likelihood(bags, grid):
    """Log likelihood of each bag at each y of the grid, shape (n, G), without noise."""
    if not bags.points.min() > 0:
        raise ValueError("entries must be positive without noise: give the sd of the noise")
    first = bags.offsets[:-1]
    n = bags.sizes[:, None] * bags.n_features
    total = np.add.reduceat(bags.points.sum(axis=1), first)[:, None]
    total_log = np.add.reduceat(np.log(bags.points).sum(axis=1), first)[:, None]
    return _log_gamma_density(n, total, total_log, grid)


def _log_gamma_density(n, total, total_log, y):
    """Log density of n entries chi-square(y) / y, that is Gamma(y/2, rate y/2), from their sums."""
    a = y / 2
    return n * (a * np.log(a) - gammaln(a)) + (a - 1) * total_log - a * total


def _tabulated_log_likelihood(bags, grid, noise):
    """Log likelihood of each bag at each y of the grid, shape (n, G), with noise."""
    step = noise / _STEPS_PER_NOISE
    start = bags.points.min() - 2 * step
    x = start + step * np.arange((bags.points.max() - start) // step + 4)
    table = noisy_log_density(x, grid, noise)
    weights = np.empty((len(bags), len(x)))
    for row, points in zip(weights, bags):
        row[:] = _cubic_weights((points.ravel() - start) / step, len(x))
    return weights @ table


def _cubic_weights(position, n):
    """Sum over positions of the weights of cubic interpolation at nodes 0 .. n - 1, shape (n,)."""
    k = position.astype(np.intp)
    t = position - k
    weights = (
        -t * (t - 1) * (t - 2) / 6,
        (t + 1) * (t - 1) * (t - 2) / 2,
        -(t + 1) * t * (t - 2) / 2,
        (t + 1) * t * (t - 1) / 6,
    )
    return sum(np.bincount(k - 1 + j, weights[j], minlength=n) for j in range(4))


def noisy_log_density(x, y, noise):
    """Log density of chi-square(y) / y + normal(0, noise).

    Parameters
    ----------
    x : array, shape (n,)
    y : array, shape (G,), > 0
    noise : float, > 0

    Returns
    -------
    array, shape (n, G)

    Notes
    -----
    The convolution integral over u > 0 by Gauss-Legendre in sqrt(u), in which the density's
    power of u at 0 is smooth enough, and the noise never narrower than a few nodes.
    """
    end = np.sqrt(max(x.max(), 0) + 10 * noise)
    node, weight = roots_legendre(int(100 + 20 * end**2 / noise))
    root = end * (node + 1) / 2
    u = root**2
    log_noise = -0.5 * ((x[:, None] - u) / noise) ** 2 - 0.5 * np.log(2 * np.pi) - np.log(noise)
    highest = log_noise.max(axis=1, keepdims=True)  # far from 0 all would underflow
    density = np.exp(_log_gamma_density(1, u[:, None], np.log(u)[:, None], y))
    density *= (weight * end * root)[:, None]
    return np.log(np.exp(log_noise - highest) @ density) + highest


@click.command()
@click.option("--seed", default=23, show_default=True, help="Data seed.")
@click.option("--s5", default=25.0, show_default=True, help="Percentage of bags of 5 points.")
@click.option("--fixed-size", type=int, help="Points in every bag, instead of varying sizes.")
@click.option("--noise", default=0.0, show_default=True, help="Sd of noise on the coordinates.")
@click.option("--split", type=click.Choice(list(SPLITS)), default="train", show_default=True)
@click.option("-o", "--output", required=True, help="File, .parquet, .csv or .npz.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
def main(seed, s5, fixed_size, noise, split, output, force):
    """Write one split of the gamma bags as a long table: bag, label, x1 .. x5."""
    path = check_output(output, force)
    try:
        made = gamma_bags(seed, s5=s5, fixed_size=fixed_size, noise=noise, splits=[split])
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    bags, y = made[split]
    write_table(path, bags, y)
    click.echo(f"{path}: {len(bags)} bags, {len(bags.points)} points")


if __name__ == "__main__":
    main()
