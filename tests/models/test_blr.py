"""Bayesian linear regression: the model's numbers from the definitions, the closed form."""

import numpy as np
import pytest
from builders import reference
from builders.feature_maps import FEATURE_MAPS
from builders.scales import blr_closed_form
from builders.training import labelled_bags
from scipy.stats import norm

from bdr_stan.cmdstan.programs import compile_program
from bdr_stan.embedding.compression import compress
from bdr_stan.embedding.coordinates import Coordinates, principal_axes
from bdr_stan.embedding.mean_embedding import embed
from bdr_stan.labels import Labels
from bdr_stan.models.bdr import BLRModel, blr_data, exact_posterior, exact_predictive
from bdr_stan.posterior.latent_gaussian import most_probable_scales
from bdr_stan.posterior.scales import maximise_evidence

SCALES = {"sigma": 0.6, "rho": 1.4}


@pytest.fixture
def embedded(rng):
    bags, y = labelled_bags(rng)
    return embed(bags, FEATURE_MAPS["landmarks"](rng.normal(size=(4, 3)))[0]), y


def problem(embedding, y, priors=None):
    """The same without Sigma, R and K, which linear regression does not know."""
    return reference.Problem(embedding.mean, embedding.sizes, y, None, None, None, priors or {})


def test_data_of_the_program(rng):
    z, y = rng.normal(size=(50, 3)), rng.normal(size=50)
    priors = {"sigma_scale": 2.0}
    rows = compress(z, y, np.ones(50))
    data = blr_data(rows, priors)
    assert {"D": 3, "G": 1, "T": 5, "use_likelihood": 1}.items() <= data.items()
    assert data["n_bags"].tolist() == [50] and data["start"].tolist() == [1]
    np.testing.assert_array_equal(data["rows"], rows.rows)
    assert priors.items() <= data.items()
    assert blr_data(rows, {})["use_likelihood"] == 1


@pytest.mark.parametrize("name", FEATURE_MAPS)
@pytest.mark.parametrize("lossless", [True, False])
def test_log_likelihood_is_the_definition_for_every_feature_map(rng, name, lossless):
    bags, y = labelled_bags(rng)
    feature_map, row = FEATURE_MAPS[name](rng.normal(size=(4, 3)))
    model = BLRModel(embed(bags, feature_map), Labels(y), lossless=lossless)
    mu = np.array([np.mean([row(x) for x in bag], axis=0) for bag in bags])
    p = reference.Problem(mu, bags.sizes, y, None, None, None)
    for _ in range(3):
        w, intercept = rng.normal(size=mu.shape[1]), rng.normal()
        sigma = rng.gamma(2.0)
        expected = reference.blr_log_likelihood(p, model.weight_basis @ w, intercept, sigma)
        found = model.likelihood(sigma=sigma)(np.r_[w, intercept])[0]
        assert found == pytest.approx(expected, rel=1e-9)


def test_model_of_its_program(embedded):
    embedding, y = embedded
    model = BLRModel(embedding, Labels(y))
    assert model.program == "blr" and model.scales == ("sigma", "rho")
    away = embedding.mean - embedding.mean.mean(axis=0)
    assert model.priors == pytest.approx({
        "intercept_location": y.mean(),
        "intercept_scale": 2.5 * y.std(),
        "sigma_scale": y.std(),
        "rho_median": y.std() / np.sqrt(np.mean(np.sum(away**2, axis=1))),
        "rho_log_sd": 1.5,
    })  # fmt: skip
    assert model.intercept_prior == (model.priors["intercept_location"], 2.5 * y.std())
    np.testing.assert_array_equal(model.prior_factor, np.eye(4))  # w ~ N(0, rho^2 I)
    np.testing.assert_allclose(model.weight_basis.T @ model.weight_basis, np.eye(4), atol=1e-12)
    kept = Coordinates.from_constants({k: values for k, (values, _) in model.constants.items()})
    np.testing.assert_allclose(kept.transform(embedding.mean), away @ model.weight_basis)
    changed = BLRModel(embedding, Labels(y), prior={"sigma_scale": 7})
    assert changed.priors == model.priors | {"sigma_scale": 7.0}
    with pytest.raises(ValueError, match="prior has no number called 'eta_median'; this model has"):
        BLRModel(embedding, Labels(y), prior={"eta_median": 1.0})


