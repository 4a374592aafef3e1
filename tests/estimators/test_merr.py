"""Mean embedding ridge regression: what it has of its own, beside the contract of estimators."""

import pickle

import numpy as np
import pytest
from builders.location_family import location_family
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as gp
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV

import bdr_stan
from bdr_stan import MERR, Bags
from bdr_stan.kernel_means.ridge_path import KernelRidgePath
from bdr_stan.kernels import RBF, Cauchy, Linear, Matern32

ALPHAS = np.geomspace(1e-5, 1, 6)


@pytest.fixture(scope="module")
def problem():
    return location_family(3, 30, largest=20)


def gram_of(bags, kernel, others=None):
    others = bags if others is None else others
    return np.array([[kernel(a, b).mean() for b in others] for a in bags])


def outer_of(bags, others, kernel, outer):
    """The outer kernel from its definition: distances between kernel means."""
    own = np.array([kernel(a, a).mean() for a in bags])
    theirs = np.array([kernel(b, b).mean() for b in others])
    distance = np.sqrt(np.maximum(own[:, None] + theirs - 2 * gram_of(bags, kernel, others), 0))
    return outer(distance)


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
        outer={"linear": "linear", "rbf": RBF(0.4), "cauchy": Cauchy(0.4)}[outer],
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


def test_alpha_by_leave_one_out(problem):
    bags, y = problem
    alone = MERR(RBF(1.0), alpha=ALPHAS).fit(bags, y)
    path = KernelRidgePath(gram_of(bags, RBF(1.0)), y)
    assert alone.alpha_ == ALPHAS[np.argmin(path.leave_one_out(ALPHAS))]
    assert (
        MERR().fit(bags, y).alpha_
        < MERR().fit(bags, np.random.default_rng(0).normal(size=30)).alpha_
    )


def test_scikit_learn_searches(problem):
    bags, y = problem
    grid = {"kernel": [RBF(0.5), RBF(1.0)], "outer": ["linear", Cauchy(0.5)]}
    search = GridSearchCV(MERR(alpha=0.01), grid, cv=3).fit(Bags.from_list(bags), y)
    assert search.best_score_ > 0.3
    assert search.best_estimator_.predict(bags).shape == (30,)


@pytest.mark.parametrize(
    "model",
    [
        MERR(),
        MERR("rbf", np.array([1.0, 2.0]), outer="cauchy", alpha=0.1),
        MERR(RBF(1.0) + Linear(), outer=RBF(0.5)),
    ],
    ids=str,
)
def test_file_keeps_the_fit(problem, tmp_path, model):
    bags, y = problem
    weighted = Bags.from_list(
        bags, weights=[np.arange(1.0, len(b) + 1) for b in bags], features=["a", "b"]
    )
    model = clone(model).fit(weighted, y, seed=1)
    model.save(tmp_path / "fit.nc", notes={"for": "tests"})
    loaded = bdr_stan.load(tmp_path / "fit.nc")
    assert type(loaded) is MERR and loaded.notes_ == {"for": "tests"}
    for again in (loaded, pickle.loads(pickle.dumps(model))):
        assert repr(again.get_params()) == repr(model.get_params())
        for kept, original in zip(
            again.predict(weighted, return_std=True),
            model.predict(weighted, return_std=True),
            strict=True,
        ):
            np.testing.assert_array_equal(kept, original)
        with pytest.raises(ValueError, match="column 0 of the bags is 'b', but the model was"):
            again.predict(Bags.from_list(bags, features=["b", "a"]))
        assert again.outer_ is None or again.outer_.bandwidth == model.outer_.bandwidth


def test_memory_maps_stay_in_their_file(problem, tmp_path):
    bags, y = problem
    held = Bags.from_list(bags)
    np.save(tmp_path / "points.npy", held.points)
    mapped = Bags(np.load(tmp_path / "points.npy", mmap_mode="r"), held.offsets)
    model = MERR(RBF(1.0)).fit(mapped, y)
    assert model.means_.bags.is_memory_map
    np.testing.assert_array_equal(model.predict(mapped), MERR(RBF(1.0)).fit(held, y).predict(held))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (MERR("gauss"), "kernel must be a Kernel, 'auto' or one of 'rbf'.*found 'gauss'"),
        (MERR(RBF(1.0), 2.0), "bandwidth=2.0 goes with the name of a kernel"),
        (MERR(bandwidth=-1.0), "bandwidth.* must be a positive number"),
        (MERR(outer="quadratic"), "outer must be a kernel or one of 'linear', 'rbf'.*'quadratic'"),
        (MERR(outer=Linear()), "outer must be a kernel of the distance between kernel means"),
        (MERR(outer=RBF([1.0, 2.0])), "with one bandwidth and no columns"),
        (MERR(outer=RBF("ard")), "with one bandwidth and no columns"),
        (MERR(alpha="gcv"), "alpha must be 'loo', a positive number or several, found 'gcv'"),
        (MERR(alpha=[0.1, -1.0]), "alpha must be 'loo', a positive number or several"),
    ],
    ids=str,
)
def test_wrong_parameters(model, message, problem):
    with pytest.raises(ValueError, match=message):
        model.fit(*problem)


def test_wrong_bags(problem):
    bags, y = problem
    same = [np.ones((2, 1))] * 3
    with pytest.raises(
        ValueError, match="most bags have the same kernel mean.*give outer as a kernel"
    ):
        MERR(RBF(1.0), outer="rbf").fit(same, [1.0, 2.0, 3.0])
    model = MERR(RBF(1.0)).fit(bags, y)
    with pytest.raises(
        ValueError, match="bags have 1 features per point, but the model was fitted"
    ):
        model.predict([bag[:, :1] for bag in bags])
    with pytest.raises(ValueError, match="29 labels, but there are 30 bags"):
        MERR().fit(bags, y[1:])
