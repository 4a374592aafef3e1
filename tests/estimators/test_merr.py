"""Mean embedding ridge regression: what it has of its own, beside the contract of estimators."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as gp
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV, KFold

import bdr_stan
from bdr_stan import MERR, MERRCV, Bags
from bdr_stan.kernels import RBF, Cauchy, Linear, Matern32, Polynomial
from bdr_stan.estimators.merr import KernelRidgePath, between
from bdr_stan.estimators.merr_cv import held_out, stacking_weights
from bdr_stan.kernel_means.set_kernels import set_kernels

ALPHAS = np.geomspace(1e-5, 1, 6)


@pytest.fixture(scope="module")
def problem():
    """Bags of a location family; the label is the bag's location, sizes from 1 to 20."""
    rng = np.random.default_rng(3)
    sizes = rng.permutation(np.r_[1, 1, rng.integers(2, 21, 28)])
    centres = rng.normal(size=30)
    bags = [c + rng.normal(size=(m, 2)) for c, m in zip(centres, sizes, strict=True)]
    return bags, 3 + centres


def gram_of(bags, kernel, others=None):
    others = bags if others is None else others
    return np.array([[kernel(a, b).mean() for b in others] for a in bags])


def outer_of(bags, others, kernel, outer):
    """The outer kernel from its definition: distances between kernel means."""
    own = np.array([kernel(a, a).mean() for a in bags])
    theirs = np.array([kernel(b, b).mean() for b in others])
    distance = np.sqrt(np.maximum(own[:, None] + theirs - 2 * gram_of(bags, kernel, others), 0))
    return outer(distance)


# ------------------------------------------------------------ the path of penalties


def test_path_solves_the_regularised_equations(rng):
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


# ------------------------------------------------------------ one regression


@pytest.mark.parametrize("outer", ["linear", "rbf", "cauchy"])
def test_is_kernel_ridge_regression_on_set_kernels(problem, outer):
    bags, y = problem
    inner = Matern32(1.3)
    value = {
        "rbf": lambda d: np.exp(-((d / 0.4) ** 2) / 2),
        "cauchy": lambda d: 1 / (1 + (d / 0.4) ** 2),
    }
    model = MERR(
        "matern32",
        1.3,
        outer=outer,
        outer_bandwidth="median" if outer == "linear" else 0.4,
        alpha=0.01,
    ).fit(bags[:20], y[:20])
    if outer == "linear":
        gram, cross = gram_of(bags[:20], inner), gram_of(bags[20:], inner, bags[:20])
    else:
        gram = outer_of(bags[:20], bags[:20], inner, value[outer])
        cross = outer_of(bags[20:], bags[:20], inner, value[outer])
    plain = KernelRidge(alpha=20 * 0.01, kernel="precomputed").fit(gram, y[:20] - y[:20].mean())
    # A distance is the root of a difference: 1e-8 where kernel means are equal.
    np.testing.assert_allclose(
        model.predict(bags[20:]), y[:20].mean() + plain.predict(cross), rtol=1e-7
    )
    assert model.idata["posterior"]["dual"].dims == ("chain", "draw", "bag")


def test_outer_bandwidth_by_the_median_rule(problem):
    bags, y = problem
    model = MERR(RBF(1.0), outer="rbf", alpha=0.1).fit(bags, y)
    squares = outer_of(bags, bags, RBF(1.0), np.square)[np.triu_indices(30, 1)]
    assert model.outer_.bandwidth == pytest.approx(np.sqrt(np.median(squares) / 2))
    same = MERR(RBF(1.0), outer=RBF(model.outer_.bandwidth), alpha=0.1).fit(bags, y)
    np.testing.assert_allclose(same.predict(bags), model.predict(bags), rtol=1e-12)


