"""Predictive distributions: of labels, classes, totals, rates at points, and differences."""

from bdr_stan.predictive.classes import ClassPredictive
from bdr_stan.predictive.contrast import Contrast
from bdr_stan.predictive.mixture import mix
from bdr_stan.predictive.normal import Predictive
from bdr_stan.predictive.points import PointPredictive
from bdr_stan.predictive.totals import AggregatePredictive

__all__ = [
    "AggregatePredictive",
    "ClassPredictive",
    "Contrast",
    "PointPredictive",
    "Predictive",
    "mix",
]
