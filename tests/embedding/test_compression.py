"""Compressed rows carry the whole normal likelihood, whatever the bags."""

from dataclasses import fields

import numpy as np
import pytest
from builders import reference
from scipy import stats

from bdr_stan.embedding.compression import compress
from bdr_stan.embedding.shrinkage import joint_basis, shrinkage_factors

CASES = {
    "ragged": lambda r, d: r.choice([1, 2, 3, 5, 20, 100], r.integers(2, 60)),
    "one bag": lambda r, d: np.array([7]),
    "equal sizes": lambda r, d: np.full(r.integers(1, 80), 12),
    "all sizes differ": lambda r, d: 1 + np.arange(r.integers(1, 30)),
    "exactly d + 2 and one more": lambda r, d: np.repeat([3, 8], [d + 2, d + 3]),
    "weighted": lambda r, d: r.choice([1.25, 1.5, np.pi, 17.3], 40),
}
CONFIGURATIONS = [(name, seed) for name in CASES for seed in range(12)]


def drawn(name, seed):
    """Bags of a case; some with rank-deficient rows, some with labels far from zero."""
    rng = np.random.default_rng(seed)
    d = int(rng.choice([1, 2, 5, 9]))
    sizes = CASES[name](rng, d).astype(float)
    z = rng.normal(size=(len(sizes), d)) * np.geomspace(1, 1e-3, d)
    if seed % 3 == 1:
        z[:, -1] = z[:, 0]
    if seed % 3 == 2:
        z = z[rng.integers(0, 2, len(z)) % len(z)]  # two different rows at most
    y = rng.normal(size=len(sizes)) + (1e6 if seed % 2 else 0.0)
    return rng, z, y, sizes


def as_groups(data):
    """The rows of each group."""
    return np.split(data.rows, data.start[1:])


def log_likelihood(data, lam, w, a, eta, sigma):
    """From compressed rows, as in the models."""
    s = shrinkage_factors(data.bag_size, lam, eta)
    nu = eta * (1 - s) @ w**2 + sigma**2
    squares = [np.sum((R @ np.r_[g * w, a, -1]) ** 2) for R, g in zip(as_groups(data), s)]
    return -0.5 * np.sum(data.n_bags * np.log(2 * np.pi * nu) + np.array(squares) / nu)


@pytest.mark.parametrize("name, seed", CONFIGURATIONS)
def test_quadratic_form_of_each_group_is_kept(name, seed):
    rng, z, y, sizes = drawn(name, seed)
    data = compress(z, y, sizes)
    d = z.shape[1]
    np.testing.assert_array_equal(data.bag_size, np.unique(sizes))
    assert data.n_bags.sum() == len(y)
    assert np.all(data.length == np.minimum(data.n_bags, d + 2))
    assert data.rows.shape == (data.length.sum(), d + 2)
    np.testing.assert_array_equal(data.start, np.r_[0, np.cumsum(data.length)[:-1]])
    for _ in range(3):
        w, a = rng.normal(size=d), y.mean() + rng.normal()
        for size, rows in zip(data.bag_size, as_groups(data)):
            of = sizes == size
            full = np.sum((y[of] - a - z[of] @ w) ** 2)
            # rounding is relative to the labels' magnitude, not to the residuals'
            slack = 1e-12 * np.abs(y[of]).max() * np.sqrt(full * of.sum())
            compressed = np.sum((rows @ np.r_[w, a, -1]) ** 2)
            assert compressed == pytest.approx(full, rel=1e-8, abs=slack), f"size {size}"


@pytest.mark.parametrize("name, seed", CONFIGURATIONS)
def test_log_likelihood_is_kept(name, seed):
    rng, z, y, sizes = drawn(name, seed)
    lam = rng.gamma(1, 5, z.shape[1])
    compressed, one_by_one = compress(z, y, sizes), compress(z, y, sizes, lossless=False)
    for _ in range(3):
        w, a = rng.normal(size=z.shape[1]), y.mean() + rng.normal()
        eta, sigma = rng.gamma(2, 1, 2) + 0.05
        values = [log_likelihood(data, lam, w, a, eta, sigma) for data in (compressed, one_by_one)]
        full = 0.0
        for z_i, y_i, size in zip(z, y, sizes):
            s = eta / (eta + lam / size)
            variance = eta * np.sum(w**2 * (1 - s)) + sigma**2
            full += stats.norm.logpdf(y_i, a + np.sum(w * s * z_i), np.sqrt(variance))
        np.testing.assert_allclose(values, full, rtol=1e-8)