@pytest.mark.parametrize("outer", ["linear", "rbf"])
def test_sd_is_that_of_a_gaussian_process(problem, outer):
    """scikit-learn's, on coordinates whose inner products are those of the kernel means."""
    bags, y = problem
    model = MERR(RBF(1.0), outer=outer, alpha=0.02).fit(bags[:20], y[:20])
    products = gram_of(bags, RBF(1.0))
    values, vectors = np.linalg.eigh(products)
    coordinates = vectors * np.sqrt(np.maximum(values, 0))
    noise = 20 * 0.02
    kernel = gp.DotProduct(1e-20) if outer == "linear" else gp.RBF(model.outer_.bandwidth)
    process = GaussianProcessRegressor(kernel + gp.WhiteKernel(noise), optimizer=None)
    process.fit(coordinates[:20], y[:20] - y[:20].mean())
    mean, sd = process.predict(coordinates[20:], return_std=True)
    gram = kernel(coordinates[:20]) + noise * np.eye(20)
    left = y[:20] - y[:20].mean()
    scale = np.sqrt(left @ np.linalg.solve(gram, left) / 20)
    found_mean, found_sd = model.predict(bags[20:], return_std=True)
    np.testing.assert_allclose(found_mean, y[:20].mean() + mean, rtol=1e-6)
    np.testing.assert_allclose(found_sd, scale * sd, rtol=1e-6)
    evidence = [
        multivariate_normal.logpdf(left, cov=(factor * scale) ** 2 * gram)
        for factor in (0.99, 1.0, 1.01)
    ]
    assert np.argmax(evidence) == 1
    np.testing.assert_allclose(model.predictive(bags[20:]).mean, found_mean)
    assert model.predictive(bags[20:]).log_prob(y[20:]).shape == (10,)


def test_weighted_points_count_by_weight(problem):
    bags, y = problem
    doubled = [np.vstack([bag, bag[:1]]) for bag in bags]
    weighted = Bags.from_list(bags, weights=[np.r_[2.0, np.ones(len(b) - 1)] for b in bags])
    for outer in ("linear", "rbf"):
        model = MERR(RBF(1.0), outer=outer).fit(doubled, y)
        other = MERR(RBF(1.0), outer=outer).fit(weighted, y)
        np.testing.assert_allclose(other.predict(weighted), model.predict(doubled), rtol=1e-8)


@pytest.mark.parametrize("outer", ["linear", "rbf"])
def test_all_points_as_landmarks_give_the_exact_fit(problem, outer):
    bags, y = problem
    options = {"kernel": RBF(0.5), "outer": outer, "alpha": 0.01}
    exact = MERR(**options).fit(bags, y)
    near = MERR(**options, landmarks=np.concatenate(bags)).fit(bags, y)
    few = MERR(**options, landmarks="kmeans", n_landmarks=5).fit(bags, y, seed=1)
    np.testing.assert_allclose(near.predict(bags), exact.predict(bags), rtol=1e-5)
    np.testing.assert_allclose(
        near.predict(bags, return_std=True)[1], exact.predict(bags, return_std=True)[1], rtol=1e-4
    )
    assert len(few.landmarks_) == 5
    assert np.abs(few.predict(bags) - exact.predict(bags)).max() > 1e-3


def test_alpha_by_validation_and_leave_one_out(problem):
    bags, y = problem
    train, held = slice(0, 20), slice(20, 30)
    model = MERR(RBF(1.0), outer="rbf", alpha=ALPHAS)
    model.fit(bags[train], y[train], validation=(bags[held], y[held]))
    one = [clone(model).set_params(alpha=a).fit(bags[train], y[train]) for a in ALPHAS]
    errors = [np.mean((each.predict(bags[held]) - y[held]) ** 2) for each in one]
    assert model.alpha_ == ALPHAS[np.argmin(errors)]
    np.testing.assert_allclose(model.predict(bags), one[np.argmin(errors)].predict(bags), rtol=1e-9)
    alone = clone(model).set_params(outer="linear").fit(bags, y)
    path = KernelRidgePath(gram_of(bags, RBF(1.0)), y)
    assert alone.alpha_ == ALPHAS[np.argmin(path.leave_one_out(ALPHAS))]
    assert MERR().fit(bags, y).alpha_ < MERR().fit(bags, np.random.default_rng(0).normal(size=30)).alpha_


def test_scikit_learn_searches_and_folds(problem):
    bags, y = problem
    grid = {"kernel": [RBF(0.5), RBF(1.0)], "outer": ["linear", Cauchy(0.5)]}
    search = GridSearchCV(MERR(alpha=0.01), grid, cv=3).fit(Bags.from_list(bags), y)
    assert search.best_score_ > 0.3
    assert search.best_estimator_.predict(bags).shape == (30,)
    search = GridSearchCV(MERRCV(cv=2), {"outers": [("linear",), ("rbf",)]}, cv=2)
    assert search.fit(Bags.from_list(bags), y).best_score_ > 0.3


