"""Models of totals as values: their data, priors, likelihoods, starting points and draws."""

import numpy as np
import pytest
from builders import totals

from bdr_stan.aggregate.densities import aggregate_likelihood
from bdr_stan.aggregate.likelihoods import LIKELIHOODS
from bdr_stan.aggregate.links import LINKS
from bdr_stan.aggregate.variational import variational_posterior
from bdr_stan.labels import Labels
from bdr_stan.models.aggregate import (
    aggregate_model,
    rate_priors,
)
from bdr_stan.posterior.latent_gaussian import most_probable_scales
from bdr_stan.posterior.settings import SamplerSettings
from bdr_stan.predictive import AggregatePredictive

SAMPLED = [(name, link) for name, link in totals.MODELS if not LINKS[link].is_linear]
EVERY = pytest.mark.parametrize("likelihood, link", SAMPLED)


def model_of(likelihood, link, n=12, **options):
    p, true = totals.random_rates(np.random.default_rng(5), likelihood, link, n)
    model = aggregate_model(totals.compressed(p), totals.labels_of(p), **options)
    return p, model, np.append(true["w"], true["intercept"])


@EVERY
def test_program_and_scales(likelihood, link):
    _, model, _ = model_of(likelihood, link)
    assert model.program == LINKS[link].program
    assert model.scales == ("rho", *LIKELIHOODS[likelihood].scales)
    for name in model.scales:
        assert f"{name}_scale" in model.priors or f"{name}_median" in model.priors
    np.testing.assert_array_equal(model.prior_factor, np.eye(3))
    assert model.weight_basis is None  # features need not be of landmarks


@EVERY
def test_likelihood_is_that_of_the_labels(likelihood, link):
    p, model, theta = model_of(likelihood, link)
    scales = dict.fromkeys(LIKELIHOODS[likelihood].scales, 0.4)
    assert model.rho_in_likelihood == (link == "square")
    if model.rho_in_likelihood:
        scales["rho"] = 0.6
    rows = totals.point_rows(p)
    expected = aggregate_likelihood(rows, totals.labels_of(p), **scales)(theta)
    found = model.likelihood(**scales)(theta)
    for one, other in zip(found[:3], expected, strict=False):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8)
    step = expected[3] if link == "square" else expected[2]  # of points the Fisher information
    np.testing.assert_allclose(found[3], step, rtol=1e-8, atol=1e-8)


@EVERY
def test_bag_effects(likelihood, link):
    """Of labels that take effects, these are summed over."""
    p, model, theta = model_of(likelihood, link, bag_effects=True)
    assert model.priors["tau_scale"] == 1.0
    assert "tau" in model.scales
    data = model.data
    assert data["has_effects"] == 1
    target, information = LIKELIHOODS[likelihood].label_on_log_scale(Labels(p.y, trials=p.trials))
    np.testing.assert_array_equal(data["effect_target"], target)
    np.testing.assert_array_equal(data["effect_information"], information)
    if likelihood == "poisson":
        rows, wide = totals.point_rows(p), totals.labelled(p.y, "negative binomial", link)
        expected = aggregate_likelihood(rows, wide, dispersion=0.3)(theta)
        assert model.likelihood(tau=0.3)(theta)[0] == pytest.approx(expected[0])


@EVERY
@pytest.mark.parametrize("bag_effects", [False, True])
def test_starts_and_draws_are_opposites(likelihood, link, bag_effects):
    """A number is an array of one to the program, what the model lacks an array of none."""
    _, model, _ = model_of(likelihood, link, bag_effects=bag_effects)
    settings = SamplerSettings("optimize")
    stan_input = model.stan_input(settings)
    (given,) = stan_input.inits
    assert given["rho"] > 0 and len(given["t"]) == 4
    assert np.shape(stan_input.log_sds["scale"]) == np.shape(given["scale"])
    assert len(given["t_effect"]) == (12 if bag_effects else 0)
    assert np.shape(given["scale"]) == (len(LIKELIHOODS[likelihood].scales),)
    assert np.shape(given["tau"]) == ((1,) if bag_effects else (0,))
    drawn = {  # as CmdStan writes it: arrays of none are not there
        name: np.broadcast_to(values, (2, 7, *np.shape(values))).copy()
        for name, values in given.items()
        if np.size(values) and name not in LIKELIHOODS[likelihood].scales
    }
    drawn |= {"w": np.ones((2, 7, 3)), "intercept": np.ones((2, 7))}
    seen = model.read(drawn, settings)
    assert "t_effect" not in seen and "scale" not in seen
    for name in model.scales:
        assert seen[name].shape == (2, 7)


