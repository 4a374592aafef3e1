"""Rates inside bags: incidence at each pixel, from the cases of districts alone."""

import numpy as np
import pandas as pd

from bdr_stan import AggregateRegressor, Bags

# A country of 80 districts in a row, 20 pixels each; rain falls from west to east.
rng = np.random.default_rng(1)
n = 80 * 20
pixels = pd.DataFrame(
    {
        "district": np.repeat(np.arange(80), 20),
        "rain": np.linspace(3, 0, n) + rng.normal(0, 0.5, n),
        "height": rng.normal(0, 1, n),
        "population": rng.integers(10, 500, n),
    }
)
rate = 0.02 * np.exp(0.8 * pixels["rain"] - 0.5 * pixels["height"])  # cases per person
cases = rng.poisson((pixels["population"] * rate).groupby(pixels["district"]).sum())

columns = ["rain", "height"]
bags = Bags.from_dataframe(pixels, bag="district", features=columns, weight="population")
model = AggregateRegressor(link="exp", n_landmarks=30)
model.fit(bags, cases, seed=1)  # 80 numbers are all it sees of the rates
print(model.report())
print(f"learned kernel: {model.kernel_}")

found = model.predict_points(pixels)
pixels["true rate"], pixels["mean"] = rate, found.mean
pixels["5%"], pixels["95%"] = found.interval(0.9)
pixels["P(> 0.1)"] = found.exceedance(0.1)
print(pixels.sample(8, random_state=1).round(3).to_string(index=False))
print(f"correlation of log rates: {np.corrcoef(np.log(rate), np.log(found.mean))[0, 1]:.3f}")
