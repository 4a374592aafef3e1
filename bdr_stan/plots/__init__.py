"""Pictures of predictions, influence, shrinkage, landmarks and maps.

For what a *predictive* is see `bdr_stan.metrics`. matplotlib is imported when one is drawn.
"""

from bdr_stan.plots.by_size import compare_by_size, prediction_by_size
from bdr_stan.plots.calibration import calibration, point_calibration, reliability
from bdr_stan.plots.embedding import landmarks, shrinkage_spectrum
from bdr_stan.plots.influence import influence
from bdr_stan.plots.maps import map, rate_map, rate_maps
from bdr_stan.plots.style import COVERS, MISSES, MODELS

__all__ = [
    "COVERS",
    "MISSES",
    "MODELS",
    "calibration",
    "compare_by_size",
    "influence",
    "landmarks",
    "map",
    "point_calibration",
    "prediction_by_size",
    "rate_map",
    "rate_maps",
    "reliability",
    "shrinkage_spectrum",
]
