"""metrics: scores by bag size, against values worked out by hand or by theory."""

import numpy as np
import pytest
from builders.point_posteriors import point_case
from scipy import stats

from bdr_stan.aggregate.likelihoods import LIKELIHOODS
from bdr_stan.aggregate.links import LINKS
from bdr_stan.kernels import LandmarkFeatures, Linear
from bdr_stan.metrics import (
    calibration,
    coverage,
    crps,
    reliability,
    size_classes,
    table_by_size,
)
from bdr_stan.predictive import AggregatePredictive, PointPredictive


class Normal:
    """Normal predictive distributions, one a bag."""

    def __init__(self, mean, sd):
        self.mean, self.sd = np.asarray(mean, dtype=float), np.asarray(sd, dtype=float)

    def interval(self, level):
        return stats.norm(self.mean, self.sd).interval(level)

    def quantile(self, q):
        return stats.norm(self.mean, self.sd).ppf(np.asarray(q)[:, None])

    def cdf(self, y):
        return stats.norm(self.mean, self.sd).cdf(y)

    def log_prob(self, y):
        return stats.norm(self.mean, self.sd).logpdf(y)


def test_coverage_by_hand():
    assert coverage([1, 2, 3], [1, 0, 4], [2, 1.5, 5]) == pytest.approx(1 / 3)


def test_crps_of_normal_predictions(rng):
    """Against the closed form, and the exact value of counts by their distribution function."""
    mean, sd = rng.normal(size=50), rng.uniform(0.2, 3, 50)
    y = mean + sd * rng.normal(size=50)
    z = (y - mean) / sd
    exact = sd * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi))
    assert crps(y, Normal(mean, sd)) == pytest.approx(exact.mean(), abs=0.002 * sd.mean())
    assert crps(y, Normal(mean, 1e-9)) == pytest.approx(np.abs(y - mean).mean())


def test_crps_of_counts():
    def probability(i):
        return np.full((1, len(i)), 6.0)

    predictive = AggregatePredictive(probability, 3, 1, LIKELIHOODS["poisson"])
    y, k = np.array([2, 6, 11]), np.arange(60)
    steps = stats.poisson(6).cdf(k)[:, None] - (k[:, None] >= y)
    assert crps(y, predictive) == pytest.approx(np.mean(np.sum(steps**2, axis=0)), abs=0.02)


@pytest.mark.parametrize(
    "sizes, edges, counts",
    [
        ([1, 2, 5, 6, 20, 21, 100, 101], None,
         {"1": 1, "2-5": 2, "6-20": 2, "21-100": 2, ">100": 1}),
        ([5, 1000, 5, 20], None, {"5": 2, "20": 1, "1000": 1}),
        ([5, 1000, 5, 20], [10], {"1-10": 2, ">10": 2}),
        (range(1, 8), [1, 4, 500], {"1": 1, "2-4": 3, "5-500": 3}),
        ([30, 40], (1, 5), {">5": 2}),
    ],
)  # fmt: skip
def test_size_classes(sizes, edges, counts):
    found = size_classes(sizes, edges)
    assert {name: int(of.sum()) for name, of in found.items()} == counts
    assert list(found) == list(counts)


def test_size_classes_reject_edges_that_do_not_increase():
    with pytest.raises(ValueError, match=r"must increase, found \[5, 5\]"):
        size_classes([1, 2], [5, 5])


def test_table_by_hand():
    y, mean, sd = np.array([0.0, 1.0, 10.0]), np.zeros(3), np.array([1.0, 2.0, 1.0])
    table = table_by_size(y, Normal(mean, sd), [3, 3, 50])
    assert list(table.index) == ["3", "50", "all"] and table.index.name == "size"
    assert list(table.columns) == ["n_bags", "mse", "nll", "coverage", "width"]
    assert table["n_bags"].tolist() == [2, 1, 3]
    assert table["mse"].tolist() == pytest.approx([0.5, 100, 101 / 3])
    nll = -stats.norm(mean, sd).logpdf(y)
    assert table["nll"].tolist() == pytest.approx([nll[:2].mean(), nll[2], nll.mean()])
    assert table["coverage"].tolist() == pytest.approx([1, 0, 2 / 3])
    z = 2 * stats.norm.ppf(0.975)
    assert table["width"].tolist() == pytest.approx([1.5 * z, z, 4 / 3 * z])
    assert table_by_size(y, Normal(mean, sd), [3, 3, 50], level=0.5)["width"].iloc[0] < 3


