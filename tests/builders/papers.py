"""Every system of the papers that is fitted to bags, with settings that make its fit quick."""

from builders.estimators import QUICK_TOTALS
from experiments.papers import (
    DFDR,
    AggregateNN,
    BagPixel,
    ConstantRate,
    FreqShrinkage,
    OneClassSMM,
    SupportMeasureMachine,
)

PAPERS = [
    FreqShrinkage(5),
    DFDR(),
    SupportMeasureMachine(),
    OneClassSMM(),
    BagPixel(**QUICK_TOTALS),
    ConstantRate(),
    AggregateNN(5, n_restarts=1, max_iter=50),
]
