"""Ridge regression for all penalties at once, against scikit-learn's and refits without a label."""

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.model_selection import LeaveOneOut, cross_val_predict

from bdr_stan.kernel_means.ridge_path import KernelRidgePath, RidgePath

ALPHAS = np.geomspace(1e-6, 1e2, 9)


@pytest.mark.parametrize(("n", "d"), [(30, 4), (30, 1), (6, 9), (2, 3)])
def test_path_is_ridge_regression_with_intercept(rng, n, d):
    x, y = rng.normal(size=(n, d)) + 2, rng.normal(size=n)
    path = RidgePath(x, y)
    weights = path.weights(ALPHAS)
    for k, alpha in enumerate(ALPHAS):
        plain = Ridge(alpha=alpha, solver="svd").fit(x, y)
        np.testing.assert_allclose(weights[:, k], plain.coef_, rtol=1e-7, atol=1e-12)
        level = plain.predict(path.origin[None])[0]
        assert path.level == pytest.approx(level)


@pytest.mark.parametrize(("n", "d"), [(30, 4), (12, 1), (6, 9)])
def test_leave_one_out_is_that_of_fits_without_the_row(rng, n, d):
    x, y = rng.normal(size=(n, d)) + 2, rng.normal(size=n)
    errors = [
        np.mean((y - cross_val_predict(Ridge(alpha=a, solver="svd"), x, y, cv=LeaveOneOut())) ** 2)
        for a in ALPHAS
    ]
    np.testing.assert_allclose(RidgePath(x, y).leave_one_out(ALPHAS), errors, rtol=1e-6)


def test_rows_all_equal_predict_the_average(rng):
    path = RidgePath(np.ones((4, 2)), np.arange(4.0))
    np.testing.assert_array_equal(path.weights(ALPHAS), 0)
    # each label from the average of the three others
    assert path.leave_one_out(ALPHAS)[0] == pytest.approx(
        np.mean((np.arange(4) - 1.5) ** 2) * 16 / 9
    )


def test_kernel_path_solves_the_regularised_equations(rng):
    x, y = rng.normal(size=(12, 20)), rng.normal(size=12) + 5
    gram = x @ x.T
    path = KernelRidgePath(gram, y)
    for alpha, dual in zip(ALPHAS, path.dual(ALPHAS).T, strict=True):
        direct = np.linalg.solve(gram + 12 * alpha * np.eye(12), y - y.mean())
        np.testing.assert_allclose(dual, direct, rtol=1e-8)
        plain = KernelRidge(alpha=12 * alpha, kernel="precomputed").fit(gram, y - y.mean())
        np.testing.assert_allclose(path.level + gram @ dual, y.mean() + plain.predict(gram))


def test_leave_one_out_is_that_of_fits_without_the_bag(rng):
    x, y = rng.normal(size=(9, 4)), rng.normal(size=9)  # a kernel matrix of rank 4
    gram, left = x @ x.T, y - y.mean()
    errors = np.zeros(len(ALPHAS))
    for i in range(9):
        rest = np.delete(np.arange(9), i)
        for k, alpha in enumerate(ALPHAS):
            dual = np.linalg.solve(gram[np.ix_(rest, rest)] + 9 * alpha * np.eye(8), left[rest])
            errors[k] += (left[i] - gram[i, rest] @ dual) ** 2 / 9
    np.testing.assert_allclose(KernelRidgePath(gram, y).leave_one_out(ALPHAS), errors, rtol=1e-7)


def test_directions_of_rounding_errors_do_not_count(rng):
    """A penalty below rounding errors is as good as none."""
    x, y = rng.normal(size=(10, 3)), rng.normal(size=10)
    cross = rng.normal(size=(4, 3)) @ x.T
    path = KernelRidgePath(x @ x.T, y)
    least_norm = np.linalg.pinv(x) @ (y - y.mean())
    np.testing.assert_allclose(
        cross @ path.dual(np.array([2.0**-65]))[:, 0],
        cross @ np.linalg.pinv(x @ x.T) @ (y - y.mean()),
        rtol=1e-8,
    )
    np.testing.assert_allclose(x.T @ path.dual(np.array([2.0**-65]))[:, 0], least_norm, rtol=1e-8)


def test_both_paths_are_one_regression(rng):
    """On centred rows and their inner products, the penalty of the sum n times that of the mean."""
    x, y = rng.normal(size=(9, 4)), rng.normal(size=9)
    x -= x.mean(axis=0)
    rows, kernel = RidgePath(x, y), KernelRidgePath(x @ x.T, y)
    np.testing.assert_allclose(rows.alphas(), 9 * kernel.alphas("loo"), rtol=1e-12)
    np.testing.assert_allclose(rows.weights(9 * ALPHAS), x.T @ kernel.dual(ALPHAS), rtol=1e-7)


def test_several_outputs_are_a_regression_each_with_one_penalty(rng):
    x, y = rng.normal(size=(9, 4)), rng.normal([0.0, 5.0, 1.0], size=(9, 3))
    for path, method in ((RidgePath, "weights"), (KernelRidgePath, "dual")):
        rows = x if path is RidgePath else x @ x.T
        together, alone = path(rows, y), [path(rows, column) for column in y.T]
        each = np.stack([getattr(one, method)(ALPHAS) for one in alone], axis=-1)
        np.testing.assert_allclose(getattr(together, method)(ALPHAS), each, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(together.level, [one.level for one in alone], rtol=1e-12)
        errors = np.mean([one.leave_one_out(ALPHAS) for one in alone], axis=0)
        np.testing.assert_allclose(together.leave_one_out(ALPHAS), errors, rtol=1e-9)
    variance = 9 + np.arange(9.0)
    sd = [one.label_sd(x @ x.T, variance, 0.3) for one in alone]
    np.testing.assert_allclose(together.label_sd(x @ x.T, variance, 0.3).T, sd, rtol=1e-9)


def test_default_penalties_and_the_best_of_them(rng):
    x, y = rng.normal(size=(9, 4)), rng.normal(size=9)
    path = RidgePath(x, y)
    assert len(path.alphas("loo")) == 49 and path.alphas("loo")[-1] == path.largest
    np.testing.assert_array_equal(path.alphas(0.3), [0.3])
    assert path.best(np.array([0.3])) == 0
    assert path.best(ALPHAS) == np.argmin(path.leave_one_out(ALPHAS))