@pytest.mark.parametrize("lossless", [True, False])
def test_density_of_the_program_at_the_model_is_the_definition(embedded, rng, lossless):
    embedding, y = embedded
    model = BLRModel(embedding, Labels(y), lossless=lossless)
    program = compile_program("blr", progress=False)
    scales, mode, _ = most_probable_scales(model)
    data = model.data | model.whitening(scales, mode)
    assert set(data) == set(program.src_info()["inputs"])
    assert data["T"] == (6 if lossless else len(y))
    p = problem(embedding, y, model.priors)
    gaps = []
    for _ in range(4):
        drawn = reference.draw_scales(rng, model.priors, with_eta=False)
        w = rng.normal(0, drawn["rho"], 4)
        t = reference.whiten(data, w, drawn["intercept"], drawn["rho"])
        parameters = {"t": t, "sigma": drawn["sigma"], "rho": drawn["rho"]}
        expected = reference.blr_log_density(p, model.weight_basis @ w, **drawn)
        gaps.append(expected - reference.density_of_weights(program, data, parameters))
    np.testing.assert_allclose(gaps, gaps[0], atol=1e-7, rtol=1e-11)


# ---------------------------------------------------------------- the closed form


def test_exact_posterior_is_the_closed_form_at_the_scales_of_highest_evidence(embedded):
    embedding, y = embedded
    model = BLRModel(embedding, Labels(y))
    posterior, constants = exact_posterior(model, draws=60_000, seed=3)
    scales, *_ = maximise_evidence(model.mode_at, SCALES)  # without priors of the scales
    for name in ("sigma", "rho"):
        assert np.ptp(posterior.draws[name]) == 0
        assert posterior.draws[name][0, 0] == pytest.approx(scales[name], rel=1e-3)
    held = {name: posterior.draws[name][0, 0] for name in scales}
    p = problem(embedding, y, model.priors)
    mean, covariance = blr_closed_form(p, held["sigma"], held["rho"], model.intercept_prior)
    V = np.zeros((5, 5))  # from [w; intercept] to [beta; intercept]
    V[:4, :4], V[4, 4] = model.weight_basis, 1
    (theta, _), (of_theta, _) = constants["theta"], constants["theta_covariance"]
    np.testing.assert_allclose(V @ theta, mean, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(V @ of_theta @ V.T, covariance, rtol=1e-6, atol=1e-8)
    draws = np.column_stack([posterior.flat()["beta"], posterior.flat()["intercept"]])
    score = (draws.mean(axis=0) - mean) / np.sqrt(np.diag(covariance) / len(draws))
    assert np.abs(score).max() < 4.5
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=0.03 * np.diag(covariance).max())
    assert posterior.attrs == {"inference_method": "exact"} and posterior.stats == {}


def test_exact_posterior_comes_from_the_seed(embedded):
    model = BLRModel(embedded[0], Labels(embedded[1]))
    one, same, other = (exact_posterior(model, draws=5, seed=s)[0].draws["w"] for s in (1, 1, 2))
    assert one.shape == (1, 5, 4)
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


def test_exact_predictive_is_that_of_the_closed_form(embedded, rng):
    embedding, y = embedded
    coordinates = principal_axes(embedding)
    root = rng.normal(size=(5, 5))
    theta, covariance, sigma = rng.normal(size=5), root @ root.T, 0.7
    predictive = exact_predictive(
        coordinates, embedding, theta=theta, covariance=covariance, sigma=sigma
    )
    away = embedding.mean - embedding.mean.mean(axis=0)
    for i, row in enumerate(np.c_[away @ coordinates.basis, np.ones(len(y))]):
        assert predictive.mean[i] == pytest.approx(row @ theta)
        assert predictive.sd[i] == pytest.approx(np.sqrt(row @ covariance @ row + sigma**2))


def test_known_errors_of_labels_add_to_the_noise(embedded, rng):
    """But for a constant, as labels of equal errors are compressed together."""
    embedding, y = embedded
    label_sd = rng.choice([0.0, 0.4, 1.7], len(y))
    model = BLRModel(embedding, Labels(y, label_sd=label_sd))
    X = np.column_stack([embedding.mean - embedding.mean.mean(axis=0), np.ones(len(y))])
    gaps = []
    for sigma in (0.3, 2.0):
        w, intercept = rng.normal(size=X.shape[1] - 1), rng.normal()
        mean, sd = X @ np.r_[model.weight_basis @ w, intercept], np.hypot(sigma, label_sd)
        found = model.likelihood(sigma=sigma)(np.r_[w, intercept])[0]
        gaps.append(found - norm.logpdf(y, mean, sd).sum())
    np.testing.assert_allclose(gaps, 0, atol=1e-8)
