"""Kernel principal components against those of matrices, and scikit-learn's."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.decomposition import KernelPCA as PlainKernelPCA
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import KFold

from bdr_stan.kernel_means.kernel_mean import KernelMean
from bdr_stan.kernel_means.shrinkage import ESTIMATORS
from bdr_stan.kernels import RBF, Linear, Polynomial
from experiments.papers.kernel_pca import KernelPCA, ten_fold_shrinkage


@pytest.fixture
def points(rng):
    return rng.normal(size=(25, 4)) * [3, 2, 1, 0.5] + 1


def test_plain_components_are_scikit_learns(points, rng):
    new = rng.normal(size=(6, 4))
    ours = KernelPCA(2, Linear()).fit(points)
    theirs = PCA(2).fit(points)
    np.testing.assert_allclose(np.abs(ours.transform(new)), np.abs(theirs.transform(new)))
    np.testing.assert_allclose(ours.explained_variance_, theirs.explained_variance_ * 24 / 25)
    rest = new - theirs.inverse_transform(theirs.transform(new))
    np.testing.assert_allclose(ours.reconstruction_error(new), np.sum(rest**2, axis=1))
    ours = KernelPCA(5, RBF(2.0)).fit(points)
    theirs = PlainKernelPCA(5, kernel="rbf", gamma=1 / 8).fit(points)
    np.testing.assert_allclose(np.abs(ours.transform(new)), np.abs(theirs.transform(new)))
    np.testing.assert_allclose(ours.explained_variance_, theirs.eigenvalues_ / 25)


@pytest.mark.parametrize("covariance", ESTIMATORS)
@pytest.mark.parametrize("mean", ESTIMATORS)
def test_components_of_a_matrix(points, rng, mean, covariance):
    new = rng.normal(size=(6, 4))
    ours = KernelPCA(2, Linear(), mean=mean, covariance=covariance).fit(points)
    centre = KernelMean(points, Linear(), estimator=mean).weights @ points
    moved = points - centre
    values, vectors = np.linalg.eigh(moved.T * ours.operator_.weights @ moved)
    axes = vectors[:, :-3:-1]
    np.testing.assert_allclose(ours.explained_variance_, values[:-3:-1])
    np.testing.assert_allclose(np.abs(ours.transform(new)), np.abs((new - centre) @ axes))
    rest = (new - centre) - (new - centre) @ axes @ axes.T
    np.testing.assert_allclose(ours.reconstruction_error(new), np.sum(rest**2, axis=1))


@pytest.mark.parametrize(("kernel", "rank"), [(Linear(), 4), (Polynomial(2), 14), (RBF(2.0), 24)])
def test_all_components_reconstruct_the_points(points, kernel, rank):
    fit = KernelPCA(rank, kernel).fit(points)
    largest = kernel.diagonal(points).max()
    np.testing.assert_allclose(fit.reconstruction_error(points), 0, atol=1e-9 * largest)


def test_simple_shrinkage_keeps_the_components(points, rng):
    new = rng.normal(size=(6, 4))
    plain = KernelPCA(3, RBF(2.0)).fit(points)
    shrunk = KernelPCA(3, RBF(2.0), covariance="s-kmse").fit(points)
    np.testing.assert_allclose(
        shrunk.reconstruction_error(new), plain.reconstruction_error(new), rtol=1e-9
    )
    factor = 1 + shrunk.operator_.shrinkage
    np.testing.assert_allclose(shrunk.explained_variance_ * factor, plain.explained_variance_)


def error_of_matrix(points, new, shrinkage):
    """Squared distances of new points from 2 components of F-COSE at this lambda."""
    centre, n = points.mean(axis=0), len(points)
    moved = points - centre
    squares = (moved @ moved.T) ** 2
    weights = np.linalg.solve(squares + n * shrinkage * np.eye(n), squares @ np.ones(n))
    axes = np.linalg.eigh(moved.T * weights @ moved)[1][:, -2:]
    return np.sum((new - centre) ** 2) - np.sum(((new - centre) @ axes) ** 2)


@pytest.mark.parametrize("seed", range(4))
def test_ten_folds_choose_the_shrinkage_of_least_error(seed):
    points = np.random.default_rng(seed).standard_t(3, (40, 6))
    moved = points - points.mean(axis=0)
    largest = np.linalg.eigvalsh((moved @ moved.T) ** 2)[-1] / len(points)
    candidates = [1e-12 * largest, *(largest * np.array([1e-3, 1e-2, 0.1, 1, 10]))]
    folds = list(KFold(10, shuffle=True, random_state=0).split(points))
    errors = [
        sum(error_of_matrix(points[kept], points[out], shrinkage) for kept, out in folds)
        for shrinkage in candidates
    ]
    best = candidates[np.argmin(errors)]
    chosen = ten_fold_shrinkage(points, Linear(), 2, seed=0)
    assert chosen == pytest.approx(best, abs=1e-9 * largest)


def test_estimator_and_errors(points):
    model = KernelPCA(3, mean="f-kmse")
    assert repr(clone(model)) == repr(model)
    with pytest.raises(NotFittedError):
        model.transform(points)
    with pytest.raises(ValueError, match=r"n_components must be from 1 to 4, .*, found 5"):
        KernelPCA(5, Linear()).fit(points)


def test_components_in_a_data_frame():
    points = pd.DataFrame(np.random.default_rng(0).normal(size=(6, 2)), index=list("abcdef"))
    pca = KernelPCA(n_components=2)
    expected = pca.fit(points.to_numpy()).transform(points.to_numpy())
    found = pca.set_output(transform="pandas").transform(points)
    assert list(found) == ["kernelpca0", "kernelpca1"] and list(found.index) == list("abcdef")
    np.testing.assert_array_equal(found, expected)
