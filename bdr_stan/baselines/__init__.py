"""Baselines of the papers, to reproduce their comparisons: not methods to choose for new data.

`DFDR`
    Kernel smoothing of labels in the distance of density estimates (Poczos et al. 2013).
`ConstantRate`, `BagPixel`, `AggregateNN`
    Totals from one rate, from the mean point of each bag, and from a neural network (Law et al.
    2018, "Variational learning on aggregate outputs").
"""

from bdr_stan.baselines.aggregate_nn import AggregateNN
from bdr_stan.baselines.bag_pixel import BagPixel
from bdr_stan.baselines.constant_rate import ConstantRate
from bdr_stan.baselines.dfdr import DFDR

__all__ = ["DFDR", "AggregateNN", "BagPixel", "ConstantRate"]
