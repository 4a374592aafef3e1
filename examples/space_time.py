"""Space and time: monthly counts of districts whose borders change, and the rates behind them."""

import sys

import numpy as np
import pandas as pd

from bdr_stan import RBF, AggregateRegressor, Bags, Matern32, SpatialBlocks, plots, tune

months, side = (8, 12) if "--quick" in sys.argv else (24, 24)
rng = np.random.default_rng(1)
month, row, col = np.indices((months, side, side)).reshape(3, -1)
pixels = pd.DataFrame({"month": month, "lat": row / side, "lon": col / side})
pixels["people"] = rng.integers(50, 500, side**2)[row * side + col]

# An outbreak that starts in the south-west and moves north-east.
wave = np.hypot(pixels["lat"] - month / months, pixels["lon"] - month / months)
rate = 0.005 + 0.05 * np.exp(-0.5 * (wave / 0.25) ** 2)  # cases a person and month

# Columns of districts until half of the time, rows of districts after.
across = np.where(month < months // 2, col, row)
along = np.where(month < months // 2, row, col)
district = across * 6 // side * 3 + along * 3 // side
pixels["bag"] = [f"month {m:02}, district {d:02}" for m, d in zip(month, district)]
bags = Bags.from_dataframe(pixels, "bag", ["month", "lat", "lon"], weight="people")
cases = rng.poisson((pixels["people"] * rate).groupby(pixels["bag"]).sum())

kernel = Matern32(0.4, columns=["lat", "lon"]) * RBF(4.0, columns=["month"])
