"""Bayesian distribution regression: the model's numbers from the definitions, point by point."""

import numpy as np
import pytest
from builders import reference
from builders.kernels import kernel_and_definition
from builders.training import (
    bags_of_one_size,
    dense_problem,
    empirical,
    eta_log_sd,
    labelled_bags,
    of_kernel,
    training_of,
)

from bdr_stan.bags import Bags
from bdr_stan.cmdstan.programs import compile_program
from bdr_stan.embedding.compression import compress
from bdr_stan.embedding.coordinates import Coordinates
from bdr_stan.labels import Labels
from bdr_stan.models.bdr import BDRModel, bdr_data
from bdr_stan.posterior.latent_gaussian import most_probable_scales

CASES = [
    *((name, prior) for name in ("rbf", "matern32", "sum", "product", "sum of a product", "linear")
      for prior in ("empirical", "kernel")),
]  # fmt: skip
EVERY_PRIOR = pytest.mark.parametrize(("name", "embedding_prior"), CASES)


def model_and_problem(rng, name, embedding_prior, **options):
    """The model of some bags, and the same problem from the definitions in landmark coordinates."""
    bags, y = labelled_bags(rng)
    u = rng.normal(size=(5, 3))
    _, definition = kernel_and_definition(name)
    R = {"empirical": empirical, "kernel": of_kernel}[embedding_prior]
    p = dense_problem(bags, y, definition, u, R)
    training = training_of(bags, name, u)
    model = BDRModel.of_training(training, Labels(y), embedding_prior=embedding_prior, **options)
    return model, p


def test_data_of_the_program(rng):
    z, y, sizes = rng.normal(size=(50, 3)), rng.normal(size=50), np.repeat([4.0, 2.0], [40, 10])
    rows, lam, factor = compress(z, y, sizes), rng.gamma(2.0, size=3), np.triu(np.ones((3, 3)))
    priors = {"sigma_scale": 2.0}
    data = bdr_data(rows, lam, factor, priors)
    assert {"D": 3, "G": 2, "T": 10, "use_likelihood": 1}.items() <= data.items()
    for name, expected in {
        "bag_size": [2, 4], "n_bags": [10, 40], "start": [1, 6], "length": [5, 5],
        "rows": rows.rows, "lambda": lam, "prior_factor": factor,
    }.items():  # fmt: skip
        np.testing.assert_array_equal(data[name], expected)
    assert priors.items() <= data.items()


@EVERY_PRIOR
@pytest.mark.parametrize("lossless", [True, False])
def test_log_likelihood_is_the_definition(rng, name, embedding_prior, lossless):
    model, p = model_and_problem(rng, name, embedding_prior, lossless=lossless)
    for _ in range(3):
        w, intercept = rng.normal(size=5), rng.normal()
        sigma, eta = rng.gamma(2.0, size=2)
        alpha = model.weight_basis @ w
        expected = reference.bdr_log_likelihood(p, alpha, intercept, sigma, eta)
        found = model.likelihood(sigma=sigma, eta=eta)(np.r_[w, intercept])[0]
        assert found == pytest.approx(expected, rel=1e-7)


@EVERY_PRIOR
def test_priors_are_the_definition(rng, name, embedding_prior):
    model, p = model_and_problem(rng, name, embedding_prior)
    away = p.mu - p.m0
    variance = np.diag(away @ np.linalg.inv(p.K) @ away.T)  # of the function, alpha ~ N(0, K^-1)
    between = np.mean(np.sum(away**2, axis=1)) - np.trace(p.Sigma) * np.mean(1 / p.sizes)
    assert model.priors == pytest.approx({
        "intercept_location": p.y.mean(),
        "intercept_scale": 2.5 * p.y.std(),
        "sigma_scale": p.y.std(),
        "rho_median": p.y.std() / np.sqrt(variance.mean()),
        "rho_log_sd": 1.5,
        "eta_median": between / np.trace(p.R),
        "eta_log_sd": eta_log_sd(p.mu, p.sizes, p.Sigma, embedding_prior),
    }, rel=1e-7)  # fmt: skip
    V, P = model.weight_basis, model.prior_factor
    np.testing.assert_allclose(P.T @ P, V.T @ p.K @ V, rtol=1e-6, atol=1e-8)  # alpha = V w


def test_most_probable_eta_of_bags_of_one_size_is_the_moment_estimate():
    """With a wide prior it is half of it, because larger weights make up for it."""
    training, y = bags_of_one_size()
    model = BDRModel.of_training(training, Labels(y))
    scales = most_probable_scales(model)[0]
    assert model.priors["eta_log_sd"] < 0.2
    assert scales["eta"] == pytest.approx(model.priors["eta_median"], rel=0.05)


def test_model_of_its_program(rng):
    model, p = model_and_problem(rng, "sum", "empirical", prior={"eta_log_sd": 0.5})
    assert model.program == "bdr" and model.scales == ("sigma", "rho", "eta")
    assert model.priors["eta_log_sd"] == 0.5
    kept = Coordinates.from_constants({k: model.constants[k][0] for k in model.constants})
    np.testing.assert_array_equal(kept.basis, model.weight_basis)
    np.testing.assert_allclose(kept.transform(p.mu), (p.mu - p.m0) @ model.weight_basis, atol=1e-9)


@pytest.mark.parametrize(
    ("name", "embedding_prior"),
    [("matern32", "empirical"), ("sum", "kernel")],
)
def test_density_of_the_program_at_the_model_is_the_definition(rng, name, embedding_prior):
    model, p = model_and_problem(rng, name, embedding_prior)
    program = compile_program("bdr", progress=False)
    scales, mode, _ = most_probable_scales(model)
    data = model.data | model.whitening(scales, mode)
    assert set(data) == set(program.src_info()["inputs"])
    p = reference.Problem(p.mu, p.sizes, p.y, p.Sigma, p.R, p.K, model.priors)
    gaps = []
    for _ in range(4):
        drawn = {"intercept": rng.normal(5, 1), **dict(zip(model.scales, rng.gamma(2.0, size=3)))}
        w = rng.normal(size=5)
        u = reference.whiten(data, w, drawn["intercept"], drawn["rho"])
        parameters = {"t": reference.less_mode_shift(data, u, drawn)}
        parameters |= {name: drawn[name] for name in model.scales}
        found = reference.density_of_weights(program, data, parameters)
        gaps.append(reference.bdr_log_density(p, model.weight_basis @ w, **drawn) - found)
    np.testing.assert_allclose(gaps, gaps[0], atol=1e-6, rtol=1e-9)


@pytest.mark.parametrize("n, followed", [(499, False), (500, True)])
def test_many_bags_alone_have_coordinates_that_follow_the_scales(rng, n, followed):
    bags = Bags.from_points(rng.normal(size=(2 * n, 3)), sizes=np.full(n, 2))
    training = training_of(bags, "rbf", rng.normal(size=(5, 3)))
    assert BDRModel.of_training(training, Labels(rng.normal(size=n))).follows_scales == followed
