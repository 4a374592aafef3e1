"""What the function sees: the influence of each column, and what a change of the people changes."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from bdr_stan import BDR, Bags, plots

# A table as you might have read it: people of 150 towns, and a label a town, an average over them.
rng = np.random.default_rng(1)
town = np.repeat(np.arange(150), rng.integers(5, 121, 150))
old, rich = rng.normal(size=(2, 150))
people = pd.DataFrame(
    {
        "town": town,
        "age": rng.normal(45 + 8 * old[town], 15).clip(18, 90),
        "income": 30_000 * np.exp(0.3 * rich[town] + rng.normal(0, 0.4, len(town))),
        "job": rng.choice(["farm", "office", "shop"], len(town)),
    }
)
each = (
    np.cos(people["age"] / 15) + np.log(people["income"] / 30_000) + 0.8 * (people["job"] == "farm")
)
y = (each + rng.normal(size=len(each))).groupby(town).mean().to_numpy()

bags = Bags.from_dataframe(people, "town")
model = BDR(n_landmarks=15, kernel="additive", label_noise="size").fit(bags, y, seed=1)
fig, axes = plt.subplots(1, 3, figsize=(11, 3.4), sharey=True, layout="constrained")
for ax, column in zip(axes, ["age", "income", "job"], strict=True):
    plots.influence(model, column, bags, ax=ax)
    if ax is not axes[0]:  # the legend and the label of the first are those of all
        ax.get_legend().remove()
        ax.set_ylabel("")
fig.savefig("influence.png", dpi=120)

older = model.contrast(people.assign(age=(people["age"] + 10).clip(18, 90)), bags)
lower, upper = older.interval(0.9)
print(f"Were everyone ten years older, labels would change by {older.mean.mean():.2f} on average;")
print(f"the 90% interval of town 0 is {lower[0]:.2f} to {upper[0]:.2f}. Wrote influence.png")
