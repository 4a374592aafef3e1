"""The network for rates at points: its loss, gradient and penalties against plain loops."""

import numpy as np
import pytest
from builders.counted_bags import counts_of_weighted_points
from scipy.optimize import approx_fprime

from bdr_stan import Bags
from bdr_stan.aggregate.links import LINKS
from experiments.papers import network
from experiments.papers.deviances import DEVIANCES
from experiments.papers.fourier_features import FourierFeatures, draw_frequencies
from experiments.papers.network import (
    Loss,
    Network,
    Penalties,
    Rates,
    first_parameters,
    laplacian_penalty,
    sample_points,
)


def random_loss(likelihood, link, bags, y, rng):
    """A loss with all penalties on, and parameters somewhere."""
    rates = Rates(
        np.full(2, 0.1), np.array([1.0, 8.0]), -0.2 * (link == "identity"), 1.3, LINKS[link]
    )
    frequencies = draw_frequencies(30, 2, seed=rng)
    inputs = rng.normal(size=(9, 2))
    penalties = Penalties(
        l2=0.1,
        manifold=2.0,
        inputs=inputs,
        features=FourierFeatures(frequencies, 1.0)(inputs),
        bag_manifold=3.0,
        bag_features=rng.uniform(size=(len(bags), 4)),
    )
    theta = first_parameters(2, 5, rates.common_output, rng)
    return Loss(bags, y, rates, DEVIANCES[likelihood], 1.7, penalties), theta + 0.3 * rng.normal(
        size=21
    )


@pytest.mark.parametrize("chunk", [1 << 14, 3])
@pytest.mark.parametrize(
    ("likelihood", "link"),
    [
        ("poisson", "exp"),
        ("poisson", "square"),
        ("exponential", "exp"),
        ("exponential", "square"),
        ("normal", "identity"),
        ("normal", "exp"),
    ],
)
def test_loss_and_gradient(rng, monkeypatch, likelihood, link, chunk):
    monkeypatch.setattr(network, "CHUNK_POINTS", chunk)
    bags, _, y = counts_of_weighted_points()
    loss, theta = random_loss(likelihood, link, bags, y.astype(float), rng)
    value, gradient = loss(theta)
    np.testing.assert_allclose(
        gradient, approx_fprime(theta, lambda t: loss(t)[0], 1e-7), rtol=1e-4, atol=1e-4
    )

    # the same, one point after another
    W, b, v, c = theta[:10].reshape(2, 5), theta[10:15], theta[15:20], theta[20]
    rates, penalties = loss.rates, loss.penalties
    link_of = {"exp": np.exp, "square": np.square, "identity": lambda f: f - 0.2 / 1.3}[link]

    def f(x):
        return sum(max(x @ W[:, k] + b[k], 0) * v[k] for k in range(5)) + c

    expected, means = 0.0, []
    for i in range(len(bags)):
        w = bags.weights[bags.offsets[i] : bags.offsets[i + 1]]
        outputs = np.array([f((x - rates.centre) / rates.spread) for x in bags[i]])
        total = w @ (1.3 * link_of(outputs))
        means.append(w @ outputs / w.sum())
        expected += loss.deviance(y[i], total, 1.7 * w @ w)[0] / len(bags)
    assert loss.mean_deviance(theta) == pytest.approx(expected)
    outputs = np.array([f(x) for x in penalties.inputs])
    expected += 2 * dense_penalty(outputs, penalties.features)
    expected += 3 * dense_penalty(np.array(means), penalties.bag_features)
    expected += 0.1 * (np.sum(W**2) + np.sum(v**2)) / 2
    assert value == pytest.approx(expected)


def dense_penalty(f, features):
    w = features @ features.T
    laplacian = np.diag(w.sum(axis=1)) - w
    return f @ laplacian @ f / len(f) ** 2


def test_penalty_is_that_of_the_dense_laplacian(rng):
    x, f = rng.normal(size=(40, 3)), rng.normal(size=40)
    features = FourierFeatures(draw_frequencies(25, 3, seed=1), 1.4)(x)
    value, slope = laplacian_penalty(f, features)
    assert value == pytest.approx(dense_penalty(f, features))
    pairs = (features @ features.T) * (f[:, None] - f) ** 2
    assert value == pytest.approx(pairs.mean() / 2)
    moved = approx_fprime(f, lambda v: laplacian_penalty(v, features)[0], 1e-6)
    np.testing.assert_allclose(slope, moved, atol=1e-6)


def test_penalty_below_zero_counts_as_zero(rng):
    bags = [rng.normal(size=(3, 2)) for _ in range(4)]
    rates = Rates(np.zeros(2), np.ones(2), 0.0, 1.0, LINKS["exp"])
    against = np.array([[1.0, 0.0], [-1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])
    assert laplacian_penalty(np.array([1.0, -1, 1, -1]), against)[0] < 0
    off = Loss(Bags.from_list(bags), np.ones(4), rates, DEVIANCES["poisson"], 1.0)
    on = Loss(
        off.bags,
        off.y,
        rates,
        off.deviance,
        1.0,
        Penalties(manifold=1.0, inputs=rng.normal(size=(4, 2)), features=against),
    )
    theta = first_parameters(2, 3, 0.0, rng) + rng.normal(size=13)
    net = Network.from_weights(theta, 2)
    assert laplacian_penalty(net.output(net.activations(on.penalties.inputs)), against)[0] < 0
    np.testing.assert_array_equal(on(theta)[1], off(theta)[1])
    assert on(theta)[0] == off(theta)[0]


def test_common_output_has_the_common_rate(rng):
    bags, _, y = counts_of_weighted_points()
    points = sample_points(bags, 100, rng)
    np.testing.assert_array_equal(points, bags.points[bags.weights > 0])
    common = y.sum() / bags.weights.sum()
    for link in ("exp", "square", "identity"):
        rates = Rates.from_bags(bags, y, points, LINKS[link])
        assert rates.transform(np.array([rates.common_output])) == pytest.approx(common)
        assert rates.inputs(points).std(axis=0) == pytest.approx([1, 1])
    with pytest.raises(ValueError, match="link='exp' has positive rates, but the labels sum to -"):
        Rates.from_bags(bags, -y, points, LINKS["exp"])


def test_outputs_too_large_for_rates_stay_finite():
    rates = Rates(np.zeros(1), np.ones(1), 0.0, 2.0, LINKS["exp"])
    f = np.array([-1e4, 0.0, 49.0, 1e4])
    np.testing.assert_allclose(rates.transform(f), 2 * np.exp([-50, 0, 49, 50]))
    np.testing.assert_allclose(rates.slopes(f), rates.transform(f))
