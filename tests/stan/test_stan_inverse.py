"""stan/inverse.stan against SciPy's densities and regression with dense matrices."""

import numpy as np
import pytest
from builders import curves, reference
from scipy import stats

from bdr_stan.cmdstan.programs import compile_program
from bdr_stan.embedding.label_functions import functions_of_classes
from bdr_stan.models.embedding_curves import CurveSums
from bdr_stan.models.inverse import inverse_data

N_BAGS = 24


@pytest.fixture(scope="session")
def model():
    return compile_program("inverse", progress=False)


def problem_of(kind):
    """Labels that are numbers, whose curves bend; classes, whose do not; one coordinate."""
    rng = np.random.default_rng(17)
    if kind == "classes":
        codes = rng.permutation(np.arange(N_BAGS) % 3)
        return curves.draw_problem(rng, functions=functions_of_classes(3), labels=codes)[0]
    return curves.draw_problem(rng, N_BAGS, K=1 if kind == "one coordinate" else 3)[0]


KINDS = ["numbers", "classes", "one coordinate"]


@pytest.fixture(params=KINDS)
def problem(request):
    return problem_of(request.param)


def stan_data(p, use_likelihood=True):
    sums = CurveSums.from_rows(p.B, p.z, p.sizes)
    data = inverse_data(sums, p.lam, p.functions, p.priors)
    return data | {"use_likelihood": int(use_likelihood)}


def points(p, number=6):
    """Parameters drawn from the prior."""
    rng = np.random.default_rng(7)
    for _ in range(number):
        drawn = curves.draw_parameters(rng, p.functions, len(p.lam))
        yield {name: drawn[name] for name in ("tau", "amplitude", "curvature")}


def stan_parameters(p, point):
    return point | {"curvature": [point["curvature"]] if p.has_curvature else []}


def our_log_density(p, point, use_likelihood=True):
    value = curves.log_prior(p, **point)
    return value + use_likelihood * curves.log_likelihood(p, **point).sum()


def test_data_are_what_the_program_declares(model):
    p = problem_of("numbers")
    data = stan_data(p)
    assert set(data) == set(model.src_info()["inputs"])
    G, J, K = len(np.unique(p.sizes)), len(p.functions.smooth), len(p.lam)
    assert (data["K"], data["J"], data["S"], data["G"]) == (K, J, 1, G)
    np.testing.assert_array_equal(data["bag_size"], np.unique(p.sizes))
    assert data["n_bags"].sum() == N_BAGS
    assert data["gram"].shape == (J * J, G)
    assert data["cross"].shape == (J, G, K)
    assert data["squares"].shape == (G, K)
    of = p.sizes == data["bag_size"][1]
    np.testing.assert_allclose(data["gram"][:, 1].reshape(J, J), p.B[of].T @ p.B[of])
    np.testing.assert_allclose(data["cross"][:, 1], p.B[of].T @ p.z[of])
    np.testing.assert_allclose(data["squares"][1], np.sum(p.z[of] ** 2, axis=0))
    assert data["use_likelihood"] == 1
    assert stan_data(p, use_likelihood=False)["use_likelihood"] == 0
    assert {name: data[name] for name in p.priors} == p.priors


@pytest.mark.parametrize("use_likelihood", [True, False])
def test_log_density(model, problem, use_likelihood):
    data = stan_data(problem, use_likelihood=use_likelihood)
    ours, stan = [], []
    for point in points(problem):
        ours.append(our_log_density(problem, point, use_likelihood))
        stan.append(reference.log_density(model, data, stan_parameters(problem, point))[0])
    gap = np.subtract(ours, stan)
    np.testing.assert_allclose(gap, gap[0], atol=1e-8, rtol=1e-12)


