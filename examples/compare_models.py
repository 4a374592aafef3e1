"""Four models on the same bags: who predicts well, and who knows how well."""

import numpy as np
import pandas as pd
from sklearn.metrics import mean_squared_error

from bdr_stan import BDR, BLR, MERR, RBFNetwork, Stacked, metrics

# 400 bags of 1 to 100 points; the label is the mean of the distribution a bag was drawn from.
rng = np.random.default_rng(1)
centres = rng.normal(size=400)
sizes = rng.choice([1, 2, 5, 20, 100], 400)
bags = [c + rng.normal(size=(m, 3)) for c, m in zip(centres, sizes, strict=True)]
train, test = slice(0, 200), slice(200, 400)

models = {
    "ridge at landmarks": RBFNetwork(20),
    "kernel ridge": MERR(),
    "BLR": BLR(20),
    "BDR": BDR(20),
    "BLR and BDR, stacked": Stacked([BLR(20), BDR(20)]),
}
rows = {}
for name, model in models.items():
    model.fit(bags[train], centres[train], seed=1)
    rows[name] = {"MSE": mean_squared_error(centres[test], model.predict(bags[test]))}
    if hasattr(model, "predictive"):
        predictive = model.predictive(bags[test])
        rows[name]["NLL"] = -predictive.log_prob(centres[test]).mean()
        table = metrics.table_by_size(centres[test], predictive, sizes[test])
        for size in ("1", "5", "100", "all"):
            rows[name][f"95% hold, size {size}"] = table.loc[size, "coverage"]
print(pd.DataFrame(rows).T.round(3).to_string(na_rep=""))
