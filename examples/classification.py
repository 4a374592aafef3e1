"""Two classes of bags: how sure a bag of few points lets one be."""

import numpy as np
import pandas as pd

from bdr_stan import BDRClassifier
from bdr_stan.metrics import table_by_size

# 300 machines, each with a few vibration readings; worn ones scatter more.
rng = np.random.default_rng(1)
worn = rng.random(300) < 0.5
sizes = rng.choice([1, 3, 10, 50], 300)
bags = [rng.normal(0, 2 if w else 1, (n, 2)) for w, n in zip(worn, sizes, strict=True)]
y = np.where(worn, "worn", "sound")

model = BDRClassifier(n_landmarks=20).fit(bags[:200], y[:200], seed=1)
print(model.report())

chance = model.predict_proba(bags[200:])  # one column per class, as in model.classes_
table = pd.DataFrame(
    {
        "readings": sizes[200:],
        "class": y[200:],
        f"P({model.classes_[1]})": chance[:, 1].round(3),
        "predicted": model.predict(bags[200:]),
    }
)
print(table.sort_values("readings").to_string(index=False, max_rows=12))

# Few readings leave the class open, and the probabilities say so.
predictive = model.predictive(bags[200:])
print(table_by_size(y[200:], predictive, sizes[200:]).round(3).to_string())
