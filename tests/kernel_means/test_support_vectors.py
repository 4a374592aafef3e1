"""Decisions from dual coefficients, against scikit-learn's machines."""

import numpy as np
import pytest
from sklearn.svm import SVC

from bdr_stan.kernel_means.support_vectors import class_decisions, pair_decisions


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_decisions_are_scikit_learns(rng, n_classes):
    y = np.arange(60) % n_classes
    x, new = rng.normal(size=(60, 4)) + 0.5 * y[:, None], rng.normal(size=(40, 4)) + 1
    pairs = SVC(C=2.0, kernel="linear", decision_function_shape="ovo").fit(x, y)
    rest = SVC(C=2.0, kernel="linear").fit(x, y)
    found = pair_decisions(
        new @ x[pairs.support_].T, pairs.dual_coef_, pairs.intercept_, pairs.n_support_
    )
    expected = pairs.decision_function(new)
    np.testing.assert_allclose(found, expected.reshape(40, -1), rtol=1e-10, atol=1e-10)
    if n_classes == 2:
        return
    votes, score = class_decisions(found, n_classes)
    np.testing.assert_allclose(score, rest.decision_function(new), rtol=1e-10)
    np.testing.assert_array_equal(np.argmax(votes, axis=1), rest.predict(new))
