"""Classes of bags by size: every bag plays the same part in their bounds."""

import numpy as np
import pytest

from bdr_stan.bags import Bags
from bdr_stan.questions.conformal_bayes import Compared, SizeClasses


def sizes_of(kind, n, rng):
    if kind == "tied":
        return rng.choice([1, 2, 2, 2, 10, 50], size=n)
    return np.exp(rng.uniform(0, 6, size=n)) if kind == "all different" else np.full(n, 7)


@pytest.mark.parametrize("kind", ["tied", "all different", "all equal"])
@pytest.mark.parametrize("n_classes", [1, 3, 7])
def test_bounds_do_not_depend_on_which_bag_is_new(kind, n_classes, rng):
    sizes = sizes_of(kind, 120, rng).astype(float)
    classes = {}
    for i, size in enumerate(sizes):
        others = np.delete(np.arange(120), i)
        chosen = SizeClasses(sizes[others], 0.9, n_classes)
        found = chosen.class_of(size)
        like = others[chosen.order[found.first : found.end]]
        classes.setdefault(found.number, []).append((i, {i, *like}))
    for members in classes.values():
        together = {i for i, _ in members}
        assert all(like == together for _, like in members)
    assert sum(len(members) for members in classes.values()) == 120


def test_classes_are_of_similar_numbers_of_bags(rng):
    sizes = np.sort(rng.permutation(400) + 1.0)
    chosen = SizeClasses(sizes, 0.9, 4)
    numbers, like = zip(
        *((c.number, c.end - c.first) for c in map(chosen.class_of, sizes + 0.5)), strict=True
    )
    assert sorted(set(numbers)) == [1, 2, 3, 4]
    assert np.all(np.diff(numbers) >= 0)
    assert set(like) <= {99, 100, 101}


@pytest.mark.parametrize(
    ("n", "level", "expected"), [(19, 0.95, 1), (158, 0.95, 1), (159, 0.95, 2), (5000, 0.95, 4)]
)
def test_default_number_leaves_enough_bags_in_each(n, level, expected):
    assert SizeClasses(np.arange(n, dtype=float), level, None).n_classes == expected


def test_classes_that_ties_leave_too_small_are_joined():
    sizes = np.repeat([1.0, 5.0, 100.0], [50, 45, 5])
    chosen = SizeClasses(sizes, 0.9, 3)
    assert {chosen.class_of(size) for size in (5.0, 100.0, 1000.0)} == {(2, 50, 100)}
    assert chosen.class_of(1.0) == (1, 0, 50)


@pytest.mark.parametrize(
    ("n", "level", "n_classes", "message"),
    [
        (18, 0.95, None, "level=0.95 needs at least 19 training bags, but the fit has 18"),
        (99, 0.95, 6, "at least 19 training bags in each size class, .* choose by_size=5 or less"),
    ],
)
def test_too_few_bags(n, level, n_classes, message):
    with pytest.raises(ValueError, match=message):
        SizeClasses(np.ones(n), level, n_classes)


def test_bags_compared(rng):
    sizes, new = np.repeat([1.0, 30.0], 30), np.array([30.0, 1.0, 40.0])
    bags = Bags.from_list([np.zeros((1, 1))] * 3, ids=["a", "b", "c"])
    found = Compared(SizeClasses(sizes, 0.9, 2), new, bags)
    by_class = {tuple(i): (set(like), rank) for i, like, rank in found.by_class()}
    large, small = (set(range(30, 60)), 3), (set(range(30)), 3)
    assert by_class == {(1,): small, (0, 2): large}
    described = found.described
    assert described["size_class"].tolist() == [2, 1, 2]
    assert described["n_like"].tolist() == [30, 30, 30]
    assert described["sizes_like"].tolist() == [[30, 30], [1, 1], [30, 30]]
    assert described["ids"].tolist() == ["a", "b", "c"]
