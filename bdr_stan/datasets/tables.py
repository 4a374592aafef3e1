"""Tables with one row per point, as users have them: raw units, simulated ones in random order."""

from pathlib import Path

import numpy as np
import pandas as pd

GENES = ("IFIT1", "ISG15", "MX1", "CD3E", "CD8A", "GZMB", "CD14", "LYZ", "CD19", "MS4A1")
_N_TYPES = 3  # of cells


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
