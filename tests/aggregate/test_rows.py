"""Bags compressed to factors, sums and rows against their points, one by one."""

import numpy as np
import pytest
from builders.totals import RATES

from bdr_stan import threads
from bdr_stan.aggregate import rows as aggregation
from bdr_stan.aggregate.rows import (
    bag_means,
    noise_factor,
    point_rows,
    square_factors,
    weighted_sums,
    with_ones,
)
from bdr_stan.bags import Bags
from bdr_stan.kernels import (
    RBF,
    Cauchy,
    Exponential,
    FieldFeatures,
    Linear,
    Matern32,
    NystromFeatures,
    Polynomial,
)
from bdr_stan.kernels.feature_maps import NYSTROM_JITTER

KERNELS = {
    "rbf": RBF(1.2),
    "ard": RBF([0.7, 2.0, 1.1]),
    "exponential": Exponential(1.0),
    "columns": Matern32(1.3, columns=(2, 0)),
    "sum": RBF(1.0, columns=(0,)) + Cauchy(2.0, variance=0.3),
    "product": RBF(2.0, columns=(1, 2)) * Exponential(1.0, columns=(0,)),
    "polynomial": Polynomial(2, 0.5),
    "linear": Linear(),
}
SIZES = [1, 40, 300, 7, 120]


@pytest.fixture
def bags(rng):
    """Weighted bags of points around centres of their own, some points of weight 0."""
    points = [rng.normal(0, 2, 3) + rng.normal(0, 0.7, (n, 3)) for n in SIZES]
    weights = [rng.gamma(1, 100, n) for n in SIZES]
    weights[2][::3] = 0
    return Bags.from_list(points, weights=weights)


def features_of(bags, kernel=KERNELS["rbf"], d=9):
    points = np.asarray(bags.points, float)
    return NystromFeatures(kernel, points[:: len(points) // d][:d])


@pytest.fixture
def features(bags):
    return features_of(bags)


@pytest.fixture
def thetas(rng):
    return rng.normal(0, 0.7, (6, 10))


def by_hand(bags, features, thetas, link, shift=None):
    """sum_j p_j rate(f(x_j)) from the kernel, bag by bag and point by point, shape (S, n)."""
    u = features.landmarks
    K = features.kernel(u, u)
    L = np.linalg.cholesky((K + K.T) / 2 + NYSTROM_JITTER * np.trace(K) / len(u) * np.eye(len(u)))
    found = np.zeros((len(thetas), len(bags)))
    for a, points in enumerate(bags):
        weights = bags.point_weights[bags.offsets[a] : bags.offsets[a + 1]]
        psi = np.linalg.solve(L, features.kernel(u, points))
        for s, theta in enumerate(thetas):
            f = theta[:-1] @ psi + theta[-1] + (0 if shift is None else shift[s, a])
            for p, value in zip(weights, f, strict=True):
                found[s, a] += p * RATES[link](value)
    return found


def blocks(rows):
    ends = rows.start + rows.length
    return [rows.rows[a:b] for a, b in zip(rows.start, ends, strict=True)]


# ---------------------------------------------------------------- features


@pytest.mark.parametrize("name", KERNELS)
def test_features_are_those_of_nystrom(bags, name):
    """psi(x)'psi(y) = k(x, u) K^-1 k(u, y), and a last column for the intercept."""
    kernel, points = KERNELS[name], bags.points[::11]
    features = features_of(bags, kernel)
    rows, u = with_ones(features)(points), features.landmarks
    assert rows.shape == (len(points), 10)
    np.testing.assert_array_equal(rows[:, -1], 1)
    K = kernel(u, u) + NYSTROM_JITTER * kernel.diagonal(u).mean() * np.eye(9)
    expected = kernel(points, u) @ np.linalg.solve(K, kernel(u, points))
    scale = np.abs(expected).max()
    np.testing.assert_allclose(rows[:, :-1] @ rows[:, :-1].T, expected, atol=1e-7 * scale)


def test_at_landmarks_features_give_the_kernel(features):
    psi = features(features.landmarks)
    expected = features.kernel(features.landmarks, features.landmarks)
    np.testing.assert_allclose(psi @ psi.T, expected, atol=10 * NYSTROM_JITTER)


def test_landmarks_without_a_kernel_matrix():
    """Far apart for the bandwidth, squared distances drown in rounding."""
    near = 0.01 * np.random.default_rng(2).normal(size=(30, 2))
    with pytest.raises(ValueError, match="the 60 landmarks is not positive definite: use fewer"):
        NystromFeatures(RBF(1.0), np.vstack([near - 1e7, near + 1e7]))


# ---------------------------------------------------------------- factors


@pytest.mark.parametrize("name", KERNELS)
def test_factors_give_the_rates_of_the_points(bags, thetas, name):
    features = features_of(bags, KERNELS[name])
    rows = square_factors(bags, features)
    assert rows.weights is None and rows.rows.shape[1] == 10
    assert rows.length[0] == 1 and rows.length.max() <= 10
    expected = by_hand(bags, features, thetas, "square")
    np.testing.assert_allclose(rows.means(thetas, np.square), expected, rtol=1e-8)
    assert rows.start[0] == 0 and rows.start[-1] + rows.length[-1] == len(rows.rows)


def test_factors_of_bags_without_weights_of_single_precision(rng, thetas):
    bags = Bags.from_list([rng.normal(size=(n, 3)).astype("f4") for n in SIZES])
    features = features_of(bags)
    found = square_factors(bags, features).means(thetas, np.square)
    np.testing.assert_allclose(found, by_hand(bags, features, thetas, "square"), rtol=1e-8)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e9])
