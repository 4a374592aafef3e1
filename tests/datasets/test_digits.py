"""Bags of handwritten digits."""

import numpy as np
import pytest

from bdr_stan.datasets import digits_bags


def test_digits_bags_have_heavy_tailed_sizes_and_spread_labels():
    bags, y = digits_bags(1000, seed=1)
    assert len(bags) == len(y) == 1000 and bags.points.shape[1] == 64
    assert bags.points.min() == 0 and bags.points.max() == 1
    sizes = bags.sizes
    assert sizes.min() == 1 and 250 < sizes.max() <= 300
    assert 0.4 < (sizes <= 5).mean() < 0.55 and 0.07 < (sizes > 100).mean() < 0.13
    assert y.min() > 0 and y.max() < 9 and y.std() > 2


def test_label_is_the_mean_digit_of_a_large_bag():
    from sklearn.datasets import load_digits

    images, digits = load_digits(return_X_y=True)
    digit_of = {image.tobytes(): digit for image, digit in zip(images / 16, digits)}
    bags, y = digits_bags(200, seed=2)
    gaps = {"small": [], "large": []}
    for points, label in zip(bags, y):
        gap = np.mean([digit_of[point.tobytes()] for point in points]) - label
        if len(points) <= 2:
            gaps["small"].append(gap)
        elif len(points) > 100:
            gaps["large"].append(gap)
    # The sd of a digit within a bag is at most 2.5.
    assert np.abs(gaps["large"]).max() < 4 * 2.5 / 10
    assert 0.7 < np.std(gaps["small"]) < 2


def test_splits_share_no_image():
    images = {
        split: {point.tobytes() for point in digits_bags(300, seed=3, split=split)[0].points}
        for split in ["train", "test"]
    }
    assert len(images["train"]) > 850 and len(images["test"]) > 850
    assert not images["train"] & images["test"]


def test_seed_decides():
    (a, y), (b, z) = digits_bags(20, seed=4), digits_bags(20, seed=4)
    np.testing.assert_array_equal(a.points, b.points)
    np.testing.assert_array_equal(y, z)
    assert not np.array_equal(y, digits_bags(20, seed=5)[1])
    assert not np.array_equal(y, digits_bags(20, seed=4, split="test")[1])
    assert set(digits_bags(20, seed=4, max_size=1)[0].sizes) == {1}


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"split": "validation"}, "unknown split 'validation': choose 'train' or 'test'"),
        ({"n_bags": 0}, "n_bags must be an integer >= 1, found 0"),
        ({"max_size": 2.5}, "max_size must be an integer >= 1, found 2.5"),
    ],
)
def test_digits_bags_rejects(arguments, message):
    with pytest.raises(ValueError, match=message):
        digits_bags(**{"n_bags": 5, "seed": 1, **arguments})
