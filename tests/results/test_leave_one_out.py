"""leave_one_out: weighted draws against the posterior without a label, which is known here."""

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import mean_squared_error

from bdr_stan.results.inference_data import dataset
from bdr_stan.results.leave_one_out import LeaveOneOut, class_predictive

SIGMA = 2.0


@pytest.fixture(scope="module")
def normal():
    """Labels of one unknown mean with a flat prior and known noise: draws, labels, likelihood."""
    rng = np.random.default_rng(4)
    y = rng.normal(1.0, SIGMA, 12)
    mu = rng.normal(y.mean(), SIGMA / np.sqrt(12), 20_000)[:, None]
    return rng.normal(mu, SIGMA, (20_000, 12)), y, stats.norm(mu, SIGMA).logpdf(y)


def test_a_label_is_predicted_by_the_others(normal):
    draws, y, log_likelihood = normal
    left = LeaveOneOut(draws, y, log_likelihood)
    mean = (y.sum() - y) / 11
    exact = stats.norm(mean, SIGMA * np.sqrt(1 + 1 / 11))
    np.testing.assert_allclose(left.mean, mean, atol=0.06)
    np.testing.assert_allclose(left.sd, exact.std(), atol=0.05)
    np.testing.assert_allclose(left.cdf(y), exact.cdf(y), atol=0.012)
    np.testing.assert_allclose(left.log_density, exact.logpdf(y), atol=0.02)
    np.testing.assert_allclose(left.interval(0.8), exact.interval(0.8), atol=0.12)
    assert (left.pareto_k < 0.7).all()
    # with its own label a bag is predicted better than without
    seen = LeaveOneOut(draws, y)
    assert mean_squared_error(y, seen.mean) < mean_squared_error(y, left.mean)
    assert seen.pareto_k is None and seen.log_density is None


def test_quantiles_and_heights_are_those_of_weighted_draws(rng):
    draws = rng.poisson(3, (40, 5)).astype(float)
    y = np.array([0.0, 2, 3, 4, 9])
    left = LeaveOneOut(draws, y, rng.normal(size=(40, 5)))
    for i in range(5):
        w, order = left.weights[:, i], np.argsort(draws[:, i])
        below = np.cumsum(w[order])
        assert left.quantile(0.3)[i] == draws[order, i][np.argmax(below >= 0.3)]
        height = w[draws[:, i] < y[i]].sum() + w[draws[:, i] == y[i]].sum() / 2
        assert left.cdf(y)[i] == pytest.approx(height)
    assert left.weights.sum(axis=0) == pytest.approx(1)
    assert left.quantile([0.1, 0.9]).shape == (2, 5)


def test_probabilities_of_classes_leave_the_label_out():
    rng = np.random.default_rng(2)
    codes, n = np.array([0, 1, 1, 0]), 4000
    p = rng.beta(3, 2, (n, 1)) * np.ones(4)  # of the second class, in each draw
    own = np.where(codes == 1, p, 1 - p)
    draws = (rng.random((n, 4)) < p).astype(float)
    left = LeaveOneOut(draws, codes, np.log(own))
    expected = [np.sum(p[:, 0] / own[:, i]) / np.sum(1 / own[:, i]) for i in range(4)]
    probabilities = left.class_probabilities(2)
    np.testing.assert_allclose(probabilities[:, 1], expected, atol=0.03)
    assert probabilities.sum(axis=1) == pytest.approx(1)
    seen = LeaveOneOut(draws, codes).class_probabilities(3)
    np.testing.assert_allclose(seen[:, 1], draws.mean(axis=0))
    assert (seen[:, 2] == 0).all()

    classes = class_predictive(np.array(["no", "yes"]), probabilities)
    assert classes.mean == pytest.approx(probabilities[:, 1])
    said = classes.log_prob(["no", "yes", "yes", "no"])
    np.testing.assert_allclose(np.exp(said), probabilities[np.arange(4), codes])
    with pytest.raises(ValueError, match="the classes are 'no' and 'yes'"):
        classes.log_prob(["no", "perhaps", "yes", "no"])


def test_a_fit_of_one_draw_has_nothing_to_weight(rng):
    seen = {"y": rng.normal(size=(1, 1, 3))}
    groups = {"posterior_predictive": dataset(seen, {"y": ["bag"]})}
    assert LeaveOneOut.from_groups(groups) is None
    assert LeaveOneOut.from_groups({}) is None


def test_divided_predictions_are_those_of_divided_labels():
    rng = np.random.default_rng(0)
    draws, labels = rng.poisson(20.0, (400, 6)).astype(float), rng.poisson(20.0, 6).astype(float)
    by = np.arange(1.0, 7.0)
    log_likelihood = rng.normal(size=(400, 6))
    whole = LeaveOneOut(draws, labels, log_likelihood)
    found = whole.divided_by(by)
    expected = LeaveOneOut(draws / by, labels / by, log_likelihood)
    for name in ("labels", "mean", "sd", "pareto_k", "weights"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name))
    np.testing.assert_allclose(found.quantile(0.3), expected.quantile(0.3))
    np.testing.assert_allclose(found.cdf(labels / by), expected.cdf(labels / by))
    np.testing.assert_array_equal(whole.labels, labels)  # unchanged


def test_samples_follow_the_weights():
    draws = np.repeat([[0.0], [1.0], [2.0]], 1, axis=1)
    loo = LeaveOneOut(draws, np.array([1.0]), np.log([[0.2], [0.2], [1.0]]))
    drawn = loo.sample(20_000, seed=0)
    assert drawn.shape == (20_000, 1)
    shares = [np.mean(drawn == k) for k in range(3)]
    np.testing.assert_allclose(shares, loo.weights[:, 0], atol=0.02)
