"""Points that only a kernel compares: strings, graphs, time series, by the recipe of the docs."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import DotProduct, WhiteKernel

from bdr_stan import BDR, BLR, MERR, RBF, Bags, Linear, Shrinkage
from bdr_stan.kernel_means.ridge_path import KernelRidgePath

PAGE = Path(__file__).parents[2] / "docs" / "data_in.md"


def strings(rng):
    """Words, and the cosine of their counts of letters."""

    def kernel(a, b):
        counts = [np.array([[w.count(x) for x in "abc"] for w in words]) for words in (a, b)]
        first, second = (c / np.linalg.norm(c, axis=1, keepdims=True) for c in counts)
        return (first @ second.T) ** 2

    return ["".join(rng.choice(list("abc"), size=n)) for n in rng.integers(1, 9, 60)], kernel


def graphs(rng):
    """Graphs as matrices, and the kernel of their numbers of walks of one to three steps."""

    def kernel(a, b):
        walks = [[[np.linalg.matrix_power(g, k).mean() for k in (1, 2, 3)] for g in each]
                 for each in (a, b)]  # fmt: skip
        return RBF(0.5)(np.log1p(walks[0]), np.log1p(walks[1]))

    def drawn(n):
        links = np.triu(rng.uniform(size=(n, n)) < 0.5, 1).astype(int)
        return links + links.T

    return [drawn(n) for n in rng.integers(3, 8, 60)], kernel


def series(rng):
    """Series of different lengths, and the mean of a kernel over pairs of times."""

    def of_pair(a, b):
        return RBF([1.0, 0.3])(stamped(a), stamped(b)).mean()

    def stamped(x):
        return np.column_stack([x, np.linspace(0, 1, len(x))])

    def kernel(a, b):
        return np.array([[of_pair(x, y) for y in b] for x in a])

    return [np.cumsum(rng.normal(size=n)) for n in rng.integers(5, 12, 60)], kernel


def taken(objects, rows):
    return [objects[i] for i in rows]


def nystrom(kernel, landmarks):
    """Features of objects as on the page."""
    factor = np.linalg.cholesky(kernel(landmarks, landmarks) + 1e-6 * np.eye(len(landmarks)))
    return lambda objects: np.linalg.solve(factor, kernel(landmarks, objects)).T


@pytest.fixture(params=[strings, graphs, series], ids=lambda f: f.__name__)
def problem(request):
    """20 bags of 3 objects, their kernel matrix, and labels by the kernel means."""
    rng = np.random.default_rng(4)
    objects, kernel = request.param(rng)
    means = np.kron(np.eye(20), np.full((1, 3), 1 / 3))
    gram = kernel(objects, objects)
    y = means @ gram @ rng.normal(size=60) + 0.1 * rng.normal(size=20)
    return objects, kernel, means, gram, y


@pytest.mark.filterwarnings("ignore:column .* far from all others")
def test_merr_has_the_products_of_the_kernel(problem):
    objects, kernel, means, gram, y = problem
    _, different = np.unique(gram.round(12), axis=0, return_index=True)
    psi = nystrom(kernel, taken(objects, np.sort(different)))(objects)
    np.testing.assert_allclose(psi @ psi.T, gram, atol=1e-5)
    bags = Bags.from_points(psi, sizes=np.full(20, 3))
    model = MERR(kernel=Linear(), alpha=0.01).fit(bags[:15], y[:15])
    products = means @ gram @ means.T
    np.testing.assert_allclose(model.means_.products(), products[:15, :15], atol=1e-5)
    path = KernelRidgePath(products[:15, :15], y[:15])
    exact = path.level + products[15:, :15] @ path.dual(np.array([0.01]))[:, 0]
    np.testing.assert_allclose(model.predict(bags[15:]), exact, atol=1e-3 * np.ptp(y))


def test_blr_is_the_gaussian_process_of_the_products(problem):
    objects, kernel, means, _, y = problem
    psi = nystrom(kernel, objects[:10])(objects)
    bags = Bags.from_points(psi, sizes=np.full(20, 3))
    model = BLR(kernel=Linear(), landmarks=np.eye(10), method="exact").fit(bags, y, seed=1)
    rho, sigma = (float(model.result_.draws(name).mean()) for name in ("rho", "sigma"))
    mu = means @ psi
    mu -= mu.mean(axis=0)
    noise = WhiteKernel((sigma / rho) ** 2)
    process = GaussianProcessRegressor(DotProduct(1e-20) + noise, optimizer=None)
    process.fit(mu, y - y.mean())
    np.testing.assert_allclose(
        model.predict(bags), y.mean() + process.predict(mu), atol=1e-3 * np.ptp(y)
    )


def test_other_factors_of_the_kernel_matrix_give_the_same_bdr(problem):
    objects, kernel, _, _, y = problem
    psi = nystrom(kernel, objects[:8])(objects)
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(8, 8)))[0]
    predicted = []
    for points in (psi, psi @ turn):
        bags = Bags.from_points(points, sizes=np.full(20, 3))
        model = Shrinkage(kernel=Linear(), landmarks=np.eye(8)).fit(bags, y, seed=1)
        predicted.append(model.predict(bags, return_std=True))
    np.testing.assert_allclose(predicted[1], predicted[0], atol=1e-3 * np.ptp(y))


def test_numbers_as_objects_give_the_bdr_of_their_kernel():
    """With values of the kernel as features, whose weights have its inverse matrix as prior."""
    rng = np.random.default_rng(1)
    y = rng.normal(size=60)
    bags = Bags.from_list([rng.normal(m, size=(n, 1)) for m, n in zip(y, [3, 30] * 30)])
    landmarks = np.linspace(-2.5, 2.5, 6)[:, None]
    plain = Shrinkage(kernel=RBF(1.0), landmarks=landmarks).fit(bags, y, seed=1)
    psi = nystrom(RBF(1.0), landmarks)(bags.points)
    points = Bags(psi, bags.offsets)
    model = Shrinkage(kernel=Linear(), landmarks=np.eye(6)).fit(points, y, seed=1)
    mean, sd = model.predict(points, return_std=True)
    expected, its_sd = plain.predict(bags, return_std=True)
    np.testing.assert_allclose(mean, expected, atol=0.02 * np.ptp(y))
    np.testing.assert_allclose(sd, its_sd, rtol=0.05)


@pytest.mark.slow
def test_the_recipe_of_the_page_runs():
    section = PAGE.read_text().partition("## Strings, graphs and time series")[2]
    block = re.search(r"^```\{code-cell\}[^\n]*\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    found = {"np": np, "pd": pd, "Bags": Bags, "BDR": BDR}
    exec(block.group(1), found)
    predicted = found["model"].predict(found["samples_of_dna"][80:])
    assert np.corrcoef(predicted, found["share"][80:])[0, 1] > 0.8
