"""Sampling a model: the most probable scales, every method of CmdStan, resampled draws."""

import numpy as np
import pytest
from builders import reference
from builders.scales import blr_closed_form
from builders.training import labelled_bags, training_of

from bdr_stan.embedding.mean_embedding import embed
from bdr_stan.kernels import RBF, LandmarkFeatures
from bdr_stan.models.bdr import bdr_model
from bdr_stan.models.blr import blr_model
from bdr_stan.posterior import sampling
from bdr_stan.posterior.priors import log_prior_of_scales, prior_centres
from bdr_stan.posterior.sampling import (
    Posterior,
    most_probable_scales,
    resampled,
    run,
    sample_posterior,
)
from bdr_stan.posterior.scales import maximise_evidence
from bdr_stan.posterior.settings import METHODS, SamplerSettings
from bdr_stan.results.diagnostics import pareto_smoothed

SHORT = {"chains": 2, "warmup": 200, "draws": 300, "seed": 1}


@pytest.fixture
def embedded(rng):
    bags, y = labelled_bags(rng)
    return embed(bags, LandmarkFeatures(RBF(1.5), rng.normal(size=(3, 3)))), y


@pytest.fixture
def model(embedded):
    return blr_model(*embedded)


# ---------------------------------------------------------------- most probable scales


@pytest.mark.parametrize("with_priors", [True, False])
def test_most_probable_scales_are_those_of_highest_evidence(rng, with_priors):
    bags, y = labelled_bags(rng)
    model = bdr_model(training_of(bags, "sum", rng.normal(size=(4, 3))), y)
    found = most_probable_scales(model, with_priors=with_priors)
    expected = maximise_evidence(
        model.likelihood,
        model.prior_factor,
        model.intercept_prior,
        prior_centres(model.priors, model.scales),
        log_prior=log_prior_of_scales(model.priors) if with_priors else None,
    )
    for one, other in zip(found[::2], expected[::2], strict=True):  # scales and their log sds
        # The search by differences ends at rounding of the labels less their level, or of all.
        assert tuple(one) == model.scales and one == pytest.approx(other, rel=1e-3)
    np.testing.assert_allclose(found[1].theta, expected[1].theta, rtol=1e-3, atol=1e-4)


def test_priors_of_the_scales_count_only_if_asked(embedded):
    best = most_probable_scales(blr_model(*embedded), with_priors=False)[0]
    sure = {"rho_median": best["rho"] / 5, "rho_log_sd": 1e-3}
    strict = blr_model(*embedded, prior=sure)
    with_priors, without = (most_probable_scales(strict, with_priors=w)[0] for w in (True, False))
    assert with_priors["rho"] == pytest.approx(sure["rho_median"], rel=1e-3)
    assert without == pytest.approx(best, rel=1e-2)


# ---------------------------------------------------------------- methods


@pytest.mark.parametrize("method", METHODS)
def test_every_method_gives_draws_of_the_model(model, method):
    posterior = sample_posterior(model, SamplerSettings(method, **SHORT))
    shape = {"nuts": (2, 300), "optimize": (1, 1)}.get(method, (1, 300))
    assert set(posterior.draws) >= {"w", "intercept", "sigma", "rho", "beta"}
    assert not set(posterior.draws) & set(model.sampler_only)
    assert posterior.draws["w"].shape == posterior.draws["beta"].shape == (*shape, 3)
    for name in ("intercept", "sigma", "rho"):
        assert posterior.draws[name].shape == shape
    np.testing.assert_allclose(
        posterior.draws["beta"], posterior.draws["w"] @ model.weight_basis.T, rtol=1e-12
    )
    assert posterior.attrs["inference_method"] == method
    for values in posterior.stats.values():
        assert values.shape[:2] == shape
    flat = posterior.flat()
    assert flat["w"].shape == (np.prod(shape), 3)
    np.testing.assert_array_equal(flat["w"][-1], posterior.draws["w"][-1, -1])


@pytest.mark.parametrize("method", ["optimize", "laplace", "pathfinder"])
def test_approximations_hold_rho_at_its_marginal_mode(model, method):
    rho = most_probable_scales(model)[0]["rho"]
    np.testing.assert_allclose(
        sample_posterior(model, SamplerSettings(method, **SHORT)).draws["rho"], rho, rtol=0.01
    )


