"""The streaming pass against plain double loops."""

import numpy as np
import pytest

from bdr_stan.bags import Bags
from bdr_stan.embedding.mean_embedding import embed


def kernel_row(x, landmarks, bandwidth):
    return np.array([np.exp(-sum(((x - u) / bandwidth) ** 2) / 2) for u in landmarks])


def fourier_row(x, frequencies, bandwidth):
    angles = np.array([sum(x * w / bandwidth) for w in frequencies])
    return np.concatenate([np.cos(angles), np.sin(angles)]) / np.sqrt(len(angles))


ROWS = {"rbf": kernel_row, "fourier": fourier_row}


def looped(bags, landmarks, bandwidth, covariance=None, kernel="rbf"):
    """Means and covariance by the definition: one bag, one point at a time, in long double."""
    landmarks = np.asarray(landmarks, np.longdouble)
    row = ROWS[kernel]
    d = len(row(landmarks[0], landmarks, bandwidth))
    means, covariances, degrees = [], [], []
    for i in range(len(bags)):
        start, stop = bags.offsets[i], bags.offsets[i + 1]
        weights = np.ones(stop - start) if bags.weights is None else bags.weights[start:stop]
        phi = [row(np.asarray(x, np.longdouble), landmarks, bandwidth) for x in bags[i]]
        v1, v2 = sum(weights), sum(weights**2)
        mean = sum(w * f for w, f in zip(weights, phi)) / v1
        means.append(mean)
        if (weights > 0).sum() > 1:
            scatter = np.zeros((d, d), np.longdouble)
            for w, f in zip(weights, phi):
                scatter += w * np.outer(f - mean, f - mean)
            covariances.append(scatter / (v1 - v2 / v1))
            degrees.append(v1**2 / v2 - 1)
    if covariance == "average":
        return np.array(means), sum(covariances) / len(covariances)
    if covariance == "pooled":
        pooled = sum(n * c for n, c in zip(degrees, covariances)) / sum(degrees)
        return np.array(means), pooled
    return np.array(means), None


def assert_as_looped(bags, landmarks, bandwidth, covariance, kernel="rbf", **options):
    result = embed(bags, landmarks, bandwidth, covariance=covariance, kernel=kernel, **options)
    mean, cov = looped(bags, landmarks, bandwidth, covariance, kernel)
    atol = 0 if kernel == "rbf" else 1e-13  # sines and cosines have no digits near zero
    np.testing.assert_allclose(result.mean, mean.astype(float), rtol=1e-8, atol=atol)
    assert result.mean.dtype == np.float64
    if covariance is None:
        assert result.covariance is None
    else:
        # Entries near zero by chance have no digits of their own: compare with the diagonal.
        scale = np.sqrt(np.outer(np.diag(cov), np.diag(cov))).astype(float)
        np.testing.assert_allclose(
            result.covariance / scale, (cov / scale).astype(float), rtol=0, atol=1e-8
        )
        np.testing.assert_array_equal(result.covariance, result.covariance.T)
    return result


@pytest.fixture
def bags(rng):
    sizes = [1, 7, 2, 1, 90, 3, 1, 40, 5]
    points = rng.normal(size=(sum(sizes), 3)) + np.repeat(rng.normal(size=(9, 3)), sizes, axis=0)
    return Bags.from_points(points, sizes=sizes)


@pytest.fixture
def landmarks(rng):
    return rng.normal(size=(4, 3))


# 16 points a chunk at the least, so that bags span chunks and chunks hold many bags.
@pytest.mark.parametrize("chunk_bytes", [1, 4000, 1 << 22])
@pytest.mark.parametrize("covariance", [None, "average", "pooled"])
@pytest.mark.parametrize("kernel", ["rbf", "fourier"])
@pytest.mark.parametrize("bandwidth", [1.3, np.array([0.4, 1.0, 5.0])])
def test_embed_is_the_double_loop(bags, landmarks, bandwidth, kernel, covariance, chunk_bytes):
    result = assert_as_looped(
        bags, landmarks, bandwidth, covariance, kernel, chunk_bytes=chunk_bytes
    )
    np.testing.assert_array_equal(result.sizes, [1, 7, 2, 1, 90, 3, 1, 40, 5])


