"""Bags from rasters and polygons, and maps of predictions.

Needs the extra "maps": ``pip install 'bdr-stan[maps]'``.
"""

from bdr_stan.maps.map_page import write_map_page
from bdr_stan.maps.results import district_table, to_raster
from bdr_stan.maps.zones import population_at_risk, regrouped

__all__ = [
    "district_table",
    "population_at_risk",
    "regrouped",
    "to_raster",
    "write_map_page",
]
