"""Donors from their cells: a donor's severity, by the cells in an AnnData object."""

import sys

import anndata
import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from bdr_stan import BDR, Bags

# Cells as you might have read them by anndata.read_h5ad(path, backed="r"): 20 to 400 of a donor,
# some of them activated, and more so the more severe the disease.
rng = np.random.default_rng(1)
n = 60 if "--quick" in sys.argv else 150
severity = rng.normal(size=n)
donor = rng.permutation(np.repeat(np.arange(n), rng.integers(20, 401, n)))
activated = rng.random(len(donor)) < 1 / (1 + np.exp(1 - severity[donor]))
pca = rng.normal(size=(len(donor), 10)).astype(np.float32)
pca[:, :2] += np.outer(activated, [2.5, -1.5])
adata = anndata.AnnData(
    obs=pd.DataFrame(
        {"donor_id": [f"donor {i}" for i in donor], "severity": severity[donor]},
        index=[f"cell {i}" for i in range(len(donor))],
    ),
    obsm={"X_pca": pca},
)

bags = Bags.from_anndata(adata, bag="donor_id", features="X_pca", metadata=["severity"])
y = bags.metadata["severity"].to_numpy()  # one a donor, in the order of their ids
train, test, y_train, y_test = train_test_split(bags, y, test_size=n // 3, random_state=1)

predictive = BDR(n_landmarks=20).fit(train, y_train, seed=1).predictive(test)
lower, upper = predictive.interval(0.9)
found = {"cells": test.sizes, "severity": y_test, "mean": predictive.mean, "sd": predictive.sd}
print(pd.DataFrame(found, index=test.ids).sort_values("cells").round(2).to_string(max_rows=12))
held = np.mean((lower <= y_test) & (y_test <= upper))
print(f"90% intervals hold {held:.0%} of the severities of donors held out.")
