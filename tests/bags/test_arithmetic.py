"""Weights, shares and sums against double loops; columns compared; bags put together."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal, assert_equal

from bdr_stan.bags import Bags


def weights_by_bag(bags):
    """Weight of each point, by double loop."""
    return [
        [1.0 if bags.weights is None else bags.weights[start + j] for j in range(size)]
        for start, size in zip(bags.offsets, bags.sizes)
    ]


# weights and sums


def test_point_weights(several):
    assert_array_equal(several.point_weights, np.concatenate(weights_by_bag(several)))
    assert several.point_weights.dtype == np.float64


def test_point_shares(several):
    shares = [[w / sum(own) for w in own] for own in weights_by_bag(several)]
    assert_allclose(several.point_shares, np.concatenate(shares), rtol=1e-14)
    assert_allclose(several.sums(several.point_shares), 1, rtol=1e-14)


def test_totals(several):
    assert_allclose(several.totals, [sum(own) for own in weights_by_bag(several)], rtol=1e-14)
    assert several.totals.dtype == np.float64


@pytest.mark.parametrize("shape", [(), (3,), (2, 4)], ids=str)
def test_sums(several, rng, shape):
    values = rng.normal(size=(len(several.points), *shape))
    expected = np.zeros((len(several), *shape))
    for i, (start, size) in enumerate(zip(several.offsets, several.sizes)):
        for j in range(size):
            expected[i] += values[start + j]
    assert_allclose(several.sums(values), expected, atol=1e-13)


def test_sums_of_counts_are_exact(several):
    inside = np.arange(len(several.points)) % 3 == 0
    expected = [sum(inside[a:b]) for a, b in zip(several.offsets, several.offsets[1:])]
    assert_array_equal(several.sums(inside), expected)
    assert_array_equal(several.sums(inside.astype(np.uint8) * 200), np.multiply(expected, 200))


@pytest.mark.parametrize(
    ("values", "shape"),
    [(np.ones(14), r"\(14,\)"), (1.0, r"\(\)"), (np.ones((2, 15)), r"\(2, 15\)")],
)
def test_sums_need_a_value_a_point(bags, values, shape):
    with pytest.raises(ValueError, match=rf"values has shape {shape}, expected \(15, ...\): one p"):
        bags.sums(values)


def test_effective_sizes(bags, arrays):
    assert_array_equal(Bags.from_list(arrays).effective_sizes, [3, 1, 4, 2, 5])
    kish = [sum(range(1, n + 1)) ** 2 / sum(k**2 for k in range(1, n + 1)) for n in bags.sizes]
    assert_allclose(bags.effective_sizes, kish)
    tiny = Bags(bags.points, bags.offsets, weights=bags.weights * 1e-250)
    assert_allclose(tiny.effective_sizes, kish)


def test_index(bags, arrays):
    assert_array_equal(bags.index, list("abcde"))
    assert_array_equal(bags[[3, 1]].index, ["d", "b"])
    assert_array_equal(Bags.from_list(arrays).index, range(5))


def test_bags_chosen_from_others(bags):
    chosen = bags[[3, 0]]
    assert_array_equal(chosen.point_weights, [1, 2, 1, 2, 3])
    assert_array_equal(chosen.totals, [3, 6])
    assert_array_equal(chosen.sums(chosen.points), [chosen[0].sum(axis=0), chosen[1].sum(axis=0)])


def test_no_bags(bags):
    none = bags[:0]
    for values in (none.point_weights, none.point_shares, none.totals, none.index):
        assert values.shape == (0,)
    assert none.sums(np.empty((0, 3))).shape == (0, 3)
    assert none.chunks(4) == []


# memory maps


class Untouchable(np.ndarray):
    """Points that may not be read."""

    def __getitem__(self, key):
        raise AssertionError("the points were read")

    def __array_ufunc__(self, *args, **kwargs):
        raise AssertionError("the points were read")

    def __array_function__(self, *args, **kwargs):
        raise AssertionError("the points were read")


def test_memory_map_is_not_read(mapped, weighted):
    weights = np.arange(1.0, 21) if weighted else None
    loaded = Bags(np.array(mapped), [0, 5, 20], weights=weights)
    bags = Bags(mapped.view(Untouchable), [0, 5, 20], weights=weights)
    assert bags.is_memory_map
    with pytest.raises(AssertionError, match="the points were read"):
        bags.read(0, 5)
    for name in ("point_weights", "point_shares", "totals", "effective_sizes", "index"):
        assert_array_equal(getattr(bags, name), getattr(loaded, name))
    values = np.arange(20.0)
    assert_array_equal(bags.sums(values), loaded.sums(values))
    assert [c.stop for c in bags.chunks(4)] == [c.stop for c in loaded.chunks(4)]
    bags.check_like(2, ["x", "y"])


# columns


def test_like(bags):
    bags.check_like(2)
    bags.check_like(2, ["age", "income"])
    bags.check_like(2, np.array(["age", "income"]))
    Bags.from_list([[[1, 2]]]).check_like(2, ["age", "income"])


@pytest.mark.parametrize(
    ("expected", "words", "message"),
    [
        ((3,), {}, "the bags have 2 features per point, but the model was fitted to 3: "
         "pass the same columns in the same order"),
        ((3, ["age", "income", "height"]), {}, "the bags have 2 features per point"),
        ((1,), {"whose": "the validation bags", "source": "the training bags"},
         "the validation bags have 2 features per point, but the training bags 1: pass the same"),
        ((2, ["income", "age"]), {}, "column 0 of the bags is 'age', but the model was fitted to "
         "'income' there: pass the same columns in the same order"),
        ((2, ["age", "height"]), {"whose": "the others", "source": "the bags have"},
         "column 1 of the others is 'income', but the bags have 'height' there: pass the same"),
    ],
)  # fmt: skip
def test_unlike(bags, expected, words, message):
    with pytest.raises(ValueError, match=message):
        bags.check_like(*expected, **words)


# together


def test_concatenate(bags_of, weighted):
    parts = [bags_of(sizes) for sizes in ([3, 1], [4], [2, 5, 1])]
    bags = Bags.concatenate(parts)
    assert_equal(list(bags), [bag for part in parts for bag in part])
    assert bags.offsets.dtype == np.int64
    if weighted:
        assert_array_equal(bags.weights, np.concatenate([part.weights for part in parts]))
    else:
        assert bags.weights is None


def test_concatenate_bags_with_weights_and_without(bags, arrays):
    plain = Bags.from_list(arrays[3:])
    for parts in ([bags, plain], [plain, bags]):
        both = Bags.concatenate(parts)
        assert_array_equal(both.weights, np.concatenate([part.point_weights for part in parts]))
        assert_array_equal(both.totals, np.concatenate([part.totals for part in parts]))


def test_concatenate_leaves_ids_out_and_keeps_names(bags, arrays):
    for parts in ([bags, bags], [arrays, bags], [bags, arrays]):
        both = Bags.concatenate(parts)
        assert both.ids is None and both.metadata is None
        assert both.features == ["age", "income"]
    assert Bags.concatenate([arrays]).features is None


def test_concatenate_loads_memory_maps(mapped, arrays):
    parts = [Bags(mapped, [0, 5, 20]), Bags.from_list(arrays[:1])]
    both = Bags.concatenate(parts)
    assert not both.is_memory_map
    assert_equal(list(both), [mapped[:5], mapped[5:], parts[1][0]])


def test_concatenate_keeps_float32():
    single = Bags.from_list([np.ones((2, 1), np.float32)])
    assert Bags.concatenate([single, single]).points.dtype == np.float32
    assert Bags.concatenate([single, [[[1.0]]]]).points.dtype == np.float64


def test_unlike_bags_do_not_go_together(bags, arrays):
    with pytest.raises(ValueError, match="there are no bags: pass at least one bag of points"):
        Bags.concatenate([])
    with pytest.raises(
        ValueError,
        match="the bags at position 2 have 3 features per point, but those before have 2: pass the",
    ):
        Bags.concatenate([bags, arrays, [np.ones((2, 3))]])
    swapped = Bags.from_list(arrays, features=["income", "age"])
    for parts in ([bags, arrays, swapped], [arrays, bags, swapped]):
        with pytest.raises(
            ValueError,
            match="column 0 of the bags at position 2 is 'income', but those before have 'age'",
        ):
            Bags.concatenate(parts)


def test_concatenated_memory_map_values_are_checked(tmp_path):
    points = np.zeros((9, 2))
    points[7, 1] = np.inf
    np.save(tmp_path / "points.npy", points)
    mapped = Bags(np.load(tmp_path / "points.npy", mmap_mode="r"), [0, 3, 9])
    with pytest.raises(ValueError, match="bag 2, point 4, column 1: value is inf"):
        Bags.concatenate([[np.ones((1, 2))], mapped])
