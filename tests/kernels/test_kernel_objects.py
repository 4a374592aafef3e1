"""Kernel objects: values, sums and products, columns, learned parameters, files."""

import json

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from bdr_stan.bags import Bags
from bdr_stan.embedding.mean_embedding import embed
from bdr_stan.kernels import (
    KERNELS,
    RBF,
    Exponential,
    Linear,
    Matern32,
    Matern52,
    Polynomial,
    RationalQuadratic,
    StudentT,
    kernel_config,
    kernel_named,
    kernel_of_config,
    median_bandwidth,
)

# Values at the distance r, in units of the bandwidth.
DEFINITIONS = {
    "rbf": lambda r: np.exp(-(r**2) / 2),
    "exponential": lambda r: np.exp(-r),
    "matern12": lambda r: np.exp(-r),
    "matern32": lambda r: (1 + np.sqrt(3) * r) * np.exp(-np.sqrt(3) * r),
    "matern52": lambda r: (1 + np.sqrt(5) * r + 5 * r**2 / 3) * np.exp(-np.sqrt(5) * r),
    "cauchy": lambda r: 1 / (1 + r**2),
    "rational quadratic": lambda r: 1 / (1 + r**2 / 2),
    "inverse multiquadric": lambda r: 1 / np.sqrt(1 + r**2),
    "student t": lambda r: 1 / (1 + r),
}


@pytest.fixture
def xy(rng):
    return rng.normal(size=(11, 3)), rng.normal(size=(4, 3))


def composed():
    return RBF(0.7, columns=["a"]) * Matern52(2.0, columns=["b", "c"], variance=3.0) + Exponential(
        [0.5, 1.5], columns=["c", "a"]
    )


@pytest.mark.parametrize("name", KERNELS)
def test_values_are_the_definition(xy, name):
    x, y = xy
    np.testing.assert_allclose(kernel_named(name, 1.3)(x, y), DEFINITIONS[name](cdist(x, y) / 1.3))
    lengths = np.array([0.5, 1.0, 3.0])
    np.testing.assert_allclose(
        kernel_named(name, lengths)(x, y), DEFINITIONS[name](cdist(x / lengths, y / lengths))
    )


@pytest.mark.parametrize("name", KERNELS)
def test_values_are_positive_definite(rng, name):
    x = rng.normal(size=(40, 2))
    gram = kernel_named(name, 0.8)(x, x)
    assert np.linalg.eigvalsh((gram + gram.T) / 2)[0] > -1e-7  # sqrt of rounded distances
    np.testing.assert_allclose(gram.diagonal(), 1, atol=1e-6)


def test_shapes_with_more_parameters(xy):
    x, y = xy
    r = cdist(x, y)
    np.testing.assert_allclose(RationalQuadratic(2.0, alpha=3)(x, y), (1 + r**2 / 24) ** -3)
    np.testing.assert_allclose(StudentT(1.0, degree=1.7)(x, y), 1 / (1 + r**1.7))
    np.testing.assert_allclose(Linear()(x, y), x @ y.T)
    np.testing.assert_allclose(Polynomial(3, 0.5, variance=2)(x, y), 2 * (x @ y.T + 0.5) ** 3)


def test_sums_products_and_columns(xy):
    x, y = xy
    k = composed().on(["a", "b", "c"], 3)
    first = np.exp(-((x[:, :1] - y[:, 0]) ** 2) / 2 / 0.49)
    second = 3 * DEFINITIONS["matern52"](cdist(x[:, 1:], y[:, 1:]) / 2)
    lengths = [0.5, 1.5]
    third = np.exp(-cdist(x[:, [2, 0]] / lengths, y[:, [2, 0]] / lengths))
    np.testing.assert_allclose(k(x, y), first * second + third)
    np.testing.assert_allclose(k.diagonal(x), np.diag(k(x, x)))
    np.testing.assert_allclose(k.diagonal(x), 4)


