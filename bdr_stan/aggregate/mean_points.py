"""Each bag as one point, its mean."""

import numpy as np

from bdr_stan.bags import Bags, BagsLike, as_bags
from bdr_stan.embedding.mean_embedding import embed
from bdr_stan.kernels import LandmarkFeatures, Linear


def mean_points(bags: BagsLike) -> Bags:
    """One point per bag: its weighted mean, with the total weight of the bag."""
    bags = as_bags(bags)
    # The linear kernel at the unit vectors is the point itself.
    columns = LandmarkFeatures(Linear(), np.eye(bags.n_features))
    return Bags(
        embed(bags, columns).mean,
        np.arange(len(bags) + 1),
        weights=bags.totals,
        ids=bags.ids,
        metadata=bags.metadata,
        features=bags.features,
        columns=bags.columns,
        copy=False,
    )
