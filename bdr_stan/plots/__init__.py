"""Pictures of predictions, shrinkage, landmarks and maps."""

from bdr_stan.plots.figures import (
    calibration,
    compare_by_size,
    landmarks,
    point_calibration,
    prediction_by_size,
    rate_map,
    rate_maps,
    reliability,
    shrinkage_spectrum,
)

__all__ = [
    "calibration",
    "compare_by_size",
    "landmarks",
    "point_calibration",
    "prediction_by_size",
    "rate_map",
    "rate_maps",
    "reliability",
    "shrinkage_spectrum",
]
