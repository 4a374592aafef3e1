"""Sections on points: units of rates, and the most influential columns first."""

import matplotlib as mpl
import numpy as np
import pytest

from bdr_stan import BLR, AggregateRegressor, Bags, Linear
from bdr_stan.report import point_sections
from bdr_stan.report.fit_summary import fit_summary
from bdr_stan.report.page import Folded, Picture


@pytest.fixture(autouse=True)
def without_screen():
    mpl.use("Agg")


@pytest.mark.parametrize("weighted", [True, False])
def test_maps_and_curves_name_the_unit_of_the_rate(rows_of_points, weighted):
    table = rows_of_points.assign(people=2.0)
    weight = "people" if weighted else None
    bags = Bags.from_dataframe(table, "town", ["lon", "lat"], weight=weight)
    counts = np.random.default_rng(1).poisson(bags.totals + 3)
    model = AggregateRegressor(n_landmarks=4, method="laplace").fit(bags, counts, seed=1)
    fit = fit_summary(model, bags, "cases")
    unit = "cases per unit of people" if weighted else "cases per point"
    for word, drawn in zip(("mean", "sd"), point_sections.rates(fit).blocks, strict=True):
        assert drawn.caption == f"The posterior {word} of the rate at each point, {unit}."
        assert f">posterior {word}, {unit}</text>" in drawn.svg
        assert drawn.on_card
    _, *curves = point_sections.influence(fit).blocks
    assert len(curves) == 2
    assert all(f">average {unit}</text>" in each.svg and not each.on_card for each in curves)


def test_three_columns_with_the_most_influence_are_shown_and_the_others_folded(rng):
    points = rng.normal(size=(1500, 5)) + np.repeat(rng.normal(size=(50, 5)), 30, axis=0)
    bags = Bags.from_points(points, sizes=[30] * 50, features=list("abcde"))
    means = bags.sums(points) / 30
    y = means @ [0.0, 3.0, 0.0, 9.0, 1.0]
    model = BLR(20, kernel=Linear(), method="exact").fit(bags, y, seed=1)
    _, *shown, folded = point_sections.influence(fit_summary(model, bags, "y")).blocks
    assert [each.caption for each in shown] == ["Along d.", "Along b.", "Along e."]
    assert isinstance(folded, Folded)
    assert all(isinstance(each, Picture) for each in folded.blocks)
    assert {each.caption for each in folded.blocks} == {"Along a.", "Along c."}
