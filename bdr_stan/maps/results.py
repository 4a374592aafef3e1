"""Predictions as maps: pixel values as rasters, district totals as a table."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bdr_stan.bags import Bags
from bdr_stan.bags.checks import as_vector
from bdr_stan.bags.matching import match_to_ids
from bdr_stan.extras import require_maps
from bdr_stan.maps.grid import check_one_per_point, pixels_of
from bdr_stan.predictive import PointPredictive
from bdr_stan.types import ArrayLike, Dataset, GeoDataFrame, is_number


def to_raster(
    values: PointPredictive | Mapping[str, ArrayLike] | ArrayLike,
    bags: Bags,
    *,
    quantiles: Sequence[float] = (0.025, 0.975),
    exceedance: Sequence[float] = (),
) -> "Dataset":
    """The posterior of the rate, or other values of points, as rasters on the grid of their pixels.

    ``.rio.to_raster("map.tif")`` writes the result as GeoTIFF, one band per variable, and
    ``.to_netcdf("map.nc")`` as NetCDF, both with the CRS.

    Parameters
    ----------
    values : PointPredictive, e.g. ``model.predict_points(bags)``; or dict, name -> array, shape \
            (N_points,); or one such array, which is called "value"
        A pixel in several bags has the value of the last.
    bags : Bags from rasters, or a subset
    quantiles : floats, strictly between 0 and 1, default (0.025, 0.975); for a posterior
    exceedance : floats, thresholds in units of the rate, default none; for a posterior

    Returns
    -------
    xarray.Dataset, dimensions y and x, float64; NaN without a point
        For a posterior the variables mean, sd, quantile_0.025, ..., exceedance_THRESHOLD, ...: the
        posterior probability of a rate above the threshold.

    Raises
    ------
    ImportError : the extra "maps" is not installed.
    TypeError : quantiles or thresholds that are not lists of numbers.
    ValueError : the bags are not from rasters; not one value per point; an invalid quantile.

    Examples
    --------
    >>> from bdr_stan import AggregateRegressor, Bags
    >>> from bdr_stan.datasets import country_files
    >>> from bdr_stan.maps import to_raster
    >>> folder = country_files("country", side=20, n_districts=30)
    >>> bags = Bags.from_rasters(folder / "rainfall.tif", folder / "districts.gpkg")
    >>> model = AggregateRegressor(n_landmarks=5, method="laplace").fit(bags, "cases", seed=1)
    >>> list(to_raster(model.predict_points(bags), bags, exceedance=[4]))
    ['mean', 'sd', 'quantile_0.025', 'quantile_0.975', 'exceedance_4']
    >>> to_raster({"wet": bags.points[:, 0] > 1100}, bags).rio.to_raster("wet.tif")
    """
    require_maps()
    import rioxarray  # noqa: F401
    import xarray as xr

    pixels = pixels_of(bags)
    if isinstance(values, PointPredictive):
        check_one_per_point(values, len(pixels))
        values = _summaries(values, quantiles, exceedance)
    grid = pixels.grid
    x, _ = grid.centres(0, np.arange(grid.shape[1]))
    _, y = grid.centres(np.arange(grid.shape[0]), 0)
    layers = {}
    for name, each in (values if isinstance(values, Mapping) else {"value": values}).items():
        each = np.asarray(each, float)
        if each.shape != (len(pixels),):
            raise ValueError(
                f"{name!r} has values of shape {each.shape}, expected ({len(pixels)},): one per "
                "point"
            )
        image = np.full(grid.shape, np.nan)
        image[pixels.row, pixels.col] = each
        layers[str(name)] = (("y", "x"), image)
    raster = xr.Dataset(layers, coords={"y": y, "x": x})
    raster = raster.rio.write_crs(grid.crs).rio.write_transform(grid.transform)
    for name in layers:
        raster[name] = raster[name].rio.write_nodata(np.nan, encoded=True)
    return raster.rio.write_coordinate_system()


def _summaries(rate, quantiles, exceedance):
    """Values of points by their names, from the posterior of their rates."""
    for name, numbers in {"quantiles": quantiles, "exceedance": exceedance}.items():
        if not np.iterable(numbers) or not all(map(is_number, numbers)):
            raise TypeError(f"{name} must be a list of numbers, found {numbers!r}")
    values = {"mean": rate.mean, "sd": rate.sd}
    if len(quantiles):
        for q, quantile in zip(quantiles, rate.quantile(np.asarray(quantiles, float))):
            values[f"quantile_{q:g}"] = quantile
    return values | {f"exceedance_{limit:g}": rate.exceedance(limit) for limit in exceedance}


def district_table(
    predictive: Any, bags: Bags, observed: ArrayLike | None = None, *, level: float = 0.95
) -> "GeoDataFrame":
    """Predictions of each district, with its polygon.

    Parameters
    ----------
    predictive : predictive distribution of the bags' labels, e.g. ``model.predictive(bags)``
    bags : Bags from rasters, or a subset
    observed : array or pandas Series, shape (n,), optional
        Labels; a Series indexed by the districts' ids is matched by them.
    level : float, 0 < level < 1, default 0.95
        Level of the central predictive interval.

    Returns
    -------
    GeoDataFrame, one row per district, indexed by id
        Columns observed (if given), predicted, sd, lower, upper in units of the label, weight (the
        sum over the district's pixels: its population) and geometry.
        ``.reset_index().to_file("districts.gpkg")`` writes it.

    Raises
    ------
    ImportError : the extra "maps" is not installed.
    ValueError
        The bags are not from rasters; predictions or labels of other bags; a level that is not
        strictly between 0 and 1.

    Examples
    --------
    >>> from bdr_stan import AggregateRegressor, Bags
    >>> from bdr_stan.datasets import country_files
    >>> from bdr_stan.maps import district_table
    >>> folder = country_files("country", side=20, n_districts=30)
    >>> bags = Bags.from_rasters(folder / "rainfall.tif", folder / "districts.gpkg")
    >>> model = AggregateRegressor(n_landmarks=5, method="laplace").fit(bags, "cases", seed=1)
    >>> list(district_table(model.predictive(bags), bags, bags.metadata["cases"]))
    ['observed', 'predicted', 'sd', 'lower', 'upper', 'weight', 'geometry']
    """
    require_maps()
    import geopandas as gpd
    import pandas as pd

    metadata = bags.metadata
    if metadata is None or "geometry" not in metadata:
        raise ValueError("the bags have no polygons: make them by Bags.from_rasters")
    if len(predictive) != len(bags):
        raise ValueError(f"there are predictions of {len(predictive)} bags, but {len(bags)} bags")
    columns = {}
    if observed is not None:
        labels = match_to_ids(observed, bags.ids, "observed")
        columns["observed"] = as_vector(labels, len(bags), "observed", "bag")
    lower, upper = predictive.interval(level)
    columns |= {"predicted": predictive.mean, "sd": predictive.sd, "lower": lower, "upper": upper}
    columns |= {"weight": bags.totals, "geometry": metadata["geometry"].array}
    return gpd.GeoDataFrame(columns, index=pd.Index(bags.index, name=metadata.index.name))
