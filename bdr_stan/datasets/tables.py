"""Tables with one row per point, as users have them, and bags of scikit-learn's digits.

Tables are in raw units, simulated ones in random order.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from bdr_stan.bags import Bags
from bdr_stan.types import Array, check_counts, is_integer

GENES = ("IFIT1", "ISG15", "MX1", "CD3E", "CD8A", "GZMB", "CD14", "LYZ", "CD19", "MS4A1")
_N_TYPES = 3  # of cells
_SPLITS = ("train", "test")
# P(size >= k) falls like k^-0.25: half of the bags have at most 5 points, a tenth more than 100.
_SIZE_TAIL = 0.25


def county_table(n: int = 400, *, seed: int = 0) -> pd.DataFrame:
    """A table with one row per adult, 1 to 500 of each county, in random order.

    The label, `vote`, depends on the means of age and log income and on the share of town
    dwellers, on each to about the same extent.

    Parameters
    ----------
    n : int, >= 1, number of counties
    seed : int, >= 0, of the random numbers

    Returns
    -------
    pandas.DataFrame, columns county (text), age (18 to 100 years), income (dollars), region (text)
    and vote (a share, the same in all rows of a county)

    Examples
    --------
    >>> from bdr_stan.datasets import county_table
    >>> people = county_table(3, seed=1)
    >>> list(people)
    ['county', 'age', 'income', 'region', 'vote']
    >>> people["county"].nunique()
    3
    """
    rng = np.random.default_rng(seed)
    sizes = np.exp(rng.uniform(0, np.log(500), n)).astype(int).clip(1, 500)
    county = np.repeat(np.arange(n), sizes)
    old, rich, urban = rng.normal(size=n), rng.normal(size=n), rng.uniform(0.1, 0.9, n)
    vote = 0.5 + 0.1 * np.tanh(old) + 0.08 * np.tanh(rich) + 0.15 * (urban - 0.5)
    vote += 0.01 * rng.normal(size=n)
    people = pd.DataFrame(
        {
            "county": [f"c{c}" for c in county],
            "age": 100 - np.abs(82 - np.abs(rng.normal(45 + 6 * old[county], 14) - 18)),
            "income": np.exp(rng.normal(10.5 + 0.25 * rich[county], 0.6)),
            "region": np.where(rng.random(len(county)) < urban[county], "town", "country"),
            "vote": vote[county],
        }
    )
    return people.sample(frac=1, random_state=seed).reset_index(drop=True)


def precinct_table() -> pd.DataFrame:
    """Voting precincts of 682 counties in seven states of the USA, with the votes of 2020.

    One row per precinct, a random sample of 1 to 24 precincts per county. Sources: 2020 census
    (public domain) and results by county, T. McGovern (MIT licence); see precincts.txt next to this
    file.

    Returns
    -------
    pandas.DataFrame, columns county and state (text); of the precinct, adults (their number),
    black, hispanic, asian (per cent of the adults) and children (per cent of the people); of the
    whole county, the same with the prefix ``county_``; democratic and votes (numbers of votes of
    the county in the presidential election, for Joe Biden and in total)

    Examples
    --------
    >>> from bdr_stan.datasets import precinct_table
    >>> precincts = precinct_table()
    >>> precincts["county"].nunique(), precincts["state"].nunique()
    (682, 7)
    """
    return pd.read_csv(Path(__file__).parent / "precincts.csv.gz")


def donor_cells(n_donors: int = 150, *, seed: int = 1) -> pd.DataFrame:
    """A table with one row per cell of donors, by simulated sequencing, in random order.

    Severity s ~ normal(0, 1) of a donor; shares of three types of cells
    softmax(0, -1 + 0.7 s + noise, noise); counts of gene g in a cell of type k
    Poisson(depth exp(program_kg + 0.4 s [k = 0, g < 3])). The label thus changes the composition of
    the cells and the state of one type. Donors have 10 to 400 cells.

    Parameters
    ----------
    n_donors : int, >= 1, number of donors
    seed : int, >= 0, of the random numbers

    Returns
    -------
    pandas.DataFrame, columns donor (text), ten genes (log counts per thousand) and severity (the
    donor's label, no unit)

    Examples
    --------
    >>> from bdr_stan.datasets import donor_cells
    >>> cells = donor_cells(5, seed=1)
    >>> list(cells)[:3], list(cells)[-1]
    (['donor', 'IFIT1', 'ISG15'], 'severity')
    """
    rng = np.random.default_rng(seed)
    severity = rng.normal(size=n_donors)
    sizes = np.exp(rng.uniform(np.log(10), np.log(400), n_donors)).astype(int)
    donor = np.repeat(np.arange(n_donors), sizes)
    score = rng.normal(0, 0.3, (n_donors, _N_TYPES))
    score[:, 1] += 0.7 * severity - 1
    shares = np.exp(score) / np.exp(score).sum(axis=1, keepdims=True)
    kind = (rng.random((len(donor), 1)) > shares[donor].cumsum(axis=1)[:, :-1]).sum(axis=1)

    log_rate = rng.normal(-3, 1.2, (_N_TYPES, len(GENES)))[kind]
    log_rate[:, :3] += 0.4 * (severity[donor] * (kind == 0))[:, None]
    depth = np.exp(rng.normal(6, 0.4, (len(donor), 1)))
    counts = rng.poisson(depth * np.exp(log_rate))
    cells = pd.DataFrame(np.log1p(1000 * counts / depth), columns=list(GENES))
    cells.insert(0, "donor", [f"donor {d}" for d in donor])
    cells["severity"] = severity[donor]
    return cells.sample(frac=1, random_state=seed).reset_index(drop=True)


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
