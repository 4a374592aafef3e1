"""Bayesian distribution regression on Stan.

Inputs are bags of points (samples of a distribution), one label per bag. Names
load on first use, so ``import bdr_stan`` is quick.
"""

from importlib import import_module

__version__ = "0.1.0"

_HOME_OF = {
    "Bags": "bags",
    "BLR": "models",
    "Shrinkage": "models",
    "BDR": "models",
    "BLRClassifier": "models",
    "ShrinkageClassifier": "models",
    "BDRClassifier": "models",
    "RBFNetwork": "models",
    "FreqShrinkage": "models",
    "MERR": "models",
    "MERRCV": "models",
    "DFDR": "models",
    "AggregateNN": "models",
    "AggregateRegressor": "models",
    "BagPixel": "models",
    "ConstantRate": "models",
    "SupportMeasureMachine": "models",
    "OneClassSMM": "models",
    "Stacked": "models",
    "StackedClassifier": "models",
    "load": "models",
    "KernelMean": "kernel_means",
    "tune": "tuning",
    "learn_landmarks": "learned_landmarks",
}
__all__ = ["__version__", *_HOME_OF]  # noqa: PLE0604


def __getattr__(name):
    if name in _HOME_OF:
        return getattr(import_module(f"bdr_stan.{_HOME_OF[name]}"), name)
    raise AttributeError(f"module 'bdr_stan' has no attribute {name!r}")


def __dir__():
    return sorted(__all__)
