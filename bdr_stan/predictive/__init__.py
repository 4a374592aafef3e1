"""Predictive distributions: of labels, classes, totals, rates at points, and differences."""

from bdr_stan.predictive.blend import Blend, mix
from bdr_stan.predictive.classes import ClassPredictive, MulticlassPredictive, OrdinalPredictive
from bdr_stan.predictive.contrast import Contrast
from bdr_stan.predictive.doubts import Doubts
from bdr_stan.predictive.grid import GridPredictive
from bdr_stan.predictive.normal import Predictive
from bdr_stan.predictive.outcomes import LognormalPredictive, OutcomePredictive
from bdr_stan.predictive.points import PointPredictive
from bdr_stan.predictive.program import ProgramPredictive
from bdr_stan.predictive.regions import ConformalClasses, ConformalIntervals
from bdr_stan.predictive.robustness import Robustness
from bdr_stan.predictive.selection_bias import SelectionBounds
from bdr_stan.predictive.totals import AggregatePredictive

__all__ = [
    "AggregatePredictive",
    "Blend",
    "ClassPredictive",
    "ConformalClasses",
    "ConformalIntervals",
    "Contrast",
    "Doubts",
    "GridPredictive",
    "LognormalPredictive",
    "MulticlassPredictive",
    "OrdinalPredictive",
    "OutcomePredictive",
    "PointPredictive",
    "Predictive",
    "ProgramPredictive",
    "Robustness",
    "SelectionBounds",
    "mix",
]
