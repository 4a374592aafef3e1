"""Sections on predictions: the share of zeros among counts."""

import re

import numpy as np
import pytest

from bdr_stan import BDR, Bags
from bdr_stan.report.prediction_sections import zeros_text


def test_zeros_are_compared_with_chance():
    y, p = np.repeat([0, 3], [70, 30]), np.full(100, 0.7)
    assert (
        zeros_text(y, p) == "70% of the counts are 0; 70% are predicted to be (chance: 56% to 84%)."
    )
    assert "There are more zeros than" in zeros_text(y, np.full(100, 0.5))
    assert "There are fewer zeros than" in zeros_text(y, np.full(100, 0.9))


@pytest.mark.parametrize("share", [1.0, 0.4])
def test_the_report_of_counts_has_their_zeros(share, tmp_path):
    rng = np.random.default_rng(0)
    z = rng.normal(size=100)
    bags = Bags.from_list([rng.normal(mean, size=(20, 1)) for mean in z])
    y = rng.poisson(np.exp(0.8 + 0.5 * z)) * (rng.random(100) < share)
    model = BDR(5, kernel="rbf", family="poisson", method="laplace").fit(bags, y, draws=400, seed=1)
    model.report_html(tmp_path / "fit.html", bags)
    (text,) = re.findall(r"\d+% of the counts are 0[^<]*", (tmp_path / "fit.html").read_text())
    assert text.startswith(f"{np.mean(y == 0):.0%} of")
    assert ("There are more zeros than this family" in text) == (share < 1)