@pytest.mark.parametrize("chunk_bytes", [1, 1 << 22])
@pytest.mark.parametrize("covariance", [None, "average", "pooled"])
@pytest.mark.parametrize("kernel", ["rbf", "fourier"])
def test_embed_with_point_weights(bags, landmarks, rng, kernel, covariance, chunk_bytes):
    weights = rng.gamma(1.0, size=len(bags.points)) * 1e3
    weights[11:60] = 0  # whole pieces of the large bag weigh nothing
    weights[102:104] = 0  # a bag of three points with one that counts
    weighted = Bags(bags.points, bags.offsets, weights=weights)
    result = assert_as_looped(
        weighted, landmarks, 1.3, covariance, kernel, chunk_bytes=chunk_bytes
    )
    first = weights[1:8]
    np.testing.assert_allclose(result.sizes[1], first.sum() ** 2 / (first**2).sum())
    assert result.sizes[5] == 1


def test_equal_weights_are_no_weights(bags, landmarks):
    weighted = Bags(bags.points, bags.offsets, weights=np.full(len(bags.points), 0.3))
    for covariance in ("average", "pooled"):
        a = embed(bags, landmarks, 1.3, covariance=covariance)
        b = embed(weighted, landmarks, 1.3, covariance=covariance)
        np.testing.assert_allclose(a.mean, b.mean, rtol=1e-13)
        np.testing.assert_allclose(a.covariance, b.covariance, rtol=1e-12)
        np.testing.assert_allclose(a.sizes, b.sizes, rtol=1e-13)


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 5, 1), (5, 1, 2)])
def test_one_bag_one_point_one_landmark(rng, shape):
    n, size, d = shape
    bags = Bags.from_points(rng.normal(size=(n * size, 2)), sizes=[size] * n)
    assert_as_looped(bags, rng.normal(size=(d, 2)), 0.8, None if size == 1 else "average")


def test_far_from_the_origin(bags, landmarks):
    far = Bags(bags.points + 1e6, bags.offsets)
    moved = Bags(far.points - 1e6, bags.offsets)  # the same points after rounding at 1e6
    u = landmarks + 1e6
    result = assert_as_looped(far, u, 1.3, "average")
    np.testing.assert_allclose(result.mean, embed(moved, u - 1e6, 1.3).mean, rtol=1e-8)


def test_wide_bandwidth_keeps_the_digits_of_the_covariance(bags, landmarks):
    """Kernel values all within 1e-4 of 1, the covariance near 1e-9."""
    assert_as_looped(bags, landmarks, 100.0, "average", chunk_bytes=1)
    assert_as_looped(bags, landmarks, 100.0, "pooled")


def test_tight_bags_far_apart_keep_the_digits_of_the_covariance(rng, landmarks):
    """Within bags the kernel varies 1e-6 as much as between them."""
    sizes = [30, 50, 2, 4]
    centres = np.repeat(rng.normal(size=(4, 3)), sizes, axis=0)
    bags = Bags.from_points(centres + 1e-6 * rng.normal(size=(86, 3)), sizes=sizes)
    result = embed(bags, landmarks, 1.0, covariance="average", chunk_bytes=1)
    _, cov = looped(bags, landmarks, 1.0, "average")
    # The kernel values themselves carry 1e-16, that is 1e-10 of what they vary by.
    np.testing.assert_allclose(result.covariance, cov.astype(float), rtol=1e-8)


