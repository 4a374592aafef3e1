"""Bayesian distribution regression on Stan.

Inputs are bags of points (samples of a distribution), one label per bag. Names
load on first use, so ``import bdr_stan`` is quick.
"""

from difflib import get_close_matches
from importlib import import_module

__version__ = "0.1.0"

_NAMES_OF = {
    "bags": ["Bags", "Samples"],
    "estimators.bdr": ["BLR", "Shrinkage", "BDR"],
    "estimators.classifiers": ["BLRClassifier", "ShrinkageClassifier", "BDRClassifier"],
    "estimators.inverse": ["InverseBDR", "InverseBDRClassifier"],
    "estimators.ridge": ["RBFNetwork"],
    "estimators.merr": ["MERR"],
    "estimators.aggregate": ["AggregateRegressor"],
    "estimators.joint": ["JointRegressor"],
    "estimators.stacked": ["Stacked", "StackedClassifier"],
    "estimators.base": ["load"],
    "estimators.sums": ["Basis", "Summary"],
    "kernels": [
        *("RBF", "Exponential", "Laplace", "Matern32", "Matern52", "Cauchy", "InverseMultiquadric"),
        *("RationalQuadratic", "StudentT", "Polynomial", "Linear"),
    ],
    "questions.design": ["design_from_variances"],
    "predictive": ["Predictive", "PointPredictive", "Contrast"],
    "kernel_means.kernel_mean": ["KernelMean"],
    "model_selection": ["SpatialBlocks"],
    "tuning": ["tune"],
}
_HOME_OF = {name: module for module, names in _NAMES_OF.items() for name in names}
_OF_PAPERS = {
    *("AggregateNN", "BagPixel", "ConstantRate", "DFDR", "FreqShrinkage", "OneClassSMM"),
    "SupportMeasureMachine",
}
__all__ = ["__version__", *_HOME_OF]  # noqa: PLE0604


def __getattr__(name):
    if name in _HOME_OF:
        return getattr(import_module(f"bdr_stan.{_HOME_OF[name]}"), name)
    if name in _OF_PAPERS:
        raise ImportError(
            f"{name} is a system of the papers: use `from experiments.papers import {name}` in a "
            "checkout; repeat fits that `load` cannot read after that"
        )
    meant = get_close_matches(name, __all__, n=1)
    answer = f"; did you mean {meant[0]!r}?" if meant else ""
    raise AttributeError(f"module 'bdr_stan' has no attribute {name!r}{answer}")


def __dir__():
    return sorted(__all__)
