"""Groups of a fit by NUTS, made by hand."""

import numpy as np
import pytest

from bdr_stan.results.inference_data import dataset

N_CHAINS, N_DRAWS, N_BAGS, N_LANDMARKS = 4, 250, 12, 3
DIMS = {"w": ["landmark"], "y": ["bag"], "embedding": ["bag", "landmark"]}
COORDS = {"landmark": range(N_LANDMARKS), "bag": [f"county {i}" for i in range(N_BAGS)]}


@pytest.fixture
def groups(rng):
    """All six groups: 4 chains of 250 draws of independent w (3 landmarks) and sigma, 12 bags."""
    shape = (N_CHAINS, N_DRAWS)
    attrs = {"inference_method": "nuts", "max_tree_depth": 5}
    posterior = {"w": rng.normal(size=(*shape, N_LANDMARKS)), "sigma": rng.gamma(9, size=shape)}
    stats = {
        "lp": rng.normal(size=shape),
        "energy": rng.normal(size=shape),
        "diverging": np.zeros(shape, dtype=bool),
        "tree_depth": np.full(shape, 3),
        "n_steps": np.full(shape, 7),
    }
    of_bags = (*shape, N_BAGS)
    return {
        "posterior": dataset(posterior, DIMS, COORDS, attrs=attrs),
        "sample_stats": dataset(stats, {}),
        "log_likelihood": dataset({"y": rng.normal(-1, 0.1, size=of_bags)}, DIMS, COORDS),
        "posterior_predictive": dataset({"y": rng.normal(size=of_bags)}, DIMS, COORDS),
        "observed_data": dataset({"y": rng.normal(size=N_BAGS)}, DIMS, COORDS, sample=False),
        "constant_data": dataset(
            {"embedding": rng.normal(size=(N_BAGS, N_LANDMARKS))}, DIMS, COORDS, sample=False
        ),
    }
