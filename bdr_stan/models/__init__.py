"""Estimators: one file per family of models."""

from bdr_stan.models.aggregate import AggregateRegressor
from bdr_stan.models.aggregate_baselines import AggregateNN, BagPixel, ConstantRate
from bdr_stan.models.base import load
from bdr_stan.models.bdr import BDR, Shrinkage
from bdr_stan.models.blr import BLR
from bdr_stan.models.classifiers import BDRClassifier, BLRClassifier, ShrinkageClassifier
from bdr_stan.models.dfdr import DFDR
from bdr_stan.models.merr import MERR
from bdr_stan.models.merr_cv import MERRCV
from bdr_stan.models.ridge import FreqShrinkage, RBFNetwork
from bdr_stan.models.stacked import Stacked, StackedClassifier
from bdr_stan.models.support_measures import OneClassSMM, SupportMeasureMachine

__all__ = [
    "BDR",
    "BLR",
    "DFDR",
    "MERR",
    "MERRCV",
    "AggregateNN",
    "AggregateRegressor",
    "BDRClassifier",
    "BLRClassifier",
    "BagPixel",
    "ConstantRate",
    "FreqShrinkage",
    "OneClassSMM",
    "RBFNetwork",
    "Shrinkage",
    "ShrinkageClassifier",
    "Stacked",
    "StackedClassifier",
    "SupportMeasureMachine",
    "load",
]
