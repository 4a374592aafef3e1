"""Bayesian distribution regression on Stan.

Inputs are bags of points (samples of a distribution), one label per bag. Names
load on first use, so ``import bdr_stan`` is quick.
"""

from importlib import import_module

__version__ = "0.1.0"

_HOME_OF = {
    "Bags": "bags",
    "BLR": "estimators",
    "Shrinkage": "estimators",
    "BDR": "estimators",
    "NonlinearBDR": "estimators",
    "BLRClassifier": "estimators",
    "ShrinkageClassifier": "estimators",
    "BDRClassifier": "estimators",
    "InverseBDR": "estimators",
    "InverseBDRClassifier": "estimators",
    "RBFNetwork": "estimators",
    "FreqShrinkage": "estimators",
    "MERR": "estimators",
    "MERRCV": "estimators",
    "AggregateRegressor": "estimators",
    "SupportMeasureMachine": "estimators",
    "OneClassSMM": "estimators",
    "Stacked": "estimators",
    "StackedClassifier": "estimators",
    "load": "estimators",
    "RBF": "kernels",
    "Exponential": "kernels",
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
    "learn_landmarks": "learned_landmarks",
}
_BASELINES = ("DFDR", "AggregateNN", "BagPixel", "ConstantRate")
__all__ = ["__version__", *_HOME_OF]  # noqa: PLE0604


def __getattr__(name):
    if name in _HOME_OF:
        return getattr(import_module(f"bdr_stan.{_HOME_OF[name]}"), name)
    if name in _BASELINES:
        raise ImportError(f"{name} is a baseline: use `from bdr_stan.baselines import {name}`")
    raise AttributeError(f"module 'bdr_stan' has no attribute {name!r}")


def __dir__():
    return sorted(__all__)
