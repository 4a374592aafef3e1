"""Zones instead of districts: pixels in other polygons, and people at risk in each of them."""

from typing import Any

import numpy as np
from scipy.sparse import csc_array

from bdr_stan.bags import Bags
from bdr_stan.extras import require_maps
from bdr_stan.maps.districts import read_districts
from bdr_stan.maps.grid import check_one_per_point, pixels_of
from bdr_stan.maps.rasters import arguments_of_bags, cells_of_districts
from bdr_stan.predictive import PointPredictive
from bdr_stan.predictive.distributions import draw_quantiles, interval_ends
from bdr_stan.types import DataFrame, check_flags, is_number


def regrouped(bags: Bags, polygons: Any, id: str = "district", *, fractional: bool = True) -> Bags:
    """Regroup the pixels of bags by other polygons, without reading rasters again.

    ``model.predictive(regrouped(bags, zones, id="zone"))`` is the posterior of the zones' totals.

    Parameters
    ----------
    bags : Bags from rasters
    polygons : GeoDataFrame, or a file for geopandas
        In the CRS of the rasters. Parts outside the districts of `bags` have no pixels.
    id : str, default "district"
        Column of `polygons` with distinct values; becomes `ids`.
    fractional : bool, default True
        As in `Bags.from_rasters`.

    Returns
    -------
    Bags, in the order of the polygons, with `pixels`

    Raises
    ------
    ImportError, TypeError, ValueError, OSError
        As `Bags.from_rasters`; the bags were not made from rasters.

    Warns
    -----
    UserWarning : about dropped pixels and polygons, and overlapping polygons.

    Examples
    --------
    >>> import geopandas as gpd
    >>> from bdr_stan import Bags
    >>> from bdr_stan.datasets import country_files
    >>> from bdr_stan.maps import regrouped
    >>> folder = country_files("country", side=20, n_districts=30)
    >>> bags = Bags.from_rasters(folder / "rainfall.tif", folder / "districts.gpkg")
    >>> table = gpd.read_file(folder / "districts.gpkg")
    >>> zones = table.assign(zone=table["district"].str[:3]).dissolve("zone").reset_index()
    >>> regrouped(bags, zones, id="zone").ids.tolist()
    ['D00', 'D01', 'D02']
    """
    require_maps()
    source = pixels_of(bags)
    table = read_districts(polygons, id, source.grid)
    check_flags(fractional=fractional)
    bag, pixels = cells_of_districts(table, source.grid, fractional=fractional)
    cells, first = np.unique(source.cell, return_index=True)
    index = np.minimum(np.searchsorted(cells, pixels.cell), len(cells) - 1)
    point, inside = first[index], cells[index] == pixels.cell
    points = np.where(inside[:, None], bags.points[point], np.nan)
    weights = None
    if bags.weights is not None:  # of the whole pixel, times its share in the polygon
        weights = np.where(inside, bags.weights[point] / source.share[point], np.nan) * pixels.share
    elif fractional:
        weights = pixels.share
    features = bags.features or [f"column {k}" for k in range(bags.n_features)]
    unweighted = bags.weights is None
    made = arguments_of_bags(table, bag, pixels, points, weights, features, unweighted=unweighted)
    return Bags(**made, copy=False)


def population_at_risk(
    rate: PointPredictive, bags: Bags, threshold: float, *, level: float = 0.95
) -> "DataFrame":
    """People in places with a rate above a threshold, by district, with intervals.

    For zones pass bags by `regrouped`, with ``model.predict_points(zones)``.

    Parameters
    ----------
    rate : PointPredictive, of the points of the bags, e.g. ``model.predict_points(bags)``
    bags : Bags
        Their weights are the population; without weights points are counted.
    threshold : float, units of the rate
    level : float, 0 < level < 1, default 0.95
        Level of the central interval of `at_risk`.

    Returns
    -------
    pandas DataFrame, one row per bag, indexed by id
        population; rate, the posterior mean of the mean rate of its people; exceedance, the
        posterior probability that this mean exceeds the threshold; at_risk, the posterior mean of
        the number of people at places with a rate above it; lower, upper, the interval of this
        number; share, at_risk / population.

    Raises
    ------
    ValueError
        Rates of other points; a threshold that is not finite; an invalid level.

    Notes
    -----
    Sums are computed for each draw of the posterior, so intervals include the dependence between
    places. The variance that the basis does not capture is independent between points.

    Examples
    --------
    >>> from bdr_stan import AggregateRegressor, Bags
    >>> from bdr_stan.datasets import country_files
    >>> from bdr_stan.maps import population_at_risk
    >>> folder = country_files("country", side=20, n_districts=30)
    >>> files = [folder / name for name in ("rainfall.tif", "districts.gpkg", "population.tif")]
    >>> bags = Bags.from_rasters(*files)
    >>> model = AggregateRegressor(n_landmarks=5, method="laplace").fit(bags, "cases", seed=1)
    >>> list(population_at_risk(model.predict_points(bags), bags, threshold=0.1))
    ['population', 'rate', 'exceedance', 'at_risk', 'lower', 'upper', 'share']
    """
    import pandas as pd

    ends = interval_ends(level)
    if not is_number(threshold) or not np.isfinite(threshold):
        raise ValueError(f"threshold must be a finite rate, found {threshold!r}")
    check_one_per_point(rate, len(bags.points))
    bag = np.repeat(np.arange(len(bags)), bags.sizes)
    place = bag, np.arange(len(bags.points))
    people = csc_array((bags.point_weights, place), shape=(len(bags), len(bags.points)))
    rates, at_risk = rate.weighted_sums(people, float(threshold))
    population = people.sum(axis=1)
    rates /= population
    weights = np.full(len(rates), 1 / len(rates)) if rate.weights is None else rate.weights
    lower, upper = draw_quantiles(at_risk, np.array(ends), rate.weights)
    columns = {
        "population": population,
        "rate": weights @ rates,
        "exceedance": np.minimum(weights @ (rates > threshold), 1.0),
        "at_risk": weights @ at_risk,
        "lower": lower,
        "upper": upper,
        "share": weights @ at_risk / population,
    }
    return pd.DataFrame(columns, index=pd.Index(bags.index, name=bags.id_name))