def test_narrow_bandwidth_gives_no_warning_and_no_nan(bags, landmarks):
    with np.errstate(all="raise"):
        result = embed(bags, landmarks, 1e-3, covariance="average")
    assert np.all(result.mean >= 0) and np.all(result.mean < 1e-200)
    assert np.all(np.isfinite(result.covariance))


def test_float32_points_are_computed_in_float64(bags, landmarks):
    points = bags.points.astype(np.float32)
    single = Bags(points, bags.offsets)
    double = Bags(points.astype(np.float64), bags.offsets)
    assert single.points.dtype == np.float32
    for covariance in ("average", "pooled"):
        a = embed(single, landmarks, 1.3, covariance=covariance)
        b = embed(double, landmarks, 1.3, covariance=covariance)
        np.testing.assert_array_equal(a.mean, b.mean)
        np.testing.assert_array_equal(a.covariance, b.covariance)


def test_result_does_not_depend_on_threads(rng):
    sizes = rng.integers(1, 60, 500)
    sizes[[3, 200]] = 3000
    bags = Bags.from_points(rng.normal(size=(sizes.sum(), 2)), sizes=sizes)
    u = rng.normal(size=(5, 2))
    one, many = (
        embed(bags, u, 1.0, covariance="pooled", n_jobs=n, chunk_bytes=4000) for n in (1, 3)
    )
    np.testing.assert_array_equal(one.mean, many.mean)
    np.testing.assert_array_equal(one.covariance, many.covariance)
    whole = embed(bags, u, 1.0, covariance="pooled")
    np.testing.assert_allclose(one.mean, whole.mean, rtol=1e-12)
    np.testing.assert_allclose(one.covariance, whole.covariance, rtol=1e-10, atol=1e-14)


def test_accepts_a_list_and_leaves_it_as_it_was(landmarks, rng):
    arrays = [rng.normal(size=(k, 3)) for k in (3, 1, 4)]
    before = [a.copy() for a in arrays]
    a = embed(arrays, landmarks, 1.0, covariance="average")
    b = embed(Bags.from_list(arrays), landmarks, 1.0, covariance="average")
    np.testing.assert_array_equal(a.mean, b.mean)
    for array, copy in zip(arrays, before):
        np.testing.assert_array_equal(array, copy)


def test_order_of_bags_and_of_points_does_not_matter(bags, landmarks, rng):
    whole = embed(bags, landmarks, 1.0, covariance="average")
    order = rng.permutation(len(bags))
    turned = embed([b[::-1] for b in bags.take(order)], landmarks, 1.0, covariance="average")
    np.testing.assert_allclose(turned.mean, whole.mean[order], rtol=1e-12)
    np.testing.assert_allclose(turned.covariance, whole.covariance, rtol=1e-10, atol=1e-15)


def test_identity_covariance(bags, landmarks):
    result = embed(bags[:1], landmarks, 1.0, covariance="identity", tau=0.5)
    np.testing.assert_array_equal(result.covariance, 0.25 * np.eye(4))


@pytest.mark.parametrize("dtype", ["float64", "float32", "int16"])
def test_memory_map_is_read_chunk_by_chunk(tmp_path, rng, landmarks, dtype):
    points = (100 * rng.normal(size=(5000, 3))).astype(dtype)
    np.save(tmp_path / "points.npy", points)
    mapped = np.load(tmp_path / "points.npy", mmap_mode="r")
    sizes = np.full(100, 50)
    a = embed(
        Bags.from_points(mapped, sizes=sizes),
        100 * landmarks,
        130.0,
        covariance="average",
        chunk_bytes=4000,
    )
    b = embed(
        Bags.from_points(points, sizes=sizes),
        100 * landmarks,
        130.0,
        covariance="average",
        chunk_bytes=4000,
    )
    np.testing.assert_array_equal(a.mean, b.mean)
    np.testing.assert_array_equal(a.covariance, b.covariance)
    np.testing.assert_array_equal(mapped, points)


