"""Classes under uncertain embeddings: the model's numbers from the definitions."""

from dataclasses import replace

import numpy as np
import pytest
from builders import reference
from builders import training as problems
from builders.kernels import kernel_and_definition

from bdr_stan.cmdstan.programs import compile_program
from bdr_stan.labels import Labels
from bdr_stan.models.embedding_model import rows_by_size
from bdr_stan.models.two_classes import ProbitModel, bdr_probit_data, follow_latent_scale
from bdr_stan.posterior.latent_gaussian import most_probable_scales

CASES = [
    ("rbf", "empirical"),
    ("matern32", "kernel"),
    ("sum", "empirical"),
    ("product", "kernel"),
]
EVERY_PRIOR = pytest.mark.parametrize(("name", "embedding_prior"), CASES)


def model_and_problem(rng, name, embedding_prior, **options):
    bags, y = problems.labelled_bags(rng)
    y = (y > np.median(y)).astype(int)
    u = rng.normal(size=(5, 3))
    R = {
        "empirical": problems.empirical,
        "kernel": problems.of_kernel,
    }
    _, definition = kernel_and_definition(name)
    p = problems.dense_problem(bags, y, definition, u, R[embedding_prior])
    model = ProbitModel.of_training(
        problems.training_of(bags, name, u), Labels(y), embedding_prior=embedding_prior,
        **options,
    )  # fmt: skip
    return model, p


# ---------------------------------------------------------------- data of the program


def test_rows_are_grouped_by_size_and_keep_their_order(rng):
    z, y = rng.normal(size=(6, 2)), np.array([0, 1, 1, 0, 1, 0])
    rows = rows_by_size(z, y, [5, 1, 5, 2.5, 1, 5])
    order = [1, 4, 3, 0, 2, 5]
    np.testing.assert_array_equal(rows.rows, np.c_[z, np.ones(6), y][order])
    np.testing.assert_array_equal(rows.bag_size, [1, 2.5, 5])
    np.testing.assert_array_equal(rows.start, [0, 2, 3])
    np.testing.assert_array_equal(rows.length, [2, 1, 3])
    np.testing.assert_array_equal(rows.n_bags, rows.length)


def test_data_of_the_program(rng):
    z, y = rng.normal(size=(4, 2)), np.array([0.0, 1.0, 1.0, 0.0])
    rows, lam, factor = rows_by_size(z, y, [3, 1, 3, 1]), np.array([0.1, 2.0]), np.eye(2)
    data = bdr_probit_data(rows, lam, factor, {"rho_median": 2.0})
    assert {"N": 4, "D": 2, "G": 2, "use_likelihood": 1, "rho_median": 2.0}.items() <= data.items()
    for name, expected in {
        "bag_size": [1, 3], "start": [1, 3], "length": [2, 2], "z": z[[1, 3, 0, 2]],
        "y": [1, 0, 0, 1], "lambda": lam, "prior_factor": factor,
    }.items():  # fmt: skip
        np.testing.assert_array_equal(data[name], expected)
    assert data["y"].dtype.kind == "i"


def test_following_the_latent_scale_changes_nothing_at_the_mode(rng):
    plain = reference.plain_coordinates(3) | {
        "information": rng.uniform(1, 9, 3),
        "linear_term": rng.normal(size=3),
        "intercept_centre": 0.3,
    }
    t, nu = rng.normal(size=4), np.array([0.5, 4.0, 9.0])
    followed = follow_latent_scale(plain, nu, rho=1.7)
    for one, other in zip(*(reference.unwhiten(of, t, 1.7)[:2] for of in (plain, followed))):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    assert 1 + followed["latent_spread"] * 1.7**2 == pytest.approx(np.prod(1 + nu) ** (1 / 3))


# ---------------------------------------------------------------- the model


@EVERY_PRIOR
def test_log_likelihood_is_the_definition(rng, name, embedding_prior):
    model, p = model_and_problem(rng, name, embedding_prior)
    for _ in range(3):
        w, intercept, eta = rng.normal(size=5), rng.normal(), rng.gamma(2.0)
        expected = reference.bdr_probit_log_likelihood(p, model.weight_basis @ w, intercept, eta)
        found = model.likelihood(eta=eta)(np.r_[w, intercept])[0]
        assert found == pytest.approx(expected, rel=1e-7)


