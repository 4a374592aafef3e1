"""The gamma bags of Law et al. (2018), number for number.

    y_i ~ uniform(4, 8), points x_ij in R^5 with i.i.d. entries chi-square(y_i) / y_i,
    plus normal(0, noise) in the fixed-size experiment.

The marginal variance 2 / y_i, and hence how much a bag of few points says, depends on the label.
``python -m data_gen.gamma --help`` writes them to a file.
"""

import click
import numpy as np

from bdr_stan.bags import Bags
from data_gen import check_output, write_table

SPLITS = {"train": 1000, "early_stop": 500, "validation": 500, "test": 1000}
SIZES = (5, 20, 100, 1000)
N_FEATURES = 5


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
    y = random.uniform(4, 8, len(sizes))
    points = np.empty((sizes.sum(), N_FEATURES))
    stop = 0
    for label, size in zip(y, sizes):
        start, stop = stop, stop + size
        points[start:stop] = random.chisquare(label, (size, N_FEATURES)) / label
        # Drawn even when noise is 0, or the next bag would come from another place of the stream.
        points[start:stop] += random.normal(0, noise, (size, N_FEATURES))
    return Bags.from_points(points, sizes=sizes), y


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
