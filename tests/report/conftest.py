"""Four fits that are told of, with names that a page must escape, and their reports."""

import warnings

import matplotlib
import numpy as np
import pandas as pd
import pytest

from bdr_stan import BDR, AggregateRegressor, Bags, BLRClassifier, InverseBDR

NASTY = "<b>income</b> ($ & more)"
SHORT = {"chains": 2, "warmup": 150, "draws": 100, "seed": 1, "progress": False}


@pytest.fixture(scope="session")
def rows_of_points():
    """A row a point: bags of 1 to 15 points about their label, two numbers and a category."""
    rng = np.random.default_rng(5)
    rows = [
        (f"<i>{i}</i>", label, x, rng.choice(["a<", "b"]), rng.normal(), rng.normal())
        for i, label in enumerate(rng.normal(size=24))
        for x in rng.normal(label, 0.5, rng.integers(1, 16))
    ]
    return pd.DataFrame(rows, columns=["town", "y", NASTY, "kind", "lon", "lat"])


@pytest.fixture(scope="session")
def bags(rows_of_points):
    return Bags.from_dataframe(rows_of_points, "town", [NASTY, "kind"], metadata=["y"])


@pytest.fixture(scope="session")
def places(rows_of_points):
    return Bags.from_dataframe(rows_of_points, "town", [NASTY, "lon", "lat"], metadata=["y"])


@pytest.fixture(scope="session")
def fits(bags, places):
    """Name -> fit and its bags: by NUTS and otherwise, of labels, classes and totals."""
    y = bags.metadata["y"].to_numpy()
    classes = np.where(y > 0, "<script>", "no")
    counts = np.random.default_rng(1).poisson(places.sizes * 2.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # short chains
        return {
            "BDR": (BDR(6).fit(bags, y, **SHORT), bags),
            "classifier": (BLRClassifier(5, method="laplace").fit(bags, classes, **SHORT), bags),
            "inverse": (InverseBDR(6, method="laplace").fit(bags, y, **SHORT), bags),
            "aggregate": (
                AggregateRegressor(n_landmarks=6, method="laplace").fit(places, counts, **SHORT),
                places,
            ),
        }


@pytest.fixture(scope="session")
def pages(fits, tmp_path_factory):
    """Name -> file of the report, in a folder as users have them."""
    matplotlib.use("Agg")
    folder = tmp_path_factory.mktemp("my project (copy)")
    for name, (model, its_bags) in fits.items():
        model.report_html(folder / f"{name}.html", its_bags, label="<em>rent</em>, $")
    return {name: folder / f"{name}.html" for name in fits}
