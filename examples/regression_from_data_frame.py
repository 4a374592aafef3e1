"""Regression from a data frame: one row a person, one label a county."""

import numpy as np
import pandas as pd

from bdr_stan import BDR, Bags

# A table as you might have read it: people of 150 counties, 2 to 120 asked in each.
rng = np.random.default_rng(1)
wealth = rng.normal(size=150)  # of a county, seen through its people alone
county = np.repeat(np.arange(150), rng.integers(2, 121, 150))
people = pd.DataFrame(
    {
        "county": county,
        "age": rng.normal(50, 12, len(county)),
        "income": 30 + 8 * wealth[county] + rng.normal(0, 10, len(county)),
        "vote": (0.5 + 0.1 * np.tanh(wealth))[county],
    }
)

bags = Bags.from_dataframe(people, bag="county", features=["age", "income"], metadata=["vote"])
y = bags.metadata["vote"].to_numpy()  # one label a county
train, test = bags[:100], bags[100:]

# Columns in units of their own need length scales of their own.
model = BDR(n_landmarks=20, bandwidth=[25.0, 15.0]).fit(train, y[:100], seed=1)
print(model.report())
print(model.priors().to_string())

predictive = model.predictive(test)
lower, upper = predictive.interval(0.9)
found = pd.DataFrame(
    {"people": test.sizes, "vote": y[100:], "mean": predictive.mean, "5%": lower, "95%": upper},
    index=pd.Index(test.ids, name="county"),
)
print(found.sort_values("people").round(3).to_string(max_rows=12))
held = np.mean((lower <= y[100:]) & (y[100:] <= upper))
print(f"90% intervals hold {held:.0%} of the labels of counties held out.")
