"""Predictive distributions: of labels, classes, totals and rates at points."""

from bdr_stan.predictive.classes import ClassPredictive
from bdr_stan.predictive.mixture import mix
from bdr_stan.predictive.normal import Predictive
from bdr_stan.predictive.points import PointPredictive
from bdr_stan.predictive.totals import AggregatePredictive

__all__ = ["AggregatePredictive", "ClassPredictive", "PointPredictive", "Predictive", "mix"]
