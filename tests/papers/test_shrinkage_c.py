"""Shrinkage C: the convolution of the kernel against quadrature, and its scale of best evidence."""

import numpy as np
import pytest
from builders.kernels import kernel_and_definition
from builders.training import JITTER, convolution, dense_problem, labelled_bags, training_of
from scipy.integrate import quad

import bdr_stan
from bdr_stan import BDR, RBF, Bags
from bdr_stan.embedding.prior import landmark_matrices
from bdr_stan.embedding.training import training_features
from bdr_stan.labels import Labels
from bdr_stan.models.bdr import BDRModel
from bdr_stan.models.embedding_model import penalised_evidence
from bdr_stan.posterior.latent_gaussian import most_probable_scales
from experiments.papers.shrinkage_c import Convolution, ShrinkageC, rbf_convolution


def k(x, y, bandwidth):
    return np.exp(-np.sum(((x - y) / bandwidth) ** 2) / 2)


@pytest.mark.parametrize(("bandwidth", "scale"), [(0.7, 1.5), (2.0, 0.4), (1.0, 1.0)])
def test_one_dimension(rng, bandwidth, scale):
    def integral(a, b):
        def integrand(z):
            return k(a, z, bandwidth) * k(z, b, bandwidth) * np.exp(-(z**2) / (2 * scale**2))

        return quad(integrand, -20, 20, epsabs=1e-13)[0]

    x, y = rng.normal(size=(2, 3, 1))
    expected = [[integral(a, b) for b in y] for a in x]
    np.testing.assert_allclose(rbf_convolution(x, y, bandwidth, scale), expected, rtol=1e-10)


@pytest.mark.parametrize(
    ("bandwidth", "scale"),
    [(0.8, 1.3), ([0.8, 0.5], 1.3), (0.8, [1.3, 0.6]), ([0.8, 0.5], [1.3, 0.6])],
)
def test_two_dimensions(bandwidth, scale):
    x, y = np.array([[0.3, -1.1]]), np.array([[0.9, 0.4]])
    bandwidth, scale = np.array(bandwidth), np.array(scale)
    # Of functions that vanish at both ends the trapezoid rule is exact to rounding.
    grid, step = np.linspace(-9, 9, 301, retstep=True)
    z = np.stack(np.meshgrid(grid, grid), axis=-1)
    exponents = ((x[0] - z) / bandwidth) ** 2 + ((z - y[0]) / bandwidth) ** 2 + (z / scale) ** 2
    expected = np.exp(-exponents.sum(axis=-1) / 2).sum() * step**2
    np.testing.assert_allclose(rbf_convolution(x, y, bandwidth, scale), expected, rtol=1e-11)


def test_it_is_symmetric_and_positive_definite(rng):
    x = rng.normal(size=(12, 3))
    r = rbf_convolution(x, x, 0.8, 1.5)
    np.testing.assert_allclose(r, r.T, rtol=1e-12)
    assert np.linalg.eigvalsh(r).min() > 0


def test_equal_bandwidths_are_one_bandwidth(rng):
    x, y = rng.normal(size=(7, 3)), rng.normal(size=(4, 3))
    one, three = rbf_convolution(x, y, 0.7, 1.1), rbf_convolution(x, y, [0.7] * 3, [1.1] * 3)
    np.testing.assert_allclose(three, one, rtol=1e-12)


def test_it_needs_a_positive_scale():
    with pytest.raises(ValueError, match="measure_scale must be a positive number, found 0"):
        rbf_convolution(np.ones((2, 1)), np.ones((2, 1)), 1.0, 0)
    with pytest.raises(ValueError, match="measure_scale has 2 entries, but the points have 1"):
        rbf_convolution(np.ones((2, 1)), np.ones((2, 1)), 1.0, [1.0, 1.0])
    with pytest.raises(ValueError, match="bandwidth must be a positive number, found 'median'"):
        rbf_convolution(np.ones((2, 1)), np.ones((2, 1)), "median", 1.0)


def matrix(training, scale):
    """R of the convolution as the prior."""
    prior = Convolution.around(training.landmarks, training.kernel, scale)
    return landmark_matrices(training, embedding_prior=prior)[1]


@pytest.mark.parametrize(
    ("name", "bandwidth"), [("rbf", 0.9), ("rbf, a length a column", [0.5, 1.0, 3.0])]
)
@pytest.mark.parametrize("scale", [0.6, 2.0])
def test_convolution_prior_is_the_integral(rng, name, bandwidth, scale):
    (bags, y), u = labelled_bags(rng), rng.normal(size=(5, 3))
    _, definition = kernel_and_definition(name)
    p = dense_problem(bags, y, definition, u, convolution(u, bandwidth, scale))
    np.testing.assert_allclose(matrix(training_of(bags, name, u), scale), p.R, rtol=1e-8)


