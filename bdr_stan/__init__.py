"""Bayesian distribution regression on Stan.

Inputs are bags of points (samples of a distribution), one label per bag. Names
load on first use, so ``import bdr_stan`` is quick.
"""

from difflib import get_close_matches
from importlib import import_module

__version__ = "0.1.0"

_HOME_OF = {
    "Bags": "bags",
    "Samples": "bags",
    "BLR": "estimators.blr",
    "Shrinkage": "estimators.bdr",
    "BDR": "estimators.bdr",
    "BLRClassifier": "estimators.classifiers",
    "ShrinkageClassifier": "estimators.classifiers",
    "BDRClassifier": "estimators.classifiers",
    "InverseBDR": "estimators.inverse",
    "InverseBDRClassifier": "estimators.inverse",
    "RBFNetwork": "estimators.ridge",
    "MERR": "estimators.merr",
    "MERRCV": "estimators.merr_cv",
    "AggregateRegressor": "estimators.aggregate",
    "JointRegressor": "estimators.joint",
    "Stacked": "estimators.stacked",
    "StackedClassifier": "estimators.stacked",
    "load": "estimators.base",
    "RBF": "kernels",
    "Exponential": "kernels",
    "Laplace": "kernels",
    "Matern32": "kernels",
    "Matern52": "kernels",
    "Cauchy": "kernels",
    "InverseMultiquadric": "kernels",
    "RationalQuadratic": "kernels",
    "StudentT": "kernels",
    "Polynomial": "kernels",
    "Linear": "kernels",
    "Predictive": "predictive",
    "ClassPredictive": "predictive",
    "GridPredictive": "predictive",
    "MulticlassPredictive": "predictive",
    "Blend": "predictive",
    "AggregatePredictive": "predictive",
    "PointPredictive": "predictive",
    "Contrast": "predictive",
    "KernelMean": "kernel_means.kernel_mean",
    "SpatialBlocks": "model_selection",
    "tune": "tuning",
}
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
