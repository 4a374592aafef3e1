"""data_gen.swiss_roll: the authors' rolls, by the figures they give."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from data_gen.swiss_roll import swiss_roll


@pytest.fixture(scope="module")
def roll():
    return swiss_roll(0)


def constant_in_bag(split):
    return np.repeat(split.y / split.bags.sizes, split.bags.sizes)


def stirling_nll(y, rate):
    """Mean negative log likelihood of counts with Stirling's log y!, 0 for y = 0 and 1."""
    log_factorial = np.zeros(len(y))
    n = y[y > 1]
    log_factorial[y > 1] = n * np.log(n) - n + 0.5 * np.log(2 * np.pi * n)
    return np.mean(rate - y * np.log(rate) + log_factorial)


# Computed by the authors' code: data seed 0, 100 training bags.
@pytest.mark.parametrize("split, published", [("train", (2.225, 0.929)), ("test", (2.220, 0.873))])
def test_constant_in_bag_scores_as_published(roll, split, published):
    rolled = roll[split]
    rate = constant_in_bag(rolled)
    scores = stirling_nll(rolled.outcomes, rate), np.mean((rate - rolled.rate) ** 2)
    np.testing.assert_allclose(scores, published, atol=0.0005)


def test_no_rates_score_better_than_published(roll):
    train = roll["train"]
    floor = -stats.poisson.logpmf(train.outcomes, train.rate).mean()
    assert floor == pytest.approx(2.143, abs=0.0005)


def test_splits_have_their_sizes(roll):
    assert {name: len(split.y) for name, split in roll.items()} == {
        "train": 100, "early_stop": 100, "validation": 100, "test": 500
    }  # fmt: skip
    sizes = roll["test"].bags.sizes
    assert sizes.mean() == pytest.approx(150, abs=4 * 50 / 500**0.5)
    assert sizes.std() == pytest.approx(50, rel=0.15)


def test_labels_are_sums_of_slices_of_the_roll(roll):
    for split in roll.values():
        ends = split.bags.offsets
        sums = [split.outcomes[a:b].sum() for a, b in pairwise(ends)]
        np.testing.assert_array_equal(split.y, sums)
        assert (np.diff(split.roll[:, 2]) <= 0).all()
        angle = np.hypot(split.roll[:, 0], split.roll[:, 2])
        np.testing.assert_allclose(split.rate, angle / 2, rtol=1e-12)
        assert split.rate.min() > 2.35 and split.rate.max() < 7.07
        assert split.roll[:, 1].min() > 0 and split.roll[:, 1].max() < 21


def test_points_are_the_roll_rotated_and_standardised_by_the_training_points(roll):
    train, test = roll["train"], roll["test"]
    assert train.bags.n_features == 18
    np.testing.assert_allclose(train.bags.points.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(train.bags.points.std(axis=0), 1, rtol=1e-12)
    rotation = np.linalg.qr(np.random.RandomState(23).uniform(0, 2, (18, 18)))[0]
    padded = {k: np.pad(s.roll, ((0, 0), (0, 15))) @ rotation for k, s in roll.items()}
    mean, sd = padded["train"].mean(axis=0), padded["train"].std(axis=0)
    np.testing.assert_allclose(test.bags.points, (padded["test"] - mean) / sd, atol=1e-10)


def test_normal_outcomes_spread_around_means_from_0_to_1():
    splits = swiss_roll(3, n_bags=50, n_test=50, likelihood="normal")
    for split in splits.values():
        assert split.rate.min() > -1e-3 and split.rate.max() < 1 + 1e-3
        z = (split.outcomes - split.rate) / 0.1
        assert abs(z.mean()) < 4 / len(z) ** 0.5 and z.std() == pytest.approx(1, abs=0.03)
        first = split.bags.sizes[0]
        assert split.y[0] == pytest.approx(split.outcomes[:first].sum())


def test_bags_of_other_sizes():
    test = swiss_roll(1, n_bags=50, n_test=400, mean_size=60, size_sd=20)["test"]
    assert test.bags.sizes.mean() == pytest.approx(60, abs=4)
    assert test.bags.sizes.std() == pytest.approx(20, abs=4)


def test_seed_decides():
    first, again, other = (swiss_roll(seed, n_bags=50, n_test=2)["train"] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.bags.points, again.bags.points)
    np.testing.assert_array_equal(first.outcomes, again.outcomes)
    assert not np.array_equal(first.y, other.y)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"likelihood": "gamma"}, "unknown likelihood 'gamma': choose 'poisson' or 'normal'"),
        ({"n_bags": 1}, "n_bags must be a whole number, >= 2, found 1"),
        ({"n_test": 2.5}, "n_test must be a whole number, >= 2, found 2.5"),
        ({"size_sd": 10}, "sizes of mean 150 and sd 10 are not 1"),
    ],
)
def test_swiss_roll_rejects(arguments, message):
    with pytest.raises(ValueError, match=message):
        swiss_roll(0, **arguments)