def test_convolution_prior_of_some_columns_and_a_variance(rng):
    """The measure is one of the columns that the kernel depends on; k enters twice."""
    (bags, _), u = labelled_bags(rng), rng.normal(size=(5, 3))
    kernel = RBF([0.5, 2.0], columns=["c", "a"], variance=3.0)
    training = training_features(bags, kernel=kernel, landmarks=u, covariance=True)
    expected = convolution(u[:, [2, 0]], [0.5, 2.0], 1.3, variance=3.0)()
    np.testing.assert_allclose(matrix(training, 1.3), expected, rtol=1e-8)


def test_it_is_a_kernel(rng):
    x = rng.normal(size=(4, 2))
    r = Convolution.around(x, RBF(0.7, units=np.array([1.0, 3.0])), 1.2)
    np.testing.assert_allclose(r.diagonal(x), np.diag(r(x, x)))


# ---------------------------------------------------------------- the estimator


def fitted(rng, kernel="rbf", columns=slice(None), unit=1.0, **options):
    """A fit to some columns of bags whose last column has this unit, with its bags and labels."""
    bags, y = labelled_bags(rng)
    points = (bags.points * [1, 1, unit])[:, columns]
    bags = Bags(points, bags.offsets, features=np.array(["a", "b", "c"])[columns].tolist())
    landmarks = points[rng.choice(len(points), 6, replace=False)]
    options = {"kernel": kernel, "landmarks": landmarks, **options}
    return ShrinkageC(**options).fit(bags, y, seed=1), bags, y


def test_a_given_scale_is_used_and_saved(rng, tmp_path):
    model, bags, _ = fitted(rng, RBF(1.0), measure_scale=2.5)
    assert model.measure_scale_ == 2.5
    model.save(tmp_path / "fit.nc")
    again = bdr_stan.load(tmp_path / "fit.nc")
    assert again.measure_scale_ == 2.5
    np.testing.assert_allclose(again.predict(bags), model.predict(bags))


def test_its_scale_is_that_of_highest_evidence(rng):
    model, bags, y = fitted(rng, RBF(1.0))
    training = model.training_features(bags)

    def height(scale):
        prior = Convolution.around(training.landmarks, training.kernel, scale)
        other = BDRModel.of_training(training, Labels(y), embedding_prior=prior)
        return penalised_evidence(other, *most_probable_scales(other)[:2])

    scale = model.measure_scale_
    assert np.exp(-2) <= scale / np.sqrt(training.landmarks.var(axis=0).mean()) <= np.exp(3)
    for factor in (0.3, 0.6, 0.9, 1.1, 1.6, 3):
        assert height(scale) > height(scale * factor) - 0.02, factor


def test_columns_that_the_kernel_does_not_see_have_no_effect_on_the_scale(rng):
    """A column of huge values beside those of the kernel does not spread the search."""
    state = rng.bit_generator.state
    whole, *_ = fitted(rng, RBF(1.0, columns=["a", "b"]), unit=1e4)
    rng.bit_generator.state = state
    alone, *_ = fitted(rng, RBF(1.0), columns=slice(2))
    assert whole.measure_scale_ == pytest.approx(alone.measure_scale_, rel=1e-6)


def test_its_prior_is_one_of_bdr(rng):
    """The fit with the convolution as `embedding_prior` is the same, and has embeddings."""
    model, bags, y = fitted(rng)
    prior = {"embedding_prior": model.convolution_, "landmarks": model.landmarks_}
    same = BDR(kernel=model.kernel_, method="optimize", **prior).fit(bags, y, seed=1)
    np.testing.assert_allclose(same.predict(bags), model.predict(bags), rtol=1e-6)
    u = model.landmarks_
    found = same.embedding_posterior(bags[:2], u)
    eta, z = same.result_.draws("eta")[0], same.embed(bags[:2])
    r, K = model.convolution_(u, u), same.feature_map_.gram() + JITTER * np.eye(6)
    R = r + JITTER * np.trace(r) / 6 * np.eye(6)
    Sigma = training_features(
        bags, kernel=model.kernel_, landmarks=u, covariance=True
    ).embedding.covariance + JITTER * np.eye(6)
    m0 = same.coordinates_.m0
    for i in range(2):
        gain = eta * r @ np.linalg.inv(eta * R + Sigma / z.sizes[i])
        expected = same.feature_map_.gram() @ np.linalg.inv(K) @ m0 + gain @ (z.mean[i] - m0)
        np.testing.assert_allclose(found["mean"][i], expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": "cauchy"}, "ShrinkageC has the kernel 'rbf' or an RBF only, found 'cauchy'"),
        ({"measure_scale": "wide"}, "measure_scale must be a positive number, found 'wide'"),
        ({"measure_scale": [1.0, 2.0]}, "measure_scale has 2 entries"),
        ({"measure_scale": -1.0}, "measure_scale must be a positive number, found -1.0"),
        ({"embedding_prior": "kernel"}, "embedding_prior of ShrinkageC is its convolution"),
    ],
)
def test_choices_that_are_refused(rng, options, message):
    with pytest.raises(ValueError, match=message):
        fitted(rng, **options)
