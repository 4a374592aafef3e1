"""Every system of the papers that is fitted to bags, with settings that make its fit quick."""

from builders.estimators import QUICK_TOTALS
from experiments import papers

PAPERS = [
    papers.FreqShrinkage(5),
    papers.DFDR(),
    papers.SupportMeasureMachine(),
    papers.OneClassSMM(),
    papers.BagPixel(**QUICK_TOTALS),
    papers.ConstantRate(),
    papers.AggregateNN(5, n_restarts=1, max_iter=50),
]
