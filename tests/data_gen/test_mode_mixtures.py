"""Mixtures of Gaussians: labels, moments, the stream of the authors."""

import numpy as np
import pytest

from data_gen.mode_mixtures import mode_mixtures


def test_labels_are_uniform_and_sizes_equal():
    bags, y = mode_mixtures(1, n_bags=2000, n_points=2, most=4)
    assert set(bags.sizes) == {2} and bags.points.shape == (4000, 2)
    shares = np.bincount(y, minlength=5)[1:] / 2000
    np.testing.assert_allclose(shares, 0.25, atol=4 * np.sqrt(0.25 * 0.75 / 2000))


@pytest.mark.parametrize("most", [1, 3])
def test_points_have_the_moments_of_the_mixture(most):
    """Mean 0; variance 100 / 12 of the means, plus E a E A^2 d = 2.5 / 3 d, plus E b = 1 / 2."""
    d, n = 3, 6000
    bags, _ = mode_mixtures(2, n_bags=n, n_points=1, most=most, n_features=d)
    variance = 100 / 12 + d * 2.5 / 3 + 0.5
    np.testing.assert_allclose(bags.points.mean(axis=0), 0, atol=4 * np.sqrt(variance / n))
    np.testing.assert_allclose(bags.points.var(axis=0), variance, rtol=0.07)


def test_within_a_component_only_the_covariance_remains():
    bags, _ = mode_mixtures(3, n_bags=2000, n_points=50, most=1)
    within = np.mean([bag.var(axis=0, ddof=1) for bag in bags])
    assert within == pytest.approx(2 * 2.5 / 3 + 0.5, rel=0.05)


def test_bags_are_those_of_bachoc_et_al():
    """Ridge regression on bag means as in their code has the error of their stored results."""
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.model_selection import train_test_split

    bags, y = mode_mixtures(0, n_bags=256, n_points=128)
    means = np.array([bag.mean(axis=0) for bag in bags])
    means = (means - means.mean(axis=0)) / means.std(axis=0)
    train, test, y_train, y_test = train_test_split(means, y, test_size=0.5, random_state=42)
    predicted = KernelRidge(kernel="rbf", alpha=0.1).fit(train, y_train).predict(test)
    assert np.mean((predicted - y_test) ** 2) == pytest.approx(0.2045, abs=5e-5)


def test_seed_decides_the_bags():
    first, again, other = (mode_mixtures(seed, n_bags=5)[0].points for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("name", ["n_bags", "n_points", "most", "n_features"])
@pytest.mark.parametrize("value", [0, 1.5])
def test_refuses(name, value):
    with pytest.raises(ValueError, match=f"{name} must be a whole number, >= 1, found {value}"):
        mode_mixtures(0, **{name: value})
