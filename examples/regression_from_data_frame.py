"""Regression from a data frame: one row per person, one label per county."""

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from bdr_stan import BDR, Bags

# A table as you might have read it: people of 150 counties, 2 to 120 asked in each.
rng = np.random.default_rng(1)
wealth = rng.normal(size=150)  # of a county, seen through its people alone
county = np.repeat(np.arange(150), rng.integers(2, 121, 150))
people = pd.DataFrame(
    {
        "county": county,
        "age": rng.normal(50, 12, len(county)),
        "income": 40_000 * np.exp(0.3 * wealth[county] + rng.normal(0, 0.5, len(county))),
        "region": np.where(rng.random(len(county)) < 0.5, "urban", "rural"),
        "vote": (0.5 + 0.1 * np.tanh(wealth))[county],
    }
)

features = ["age", "income", "region"]
bags = Bags.from_dataframe(people, bag="county", features=features, metadata=["vote"])
y = bags.metadata["vote"]  # one label per county, indexed by their ids
train, test, y_train, y_test = train_test_split(bags, y, test_size=50, random_state=1)

model = BDR(n_landmarks=20).fit(train, y_train, seed=1)
print(model.report())
print(model.priors().to_string())

predictive = model.predictive(test)
lower, upper = predictive.interval(0.9)
found = pd.DataFrame(
    {"people": test.sizes, "vote": y_test, "mean": predictive.mean, "5%": lower, "95%": upper},
    index=pd.Index(test.ids, name="county"),
)
print(found.sort_values("people").round(3).to_string(max_rows=12))
held = np.mean((lower <= y_test) & (y_test <= upper))
print(f"90% intervals hold {held:.0%} of the labels of counties held out.")