def test_draws_come_from_the_seed(model):
    one, same, other = (
        sample_posterior(model, SamplerSettings(**SHORT | {"draws": 20, "seed": seed})).draws["w"]
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


def test_nuts_draws_from_the_posterior(embedded):
    """Both scales all but known: mean and covariance of the closed form."""
    embedding, y = embedded
    held = {"rho_median": 1.2, "rho_log_sd": 1e-4}
    model = blr_model(embedding, y, prior=held)
    posterior = sample_posterior(model, SamplerSettings(chains=2, warmup=500, draws=1500, seed=2))
    flat = posterior.flat()
    p = reference.Problem(embedding.mean, embedding.sizes, y, None, None, None)
    each = [
        blr_closed_form(p, sigma, 1.2, model.intercept_prior)
        for sigma in np.quantile(flat["sigma"], np.linspace(0.005, 0.995, 100))
    ]
    mean = np.mean([m for m, _ in each], axis=0)
    covariance = np.mean([C for _, C in each], axis=0) + np.cov([m for m, _ in each], rowvar=False)
    draws = np.concatenate([posterior.draws["beta"], posterior.draws["intercept"][..., None]], -1)
    names = ["beta[0]", "beta[1]", "beta[2]", "intercept"]
    reference.assert_moments(draws, mean, np.diag(covariance), names)


def test_options_reach_cmdstan(model):
    posterior = sample_posterior(
        model, SamplerSettings(**SHORT, options={"max_treedepth": 1, "thin": 3})
    )
    assert posterior.draws["rho"].shape == (2, 100)
    assert posterior.stats["tree_depth"].max() == 1


# ---------------------------------------------------------------- labels far from zero


@pytest.mark.parametrize("level", [1e4, 1e8])
def test_labels_far_from_zero_lose_no_more_digits_than_they_have(embedded, level):
    """A label of 1e8 is known to 1.5e-8; the search for the scales makes some 100 times that."""
    embedding, y = embedded
    y = y + level - level  # as far as y + level keeps it
    near, far = (
        sample_posterior(blr_model(embedding, labels), SamplerSettings("optimize")).draws
        for labels in (y, y + level)
    )
    digits = 100 * np.spacing(level) + 1e-8
    np.testing.assert_allclose(far["intercept"] - level, near["intercept"], atol=digits)
    for name in ("w", "sigma", "rho"):
        np.testing.assert_allclose(far[name], near[name], atol=digits * np.abs(far[name]).max())


def test_a_program_of_the_users_own_takes_labels_as_they_are(embedded, monkeypatch):
    embedding, y = embedded
    model = blr_model(embedding, y + 100, lossless=False)
    given = []

    def run(program, data, *_, **__):
        given.append(data)
        d = data["D"]
        return {"w": np.zeros((1, 1, d)), "intercept": np.zeros((1, 1))}, {}, {}

    monkeypatch.setattr(sampling, "run", run)
    intercepts = [
        float(sample_posterior(model, SamplerSettings(stan_file=path)).draws["intercept"].item())
        for path in ("mine.stan", None)
    ]
    mine, stock = given
    np.testing.assert_array_equal(mine["rows"][:, -1], y + 100)
    np.testing.assert_allclose(stock["rows"][:, -1], y - y.mean(), atol=1e-12)
    for name in ("intercept_location", "intercept_centre"):
        assert mine[name] - stock[name] == pytest.approx((y + 100).mean())
    assert intercepts == [0, pytest.approx((y + 100).mean())]


# ---------------------------------------------------------------- what is refused


def arguments(model):
    scales, mode, _ = most_probable_scales(model)
    data = model.stan_data(model.whitening(scales, mode), model.priors)
    return data, [{"t": np.zeros(4), **scales}]


@pytest.mark.parametrize("method", METHODS)
def test_stan_says_why_it_fails(model, method):
    data, inits = arguments(model)
    settings = SamplerSettings(method, chains=2, warmup=10, draws=10, seed=1, progress=False)
    message = (
        f"^Stan's {method} of blr failed: Exception: .*sigma_scale is -1, but must be greater than "
        r"or equal to 0.0* \(in 'blr.stan', line \d+, column 2 to column 28\)$"
    )
    with pytest.raises(RuntimeError, match=message):  # once, whatever the chains
        run("blr", {**data, "sigma_scale": -1.0}, 2 * inits, settings, reader=lambda fit: fit)


@pytest.mark.parametrize("option", ["psis_resample", "calculate_lp", "num_paths"])
def test_options_of_pathfinder_that_are_set_here_are_refused(option):
    with pytest.raises(ValueError, match=f"pathfinder takes no {option}: .*; leave it out"):
        settings = SamplerSettings("pathfinder", options={option: 1})
        run("blr", {}, [], settings, reader=lambda fit: fit)


# ---------------------------------------------------------------- resampling


def test_resampling_keeps_each_draw_its_expected_number_of_times(rng):
    lp = rng.normal(size=(1, 2000))
    log_q = rng.normal(size=(1, 2000))
    number = np.arange(2000)[None]
    draws, stats, attrs = resampled(
        {"number": number, "w": np.stack([number, -number], axis=-1)},
        {"lp": lp, "log_q": log_q},
        {"inference_method": "pathfinder"},
        500,
    )
    weights, k = pareto_smoothed((lp - log_q)[0])
    times = np.bincount(draws["number"][0], minlength=2000)
    assert times.sum() == 500 and np.abs(times - 500 * weights).max() < 1
    np.testing.assert_array_equal(draws["w"][..., 1], -draws["number"])
    np.testing.assert_array_equal(stats["lp"], lp[:, draws["number"][0]])
    assert attrs == {"inference_method": "pathfinder", "pareto_k": k}


def test_all_chains_in_one():
    values = np.arange(12.0).reshape(2, 3, 2)
    flat = Posterior({"w": values, "rho": values[..., 0]}, {}, {}).flat()
    np.testing.assert_array_equal(flat["w"], values.reshape(6, 2))
    np.testing.assert_array_equal(flat["rho"], [0, 2, 4, 6, 8, 10])