@EVERY_PRIOR
def test_priors_are_the_definition(rng, name, embedding_prior):
    model, p = model_and_problem(rng, name, embedding_prior)
    away = p.mu - p.m0
    variance = np.diag(away @ np.linalg.inv(p.K) @ away.T)
    between = np.mean(np.sum(away**2, axis=1)) - np.trace(p.Sigma) * np.mean(1 / p.sizes)
    assert model.priors == pytest.approx({
        "intercept_location": 0.0,
        "intercept_scale": 2.5,
        "rho_median": 1.5 / np.sqrt(variance.mean()),
        "rho_log_sd": 1.0,
        "eta_median": between / np.trace(p.R),
        "eta_log_sd": problems.eta_log_sd(p.mu, p.sizes, p.Sigma, embedding_prior),
    }, rel=1e-7)  # fmt: skip
    V, P = model.weight_basis, model.prior_factor
    np.testing.assert_allclose(P.T @ P, V.T @ p.K @ V, rtol=1e-6, atol=1e-8)


def test_most_probable_eta_of_bags_of_one_size_is_the_moment_estimate():
    """With a wide prior it is a fifth of it, because larger weights make up for it."""
    training, y = problems.bags_of_one_size()
    model = ProbitModel.of_training(training, Labels((y > np.median(y)).astype(int)))
    scales = most_probable_scales(model)[0]
    assert model.priors["eta_log_sd"] < 0.2
    assert scales["eta"] == pytest.approx(model.priors["eta_median"], rel=0.05)


def test_model_of_its_program(rng):
    model, _ = model_and_problem(rng, "rbf", "kernel", prior={"rho_log_sd": 0.5})
    assert model.program == "bdr_probit" and model.scales == ("rho", "eta")
    assert model.priors["rho_log_sd"] == 0.5
    with pytest.raises(ValueError, match="prior has no number called 'sigma_scale'"):
        model_and_problem(rng, "rbf", "kernel", prior={"sigma_scale": 1.0})


@pytest.mark.parametrize(
    ("name", "embedding_prior"), [("sum", "empirical"), ("matern32", "kernel")]
)
def test_density_of_the_program_at_the_model_is_the_definition(rng, name, embedding_prior):
    model, p = model_and_problem(rng, name, embedding_prior)
    program = compile_program("bdr_probit", progress=False)
    scales, mode, _ = most_probable_scales(model)
    data = model.data | model.whitening(scales, mode)
    assert set(data) == set(program.src_info()["inputs"])
    p, gaps = replace(p, priors=model.priors), []
    for _ in range(4):
        w, intercept, (rho, eta) = rng.normal(size=5), rng.normal(), rng.gamma(2.0, size=2)
        t = reference.whiten(data, w, intercept, rho)
        found = reference.density_of_weights(program, data, {"t": t, "rho": rho, "eta": eta})
        alpha = model.weight_basis @ w
        gaps.append(reference.bdr_probit_log_density(p, alpha, intercept, rho, eta) - found)
    np.testing.assert_allclose(gaps, gaps[0], atol=1e-6, rtol=1e-9)


def test_whitening_leads_to_the_mode_and_knows_the_latent_scale(rng):
    model, p = model_and_problem(rng, "rbf", "kernel")
    scales, mode, _ = most_probable_scales(model)
    whitened = model.whitening(scales, mode)
    w, intercept, _ = reference.unwhiten(whitened, np.zeros(6), scales["rho"])
    np.testing.assert_allclose(np.r_[w, intercept], mode.theta, rtol=1e-9, atol=1e-12)
    alpha = model.weight_basis @ w
    _, nu = reference.bdr_moments(p, alpha, intercept, 0.0, scales["eta"])
    unit = 1 + whitened["latent_spread"] * scales["rho"] ** 2
    assert unit == pytest.approx(np.exp(np.mean(np.log(1 + nu))), rel=1e-7)
