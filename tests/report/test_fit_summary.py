"""fit: the bags of a fit, found by their ids."""

import numpy as np
import pandas as pd
import pytest

from bdr_stan import BDR, Bags
from bdr_stan.report.fit_summary import fit_summary


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(3)
    points = rng.normal(size=(60, 2))
    bags = Bags.from_points(points, np.repeat(np.arange(20), 3), features=["x", "z"])
    return BDR(4, method="optimize").fit(bags, rng.normal(size=20), seed=1), bags


def test_bags_are_put_in_the_order_of_the_fit(fitted):
    model, bags = fitted
    shuffled = bags.take(np.random.default_rng(1).permutation(20))
    as_text = Bags(bags.points, bags.offsets, ids=[str(i) for i in range(20)])
    for others in (shuffled, as_text, bags):
        np.testing.assert_array_equal(fit_summary(model, others, "").bags.points, bags.points)


def test_further_bags_are_left_out_and_missing_ones_named(fitted):
    model, bags = fitted
    points = np.vstack([bags.points, np.zeros((3, 2))])
    more = Bags.from_points(points, np.repeat(np.arange(21), 3), features=["x", "z"])
    assert len(fit_summary(model, more, "").bags) == 20
    with pytest.raises(ValueError, match="to 20 bags, but there are 5, without bag '5': pass"):
        fit_summary(model, bags[:5], "")
    other = Bags.from_points(np.zeros((60, 2)), np.repeat(np.arange(20), 3))
    with pytest.raises(ValueError, match="have ids of training bags, but other points"):
        fit_summary(model, other, "")
    unnamed = Bags(more.points, more.offsets)
    with pytest.raises(ValueError, match="there are 21, which have no ids"):
        fit_summary(model, unnamed, "")


def test_a_mode_predicts_from_bags_alone(fitted):
    model, bags = fitted
    assert fit_summary(model, None, "").predictive is None
    found = fit_summary(model, bags, "").predictive
    np.testing.assert_allclose(found.mean, model.predict(bags))
    assert fit_summary(model, None, "").sizes.tolist() == [3] * 20


def test_columns_go_by_the_names_of_the_table():
    frame = pd.DataFrame({"b": [0, 0, 1, 2], "x": [1.0, 2, 3, 5], "kind": list("uvuv")})
    bags = Bags.from_dataframe(frame, "b")
    model = BDR(2, method="optimize").fit(bags, [1.0, 2.0, 4.0], seed=1)
    assert fit_summary(model, None, "").columns == ["x", "kind"]
    bare = [np.array([[0.0], [1.0]]), np.array([[2.0]]), np.array([[3.0], [5.0]])]
    model.fit(bare, [1.0, 2.0, 4.0], seed=1)
    assert fit_summary(model, None, "").columns == ["column 0"]