@pytest.mark.parametrize(
    "model",
    [
        MERR(),
        MERR("rbf", np.array([1.0, 2.0]), outer="cauchy", alpha=0.1),
        MERR(RBF(1.0) + Linear(), outer=RBF(0.5), landmarks="random", n_landmarks=6),
        MERR(RBF(1.0), landmarks=np.eye(2)),
    ],
    ids=str,
)
def test_file_keeps_the_fit(problem, tmp_path, model):
    bags, y = problem
    weighted = Bags.from_list(bags, weights=[np.arange(1.0, len(b) + 1) for b in bags], features=["a", "b"])
    model = clone(model).fit(weighted, y, seed=1)
    model.save(tmp_path / "fit.nc", notes={"for": "tests"})
    again = bdr_stan.load(tmp_path / "fit.nc")
    assert type(again) is MERR and again.notes_ == {"for": "tests"}
    assert repr(again.get_params()) == repr(model.get_params())
    for kept, original in zip(
        again.predict(bags, return_std=True), model.predict(bags, return_std=True), strict=True
    ):
        np.testing.assert_array_equal(kept, original)
    with pytest.raises(ValueError, match="column 0 of the bags is 'b', but the model was fitted to 'a'"):
        again.predict(Bags.from_list(bags, features=["b", "a"]))
    assert again.outer_ is None or again.outer_.bandwidth == model.outer_.bandwidth


# ------------------------------------------------------------ kernels chosen by labels held out


KERNELS = {"gauss": [RBF(0.5), RBF(1.5)], "poly": [Polynomial(2, 1.0)]}
SPLITS = {"folds": 3, "validation": None}


@pytest.mark.parametrize("way", SPLITS)
def test_choice_is_that_of_explicit_refits(problem, way):
    bags, y = problem
    outers, alphas = ("linear", RBF(0.7)), ALPHAS[::2]
    model = MERRCV(KERNELS, outers=outers, alphas=alphas, cv=3)
    if way == "folds":
        model.fit(bags, y)
        splits = list(KFold(3).split(bags))
        used = np.arange(30)
    else:
        model.fit(bags[:20], y[:20], validation=(bags[20:], y[20:]))
        splits = [(np.arange(20), np.arange(20, 30))]
        used = np.arange(20)
    found = {}
    for kernel in [kernel for own in KERNELS.values() for kernel in own]:
        for outer in outers:
            for alpha in alphas:
                one = MERR(kernel, outer=outer, alpha=float(alpha))
                errors = [
                    one.fit([bags[i] for i in train], y[train]).predict([bags[i] for i in test])
                    - y[test]
                    for train, test in splits
                ]
                found[kernel, outer, alpha] = np.sqrt(np.mean(np.concatenate(errors) ** 2))
    (kernel, outer, alpha), least = min(found.items(), key=lambda item: item[1])
    assert model.table_["rmse"][0] == pytest.approx(least, rel=1e-6)
    assert len(model.table_) == 6 and model.table_["rmse"].is_monotonic_increasing
    assert (model.best_.kernel, model.best_.outer, model.best_.alpha) == (kernel, outer, alpha)
    refit = MERR(kernel, outer=outer, alpha=float(alpha)).fit([bags[i] for i in used], y[used])
    np.testing.assert_allclose(model.predict(bags), refit.predict(bags), rtol=1e-7)
    assert model.members_ == [model.best_] and model.weights_ == pytest.approx([1.0])


def test_average_of_the_best_of_each_kind(problem, tmp_path):
    bags, y = problem
    train, held = slice(0, 18), slice(18, 30)
    model = MERRCV(
        {"gauss": [RBF(0.5), RBF(1.5)], "cauchy": [Cauchy("median")], "linear": [Linear()]},
        outers=("linear", "rbf"),
        outer_scales=(0.5, 1.0),
        average=True,
    ).fit(bags[train], y[train], validation=(bags[held], y[held]), seed=1)
    assert len(model.table_) == 4 + 4 + 4
    assert 1 <= len(model.members_) <= 6
    assert np.all(model.weights_ > 0) and model.weights_.sum() == pytest.approx(1)
    each = np.column_stack([member.predict(bags) for member in model.members_])
    np.testing.assert_allclose(model.predict(bags), each @ model.weights_, rtol=1e-7)
    rmse = np.sqrt(np.mean((model.predict(bags[held]) - y[held]) ** 2))
    assert rmse <= model.table_["rmse"][0] * (1 + 1e-9)
    model.best_.save(tmp_path / "best.nc")
    np.testing.assert_array_equal(
        bdr_stan.load(tmp_path / "best.nc").predict(bags), model.best_.predict(bags)
    )