def test_parameters_are_learned_by_their_logarithms(xy):
    x, y = xy
    k = composed().on(["a", "b", "c"], 3)
    assert k.parameter_names == [
        "first.first.bandwidth",
        "first.second.bandwidth",
        "second.bandwidth[2]",
        "second.bandwidth[0]",
        "second.variance",
    ]
    np.testing.assert_allclose(np.exp(k.log_parameters), [0.7, 2, 0.5, 1.5, 1])
    same = k.with_log_parameters(k.log_parameters)
    np.testing.assert_allclose(same(x, y), k(x, y))
    moved = k.with_log_parameters(np.log([0.7, 2, 0.5, 1.5, 4]))
    np.testing.assert_allclose(moved(x, y) - k(x, y), 3 * k.second(x, y))
    assert Polynomial().parameter_names == []


def test_a_kernel_goes_through_json(xy):
    x, y = xy
    k = composed().on(["a", "b", "c"], 3) * Polynomial(3, 0.5)
    again = kernel_of_config(json.loads(json.dumps(kernel_config(k))))
    np.testing.assert_array_equal(again(x, y), k(x, y))


def test_median_and_ard(rng):
    points = rng.normal(size=(200, 2)) * [1, 100]
    k = Matern32("ard", columns=[1, 0]).at_median([points])
    lengths = points.std(axis=0)[[1, 0]] * median_bandwidth([points / points.std(axis=0)])
    np.testing.assert_allclose(k.bandwidth, lengths)
    assert Matern32(columns=[0]).at_median([points]).bandwidth == median_bandwidth([points[:, :1]])
    assert RBF(2.0).at_median([points]).bandwidth == 2.0


@pytest.mark.parametrize("kernel", ["cauchy", composed().on(["a", "b", "c"], 3), Polynomial()])
def test_embeddings_average_any_kernel(rng, kernel):
    bags = Bags.from_list([rng.normal(size=(m, 3)) for m in (5, 1, 9)])
    u = rng.normal(size=(4, 3))
    by_name = isinstance(kernel, str)
    k = kernel_named(kernel, 0.9) if by_name else kernel
    got = embed(bags, u, 0.9 if by_name else None, kernel=kernel, covariance="average")
    np.testing.assert_allclose(got.mean, [k(bag, u).mean(axis=0) for bag in bags])
    covariances = [np.cov(k(bag, u).T) for bag in bags if len(bag) > 1]
    np.testing.assert_allclose(got.covariance, np.mean(covariances, axis=0), rtol=1e-10)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RBF(0.0), "bandwidth must be a positive number, found 0.0"),
        (lambda: RBF("wide"), "bandwidth of RBF must be a positive number, .* found 'wide'"),
        (lambda: RBF(1, variance=-1), "variance of RBF must be a positive number, found -1"),
        (lambda: RBF(columns=["a", "b", "a"]), "RBF names the column 'a' twice: name each once"),
        (lambda: Polynomial(columns=[]), "Polynomial has no columns"),
        (lambda: Polynomial(1.5), "degree of Polynomial must be an integer >= 1, found 1.5"),
        (lambda: Polynomial(2, -1), "constant of Polynomial must be a number >= 0, found -1"),
        (lambda: StudentT(1, degree=3), r"degree of StudentT must be in \(0, 2\], found 3"),
        (lambda: RationalQuadratic(alpha=0), "alpha of RationalQuadratic must be a positive number"),
        (lambda: RBF(columns=["z"]).on(["a", "b"], 2), "the column 'z', which .* they have a, b"),
        (lambda: RBF(columns=[2]).on(None, 2), "the column 2, which .* they have 0 to 1"),
        (lambda: RBF()(np.ones((1, 1)), np.ones((1, 1))), "bandwidth='median' waits for data"),
        (lambda: RBF("ard").at_median([np.c_[[1.0, 2], [3, 3]]]), "column 1 is constant"),
        (lambda: embed([np.ones((2, 1))], np.ones((1, 1)), 2.0, kernel=RBF(1)), "has its own"),
        (lambda: kernel_named("cosine", 1.0), "kernel must be one of 'rbf', .*found 'cosine'"),
    ],
)
def test_unusable_kernels_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_only_kernels_are_added():
    with pytest.raises(TypeError, match="only kernels can be added or multiplied, found 2"):
        RBF() + 2
