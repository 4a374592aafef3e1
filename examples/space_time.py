"""Space and time: monthly counts of districts whose borders change, and the rates behind them."""

import sys

import numpy as np
import pandas as pd

from bdr_stan import RBF, AggregateRegressor, Bags, Matern32, SpatialBlocks, tune
from bdr_stan.kernels import HilbertProduct, HilbertSpace

months, side, size = (4, 12, 15) if "--quick" in sys.argv else (12, 24, 60)
month, row, col = np.indices((months, side, side)).reshape(3, -1)
lat, lon, now = (row + 0.5) / side, (col + 0.5) / side, (month + 0.5) / months
rng = np.random.default_rng(1)
people = rng.integers(20, 200, side**2)[row * side + col]
away = np.hypot(lat - now, lon - now)  # from an outbreak that moves across the map
rate = 0.005 + 0.05 * np.exp(-0.5 * (away / 0.2) ** 2)  # cases per person and month

# 6 x 3 districts in the first half of the time, 3 x 6 after: each month has bags of its own.
early = month < months // 2
district = np.where(early, row * 6 // side, row * 3 // side) * 10
district += np.where(early, col * 3 // side, col * 6 // side)
bag, points = 100 * month + district, np.column_stack([month, lat, lon])
bags = Bags.from_points(points, bag, weights=people, features=["month", "lat", "lon"])
cases = pd.Series(rng.poisson(people * rate)).groupby(bag, sort=False).sum().to_numpy()

space, time = Matern32(0.4, columns=["lat", "lon"]), RBF(2.0, columns=["month"])
both = HilbertProduct(HilbertSpace(space), HilbertSpace(time, 15), n_functions=3 * size)
models = {"space": AggregateRegressor(kernel=space), "both": AggregateRegressor(kernel=both)}
for held_out, cv in {"random bags": 4, "regions": SpatialBlocks(4, ["lat", "lon"])}.items():
    tuned = tune(bags, cases, models=models, cv=cv, n_landmarks=[size], method="vb")
    print(f"held-out {held_out}:", tuned.table.round(2).to_string(index=False), sep="\n")

model = tuned.best_of["both"].set_params(method="laplace").fit(bags, cases, seed=1)
table = pd.DataFrame({"month": month + 1, "row": row, "column": col, "true rate": rate})
table["estimated"] = model.predict_points(points).mean
shown = table[table["month"].isin([2, months // 2, months - 1])]
maps = shown.set_index(["month", "row", "column"]).to_xarray().to_array("map")
maps.rename("cases per person").plot(row="map", col="month").fig.savefig("space_time.png", dpi=150)
