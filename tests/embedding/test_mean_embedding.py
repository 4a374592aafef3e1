"""The streaming pass against plain double loops."""

import numpy as np
import pytest
from builders.feature_maps import FEATURE_MAPS, at_landmarks, side_by_side
from builders.kernels import COLUMNS, DEFINITIONS, PROFILES, at_distance

from bdr_stan import threads
from bdr_stan.bags import Bags
from bdr_stan.embedding import mean_embedding
from bdr_stan.kernels import (
    RBF,
    ConcatenatedFeatures,
    LandmarkFeatures,
    Polynomial,
    resolve_kernel,
)


def embed(*arguments, chunk_bytes=1 << 22, **options):
    """The embedding in chunks of this size."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bdr_stan.embedding.mean_embedding._CHUNK_BYTES", chunk_bytes)
        return mean_embedding.embed(*arguments, **options)


def gaussian(landmarks, bandwidth):
    """Values of the Gaussian kernel at landmarks, and those of one point by its definition."""
    value = at_distance(PROFILES["rbf"], bandwidth, range(landmarks.shape[1]))
    feature_map = LandmarkFeatures(RBF(bandwidth), landmarks)
    return feature_map, lambda x: np.array([value(x, u) for u in landmarks])


def looped(bags, row, covariance=False):
    """Means and covariance by the definition: one bag, one point at a time, in long double."""
    means, covariances = [], []
    for i in range(len(bags)):
        start, stop = bags.offsets[i], bags.offsets[i + 1]
        weights = np.ones(stop - start) if bags.weights is None else bags.weights[start:stop]
        phi = [row(np.asarray(x, np.longdouble)) for x in bags[i]]
        v1, v2 = sum(weights), sum(weights**2)
        mean = sum(w * f for w, f in zip(weights, phi)) / v1
        means.append(mean)
        if (weights > 0).sum() > 1:
            scatter = np.zeros((len(mean), len(mean)), np.longdouble)
            for w, f in zip(weights, phi):
                scatter += w * np.outer(f - mean, f - mean)
            covariances.append(scatter / (v1 - v2 / v1))
    return np.array(means), sum(covariances) / len(covariances) if covariance else None


def assert_as_looped(bags, feature_map, row, covariance, *, atol=0, **options):
    """`atol` where features are differences and have no digits of their own near zero."""
    result = embed(bags, feature_map, covariance=covariance, **options)
    mean, cov = looped(bags, row, covariance)
    np.testing.assert_allclose(result.mean, mean.astype(float), rtol=1e-8, atol=atol)
    assert result.mean.dtype == np.float64
    if not covariance:
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


@pytest.fixture
def feature_map(landmarks):
    return LandmarkFeatures(RBF(1.3), landmarks)


# 16 points a chunk at the least, so that bags span chunks and chunks hold many bags.
@pytest.mark.parametrize("chunk_bytes", [1, 4000, 1 << 22])
@pytest.mark.parametrize("covariance", [False, True])
@pytest.mark.parametrize("name", FEATURE_MAPS)
def test_embed_is_the_double_loop(bags, landmarks, name, covariance, chunk_bytes):
    result = assert_as_looped(
        bags, *FEATURE_MAPS[name](landmarks), covariance, atol=1e-13, chunk_bytes=chunk_bytes
    )
    np.testing.assert_array_equal(result.sizes, [1, 7, 2, 1, 90, 3, 1, 40, 5])


@pytest.mark.parametrize("chunk_bytes", [1, 4000, 1 << 22])
@pytest.mark.parametrize("covariance", [False, True])
@pytest.mark.parametrize("bandwidth", [1.3, np.array([0.4, 1.0, 5.0])])
def test_small_kernel_values_keep_their_digits(bags, landmarks, bandwidth, covariance, chunk_bytes):
    assert_as_looped(bags, *gaussian(landmarks, bandwidth), covariance, chunk_bytes=chunk_bytes)


@pytest.mark.parametrize("name", DEFINITIONS)
def test_embeddings_average_every_kernel(bags, landmarks, name):
    """Sums and products whose columns are named, and lengths of each column among them."""
    named = Bags(bags.points, bags.offsets, features=COLUMNS)
    given, _ = DEFINITIONS[name]
    feature_map = LandmarkFeatures(resolve_kernel(given, "scaled", named), landmarks)
    _, row = at_landmarks(name, landmarks)
    assert_as_looped(named, feature_map, row, True, chunk_bytes=1)


@pytest.mark.parametrize("kernel", [Polynomial(), RBF("ard", columns=["b"]) + RBF(columns=["a"])])
def test_embeddings_average_values_of_the_kernel(rng, kernel):
    bags = Bags.from_list([rng.normal(size=(m, 3)) for m in (5, 1, 9)], features=COLUMNS)
    u = rng.normal(size=(4, 3))
    k = resolve_kernel(kernel, "scaled", bags)
    got = embed(bags, LandmarkFeatures(k, u), covariance=True)
    np.testing.assert_allclose(got.mean, [k(bag, u).mean(axis=0) for bag in bags])
    covariances = [np.cov(k(bag, u).T) for bag in bags if len(bag) > 1]
    np.testing.assert_allclose(got.covariance, np.mean(covariances, axis=0), rtol=1e-10)


@pytest.mark.parametrize("chunk_bytes", [1, 1 << 22])
@pytest.mark.parametrize("covariance", [False, True])
@pytest.mark.parametrize("name", FEATURE_MAPS)
def test_embed_with_point_weights(bags, landmarks, rng, name, covariance, chunk_bytes):
    weights = rng.gamma(1.0, size=len(bags.points)) * 1e3
    weights[11:60] = 0  # whole pieces of the large bag weigh nothing
    weights[102:104] = 0  # a bag of three points with one that counts
    weighted = Bags(bags.points, bags.offsets, weights=weights)
    result = assert_as_looped(
        weighted, *FEATURE_MAPS[name](landmarks), covariance, atol=1e-13, chunk_bytes=chunk_bytes
    )
    first = weights[1:8]
    np.testing.assert_allclose(result.sizes[1], first.sum() ** 2 / (first**2).sum())
    assert result.sizes[5] == 1


def test_maps_side_by_side_are_embedded_side_by_side(bags, landmarks):
    """Blocks of means and of the covariance are those of each map alone."""
    maps = [LandmarkFeatures(RBF(1.3), landmarks), LandmarkFeatures(RBF(0.7), landmarks[:2])]
    both = embed(bags, ConcatenatedFeatures(maps), covariance=True)
    alone = [embed(bags, each, covariance=True) for each in maps]
    np.testing.assert_allclose(both.mean, np.hstack([e.mean for e in alone]), rtol=1e-12)
    for block, e in zip((np.s_[:4, :4], np.s_[4:, 4:]), alone):
        np.testing.assert_allclose(both.covariance[block], e.covariance, rtol=1e-9, atol=1e-13)
    assert np.abs(both.covariance[:4, 4:]).max() > 1e-3


def test_wide_maps_side_by_side_take_smaller_chunks(rng):
    """Chunks are cut by the columns of all maps together."""
    bags = Bags.from_points(rng.normal(size=(401, 3)), sizes=[400, 1])
    names = "landmarks", "nystrom", "landmarks of a sum"
    pairs = [FEATURE_MAPS[name](rng.normal(size=(40, 3))) for name in names]
    feature_map, row = side_by_side(*pairs)
    done = []
    options = {"chunk_bytes": 8 * 120 * 20, "progress": lambda *call: done.append(call)}
    assert_as_looped(bags, feature_map, row, True, atol=1e-11, **options)
    assert [first for first, _ in done] == [160, 320, 401]  # eight chunks of 20 points a task


def test_equal_weights_are_no_weights(bags, feature_map):
    """Also if those of each chunk of a large bag add up to less than 1."""
    weighted = Bags(bags.points, bags.offsets, weights=np.full(len(bags.points), 0.01))
    a = embed(bags, feature_map, covariance=True)
    b = embed(weighted, feature_map, covariance=True, chunk_bytes=1)
    np.testing.assert_allclose(a.mean, b.mean, rtol=1e-13)
    np.testing.assert_allclose(a.covariance, b.covariance, rtol=1e-12)
    np.testing.assert_allclose(a.sizes, b.sizes, rtol=1e-13)


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 5, 1), (5, 1, 2)])
def test_one_bag_one_point_one_landmark(rng, shape):
    n, size, d = shape
    bags = Bags.from_points(rng.normal(size=(n * size, 2)), sizes=[size] * n)
    feature_map, row = gaussian(rng.normal(size=(d, 2)), 0.8)
    assert_as_looped(bags, feature_map, row, size > 1)


def test_far_from_the_origin(bags, landmarks):
    far = Bags(bags.points + 1e6, bags.offsets)
    moved = Bags(far.points - 1e6, bags.offsets)  # the same points after rounding at 1e6
    u = landmarks + 1e6
    result = assert_as_looped(far, *gaussian(u, 1.3), True)
    near, _ = gaussian(u - 1e6, 1.3)
    np.testing.assert_allclose(result.mean, embed(moved, near).mean, rtol=1e-8)


def test_wide_bandwidth_keeps_the_digits_of_the_covariance(bags, landmarks):
    """Kernel values all within 1e-4 of 1, the covariance near 1e-9."""
    assert_as_looped(bags, *gaussian(landmarks, 100.0), True, chunk_bytes=1)
    assert_as_looped(bags, *gaussian(landmarks, 100.0), True)


def test_tight_bags_far_apart_keep_the_digits_of_the_covariance(rng, landmarks):
    """Within bags the kernel varies 1e-6 as much as between them."""
    sizes = [30, 50, 2, 4]
    centres = np.repeat(rng.normal(size=(4, 3)), sizes, axis=0)
    bags = Bags.from_points(centres + 1e-6 * rng.normal(size=(86, 3)), sizes=sizes)
    feature_map, row = gaussian(landmarks, 1.0)
    result = embed(bags, feature_map, covariance=True, chunk_bytes=1)
    _, cov = looped(bags, row, True)
    # The kernel values themselves carry 1e-16, that is 1e-10 of what they vary by.
    np.testing.assert_allclose(result.covariance, cov.astype(float), rtol=1e-8)


def test_narrow_bandwidth_gives_no_warning_and_no_nan(bags, landmarks):
    with np.errstate(all="raise"):
        result = embed(bags, LandmarkFeatures(RBF(1e-3), landmarks), covariance=True)
    assert np.all(result.mean >= 0) and np.all(result.mean < 1e-200)
    assert np.all(np.isfinite(result.covariance))


@pytest.mark.parametrize("name", FEATURE_MAPS)
def test_float32_points_are_computed_in_float64(bags, landmarks, name):
    feature_map, _ = FEATURE_MAPS[name](landmarks)
    points = bags.points.astype(np.float32)
    single = Bags(points, bags.offsets)
    double = Bags(points.astype(np.float64), bags.offsets)
    assert single.points.dtype == np.float32
    a = embed(single, feature_map, covariance=True)
    b = embed(double, feature_map, covariance=True)
    np.testing.assert_array_equal(a.mean, b.mean)
    np.testing.assert_array_equal(a.covariance, b.covariance)


@pytest.mark.parametrize("name", FEATURE_MAPS)
def test_result_does_not_depend_on_threads(rng, name, monkeypatch):
    sizes = rng.integers(1, 60, 500)
    sizes[[3, 200]] = 3000
    bags = Bags.from_points(rng.normal(size=(sizes.sum(), 3)), sizes=sizes)
    feature_map, _ = FEATURE_MAPS[name](rng.normal(size=(5, 3)))
    embeddings = []
    for n in (1, 3):
        monkeypatch.setattr(threads, "effective_n_jobs", lambda _, n=n: n)
        embeddings.append(embed(bags, feature_map, covariance=True, chunk_bytes=4000))
    one, many = embeddings
    np.testing.assert_array_equal(one.mean, many.mean)
    np.testing.assert_array_equal(one.covariance, many.covariance)
    whole = embed(bags, feature_map, covariance=True)
    np.testing.assert_allclose(one.mean, whole.mean, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(one.covariance, whole.covariance, rtol=1e-10, atol=1e-14)


def test_accepts_a_list_and_leaves_it_as_it_was(feature_map, rng):
    arrays = [rng.normal(size=(k, 3)) for k in (3, 1, 4)]
    before = [a.copy() for a in arrays]
    a = embed(arrays, feature_map, covariance=True)
    b = embed(Bags.from_list(arrays), feature_map, covariance=True)
    np.testing.assert_array_equal(a.mean, b.mean)
    for array, copy in zip(arrays, before):
        np.testing.assert_array_equal(array, copy)


def test_order_of_bags_and_of_points_does_not_matter(bags, feature_map, rng):
    whole = embed(bags, feature_map, covariance=True)
    order = rng.permutation(len(bags))
    turned = embed([b[::-1] for b in bags.take(order)], feature_map, covariance=True)
    np.testing.assert_allclose(turned.mean, whole.mean[order], rtol=1e-12)
    np.testing.assert_allclose(turned.covariance, whole.covariance, rtol=1e-10, atol=1e-15)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int16"])
@pytest.mark.parametrize("name", ["landmarks", "several side by side"])
def test_memory_map_is_read_chunk_by_chunk(tmp_path, rng, landmarks, dtype, name):
    points = (100 * rng.normal(size=(5000, 3))).astype(dtype)
    np.save(tmp_path / "points.npy", points)
    mapped = np.load(tmp_path / "points.npy", mmap_mode="r")
    feature_map, _ = FEATURE_MAPS[name](100 * landmarks)
    sizes = np.full(100, 50)
    options = {"covariance": True, "chunk_bytes": 4000}
    a = embed(Bags.from_points(mapped, sizes=sizes), feature_map, **options)
    b = embed(Bags.from_points(points, sizes=sizes), feature_map, **options)
    np.testing.assert_array_equal(a.mean, b.mean)
    np.testing.assert_array_equal(a.covariance, b.covariance)
    np.testing.assert_array_equal(mapped, points)


@pytest.mark.parametrize("mode", ["r+", "c"])
def test_changes_to_a_writable_memory_map_survive_the_pass(tmp_path, rng, landmarks, mode):
    np.save(tmp_path / "points.npy", rng.normal(size=(5000, 3)))
    mapped = np.load(tmp_path / "points.npy", mmap_mode=mode)
    mapped[:] = 0.5
    feature_map, row = gaussian(landmarks, 1.0)
    result = embed(Bags.from_points(mapped, sizes=[2500, 2500]), feature_map)
    assert np.all(mapped == 0.5)
    np.testing.assert_allclose(result.mean[0], row(np.full(3, 0.5)))


def test_bad_value_in_a_memory_map_is_named_by_the_pass(tmp_path, rng, feature_map):
    points = rng.normal(size=(5000, 3))
    points[3001, 2] = -3.4e38
    points[4000, 0] = np.nan
    np.save(tmp_path / "points.npy", points)
    mapped = np.load(tmp_path / "points.npy", mmap_mode="r")
    bags = Bags.from_points(mapped, sizes=np.full(50, 100), features=["x", "y", "z"])
    message = (
        r"bag 30, point 1, column 2 \('z'\): value -3.4e\+38 looks like a nodata marker "
        r"\(2 in total\)"
    )
    with pytest.raises(ValueError, match=message):
        embed(bags, feature_map, chunk_bytes=4000)


def test_progress_reaches_all_points(bags, feature_map):
    calls = []
    embed(bags, feature_map, chunk_bytes=1, progress=lambda *call: calls.append(call))
    assert calls[-1] == (150, 150)
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)


def test_an_error_in_progress_ends_the_pass(rng):
    bags = Bags.from_points(rng.normal(size=(64_000, 2)), sizes=np.full(4000, 16))
    calls = []

    def interrupt(done, total):
        calls.append(done)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        feature_map = LandmarkFeatures(RBF(1.0), rng.normal(size=(3, 2)))
        embed(bags, feature_map, chunk_bytes=1, progress=interrupt)
    assert len(calls) == 1


def test_bags_of_one_point_have_no_covariance(feature_map, rng):
    with pytest.raises(ValueError, match="all bags have one point, .* use BLR, which needs none"):
        embed(list(rng.normal(size=(4, 1, 3))), feature_map, covariance=True)


@pytest.mark.parametrize(
    "feature_map",
    [
        LandmarkFeatures(RBF(1.0), np.zeros((4, 2))),
        LandmarkFeatures(RBF(1.0, columns=[0]), np.zeros((4, 2))),
        ConcatenatedFeatures([LandmarkFeatures(RBF(1.0), np.ones((4, 2)))]),
    ],
    ids=lambda each: type(each).__name__,
)
def test_maps_of_points_with_other_columns(bags, feature_map):
    message = (
        "the feature map takes points of 2 columns, but the points of the bags have 3: give it "
        "landmarks with the same columns"
    )
    with pytest.raises(ValueError, match=message):
        embed(bags, feature_map)


def test_take_some_of_the_bags(rng):
    bags = [rng.normal(size=(m, 2)) for m in (3, 1, 7, 2)]
    feature_map = LandmarkFeatures(RBF(1.0), rng.normal(size=(4, 2)))
    whole = embed(bags, feature_map, covariance=True)
    some = whole.take([2, 0])
    np.testing.assert_array_equal(some.mean, whole.mean[[2, 0]])
    np.testing.assert_array_equal(some.sizes, [7, 3])
    assert some.covariance is whole.covariance
