"""Tables of reasons to doubt predictions."""

import re

import numpy as np
import pytest
from builders.location_family import location_family

from bdr_stan import BDR, BLR, Bags, BDRClassifier, InverseBDR, Shrinkage

ARRAYS, Y = location_family(3, 60, largest=30)
BAGS = Bags.from_list(ARRAYS, ids=[f"c{i:02}" for i in range(60)])
SELECTION = "Points seen with unequal probabilities (selection)"
ATTENUATION = "Means of few points are measured with error (attenuation)"
FAMILIARITY = "Out-of-distribution bags"
SAMPLING = "Draws of the posterior"


@pytest.fixture(scope="module")
def shrinkage():
    return Shrinkage(5, kernel="rbf").fit(BAGS, Y, seed=1)


def test_selection_names_the_factor_at_which_the_conclusion_fails(shrinkage):
    large = np.flatnonzero(BAGS.sizes > 15)
    mean = shrinkage.predict(BAGS)
    a, b = (BAGS.ids[each] for each in large[np.argsort(mean[large])[[-3, 2]]])
    found = shrinkage.doubts(BAGS, above=(a, b))
    assert f"the label of {a} " in found.conclusion and f"that of {b} " in found.conclusion
    table = found.to_dataframe()
    assert table.index.tolist() == [SELECTION]
    answer, limit = table.loc[SELECTION]
    factor = float(re.search(r"factor of ([\d.]+)\.$", limit).group(1))
    assert factor == pytest.approx(shrinkage.sensitivity(BAGS).fails_at(a, b), abs=0.01)
    bounds = shrinkage.sensitivity(BAGS, selection=1.5)
    assert f"{np.mean(bounds.upper - bounds.lower):.2g}." in answer
    reverse = shrinkage.doubts(BAGS, above=(b, a)).to_dataframe().loc[SELECTION].iloc[1]
    assert "not certain without selection" in reverse


def test_the_default_conclusion_is_the_order_of_the_extremes(shrinkage):
    mean = shrinkage.predict(BAGS)
    found = shrinkage.doubts(BAGS)
    assert f"label of {BAGS.ids[np.argmax(mean)]} " in found.conclusion
    assert f"that of {BAGS.ids[np.argmin(mean)]} " in found.conclusion


def test_it_prints_as_a_table_of_three_columns(shrinkage):
    text = str(shrinkage.doubts(BAGS))
    assert text.startswith("Conclusion: the label of c")
    assert max(map(len, text.splitlines())) <= 100
    for words in ("reason for doubt", "what the answer becomes", "change the conclusion"):
        assert words in text


def test_small_bags_attenuate_models_that_take_means_as_exact():
    small = Bags.from_list([bag[:3] for bag in ARRAYS], ids=BAGS.ids)
    model = BLR(5, method="exact").fit(small, Y, seed=1)
    answer = model.doubts(small).to_dataframe().loc[ATTENUATION].iloc[0]
    slope = float(re.search(r"about ([\d.]+) times", answer).group(1))
    # Points have variance 1 around centres of variance 1: 1 / (1 + mean of 1 / N).
    assert slope == pytest.approx(1 / (1 + np.mean(1 / small.sizes)), abs=0.15)
    large = Bags.from_list([np.vstack([bag] * 40) for bag in ARRAYS], ids=BAGS.ids)
    of_large = BLR(5, method="exact").fit(large, Y, seed=1).doubts(large)
    assert ATTENUATION not in of_large.to_dataframe().index
    of_bdr = Shrinkage(5, kernel="rbf").fit(small, Y, seed=1).doubts(small)
    assert ATTENUATION not in of_bdr.to_dataframe().index


def test_bags_from_elsewhere_are_named(shrinkage):
    first, *others, third, fourth = np.flatnonzero((BAGS.sizes > 3) & (BAGS.sizes < 9))[:6]
    moved = [bag + 9.0 if i in (first, *others) else bag for i, bag in enumerate(ARRAYS)]
    bags = Bags.from_list(moved, ids=BAGS.ids)
    far, name = shrinkage.familiarity(bags)["familiarity"] <= 0.001, BAGS.ids[first]
    assert far[name]
    pair = (name, BAGS.ids[third])
    answer, limit = shrinkage.doubts(bags, above=pair).to_dataframe().loc[FAMILIARITY]
    assert answer.startswith(f"{far.sum()} of 60 bags")
    assert f"{name} of the conclusion is among" in limit
    pair = (BAGS.ids[third], BAGS.ids[fourth])
    limit = shrinkage.doubts(bags, above=pair).to_dataframe().loc[FAMILIARITY].iloc[1]
    assert "not among them" in limit


def test_poor_diagnostics_are_a_reason():
    with pytest.warns(UserWarning, match="too few"):
        model = BDR(5, kernel="rbf").fit(BAGS, Y, chains=2, warmup=150, draws=50, seed=1)
    answer, limit = model.doubts(BAGS).to_dataframe().loc[SAMPLING]
    assert "too few to assess convergence" in answer
    assert limit.startswith("Not known.")


def test_conformal_intervals_stand_beside_those_of_the_model():
    model = BDR(5, kernel="rbf", method="laplace").fit(BAGS, Y, draws=300, seed=1)
    answer, limit = model.doubts(BAGS, level=0.8).to_dataframe().loc["The model"]
    regions, (lower, upper) = model.conformal(BAGS, 0.8), model.predictive(BAGS).interval(0.8)
    ratio = np.median(regions.upper - regions.lower) / np.median(upper - lower)
    assert "80% of labels" in answer and f"are {ratio:.2f} times as wide" in answer
    assert "apart" in limit
    mean = model.predict(BAGS)
    near = tuple(BAGS.ids[np.argsort(mean)[[31, 30]]])
    limit = model.doubts(BAGS, above=near, level=0.8).to_dataframe().loc["The model"].iloc[1]
    assert "overlap" in limit


@pytest.mark.parametrize(
    "model, labels",
    [
        (BDRClassifier(5, kernel="rbf", method="optimize"), np.where(Y > 3, "b", "a")),
        (InverseBDR(5, method="optimize"), Y),
    ],
)
def test_classes_and_inverse_models(model, labels):
    found = model.fit(BAGS, labels, seed=1).doubts(BAGS)
    what = "probability of b" if labels is not Y else "label"
    assert found.conclusion.startswith(f"the {what} of c")
    assert (SELECTION in found.to_dataframe().index) == (labels is not Y)


def test_bags_without_ids_have_numbers(shrinkage):
    assert shrinkage.doubts(ARRAYS, above=(3, 1)).conclusion.startswith("the label of bag 3 ")
