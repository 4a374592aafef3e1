"""Predictive distributions: of labels, classes, totals, rates at points, and differences.

Results of questions to a fit load on first use, as `bdr_stan.questions` imports this package.
"""

from importlib import import_module

from bdr_stan.predictive.blend import Blend as Blend
from bdr_stan.predictive.blend import mix
from bdr_stan.predictive.classes import ClassPredictive as ClassPredictive
from bdr_stan.predictive.classes import MulticlassPredictive as MulticlassPredictive
from bdr_stan.predictive.classes import OrdinalPredictive as OrdinalPredictive
from bdr_stan.predictive.contrast import Contrast
from bdr_stan.predictive.grid import GridPredictive as GridPredictive
from bdr_stan.predictive.normal import Predictive
from bdr_stan.predictive.outcomes import LognormalPredictive as LognormalPredictive
from bdr_stan.predictive.outcomes import OutcomePredictive as OutcomePredictive
from bdr_stan.predictive.points import PointPredictive
from bdr_stan.predictive.program import ProgramPredictive as ProgramPredictive
from bdr_stan.predictive.robustness import Robustness
from bdr_stan.predictive.times import TimesPredictive as TimesPredictive
from bdr_stan.predictive.totals import AggregatePredictive as AggregatePredictive

_OF_QUESTIONS = {
    "ConformalClasses": "conformal",
    "ConformalIntervals": "conformal",
    "Doubts": "doubts",
    "SelectionBounds": "sensitivity",
}
__all__ = [  # noqa: PLE0604
    "Contrast",
    "PointPredictive",
    "Predictive",
    "Robustness",
    "mix",
    *_OF_QUESTIONS,
]


def __getattr__(name):
    if name in _OF_QUESTIONS:
        return getattr(import_module(f"bdr_stan.questions.{_OF_QUESTIONS[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
