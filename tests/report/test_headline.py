"""headline: the sentences that a reader sees first."""

import re

import numpy as np
import pandas as pd
import pytest

from bdr_stan import BDR, BLR, Bags, BDRClassifier
from bdr_stan.report.fit_summary import fit_summary
from bdr_stan.report.prediction_sections import headline, share


def towns(n, rng):
    level = rng.normal(size=n)
    age = np.repeat(40 + 10 * level, 20) + rng.normal(size=20 * n)
    table = pd.DataFrame({"town": np.repeat(np.arange(n), 20), "age": age})
    return Bags.from_dataframe(table, "town"), level


def said(model, bags, label):
    return [block.text for block in headline(fit_summary(model, bags, label)).blocks]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_of_numbers(rng):
    bags, level = towns(60, rng)
    y = 3 * level + rng.normal(0, 0.5, 60)
    model = BDR(5, method="laplace").fit(bags, y, seed=1)
    first, coverage, basis, *_ = said(model, bags, "rent, $")
    error, sd, r2, ridge = map(float, re.findall(r"[\d.]+\d", first.replace("R2", "")))
    assert first.startswith("The fit predicts rent with a root mean squared error of ")
    assert f"{error:.3g} $ (" in first and first.endswith(f": {ridge:.3g} $.")
    year = said(model, bags, "rent, 2020 to 2022")[0]
    assert year.startswith("The fit predicts rent, 2020 to 2022 with a root mean squared error of ")
    assert 0.4 < error < 0.8 and sd == pytest.approx(y.std(), rel=0.01)
    assert r2 == pytest.approx(1 - (error / sd) ** 2, abs=0.01) and 0.4 < ridge < 0.8
    assert re.match(r"\d+% \(\d+ of 60\) of the 95% intervals contain", coverage)
    assert basis == "Each bag is predicted without its own label."


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_of_few_bags_there_is_no_verdict(rng):
    bags, level = towns(8, rng)
    model = BDR(3, method="laplace").fit(bags, level, seed=1)
    first, coverage, basis, *_ = said(model, None, "label")
    assert first.startswith("The fit predicts the label") and "R2" not in first
    assert re.match(r"\d of 8 of the 95% intervals", coverage)
    assert basis.endswith("8 bags are too few to assess a model.")


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_of_classes(rng):
    bags, level = towns(40, rng)
    model = BDRClassifier(3, method="laplace").fit(bags, level > 0, seed=1)
    first = said(model, bags, "label")[0]
    assert re.match(
        r"The likeliest class of the label is the true one for \d+% \(\d+ of 40\)", first
    )


def test_of_counts_that_scatter_more_than_the_family_allows(rng):
    bags = [rng.normal(size=(5, 1)) for _ in range(40)]
    y = np.tile([2, 50], 20)
    with pytest.warns(UserWarning, match="scatter more"):
        model = BLR(4, kernel="rbf", family="poisson", method="optimize").fit(bags, y, seed=1)
    assert any("use family='negative_binomial'." in each for each in said(model, None, "y"))


def test_shares():
    assert share(np.array([True, False, True])) == "2 of 3"
    assert share(np.arange(40) < 30) == "75% (30 of 40)"
