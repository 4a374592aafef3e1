"""A generated election: samples of the residents of counties, votes, and who voted how.

    600 counties in 40 states, on a square; 5 to 500 sampled residents and 100 to 100,000 votes each
    a resident of sex, age, income votes yes with probability 1 / (1 + exp(-h)),
    h = 0.5 [woman] + 1.2 |age - 45| / 30 - 0.6 log(income / 40,000) + state + field(place) - 0.6

State effects have sd 0.3, the field is Matern 3/2 of sd 0.2. The effect of age is not linear, so
that counties of one average age differ. Counties vary in their shares of women and in the
distributions of age and income.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import expit

from bdr_stan.kernels import Matern32

FEATURES = ("sex", "age", "income")
N_COUNTIES, N_STATES = 600, 40
STATE_SD, FIELD_SD, FIELD_LENGTH = 0.3, 0.2, 0.2
SIZES, VOTES = (5, 500), (100, 100_000)
_ELECTORATE = 4000  # residents of a county whose average is the truth


@dataclass(frozen=True)
class Election:
    """Residents, votes and the truth.

    Attributes
    ----------
    residents : DataFrame, one row per sampled resident, columns county and `FEATURES`
    counties : DataFrame, one row per county
        state, x, y, votes, yes (votes), share (the probability of a vote for yes), and women and
        men (the same among them).
    """

    residents: pd.DataFrame
    counties: pd.DataFrame


def election(seed, *, n_counties=N_COUNTIES, n_states=N_STATES):
    """One election.

    Parameters
    ----------
    seed : int
    n_counties, n_states : int

    Returns
    -------
    Election
    """
    rng = np.random.default_rng(seed)
    place, centre = rng.random((n_counties, 2)), rng.random((n_states, 2))
    state = np.argmin(np.linalg.norm(place[:, None] - centre, axis=2), axis=1)
    gram = FIELD_SD**2 * Matern32(FIELD_LENGTH)(place, place)
    field = np.linalg.cholesky(gram + 1e-9 * np.eye(n_counties)) @ rng.standard_normal(n_counties)
    level = rng.normal(0, STATE_SD, n_states)[state] + field - 0.6
    of_county = pd.DataFrame(
        {
            "women": np.clip(rng.normal(0.51, 0.06, n_counties), 0.3, 0.7),
            "age": rng.normal(45, 5, n_counties),
            "age_sd": rng.uniform(8, 22, n_counties),
            "log_income": rng.normal(np.log(40_000), 0.35, n_counties),
        }
    )
    sizes, votes = (
        np.exp(rng.uniform(*np.log(range_), n_counties)).astype(int) for range_ in (SIZES, VOTES)
    )
    samples, truth = [], []
    for county, size, at in zip(of_county.itertuples(), sizes, level, strict=True):
        everyone = _residents(rng, county, _ELECTORATE)
        p, woman = expit(_tendency(everyone) + at), everyone["sex"] == "f"
        truth.append((p.mean(), p[woman].mean(), p[~woman].mean()))
        samples.append(_residents(rng, county, size))
    names = np.array([f"c{k:03}" for k in range(n_counties)])
    residents = pd.concat(samples, ignore_index=True)
    residents.insert(0, "county", np.repeat(names, sizes))
    counties = pd.DataFrame(truth, names, ["share", "women", "men"]).rename_axis("county")
    counties = counties.assign(
        state=np.array([f"s{k:02}" for k in range(n_states)])[state],
        x=place[:, 0],
        y=place[:, 1],
        votes=votes,
        yes=rng.binomial(votes, counties["share"]),
    )
    return Election(residents, counties)


def _residents(rng, county, n):
    """Sex, age and income of n residents."""
    age = np.clip(rng.normal(county.age, county.age_sd, n), 18, 100)
    sex = np.where(rng.random(n) < county.women, "f", "m")
    return pd.DataFrame(
        {"sex": sex, "age": age, "income": rng.lognormal(county.log_income, 0.7, n)}
    )


def _tendency(people):
    """h of residents but for the level of their county."""
    return (
        0.5 * (people["sex"] == "f")
        + 1.2 * np.abs(people["age"] - 45) / 30
        - 0.6 * np.log(people["income"] / 40_000)
    )