def test_calibrated_predictions_lie_on_the_diagonal(rng):
    sd = rng.uniform(0.5, 2, 4000)
    table = calibration(rng.normal(0, sd), Normal(np.zeros(4000), sd))
    assert list(table.columns) == ["size", "level", "coverage", "se"]
    assert set(table["size"]) == {"all"}
    assert (abs(table["coverage"] - table["level"]) < 4 * table["se"]).all()
    half = table[table["level"] == 0.5]
    assert half["se"].item() == pytest.approx(0.5 / np.sqrt(4000))


def test_calibration_by_size_finds_the_overconfident_class(rng):
    sizes = np.repeat([1, 100], 1000)
    y = rng.normal(0, np.where(sizes == 1, 3, 1))
    table = calibration(y, Normal(np.zeros(2000), np.ones(2000)), [0.9], sizes=sizes)
    found = table.set_index("size")["coverage"]
    assert found["100"] == pytest.approx(0.9, abs=0.03)
    assert found["1"] == pytest.approx(2 * stats.norm.cdf(1.645 / 3) - 1, abs=0.05)
    assert found["all"] == pytest.approx((found["1"] + found["100"]) / 2)


@pytest.mark.parametrize(
    "y, sizes, level, message",
    [
        ([1, 2], [1, 1, 1], 0.95, r"mean has shape \(3,\) and y has shape \(2,\): both must"),
        ([1, 2, 3], [1, 1], 0.95, r"sizes has shape \(2,\) and y has shape \(3,\)"),
        ([1, np.nan, 3], [1, 1, 1], 0.95, "y is NaN at bag 1"),
        ([1, 2, 3], [1, 1, 1], 95, "level must be a probability between 0 and 1, found 95"),
    ],
)
def test_table_rejects(y, sizes, level, message):
    class Fixed(Normal):
        def log_prob(self, y):
            return np.zeros(3)

    with pytest.raises(ValueError, match=message):
        table_by_size(y, Fixed(np.zeros(3), np.ones(3)), sizes, level=level)


def test_scores_reject():
    with pytest.raises(ValueError, match="there are no bags to score"):
        coverage([], [], [])
    with pytest.raises(ValueError, match="level must be a probability"):
        calibration([1.0], Normal([0], [1]), [1.5])
    with pytest.raises(ValueError, match=r"y has shape \(1,\) and sizes has shape \(2,\)"):
        calibration([1.0], Normal([0], [1]), sizes=[1, 2])


# ---------------------------------------------------------------- classes


class Classes:
    """Predictive probabilities of the second of two classes."""

    def __init__(self, p, classes=(0, 1)):
        self.mean, self.classes = np.asarray(p, dtype=float), np.array(classes)

    def log_prob(self, y):
        return np.log(np.where(np.asarray(y) == self.classes[1], self.mean, 1 - self.mean))


def test_classes_by_hand():
    predictive = Classes([0.8, 0.6, 0.1], ["no", "yes"])
    table = table_by_size(["yes", "no", "no"], predictive, [3, 3, 50])
    assert list(table.index) == ["3", "50", "all"]
    assert table.loc["all", "n_bags"] == 3
    np.testing.assert_allclose(table["accuracy"], [0.5, 1, 2 / 3])
    np.testing.assert_allclose(table["brier"], [(0.04 + 0.36) / 2, 0.01, 0.41 / 3])
    losses = -np.log([0.8, 0.4, 0.9])
    np.testing.assert_allclose(table["log_loss"], [losses[:2].mean(), losses[2], losses.mean()])


