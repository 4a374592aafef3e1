"""F-KMSE from features against the estimator on the kernel matrix that they have."""

import numpy as np
import pytest

from bdr_stan.kernel_means.shrinkage import f_kmse, f_kmse_score
from bdr_stan.kernels import RBF, NystromFeatures, Polynomial
from experiments.papers.low_rank import (
    low_rank_f_kmse,
    low_rank_scores,
    nystrom_f_kmse,
    score_of_equal_weights,
)


@pytest.mark.parametrize("shift", [0.0, 0.3])
def test_weights_are_those_of_the_kernel_matrix(rng, shift):
    """Of its span: without shift, lambda is large; with it, small."""
    features = rng.normal(size=(30, 5)) + shift
    weights, shrinkage = low_rank_f_kmse(features)
    expected, of_matrix = f_kmse(features @ features.T)
    assert shrinkage == pytest.approx(of_matrix, rel=1e-3)
    np.testing.assert_allclose(features.T @ weights, features.T @ expected, rtol=1e-3)


def test_equal_weights_where_no_shrinkage_beats_them(rng):
    features = rng.normal(size=(30, 5)) + 100
    weights, shrinkage = low_rank_f_kmse(features)
    assert shrinkage == f_kmse(features @ features.T)[1] == 0
    np.testing.assert_array_equal(weights, np.full(30, 1 / 30))


def test_scores_are_those_of_the_kernel_matrix(rng):
    features = rng.normal(size=(12, 4)) + 0.5
    vectors, singular, _ = np.linalg.svd(features, full_matrices=False)
    gram, amounts = features @ features.T, np.array([1e-3, 0.1, 10.0])
    scores = low_rank_scores(singular**2, vectors, amounts)
    np.testing.assert_allclose(scores, f_kmse_score(gram, amounts), rtol=1e-9)
    assert low_rank_scores(singular**2, vectors, 0.1) == pytest.approx(scores[1])
    assert score_of_equal_weights(features) == pytest.approx(f_kmse_score(gram, 0.0))


def test_enough_landmarks_give_the_exact_estimator(rng):
    """A kernel of finite rank, 6, at 40 points; and as many landmarks of another as points."""
    x = rng.normal(size=(40, 2)) + 0.2
    for kernel, n_landmarks in ((Polynomial(2), 12), (RBF(1.0), 40)):
        weights, _ = nystrom_f_kmse(x, kernel, n_landmarks, seed=0)
        exact, _ = f_kmse(kernel(x, x))
        difference, gram = weights - exact, kernel(x, x)
        assert difference @ gram @ difference < 1e-6 * (exact @ gram @ exact)


def test_landmarks_are_points_drawn_by_the_seed(rng):
    x, kernel = rng.normal(size=(20, 2)), RBF(1.0)
    chosen = np.random.default_rng(3).choice(20, 4, replace=False)
    expected = low_rank_f_kmse(NystromFeatures(kernel, x[chosen])(x))
    found = nystrom_f_kmse(x, kernel, 4, seed=3)
    np.testing.assert_array_equal(found[0], expected[0])
    assert found[1] == expected[1]