@pytest.mark.parametrize("mode", ["r+", "c"])
def test_changes_to_a_writable_memory_map_survive_the_pass(tmp_path, rng, landmarks, mode):
    np.save(tmp_path / "points.npy", rng.normal(size=(5000, 3)))
    mapped = np.load(tmp_path / "points.npy", mmap_mode=mode)
    mapped[:] = 0.5
    result = embed(Bags.from_points(mapped, sizes=[2500, 2500]), landmarks, 1.0)
    assert np.all(mapped == 0.5)
    np.testing.assert_allclose(result.mean[0], kernel_row(np.full(3, 0.5), landmarks, 1.0))


def test_bad_value_in_a_memory_map_is_named_by_the_pass(tmp_path, rng, landmarks):
    points = rng.normal(size=(5000, 3))
    points[3001, 2] = -3.4e38
    points[4000, 0] = np.nan
    np.save(tmp_path / "points.npy", points)
    mapped = np.load(tmp_path / "points.npy", mmap_mode="r")
    bags = Bags.from_points(mapped, sizes=np.full(50, 100), features=["x", "y", "z"])
    message = (
        r"bag 30, point 1, column 2 \('z'\): value -3.4e\+38 looks like a nodata marker "
        r"\(2 such in all\)"
    )
    with pytest.raises(ValueError, match=message):
        embed(bags, landmarks, 1.0, chunk_bytes=4000)


def test_progress_reaches_all_points(bags, landmarks):
    calls = []
    embed(bags, landmarks, 1.0, chunk_bytes=1, progress=lambda *call: calls.append(call))
    assert calls[-1] == (150, 150)
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)


def test_an_error_in_progress_ends_the_pass(rng):
    bags = Bags.from_points(rng.normal(size=(64_000, 2)), sizes=np.full(4000, 16))
    calls = []

    def interrupt(done, total):
        calls.append(done)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        embed(bags, rng.normal(size=(3, 2)), 1.0, chunk_bytes=1, progress=interrupt)
    assert len(calls) == 1


@pytest.mark.parametrize("covariance", ["average", "pooled"])
def test_bags_of_one_point_have_no_covariance(landmarks, rng, covariance):
    message = f"all bags have one point, so covariance='{covariance}' .* covariance='identity'"
    with pytest.raises(ValueError, match=message):
        embed(list(rng.normal(size=(4, 1, 3))), landmarks, 1.0, covariance=covariance)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"landmarks": np.zeros((4, 2))}, r"landmarks have shape \(4, 2\), expected \(d, 3\)"),
        ({"bandwidth": 0}, "bandwidth must be a positive number, found 0"),
        ({"bandwidth": "median"}, "bandwidth must be a positive number, found 'median'"),
        ({"bandwidth": [1, 2]}, "bandwidth has 2 entries, but the points have 3 features"),
        ({"bandwidth": [1, 2, -1]}, "bandwidth of feature 2 must be a positive number"),
        ({"kernel": "cosine"}, "kernel must be a Kernel or one of 'rbf', 'fourier', .*found 'cosine'"),
        ({"covariance": "mean"}, "covariance must be None, 'average', .* found 'mean'"),
        ({"covariance": "identity", "tau": -1}, "tau must be a positive number, found -1"),
    ],
)
def test_bad_arguments(bags, landmarks, arguments, message):
    with pytest.raises(ValueError, match=message):
        embed(bags, **({"landmarks": landmarks, "bandwidth": 1.0} | arguments))


def test_take_some_of_the_bags(rng):
    bags = [rng.normal(size=(m, 2)) for m in (3, 1, 7, 2)]
    whole = embed(bags, rng.normal(size=(4, 2)), 1.0, covariance="average")
    some = whole.take([2, 0])
    np.testing.assert_array_equal(some.mean, whole.mean[[2, 0]])
    np.testing.assert_array_equal(some.sizes, [7, 3])
    assert some.covariance is whole.covariance