def test_reliability_by_hand():
    predictive = Classes([0.05, 0.15, 0.18, 0.95, 1.0], ["no", "yes"])
    table = reliability(["no", "no", "yes", "yes", "yes"], predictive, 10)
    assert list(table["n_bags"]) == [1, 2, 2]
    np.testing.assert_allclose(table["predicted"], [0.05, 0.165, 0.975])
    np.testing.assert_allclose(table["observed"], [0, 0.5, 1])
    variance = [0.05 * 0.95, 0.15 * 0.85 + 0.18 * 0.82, 0.95 * 0.05]
    np.testing.assert_allclose(table["se"], np.sqrt(variance) / [1, 2, 2])


def test_reliability_finds_the_overconfident_class(rng):
    p = rng.uniform(0.02, 0.98, 4000)
    sizes = np.where(np.arange(4000) < 2000, 1, 30)
    truth = np.where(sizes == 1, 0.5 + (p - 0.5) / 3, p)  # too sure of bags of one point
    y = rng.binomial(1, truth)
    table = reliability(y, Classes(p), 5, sizes=sizes)
    score = ((table["observed"] - table["predicted"]) / table["se"]).abs()
    assert score[table["size"] == "30"].max() < 4
    assert score[table["size"] == "1"].max() > 8
    assert table["n_bags"].sum() == 2 * 4000


@pytest.mark.parametrize("score", [table_by_size, reliability])
def test_scores_of_classes_reject(score):
    predictive = Classes([0.2, 0.3], ["no", "yes"])
    with pytest.raises(ValueError, match="label of bag 1 is .*maybe.*, but the classes are"):
        score(["no", "maybe"], predictive, sizes=[1, 2])
    with pytest.raises(ValueError, match="both must have one value for each bag"):
        score(["no", "yes", "no"], predictive, sizes=[1, 2, 3])


def test_reliability_rejects_no_bins():
    with pytest.raises(ValueError, match="n_bins must be an integer >= 1, found 0"):
        reliability([0, 1], Classes([0.2, 0.3]), 0)


# ---------------------------------------------------------------- points


def test_calibration_counts_rates_of_points_inside_central_intervals(rng):
    case = point_case(rng)
    p, truth = case.posterior(), rng.gamma(2, 1, 53)
    table = calibration(truth, p, [0.31, 0.73])
    assert table["size"].tolist() == ["all"] * 2 and table["level"].tolist() == [0.31, 0.73]
    for level, share in table[["level", "coverage"]].to_numpy():
        lower, upper = np.quantile(case.rates(), [(1 - level) / 2, (1 + level) / 2], axis=1)
        inside = np.mean((lower <= truth) & (truth <= upper))
        assert share == pytest.approx(inside, abs=2 / 53)  # quantiles lie between draws
    assert 0.1 < table["coverage"][0] < table["coverage"][1] < 0.95


def test_calibration_of_a_calibrated_posterior_of_points(rng):
    """Truth and draws from one distribution, point by point."""
    as_they_are = LandmarkFeatures(Linear(), np.eye(1))
    theta = np.column_stack([rng.normal(size=2000), np.zeros(2000)])
    scale = rng.gamma(3, 1, (3000, 1))
    p = PointPredictive(lambda a, b: scale[a:b], 3000, as_they_are, theta, LINKS["exp"])
    truth = np.exp(scale[:, 0] * rng.normal(size=3000))
    table = calibration(truth, p)
    np.testing.assert_allclose(table["coverage"], table["level"], atol=0.04)


def test_calibration_of_points_rejects(rng):
    p = point_case(rng).posterior()
    with pytest.raises(ValueError, match="level must be a probability between 0 and 1, found 95"):
        calibration(np.ones(53), p, [95])
    with pytest.raises(ValueError, match=r"shape \(2,\): pass one number, or one for each of the"):
        calibration(np.ones(2), p)


def test_crps_rejects():
    predicted = Normal(np.zeros(3), np.ones(3))
    with pytest.raises(ValueError, match="y is NaN at bag 1"):
        crps([1, np.nan, 3], predicted)
    with pytest.raises(ValueError, match=r"shape \(2,\)"):
        crps([1, 2], predicted)
    with pytest.raises(TypeError, match="predictive must be a predictive distribution"):
        crps([1, 2], [0.5, 0.5])
