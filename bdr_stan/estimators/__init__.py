"""Estimators: one file per family of models."""

from bdr_stan.estimators.aggregate import AggregateRegressor
from bdr_stan.estimators.base import load
from bdr_stan.estimators.bdr import BDR, Shrinkage
from bdr_stan.estimators.blr import BLR
from bdr_stan.estimators.classifiers import BDRClassifier, BLRClassifier, ShrinkageClassifier
from bdr_stan.estimators.inverse import InverseBDR, InverseBDRClassifier
from bdr_stan.estimators.merr import MERR
from bdr_stan.estimators.merr_cv import MERRCV
from bdr_stan.estimators.nonlinear import NonlinearBDR
from bdr_stan.estimators.ridge import FreqShrinkage, RBFNetwork
from bdr_stan.estimators.stacked import Stacked, StackedClassifier
from bdr_stan.estimators.support_measures import OneClassSMM, SupportMeasureMachine

__all__ = [
    "BDR",
    "BLR",
    "MERR",
    "MERRCV",
    "AggregateRegressor",
    "BDRClassifier",
    "BLRClassifier",
    "FreqShrinkage",
    "InverseBDR",
    "InverseBDRClassifier",
    "NonlinearBDR",
    "OneClassSMM",
    "RBFNetwork",
    "Shrinkage",
    "ShrinkageClassifier",
    "Stacked",
    "StackedClassifier",
    "SupportMeasureMachine",
    "load",
]