def test_stacking_weights_are_the_best_on_the_simplex(rng):
    y = rng.normal(size=40)
    noise = rng.normal(size=(40, 1))  # that the first two share
    predictions = y[:, None] + np.hstack([noise, noise, -0.5 * noise]) + 0.3 * rng.normal(size=(40, 3))
    weights = stacking_weights(predictions, y)
    assert weights.sum() == pytest.approx(1) and np.all(weights >= 0)
    least = np.mean((predictions @ weights - y) ** 2)
    for other in rng.dirichlet(np.full(3, 0.5), 3000):
        assert least <= np.mean((predictions @ other - y) ** 2) + 1e-12
    useless = np.column_stack([y, rng.normal(size=40)])
    np.testing.assert_allclose(stacking_weights(useless, y), [1, 0], atol=1e-9)


def test_held_out_errors_of_one_kernel_matrix(problem):
    bags, y = problem
    gram = set_kernels(bags, [RBF(1.0)])[0]
    splits = list(KFold(3).split(bags))
    alphas, errors, predictions = held_out(gram, y, splits)
    assert alphas.shape == errors.shape == (49,) and predictions.shape == (30, 49)
    np.testing.assert_allclose(errors, np.mean((predictions - y[:, None]) ** 2, axis=0))


def test_outer_kernel_of_equal_means_is_its_variance():
    products = np.ones((2, 2))
    values = between(Cauchy(0.5, variance=2.0), products, np.ones(2), np.ones(2))
    np.testing.assert_array_equal(values, 2.0)


# ------------------------------------------------------------ errors


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (MERR("gauss"), "kernel must be one of 'rbf'.*found 'gauss'"),
        (MERR(RBF(1.0), 2.0), "bandwidth=2.0 goes with the name of a kernel"),
        (MERR(bandwidth=-1.0), "bandwidth.* must be a positive number"),
        (MERR(outer="quadratic"), "outer must be a kernel or one of 'linear', 'rbf'.*'quadratic'"),
        (MERR(outer=Linear()), "kernel of kernel means must be one of the distance"),
        (MERR(outer=RBF([1.0, 2.0])), "with one bandwidth and no columns"),
        (MERR(outer=RBF("ard")), "with one bandwidth and no columns"),
        (MERR(outer="rbf", outer_bandwidth="ard"), "outer_bandwidth must be 'median' or a positive"),
        (MERR(outer="rbf", outer_bandwidth=0.0), "outer_bandwidth must be a positive number"),
        (MERR(outer_bandwidth=2.0), "outer_bandwidth=2.0 goes with the name.*outer is 'linear'"),
        (MERR(alpha="gcv"), "alpha must be 'loo', a positive number or several, found 'gcv'"),
        (MERR(alpha=[0.1, -1.0]), "alpha must be 'loo', a positive number or several"),
        (MERR(landmarks="grid"), "method must be"),
        (MERRCV([]), "kernels must be a list of kernels, or a dict of such lists"),
        (MERRCV({"a": []}), "kernels must be a list of kernels, or a dict of such lists"),
        (MERRCV(outers="linear"), r"outers must be a sequence such as \('linear',\), found 'linear'"),
        (MERRCV(outers=("cubic",)), "outer must be a kernel or one of"),
        (MERRCV(outers=("rbf",), outer_scales=(0.0,)), "outer_scales must be a positive number"),
        (MERRCV(alphas=[]), r"alphas must be None, a positive number or several, found \[\]"),
    ],
    ids=str,
)
def test_wrong_parameters(model, message, problem):
    with pytest.raises(ValueError, match=message):
        model.fit(*problem)


def test_wrong_kernels_and_bags(problem):
    bags, y = problem
    with pytest.raises(TypeError, match=r"kernels must hold kernels such as RBF\(2.0\), found 'rbf'"):
        MERRCV(["rbf"]).fit(bags, y)
    same = [np.ones((2, 1))] * 3
    with pytest.raises(ValueError, match="most bags have the same kernel mean.*outer_bandwidth"):
        MERR(RBF(1.0), outer="rbf").fit(same, [1.0, 2.0, 3.0])
    model = MERR(RBF(1.0)).fit(bags, y)
    with pytest.raises(ValueError, match="bags have 1 features a point, but the model was fitted to 2"):
        model.predict([bag[:, :1] for bag in bags])
    for model in (MERR(), MERRCV()):
        with pytest.raises(ValueError, match="29 labels, but there are 30 bags"):
            model.fit(bags, y[1:])
        with pytest.raises(ValueError, match="validation bags have 1 features a point.*bags 2"):
            model.fit(bags, y, validation=([bag[:, :1] for bag in bags], y))
    with pytest.raises(ValueError, match="validation chooses alpha, but alpha is 0.5"):
        MERR(alpha=0.5).fit(bags, y, validation=(bags, y))
