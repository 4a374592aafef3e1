"""Monthly cases of districts: a country of `data_gen.malaria` over three years.

    log rate(x, t) = effects of covariates at x + a field in space
                     + a season + 0.3 rain(x, t) + a field in space and time
    cases of a district in a month ~ Poisson(reporting x sum over its pixels of population x rate)

Fields are Matérn 3/2 in space, times Matérn 3/2 in time. Reporting has mean 1 and standard
deviation 0.2, independent between district-months. Rain is observed and changes by month. The
district with the most pixels can be split in two from some month on: its halves are other bags of
the same pixels, with the same cases. `country_tables` has all of it as tables, with two surveys of
places in some months.
"""

import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bdr_stan.bags import Bags
from bdr_stan.kernels import Matern32
from data_gen.malaria import (
    EFFECTS,
    FEATURES,
    load_country,
    matern_field,
    surveys,
    write_country,
)

if TYPE_CHECKING:
    import pandas as pd

COVARIATES = ("elevation", "rainfall", "vegetation", "travel_time")
COLUMNS = (*COVARIATES, "rain", "season_cos", "season_sin", "month", "x", "y")
N_MONTHS = 36
FIELD_SD, FIELD_KM, FIELD_MONTHS = 0.5, 200.0, 6.0  # in the log rate
_SPACE_SD, _SPACE_KM = 0.4, 150.0  # of the field that does not change
DISPERSION = 0.2  # sd of reporting
_SEASON = 0.4  # amplitude, with its peak in month 3
_RAIN_EFFECT, _RAIN_KM, _RAIN_MONTHS = 0.3, 250.0, 2.0
# Of `country_tables`: months in which a survey takes place, its places, and its line.
SURVEYS = {
    "households": {"months": (7, 8), "n_places": 50, "slope": 0.8, "prevalence": 0.15},
    "schools": {"months": (15, 16, 17), "n_places": 40, "slope": 0.5, "prevalence": 0.3},
}


@dataclass(frozen=True)
class Months:
    """A country's district-months as bags, month after month, with the truth.

    Attributes
    ----------
    bags : Bags, n district-months, columns `COLUMNS`
        Weights are populations in thousands; metadata have the district, a text, and the month,
        from 0.
    y : integers, shape (n,), cases of each district-month
    rate : array, shape (N,), expected cases per 1,000 people and month at each pixel and month
    """

    bags: Bags
    y: np.ndarray
    rate: np.ndarray

    def part(self, chosen):
        """The district-months of a boolean mask, shape (n,)."""
        rows = np.repeat(chosen, self.bags.sizes)
        return Months(self.bags[chosen], self.y[chosen], self.rate[rows])


