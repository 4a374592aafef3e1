"""Plots of predictions, influence, robustness, shrinkage and terms.

For *predictive* see `bdr_stan.metrics`, and for errors of arrays of different lengths, NaN, levels
and edges. matplotlib is imported when a plot is drawn; without it every plot raises ImportError.
"""

from bdr_stan.plots.by_size import BARS_PER_PANEL, prediction
from bdr_stan.plots.calibration import calibration, pit, reliability, rootogram
from bdr_stan.plots.design import design
from bdr_stan.plots.effects import influence, robustness, shrinkage_spectrum, terms
from bdr_stan.plots.style import COVERS, MISSES, MODELS

__all__ = [
    "BARS_PER_PANEL",
    "COVERS",
    "MISSES",
    "MODELS",
    "calibration",
    "design",
    "influence",
    "pit",
    "prediction",
    "reliability",
    "robustness",
    "rootogram",
    "shrinkage_spectrum",
    "terms",
]
