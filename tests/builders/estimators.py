"""Every estimator once, with settings that make its fit quick."""

from bdr_stan import (
    BDR,
    BLR,
    MERR,
    MERRCV,
    AggregateRegressor,
    BDRClassifier,
    BLRClassifier,
    InverseBDR,
    InverseBDRClassifier,
    JointRegressor,
    RBFNetwork,
    Shrinkage,
    ShrinkageClassifier,
    Stacked,
    StackedClassifier,
)

QUICK_TOTALS = {"n_landmarks": 5, "method": "vb", "likelihood": "poisson", "learn_kernel": False}
ESTIMATORS = [
    BDR(5, method="optimize"),
    BLR(5, method="exact"),
    Shrinkage(5),
    InverseBDR(5, method="optimize"),
    BLRClassifier(5, method="optimize"),
    ShrinkageClassifier(5),
    BDRClassifier(5, method="optimize"),
    InverseBDRClassifier(5, method="optimize"),
    RBFNetwork(5),
    MERR(),
    MERRCV(),
    AggregateRegressor(**QUICK_TOTALS),
    JointRegressor(n_landmarks=5, method="optimize", learn_kernel=False),
    Stacked([BLR(5, method="exact"), BLR(4, method="exact")]),
    StackedClassifier([BLRClassifier(5, method="laplace"), BLRClassifier(4, method="laplace")]),
]