def test_the_unit_of_weights_does_not_matter(bags, features, thetas, scale):
    scaled = Bags(bags.points, bags.offsets, weights=scale * bags.weights)
    one, other = square_factors(bags, features), square_factors(scaled, features)
    np.testing.assert_array_equal(one.length, other.length)
    np.testing.assert_allclose(
        other.means(thetas, np.square), scale * one.means(thetas, np.square), rtol=1e-10
    )


def test_a_bag_whose_features_hardly_vary_needs_few_rows(rng, thetas):
    points = [1 + 1e-9 * rng.normal(size=(200, 3)), 1 + 1e-4 * rng.normal(size=(200, 3))]
    points.append(rng.normal(size=(200, 3)))
    bags = Bags.from_list(points)
    features = NystromFeatures(RBF(1.5), points[2][:9])
    rows = square_factors(bags, features)
    # to rounding the first is one point; the second has first derivatives, and barely second
    assert rows.length[0] == 1 and 4 <= rows.length[1] < 10 and rows.length[2] == 10
    expected = by_hand(bags, features, thetas, "square")
    np.testing.assert_allclose(rows.means(thetas, np.square), expected, rtol=1e-8)


def test_gram_matrices_and_their_packed_triangles(bags, features, thetas):
    rows, expected = square_factors(bags, features), by_hand(bags, features, thetas, "square")
    gram, packed = rows.gram(), rows.packed
    assert gram.shape == (5, 10, 10) and packed.shape == (5, 55)
    i, j = np.tril_indices(10)
    for s, theta in enumerate(thetas):
        np.testing.assert_allclose(np.einsum("i,aij,j->a", theta, gram, theta), expected[s])
        np.testing.assert_allclose(packed @ (theta[i] * theta[j]), expected[s], rtol=1e-8)
    parts = zip(np.split(bags.weights, bags.offsets[1:-1]), bags, gram, strict=True)
    for weights, points, of_bag in parts:
        phi = with_ones(features)(points)
        np.testing.assert_allclose(of_bag, (phi.T * weights) @ phi, atol=1e-9 * of_bag.max())


def test_the_smaller_form_is_packed(rng):
    """55 numbers a bag beside ten for each row: from five and a half rows on."""
    features = NystromFeatures(RBF(1.5), rng.normal(size=(9, 3)))
    few, many = (Bags.from_list(list(rng.normal(size=(4, m, 3)))) for m in (5, 6))
    assert not square_factors(few, features).packs and square_factors(many, features).packs
    assert not point_rows(many, features).packs


