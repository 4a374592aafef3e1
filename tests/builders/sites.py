"""Tables of several sites with the same columns, and a public one."""

import numpy as np
import pandas as pd

from bdr_stan import Bags

COLUMNS = {"bag": "ward", "features": ["age", "income", "sex"]}
METADATA = ["beds", "region", "stay"]


def site(n, seed, first=0):
    """Rows in no order: n wards of lognormal sizes, numbered from `first`, and their stays."""
    rng = np.random.default_rng(seed)
    sizes = np.ceil(rng.lognormal(2.5, 1, n)).astype(int)
    sizes[0] = 1
    ward, centre = np.repeat(np.arange(n), sizes), rng.normal(size=n)
    region = rng.choice(["north", "south"], n)
    rows = pd.DataFrame(
        {
            "ward": ward + first,
            "age": np.round(60 + 10 * (centre[ward] + rng.normal(size=len(ward)))),
            "income": np.round(np.exp(10 + 0.4 * rng.normal(size=len(ward)))),
            "sex": rng.choice(["f", "m"], len(ward)),
            "w": rng.uniform(0.5, 2, len(ward)),
            "beds": rng.integers(10, 60, n)[ward],
            "region": region[ward],
            "stay": (8 + centre + (region == "north") + 0.4 * rng.normal(size=n))[ward],
        }
    )
    return rows.sample(frac=1, random_state=seed, ignore_index=True)


def bags_of(table, **columns):
    """Bags of a site's table, and their labels."""
    bags = Bags.from_dataframe(table, **COLUMNS, metadata=METADATA, **columns)
    return bags, bags.metadata["stay"]