@pytest.mark.parametrize("use_likelihood", [True, False])
def test_gradient(model, problem, use_likelihood):
    data, K = stan_data(problem, use_likelihood=use_likelihood), len(problem.lam)

    def function(x):
        curvature = np.exp(x[-1]) if problem.has_curvature else 1.0
        point = {"tau": np.exp(x[:K]), "amplitude": np.exp(x[K : 2 * K]), "curvature": curvature}
        return our_log_density(problem, point, use_likelihood) + x.sum()  # Jacobian of the logs

    for point in points(problem, 3):
        parameters = stan_parameters(problem, point)
        x = np.log(np.concatenate([parameters[n] for n in ("tau", "amplitude", "curvature")]))
        _, gradient = reference.log_density(model, data, parameters, jacobian=True)
        np.testing.assert_allclose(gradient, reference.gradient(function, x), rtol=1e-6, atol=1e-6)


def test_compression_is_lossless(model, problem):
    """Sums over bags of a size say the same as each bag by itself."""
    one_by_one = CurveSums(
        problem.sizes,
        np.ones(N_BAGS, int),
        np.einsum("ni,nj->nij", problem.B, problem.B),
        np.einsum("nj,nk->njk", problem.B, problem.z),
        problem.z**2,
    )
    plain = inverse_data(one_by_one, problem.lam, problem.functions, problem.priors)
    data = stan_data(problem)
    assert plain["G"] == N_BAGS > data["G"]
    for point in points(problem):
        parameters = stan_parameters(problem, point)
        found, expected = (reference.log_density(model, of, parameters) for of in (data, plain))
        np.testing.assert_allclose(found[0], expected[0], atol=1e-8)
        np.testing.assert_allclose(found[1], expected[1], atol=1e-8)


def sample(model, p, data, **options):
    start = stan_parameters(p, next(points(p, 1)))
    return reference.sample(model, data, start, divergent=0.02, **options)


@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_curves_are_drawn_from_their_posterior(model, kind):
    """Standardised by the regression under its own draw, each coefficient is standard normal."""
    p = problem_of(kind)
    draws = sample(model, p, stan_data(p), chains=2, warmup=200, draws=500)
    flat = {name: values.reshape(-1, *values.shape[2:]) for name, values in draws.items()}
    standard = np.empty_like(flat["curve"])
    for s in range(len(standard)):
        curvature = flat["curvature"][s, 0] if p.has_curvature else 1.0
        means, covariances = curves.curve_posterior(
            p, flat["tau"][s], flat["amplitude"][s], curvature
        )
        for k, covariance in enumerate(covariances):
            away = flat["curve"][s, k] - means[k]
            standard[s, k] = np.linalg.solve(np.linalg.cholesky(covariance), away)
    standard = standard.reshape(len(standard), -1)
    limit = 4.5 / np.sqrt(len(standard))
    assert np.all(np.abs(standard.mean(axis=0)) < limit)
    second = standard.T @ standard / len(standard) - np.eye(standard.shape[1])
    assert np.all(np.abs(second) < limit * np.sqrt(1 + np.eye(len(second))))


def test_without_likelihood_the_prior_comes_back(model):
    p = problem_of("numbers")
    draws = sample(model, p, stan_data(p, use_likelihood=False), draws=3000)
    curve, amplitude, curvature = draws["curve"], draws["amplitude"], draws["curvature"]
    priors, smooth = p.priors, p.functions.smooth
    tau = stats.rayleigh(scale=priors["tau_scale"])
    # draws, their prior mean and their prior variance
    expected = {
        "tau": (draws["tau"], tau.mean(), tau.var()),
        "amplitude": (
            np.log(amplitude), np.log(priors["amplitude_median"]), priors["amplitude_log_sd"] ** 2
        ),
        "curvature": (
            np.log(curvature), np.log(priors["curvature_median"]), priors["curvature_log_sd"] ** 2
        ),
        "level": (curve[..., 0], 0, priors["level_scale"] ** 2),
        "straight": (curve[..., 1] / amplitude, 0, 1),
        "bent": (curve[..., 3] / amplitude / curvature, 0, smooth[3] ** 2),
    }  # fmt: skip
    for name, (found, mean, variance) in expected.items():
        labels = [f"{name}[{k}]" for k in range(found.shape[2])]
        reference.assert_moments(found, [mean] * len(labels), [variance] * len(labels), labels)
