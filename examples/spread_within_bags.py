"""Labels that depend on how much the points of a bag differ: a column of deviations."""

import numpy as np
import pandas as pd

from bdr_stan import BLR, Bags


def counties(rng, between, n_counties=300, n_people=50):
    """People of counties, whose means differ by `between` sds within a county, and the labels."""
    spread = rng.uniform(0.5, 1.5, n_counties)
    centre = between * rng.normal(size=n_counties)
    county = np.repeat(np.arange(n_counties), n_people)
    income = centre[county] + spread[county] * rng.normal(size=len(county))
    people = pd.DataFrame({"county": county, "income": income})
    # How far each person is from the county's own mean; the root makes the mean of the squares
    # unbiased for the variance within the county, however few its people.
    own = people["income"].groupby(people["county"])
    n = own.transform("size")
    unbiased = np.sqrt(n / np.maximum(n - 1, 1))
    people["income_deviation"] = (income - own.transform("mean")) * unbiased
    return people, spread**2


for between in (0.0, 0.5, 1.0):
    rng, scores = np.random.default_rng(1), {}
    (people, y), (new, y_new) = counties(rng, between), counties(rng, between)
    for columns in (["income"], ["income", "income_deviation"]):
        bags, test = (Bags.from_dataframe(table, "county", columns) for table in (people, new))
        model = BLR(kernel="linear + rbf", method="exact").fit(bags, y, seed=1)
        scores[" and ".join(columns)] = model.score(test, y_new)
    found = ", ".join(f"{score:.2f} from {columns}" for columns, score in scores.items())
    print(f"Means differ by {between:g} sds: R2 {found}")