@pytest.mark.parametrize("name, seed", CONFIGURATIONS)
def test_labels_of_unequal_known_errors_are_kept_apart(name, seed):
    rng, z, y, sizes = drawn(name, seed)
    known = rng.choice([0.0, 0.04, 2.5], len(y))
    data = compress(z, y, sizes, known_variance=known)
    d = z.shape[1]
    assert sorted({*zip(sizes, known)}) == [*zip(data.bag_size, data.known_variance)]
    assert data.n_bags.sum() == len(y)
    assert np.all(data.length == np.minimum(data.n_bags, d + 2))
    w, a = rng.normal(size=d), y.mean() + rng.normal()
    for size, variance, rows in zip(data.bag_size, data.known_variance, as_groups(data)):
        of = (sizes == size) & (known == variance)
        full = np.sum((y[of] - a - z[of] @ w) ** 2)
        slack = 1e-12 * np.abs(y[of]).max() * np.sqrt(full * of.sum())
        compressed = np.sum((rows @ np.r_[w, a, -1]) ** 2)
        assert compressed == pytest.approx(full, rel=1e-8, abs=slack)


def test_known_errors_that_all_differ_leave_every_row(rng):
    z, y, known = rng.normal(size=(30, 2)), rng.normal(size=30), np.arange(30.0)
    data = compress(z, y, np.full(30, 5), known_variance=known)
    np.testing.assert_array_equal(data.rows, np.c_[z, np.ones(30), y])
    one_by_one = compress(z, y, np.full(30, 5), known_variance=known, lossless=False)
    np.testing.assert_array_equal(one_by_one.known_variance, known)


def test_a_whole_problem_in_landmark_coordinates(rng):
    p = reference.random_problem(rng, n=60, d=5)
    lam, V = joint_basis(p.Sigma, p.R)
    data = compress((p.mu - p.m0) @ V, p.y, p.sizes)
    alpha = rng.normal(size=5)
    ours = log_likelihood(data, lam, np.linalg.solve(V, alpha), 0.4, 0.6, 0.5)
    theirs = reference.bdr_log_likelihood(p, alpha, 0.4, 0.5, 0.6)
    assert ours == pytest.approx(theirs, rel=1e-10)
    assert len(data.rows) == 4 * 7  # four sizes


def test_without_compression_each_bag_keeps_its_row(rng):
    sizes = np.array([5.0, 1.0, 5.0, 2.0])
    z, y = rng.normal(size=(4, 2)), np.arange(4.0)
    data = compress(z, y, sizes, lossless=False)
    np.testing.assert_array_equal(data.bag_size, sizes)
    np.testing.assert_array_equal(data.rows[:, 3], y)
    np.testing.assert_array_equal(data.rows[:, :2], z)
    np.testing.assert_array_equal(data.rows[:, 2], 1)
    np.testing.assert_array_equal(data.n_bags, 1)
    np.testing.assert_array_equal(data.length, 1)
    np.testing.assert_array_equal(data.start, range(4))


def test_small_groups_keep_their_rows(rng):
    z, y = rng.normal(size=(4, 3)), rng.normal(size=4)
    data = compress(z, y, [2, 9, 2, 9])
    np.testing.assert_array_equal(data.rows, np.c_[z, np.ones(4), y][[0, 2, 1, 3]])


@pytest.mark.parametrize("name", CASES)
def test_order_of_the_bags_does_not_matter(name):
    rng, z, y, sizes = drawn(name, 0)
    order = rng.permutation(len(y))
    one, other = compress(z, y, sizes), compress(z[order], y[order], sizes[order])
    for field in fields(one):
        if field.name != "rows":
            np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name))
    for a, b in zip(as_groups(one), as_groups(other)):
        np.testing.assert_allclose(a.T @ a, b.T @ b, atol=1e-12 * np.sum(a**2))


def test_input_is_left_alone(rng):
    z, y, sizes = rng.normal(size=(30, 2)), rng.normal(size=30), np.full(30, 3.0)
    copies = z.copy(), y.copy(), sizes.copy()
    compress(z, y, sizes)
    for array, copy in zip((z, y, sizes), copies):
        np.testing.assert_array_equal(array, copy)


def test_bags_of_one_size_are_one_group(rng):
    z, y = rng.normal(size=(50, 3)), rng.normal(size=50)
    data = compress(z, y, np.ones(50))
    assert data.rows.shape == (5, 5) and data.n_bags.tolist() == [50]
