"""Bags from rasters and polygons, and maps of predictions.

Needs the extra "maps": ``pip install 'bdr-stan[maps]'``.
"""

from bdr_stan.bags import Bags
from bdr_stan.maps.at_risk import population_at_risk
from bdr_stan.maps.grid import Grid, Pixels
from bdr_stan.maps.map_page import write_map_page
from bdr_stan.maps.regrouping import regrouped
from bdr_stan.maps.results import district_table, rates_to_raster, to_raster

bags_from_rasters = Bags.from_rasters

__all__ = [
    "Grid",
    "Pixels",
    "bags_from_rasters",
    "district_table",
    "population_at_risk",
    "rates_to_raster",
    "regrouped",
    "to_raster",
    "write_map_page",
]
