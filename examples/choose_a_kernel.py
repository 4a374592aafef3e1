"""Kernels as objects: shapes, sums on named columns, and the choice by labels held out."""

import numpy as np
import pandas as pd

from bdr_stan import BDR, Bags, tune
from bdr_stan.kernels import RBF, Matern32

# 200 towns of 5 to 60 people; the label depends on mean age and, roughly, on median income.
rng = np.random.default_rng(1)
town = np.repeat(np.arange(200), rng.integers(5, 61, 200))
age, income = rng.normal(45, 6, 200), rng.normal(30, 8, 200)
people = pd.DataFrame(
    {
        "town": town,
        "age": age[town] + rng.normal(0, 10, len(town)),
        "income": income[town] + rng.exponential(10, len(town)),
    }
)
bags = Bags.from_dataframe(people, bag="town", features=["age", "income"])
y = 0.1 * age + np.abs(income - 30) ** 0.5 + rng.normal(0, 0.2, 200)
train, held, test = bags[:100], bags[100:150], bags[150:]

# Bandwidths that are not given come from the median rule, each on the columns of its kernel.
sum_of_both = RBF(columns=["age"]) + Matern32(columns=["income"])
models = {
    "linear + rbf": BDR(),
    "rbf": BDR(kernel="rbf"),
    "matern32": BDR(kernel=Matern32()),
    "age + income": BDR(kernel=sum_of_both),
}
grid = {"n_landmarks": (20,), "bandwidth_scale": (0.5, 1.0)}
tuned = tune(train, y[:100], models=models, validation=(held, y[100:150]), **grid)
print(tuned.table.head(8).round(3).to_string(index=False))

best = tuned.best.fit(train, y[:100], seed=1)
nll = -best.predictive(test).log_prob(y[150:]).mean()
print(f"best: {tuned.table['model'][0]}, kernel {best.kernel}, test NLL {nll:.3f}")