@pytest.mark.parametrize("link, level, spread", [("square", 2.0, 2 / 3), ("exp", np.log(4), 1.5)])
def test_priors_are_on_the_scale_of_the_data(link, level, spread):
    p, _, _ = model_of("poisson", link)
    rows = totals.point_rows(p)
    share = totals.labelled(4 * rows.total, "poisson", link)  # a rate of 4
    priors = rate_priors(rows, share)
    assert priors["intercept_location"] == pytest.approx(level)
    assert priors["intercept_scale"] == pytest.approx(spread)
    psi = rows.rows[:, :-1]
    norm = np.average(np.sum(psi**2, axis=1), weights=rows.weights)
    assert priors["rho_median"] == pytest.approx(1 / np.sqrt(norm))  # f has a sd of about 1
    compressed = rate_priors(totals.compressed(p), share)
    assert compressed == pytest.approx(priors)


def test_priors_of_shares_count_trials():
    p, _, _ = model_of("binomial", "logit")
    shares = totals.labelled(0.2 * p.trials, "binomial", "logit", p.trials)
    priors = rate_priors(totals.point_rows(p), shares)
    assert priors["intercept_location"] == pytest.approx(np.log(0.25))


def test_numbers_of_priors_can_be_given():
    _, model, _ = model_of("negative binomial", "exp", prior={"dispersion_scale": 0.2})
    assert model.priors["dispersion_scale"] == 0.2
    with pytest.raises(ValueError, match="prior has no number called 'sigma_scale'; this model"):
        model_of("poisson", "exp", prior={"sigma_scale": 1.0})


@pytest.mark.parametrize("likelihood, link", [m for m in SAMPLED if m[0] != "binomial"])
def test_variational_fit(likelihood, link):
    p, model, _ = model_of(likelihood, link, weight_basis=2 * np.eye(3))
    one, again = (model.variational_fit(draws=50, seed=4) for _ in range(2))
    scales, mode, _ = most_probable_scales(model)
    known = {"rho": scales.pop("rho"), "scales": scales, "mode": mode, "priors": model.priors}
    expected = variational_posterior(totals.compressed(p), totals.labels_of(p), **known)
    assert one.attrs["inference_method"] == "vb"
    assert one.attrs["bound"] == pytest.approx(expected.bound)
    assert set(one.draws) == {"w", "intercept", "beta", *model.scales}
    assert one.draws["w"].shape == (1, 50, 3)
    np.testing.assert_array_equal(one.draws["beta"], 2 * one.draws["w"])
    np.testing.assert_array_equal(one.draws["w"], again.draws["w"])
    for name in model.scales:
        assert np.ptp(one.draws[name]) == 0


@EVERY
def test_predictive(likelihood, link):
    p, _, theta = model_of(likelihood, link)
    likelihood = LIKELIHOODS[likelihood]
    means = LINKS[link].means(totals.point_rows(p), theta + 0.01 * np.arange(5)[:, None])
    scales = {name: np.full(5, 0.3) for name in likelihood.scales}
    parameters = scales | Labels(trials=p.trials).parameters
    found = AggregatePredictive(lambda i: means[:, i], means.shape[1], 5, likelihood, **parameters)
    expected = means.mean(axis=0) * (1 if p.trials is None else p.trials)
    np.testing.assert_allclose(found.mean, expected, rtol=1e-10)
    assert found.sample(seed=1).shape == (5, 12)