@pytest.mark.parametrize("tolerance", [1e-2, 1e-4])
def test_what_the_tolerance_leaves_out(bags, features, tolerance, monkeypatch):
    """Of sum p phi phi', directions whose eigenvalue is below tolerance^2 of the largest."""
    whole = square_factors(bags, features)
    monkeypatch.setattr("bdr_stan.aggregate.rows.RANK_TOLERANCE", tolerance)
    cut = square_factors(bags, features)
    assert cut.length.sum() < whole.length.sum()
    for all_rows, kept in zip(blocks(whole), blocks(cut), strict=True):
        values = np.linalg.svd(all_rows, compute_uv=False)
        assert len(kept) == np.sum(values > tolerance * values[0])
        lost = np.linalg.norm(all_rows.T @ all_rows - kept.T @ kept, 2)
        assert lost <= (1 + 1e-6) * (tolerance * values[0]) ** 2


# ---------------------------------------------------------------- what features leave out


@pytest.mark.parametrize("points_at_once", [16, 10_000])
def test_what_fields_leave_out_of_each_bag(bags, monkeypatch, points_at_once):
    """By points and by factors, of bags read whole or in pieces."""
    kernel = RBF(0.7, columns=(0, 1)) + Matern32(1.0, columns=(2,), variance=0.5)
    features = FieldFeatures(kernel, bags.points[:9])
    expected = [
        weights @ features.residual_variance(points, features(points))
        for weights, points in zip(np.split(bags.weights, bags.offsets[1:-1]), bags)
    ]
    assert min(expected) > 0
    monkeypatch.setattr(aggregation, "_BYTES_OF_ROWS", 8 * (18 + 5) * points_at_once)
    for rows in (
        square_factors(bags, features),
        point_rows(bags, features, with_residual_variance=True),
    ):
        np.testing.assert_allclose(rows.residual_variance, expected)
    assert point_rows(bags, features).residual_variance is None


def test_of_other_features_nothing_is_known(bags, features):
    assert not square_factors(bags, features).residual_variance.any()


# ---------------------------------------------------------------- sums, rows, means


@pytest.mark.parametrize("name", KERNELS)
def test_weighted_sums(bags, thetas, name):
    features = features_of(bags, KERNELS[name])
    rows = weighted_sums(bags, features)
    np.testing.assert_array_equal(rows.start, range(5))
    np.testing.assert_array_equal(rows.length, 1)
    expected = by_hand(bags, features, thetas, "identity")
    atol = 1e-10 * np.abs(expected).max()
    np.testing.assert_allclose(rows.means(thetas, np.positive), expected, rtol=1e-8, atol=atol)
    np.testing.assert_allclose(rows.rows[:, -1], bags.totals)


@pytest.mark.parametrize("link", RATES)
def test_rows_and_means_of_points(bags, features, thetas, link):
    rows, expected = point_rows(bags, features), by_hand(bags, features, thetas, link)
    np.testing.assert_allclose(rows.means(thetas, RATES[link]), expected, rtol=1e-8)
    np.testing.assert_allclose(bag_means(bags, features, thetas, RATES[link]), expected, rtol=1e-8)


@pytest.mark.parametrize("link", ["exp", "logit"])
def test_means_with_an_effect_of_each_bag(bags, features, thetas, rng, link):
    shift = rng.normal(size=(6, 5))
    found = point_rows(bags, features).means(thetas, RATES[link], shift)
    np.testing.assert_allclose(found, by_hand(bags, features, thetas, link, shift), rtol=1e-8)


def test_point_rows_leave_out_points_of_no_weight(bags, features):
    rows, counted = point_rows(bags, features), bags.weights > 0
    np.testing.assert_array_equal(rows.length, [1, 40, 200, 7, 120])
    np.testing.assert_array_equal(rows.start, [0, 1, 41, 241, 248])
    np.testing.assert_array_equal(rows.weights, bags.weights[counted])
    np.testing.assert_allclose(rows.rows, with_ones(features)(bags.points)[counted], atol=1e-10)


def test_many_thetas_are_taken_in_turns(bags, features, rng):
    thetas = rng.normal(size=(2 * aggregation._THETAS_AT_ONCE + 1, 10))
    found = bag_means(bags, features, thetas, np.exp)
    each = [bag_means(bags, features, theta[None], np.exp)[0] for theta in thetas[::100]]
    np.testing.assert_allclose(found[::100], each, rtol=1e-12)


