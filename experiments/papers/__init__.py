"""Systems of the papers that are no estimators for users: what experiments compare with.

`docs/validation/papers.md` describes each, with its source and the experiment that runs it.
`on_bags` is the base of those that are fitted to bags; `covariance_operators`, `density_matching`,
`gaussian_mixtures` and `kernel_pca` work on the points of one sample, `kernel_grids` on many
kernels at once.
"""

from experiments.papers.aggregate_nn import AggregateNN
from experiments.papers.bag_pixel import BagPixel
from experiments.papers.constant_rate import ConstantRate
from experiments.papers.dfdr import DFDR
from experiments.papers.freq_shrinkage import FreqShrinkage
from experiments.papers.support_measures import OneClassSMM, SupportMeasureMachine

__all__ = [
    "DFDR",
    "AggregateNN",
    "BagPixel",
    "ConstantRate",
    "FreqShrinkage",
    "OneClassSMM",
    "SupportMeasureMachine",
]