def months_of(country, *, n_months=N_MONTHS, split=None, seed=1):
    """Monthly cases of a country's districts.

    Parameters
    ----------
    country : data_gen.malaria.Country
    n_months : int, >= 2
    split : int, optional
        Month from which on the district with the most pixels is two, its west and its east. The
        cases of all pixels are the same with and without.
    seed : int, >= 0

    Returns
    -------
    Months

    Raises
    ------
    ValueError : an argument outside its range.
    """
    if n_months < 2:
        raise ValueError(f"n_months must be at least 2, found {n_months}")
    if split is not None and not 0 < split < n_months:
        raise ValueError(f"split must be a month from 1 to {n_months - 1}, found {split}")
    import pandas as pd

    rng = np.random.default_rng(seed)
    static, people = np.asarray(country.bags.points, float), country.bags.point_weights
    space = sum(EFFECTS[name](static[:, FEATURES.index(name)]) for name in COVARIATES)
    space += _SPACE_SD * _field(rng, country, 1, _SPACE_KM, 1.0)[0]
    field = FIELD_SD * _field(rng, country, n_months, FIELD_KM, FIELD_MONTHS)
    rain = _field(rng, country, n_months, _RAIN_KM, _RAIN_MONTHS)
    month, pixel = np.indices(field.shape).reshape(2, -1)
    angle = 2 * np.pi * month / 12
    season = _SEASON * np.cos(angle - np.pi / 2)
    rate = np.exp(space[pixel] + season + _RAIN_EFFECT * rain.ravel() + field.ravel())
    reporting = rng.gamma(DISPERSION**-2, DISPERSION**2, (n_months, len(country.bags)))
    of_pixels = np.repeat(reporting, country.bags.sizes, axis=1).ravel()
    cases = rng.poisson(of_pixels * people[pixel] * rate)

    values = {name: static[pixel, FEATURES.index(name)] for name in (*COVARIATES, "x", "y")}
    values |= {"rain": rain.ravel(), "month": month}
    values |= {"season_cos": np.cos(angle), "season_sin": np.sin(angle)}
    names = _names(country, split=False)[pixel]
    if split is not None:
        names = np.where(month < split, names, _names(country, split=True)[pixel])
    called, number = np.unique(names, return_inverse=True)
    key, bag, sizes = np.unique(
        month * len(called) + number, return_inverse=True, return_counts=True
    )
    order = np.argsort(bag, kind="stable")
    table = pd.DataFrame({"district": called[key % len(called)], "month": key // len(called)})
    table.index = pd.Index(table["district"] + ", month " + table["month"].astype(str))
    offsets = np.append(0, np.cumsum(sizes))
    bags = Bags(
        np.column_stack([values[column] for column in COLUMNS])[order],
        offsets,
        weights=people[pixel][order],
        ids=table.index.to_numpy(str),
        metadata=table,
        features=COLUMNS,
    )
    return Months(bags, np.add.reduceat(cases[order], offsets[:-1]), rate[order])


@dataclass(frozen=True)
class CountryTables:
    """What those who make maps have, as pandas DataFrames, and the truth.

    Attributes
    ----------
    pixels : pixel, district, population in thousands, row, col, x, y and `COVARIATES`
    weather : pixel, month, rain
    cases : district, month, cases
    surveys : dict of name -> x, y, month, examined, positives of each place
    rate : array, shape (n_months, n_pixels), expected cases per 1,000 people and month
    """

    pixels: "pd.DataFrame"
    weather: "pd.DataFrame"
    cases: "pd.DataFrame"
    surveys: "dict[str, pd.DataFrame]"
    rate: np.ndarray


def country_tables(*, n_pixels=2000, n_districts=50, n_months=24, seed=1):
    """Tables of a country with monthly cases and two surveys: `SURVEYS`.

    Parameters
    ----------
    n_pixels, n_districts : int, as of `data_gen.malaria.write_country`
    n_months : int, >= 18, of the months of the surveys
    seed : int, >= 0

    Returns
    -------
    CountryTables

    Raises
    ------
    ValueError : an argument outside its range.
    """
    last = max(max(survey["months"]) for survey in SURVEYS.values())
    if n_months <= last:
        raise ValueError(f"n_months must be at least {last + 1}, found {n_months}")
    with tempfile.TemporaryDirectory() as folder:
        write_country(folder, n_pixels=n_pixels, n_districts=n_districts, seed=seed)
        country = load_country(folder)
        months = months_of(country, n_months=n_months, seed=seed)
    metadata, points = months.bags.metadata, months.bags.to_dataframe()
    points["pixel"] = np.tile(np.arange(n_pixels), n_months)  # in the same order each month
    first = points.iloc[:n_pixels]
    pixels = first[["pixel", "weight", "x", "y", *COVARIATES]].rename(
        columns={"weight": "population"}
    )
    names = np.repeat(metadata["district"].to_numpy(), months.bags.sizes)[:n_pixels]
    pixels = pixels.assign(district=names, row=country.row, col=country.col)
    return CountryTables(
        pixels,
        points[["pixel", "month", "rain"]].astype({"month": int}),
        metadata.assign(cases=months.y).reset_index(drop=True),
        {
            name: _survey_table(months, country.pixel_km, seed + k, **each)
            for k, (name, each) in enumerate(SURVEYS.items())
        },
        months.rate.reshape(n_months, n_pixels),
    )


def _survey_table(country, km, seed, *, months, **survey):
    """Places in pixels of this size, months and results of one survey of a country's months."""
    then = country.part(np.isin(country.bags.metadata["month"], months))
    found = surveys(then, seed=seed, **survey)
    table = found.places.to_dataframe()[["x", "y", "month"]].astype({"month": int})
    table[["x", "y"]] += np.random.default_rng(seed).uniform(-km / 2, km / 2, (len(table), 2))
    return table.assign(examined=found.examined, positives=found.positives)


def _field(rng, country, n_months, km, months):
    """A field of sd 1, (n_months, N), Matern 3/2 in space and in time with these lengths."""
    fields = [matern_field(rng, country.shape, country.pixel_km, km) for _ in range(n_months)]
    times = np.arange(n_months, dtype=float)[:, None]
    values = np.array(fields)[:, country.row, country.col]
    values = np.linalg.cholesky(Matern32(months)(times, times)) @ values
    return (values - values.mean()) / values.std()


def _names(country, *, split):
    """Name of the district of each pixel, shape (N,); with `split` that of the most is two."""
    bags = country.bags
    names = [[f"district {k:03d}"] * size for k, size in enumerate(bags.sizes)]
    if split:
        largest = int(np.argmax(bags.sizes))
        x = bags[largest][:, FEATURES.index("x")]
        side = np.where(x < np.median(x), "west", "east")
        names[largest] = [f"district {largest:03d} {each}" for each in side]
    return np.concatenate(names)