def everything(bags, features, thetas):
    return [
        square_factors(bags, features).means(thetas, np.square),
        weighted_sums(bags, features).means(thetas, np.positive),
        point_rows(bags, features).means(thetas, RATES["logit"]),
        bag_means(bags, features, thetas, np.exp),
    ]


@pytest.mark.parametrize("points_at_once", [16, 41, 130])
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_chunks_and_threads_do_not_matter(
    bags, features, thetas, monkeypatch, points_at_once, n_jobs
):
    whole = everything(bags, features, thetas)
    monkeypatch.setattr(aggregation, "_BYTES_OF_ROWS", 8 * (9 + 3) * points_at_once)
    monkeypatch.setattr(threads, "effective_n_jobs", lambda _: n_jobs)
    for one, other in zip(whole, everything(bags, features, thetas), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-9)
    assert square_factors(bags, features).length.max() <= 10


def test_points_of_no_weight_count_as_none(bags, features, thetas):
    counted = bags.weights > 0
    sizes = np.add.reduceat(counted, bags.offsets[:-1], dtype=int)
    without = Bags.from_points(bags.points[counted], sizes=sizes, weights=bags.weights[counted])
    for one, other in zip(*(everything(b, features, thetas) for b in (bags, without)), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-9)


def test_order_within_bags_and_weights_of_one_do_not_matter(rng, features, thetas):
    points = [rng.normal(size=(n, 3)) for n in SIZES]
    bags = Bags.from_list(points)
    turned = Bags.from_list([x[::-1] for x in points], weights=[np.ones(n) for n in SIZES])
    for one, other in zip(*(everything(b, features, thetas) for b in (bags, turned)), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-9)


def test_a_weight_of_three_is_three_points(rng, features, thetas):
    points = rng.normal(size=(8, 3))
    weighted = Bags.from_list([points], weights=[[3, 1, 1, 1, 1, 1, 1, 1]])
    repeated = Bags.from_list([np.vstack([points, points[[0, 0]]])])
    both = zip(*(everything(b, features, thetas) for b in (weighted, repeated)), strict=True)
    for one, other in both:
        np.testing.assert_allclose(other, one, rtol=1e-9)


def test_memory_maps(bags, features, thetas, tmp_path, monkeypatch):
    np.save(tmp_path / "points.npy", bags.points)
    mapped = np.load(tmp_path / "points.npy", mmap_mode="r")
    of_file = Bags(mapped, bags.offsets, weights=bags.weights)
    assert of_file.is_memory_map
    monkeypatch.setattr(aggregation, "_BYTES_OF_ROWS", 8 * (9 + 3) * 50)
    for one, other in zip(*(everything(b, features, thetas) for b in (bags, of_file)), strict=True):
        np.testing.assert_array_equal(other, one)


@pytest.mark.parametrize("compress", [square_factors, weighted_sums, point_rows])
@pytest.mark.parametrize(
    "value, message", [(np.nan, "value is nan"), (-3.4e38, "-3.4e.38 looks like a nodata marker")]
)
def test_missing_values_in_a_file(bags, features, tmp_path, compress, value, message):
    points = np.array(bags.points)
    points[42, 1] = value
    np.save(tmp_path / "points.npy", points)
    mapped = Bags(np.load(tmp_path / "points.npy", mmap_mode="r"), bags.offsets)
    with pytest.raises(ValueError, match=f"bag 2, point 1, column 1: .*{message}"):
        compress(mapped, features)


def test_totals_and_noise(bags, features):
    parts = np.split(bags.weights, bags.offsets[1:-1])
    for compress in (square_factors, weighted_sums, point_rows):
        rows = compress(bags, features)
        np.testing.assert_allclose(rows.total, [p.sum() for p in parts])
        np.testing.assert_allclose(rows.noise_factor, [np.sqrt(np.sum(p**2)) for p in parts])
    np.testing.assert_array_equal(noise_factor(bags), rows.noise_factor)
    np.testing.assert_array_equal(noise_factor(Bags(bags.points, bags.offsets)), np.sqrt(SIZES))
