"""Logistic regression on mean embeddings: the model's numbers from the definitions."""

from dataclasses import replace

import numpy as np
import pytest
from builders import reference
from builders.feature_maps import FEATURE_MAPS
from builders.training import labelled_bags

from bdr_stan.cmdstan.programs import compile_program
from bdr_stan.embedding.compression import compress
from bdr_stan.embedding.mean_embedding import embed
from bdr_stan.labels import Labels
from bdr_stan.models.two_classes import LogitModel, blr_logit_data
from bdr_stan.posterior.latent_gaussian import most_probable_scales


def model_and_problem(rng, name="landmarks", **options):
    bags, y = labelled_bags(rng)
    y = (y > np.median(y)).astype(int)
    feature_map, row = FEATURE_MAPS[name](rng.normal(size=(4, 3)))
    model = LogitModel(embed(bags, feature_map), Labels(y), **options)
    mu = np.array([np.mean([row(x) for x in bag], axis=0) for bag in bags])
    return model, reference.Problem(mu, bags.sizes, y, None, None, None)


def test_data_of_the_program(rng):
    z, y = rng.normal(size=(4, 2)), np.array([0.0, 1.0, 1.0, 0.0])
    rows = compress(z, y, np.ones(4), lossless=False)
    data = blr_logit_data(rows, {"rho_median": 2.0})
    assert {"N": 4, "D": 2, "use_likelihood": 1, "rho_median": 2.0}.items() <= data.items()
    np.testing.assert_array_equal(data["z"], z)
    np.testing.assert_array_equal(data["y"], y)
    assert data["y"].dtype.kind == "i"


@pytest.mark.parametrize("name", FEATURE_MAPS)
def test_log_likelihood_is_the_definition_for_every_feature_map(rng, name):
    model, p = model_and_problem(rng, name)
    for _ in range(3):
        w, intercept = rng.normal(size=p.mu.shape[1]), rng.normal()
        expected = reference.blr_logit_log_likelihood(p, model.weight_basis @ w, intercept)
        assert model.likelihood()(np.r_[w, intercept])[0] == pytest.approx(expected, rel=1e-9)


def test_model_of_its_program(rng):
    model, p = model_and_problem(rng, prior={"rho_log_sd": 0.5})
    assert model.program == "blr_logit" and model.scales == ("rho",)
    assert model.priors == pytest.approx({
        "intercept_location": 0.0,
        "intercept_scale": 5 / 3 * 2.5,
        "rho_median": 2.5 / np.sqrt(np.mean(np.sum((p.mu - p.m0) ** 2, axis=1))),
        "rho_log_sd": 0.5,
    })  # fmt: skip
    np.testing.assert_array_equal(model.prior_factor, np.eye(4))


def test_density_of_the_program_at_the_model_is_the_definition(rng):
    model, p = model_and_problem(rng)
    program = compile_program("blr_logit", progress=False)
    scales, mode, _ = most_probable_scales(model)
    data = model.data | model.whitening(scales, mode)
    assert set(data) == set(program.src_info()["inputs"])
    p, gaps = replace(p, priors=model.priors), []
    for _ in range(4):
        w, intercept, rho = rng.normal(size=4), rng.normal(), rng.gamma(2.0)
        t = reference.whiten(data, w, intercept, rho)
        found = reference.density_of_weights(program, data, {"t": t, "rho": rho})
        expected = reference.blr_logit_log_density(p, model.weight_basis @ w, intercept, rho)
        gaps.append(expected - found)
    np.testing.assert_allclose(gaps, gaps[0], atol=1e-7, rtol=1e-10)
