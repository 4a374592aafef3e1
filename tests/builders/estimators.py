"""Every estimator once, with settings that make its fit quick."""

from bdr_stan import (
    BDR,
    BLR,
    MERR,
    MERRCV,
    AggregateRegressor,
    BDRClassifier,
    BLRClassifier,
    FreqShrinkage,
    InverseBDR,
    InverseBDRClassifier,
    JointRegressor,
    OneClassSMM,
    RBFNetwork,
    Shrinkage,
    ShrinkageClassifier,
    Stacked,
    StackedClassifier,
    SupportMeasureMachine,
)
from bdr_stan.baselines import DFDR, AggregateNN, BagPixel, ConstantRate

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
    FreqShrinkage(5),
    MERR(),
    MERRCV(),
    DFDR(),
    SupportMeasureMachine(),
    OneClassSMM(),
    AggregateRegressor(**QUICK_TOTALS),
    JointRegressor(n_landmarks=5, method="optimize", learn_kernel=False),
    BagPixel(**QUICK_TOTALS),
    ConstantRate(likelihood="poisson"),
    AggregateNN(5, n_restarts=1, max_iter=50),
    Stacked([BLR(5, method="exact"), BLR(4, method="exact")]),
    StackedClassifier([BLRClassifier(5, method="laplace"), BLRClassifier(4, method="laplace")]),
]
