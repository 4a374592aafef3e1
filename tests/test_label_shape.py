"""Advice on labels that normal errors do not describe."""

import numpy as np
import pytest

from bdr_stan import BLR, InverseBDR
from bdr_stan.models.overdispersion import label_advice

NORMAL = np.random.default_rng(0).normal(size=200)


@pytest.mark.parametrize(
    ("y", "sigma", "words"),
    [
        (NORMAL, 1.0, None),
        (np.full(200, 2.0), 1.0, None),
        (10 + NORMAL, 1.0, None),
        (np.append(NORMAL, np.zeros(4)), 1.0, None),  # 4 of 204
        (np.append(NORMAL, np.zeros(30)), 1.0, "13% of the labels are 0"),
        (np.round(NORMAL) + 3, 1.0, "of the labels are 3"),
        (np.exp(NORMAL), 1.0, "of the labels are within two residual sd of the bound 0"),
        (np.exp(NORMAL), 0.02, None),
        (np.arange(1.0, 6.0), 0.7, None),  # 1 of 5
        (1 / (1 + np.exp(-NORMAL - 3)), 0.1, "are within two residual sd of the bound 1"),
    ],
)
def test_what_is_said(y, sigma, words):
    said = label_advice(y, sigma)
    if words is None:
        assert said == []
    else:
        assert words in said[0] and "Compare with InverseBDR() and Stacked()." in said[0]


POSITIVE = np.exp(NORMAL)
SHARES = 1 / (1 + np.exp(-NORMAL - 3))


@pytest.mark.parametrize(
    ("y", "family"),
    [
        (POSITIVE, "BDR(family='gamma')"),
        (np.append(POSITIVE, np.zeros(30)), None),
        (SHARES, "BDR(family='beta')"),
        (np.append(SHARES, np.ones(30)), "BDR(family='gamma')"),
        (np.append(SHARES, np.zeros(30)), None),
        (np.round(NORMAL) + 5, "BDR(family='negative_binomial')"),
        (np.repeat([0.0, 1.0], 100), "BDRClassifier()"),
        (np.append(NORMAL, np.zeros(30)), None),
    ],
)
def test_families_of_such_labels_are_named(y, family):
    (said,) = label_advice(y, 0.5)
    _, _, of_families = said.partition("Compare with InverseBDR() and Stacked().")
    if family is None:
        assert of_families == ""
    else:
        assert family in of_families and of_families.count("BDR") == 1


def test_it_is_in_the_report_of_models_with_normal_errors():
    bags = [NORMAL[k : k + 5, None] for k in range(0, 100, 5)]
    y = np.array([bag.mean() > 0 for bag in bags], float)
    assert "of the labels are " in BLR(4, method="exact").fit(bags, y, seed=1).report()
    assert "Labels:" not in InverseBDR(4, method="optimize").fit(bags, y, seed=1).report()
    heavy_tails = BLR(4, family="student_t", method="optimize").fit(bags, y, seed=1)
    assert heavy_tails.result_.has_draws("sigma") and "Labels:" not in heavy_tails.report()
