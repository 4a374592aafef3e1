"""A table of people of counties, as a user has it: years, dollars, a category, rows in no order."""

import numpy as np
import pandas as pd


def county_table(n=400, *, seed=0):
    """One row a person, 1 to 500 of each county; `vote` is the county's label.

    The label depends on the means of age and log income and on the share of town dwellers, each
    about alike.

    Parameters
    ----------
    n : int, >= 1, counties
    seed : int, >= 0

    Returns
    -------
    pandas.DataFrame, columns county (text), age (years), income (dollars), region (text), vote (a
    share, the same in all rows of a county)
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
            "age": rng.normal(45 + 6 * old[county], 14),
            "income": np.exp(rng.normal(10.5 + 0.25 * rich[county], 0.6)),
            "region": np.where(rng.random(len(county)) < urban[county], "town", "country"),
            "vote": vote[county],
        }
    )
    return people.sample(frac=1, random_state=seed).reset_index(drop=True)
