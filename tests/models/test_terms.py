"""Groups and smooth functions in likelihoods, models and predictions."""

from dataclasses import replace

import numpy as np
import pytest
from builders import reference
from builders.drawn_bags import generators
from builders.terms import Term, effect_sds
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from bdr_stan.embedding.compression import compress
from bdr_stan.embedding.coordinates import joint_coordinates, principal_axes
from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.embedding.terms import Smooth, Terms
from bdr_stan.labels import Labels
from bdr_stan.models.bdr import BLRModel
from bdr_stan.models.latent import contributions, label_predictive
from bdr_stan.models.likelihoods import normal_likelihood
from bdr_stan.posterior.latent_gaussian import most_probable_scales
from bdr_stan.posterior.sampling import sample_posterior
from bdr_stan.posterior.settings import SamplerSettings

Q, LEVELS = 1, {"state": 4, "party": 3}
SMOOTH = Smooth(("year",), np.zeros(1), np.ones(1), np.zeros(1))
SMOOTH = replace(SMOOTH, mean=np.zeros(len(SMOOTH.frequency)))
TERMS = Terms({name: list(range(m)) for name, m in LEVELS.items()}, [SMOOTH])


def problem(rng, n=60, d=3):
    """Bags with a covariate, of two columns of groups and along a column; their columns v."""
    p = reference.with_covariates(rng, reference.random_problem(rng, n=n, d=d), Q)
    year = rng.uniform(-1, 1, (n, 1))
    blocks = [Term(SMOOTH.sines(year), SMOOTH.frequency)]
    blocks += [Term(np.eye(m)[rng.integers(0, m, n)]) for m in LEVELS.values()]
    effects = [blocks[1].v @ rng.normal(0, 0.8, 4), blocks[2].v @ rng.normal(0, 0.5, 3)]
    return replace(p, y=p.y + np.sin(3 * year[:, 0]) + sum(effects)), blocks


def columns(blocks):
    return np.hstack([block.v for block in blocks])


# ---------------------------------------------------------------- likelihood


def test_value_is_the_definition(rng):
    p, blocks = problem(rng)
    v, at = columns(blocks), joint_coordinates(p.mu.mean(axis=0), p.Sigma, p.R, p.K)
    rows = compress(np.column_stack([at.transform(p.mu), p.x, v]), p.y, p.sizes)
    likelihood = normal_likelihood(rows, at.lam, sigma=0.5, eta=0.6)
    for theta in rng.normal(size=(3, 3 + Q + v.shape[1] + 1)):
        rest = replace(p, y=p.y - v @ theta[3 + Q : -1])
        weights = at.basis @ theta[:3], theta[-1]
        expected = reference.bdr_log_likelihood(rest, *weights, 0.5, 0.6, theta[3 : 3 + Q])
        assert likelihood(theta)[0] == pytest.approx(expected, rel=1e-9)


@settings(max_examples=40, deadline=None)
@given(generators(), st.integers(2, 90), st.sampled_from([1e-3, 1.0, 1e3]))
def test_compression_keeps_the_likelihood(rng, n, spread):
    """Few bags or many, of sizes shared or not, effects small and large."""
    p, blocks = problem(rng, n=n)
    at = joint_coordinates(p.mu.mean(axis=0), p.Sigma, p.R, p.K)
    x = np.column_stack([at.transform(p.mu), p.x, columns(blocks)])
    one, other = (
        normal_likelihood(compress(x, p.y, p.sizes, lossless=lossless), at.lam, sigma=0.5, eta=0.6)
        for lossless in (True, False)
    )
    for theta in spread * rng.normal(size=(3, x.shape[1] + 1)):
        for found, expected in zip(one(theta), other(theta), strict=True):
            scale = np.abs(expected).max()
            np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8 * scale)


# ---------------------------------------------------------------- closed form


def linear_mixed_model(p, blocks, scales, intercept_prior, gamma_scale):
    """Best linear unbiased predictors of the effects, fitted values, and log evidence of labels.

    With the covariance V of the labels, all else integrated out: Z G Z' and noise (Henderson 1975).
    """
    sd = [value for name, value in scales.items() if name.startswith("term_sd")]
    length = [value for name, value in scales.items() if name.startswith("term_length")]
    Z, G = columns(blocks), effect_sds(blocks, sd, length) ** 2
    z = p.mu - p.m0
    known = scales["rho"] ** 2 * z @ z.T + gamma_scale**2 * p.x @ p.x.T + intercept_prior[1] ** 2
    signal = known + (Z * G) @ Z.T
    V = signal + scales["sigma"] ** 2 * np.eye(len(p.y))
    away = p.y - intercept_prior[0]
    effects = G * (Z.T @ np.linalg.solve(V, away))
    fitted = intercept_prior[0] + signal @ np.linalg.solve(V, away)
    return effects, fitted, stats.multivariate_normal.logpdf(away, cov=V)


def fitted_blr(p, blocks, terms=TERMS):
    x = np.column_stack([p.x, columns(blocks)])
    return BLRModel(Embedding(p.sizes, p.mu, None, covariates=x), Labels(p.y), terms=terms)


def test_modes_are_best_linear_unbiased_predictors(rng):
    p, blocks = problem(rng)
    model = fitted_blr(p, blocks)
    priors = model.intercept_prior, model.priors["gamma_scale"]
    scales, mode, _ = most_probable_scales(model)
    effects, fitted, log_evidence = linear_mixed_model(p, blocks, scales, *priors)
    np.testing.assert_allclose(mode.theta[3 + Q : -1], effects, rtol=1e-6, atol=1e-8)
    assert mode.log_evidence == pytest.approx(log_evidence, rel=1e-8)
    z = (p.mu - p.m0) @ principal_axes(p.embedding).basis
    design = np.column_stack([z, p.x, columns(blocks), np.ones(len(p.y))])
    np.testing.assert_allclose(design @ mode.theta, fitted, rtol=1e-6, atol=1e-8)
    # Scales of highest evidence times priors: none nearby is better.
    objective = posterior_of_scales(model, p, blocks, priors)
    best = objective(scales)
    for name in scales:
        for factor in (0.9, 1.1):
            assert objective({**scales, name: factor * scales[name]}) < best + 1e-6


def test_coordinates_of_effects_do_not_depend_on_the_level_of_labels(rng):
    """The stock program's intercept is less by the level, so effects given it are, too."""
    p, blocks = problem(rng)
    near, far = (
        fitted_blr(replace(p, y=p.y + level), blocks).stan_input(SamplerSettings()).data
        for level in (0.0, 1000.0)
    )
    for name in ("effect_linear_term", "cross_theta", "effect_information", "intercept_centre"):
        scale = np.abs(near[name]).max()
        np.testing.assert_allclose(far[name], near[name], rtol=1e-4, atol=1e-4 * scale)


def posterior_of_scales(model, p, blocks, priors):
    def objective(scales):
        value = linear_mixed_model(p, blocks, scales, *priors)[2]
        for name, scale in scales.items():
            kind, numbers = name.split("[")[0], model.priors
            if f"{kind}_scale" in numbers:
                value += stats.halfnorm.logpdf(scale, scale=numbers[f"{kind}_scale"])
            else:
                median = numbers[f"{kind}_median"]
                value += stats.lognorm.logpdf(scale, numbers[f"{kind}_log_sd"], scale=median)
            value += np.log(scale)
        return value

    return objective


def test_the_program_finds_them_too(rng):
    p, blocks = problem(rng)
    model = fitted_blr(p, blocks)
    drawn = sample_posterior(model, SamplerSettings("optimize", seed=1)).draws
    scales = {name: float(drawn[name].item()) for name in ("sigma", "rho")}
    for array in ("term_sd", "term_length"):
        scales |= {f"{array}[{k + 1}]": x for k, x in enumerate(np.ravel(drawn[array]))}
    expected, _, _ = linear_mixed_model(
        p, blocks, scales, model.intercept_prior, model.priors["gamma_scale"]
    )
    np.testing.assert_allclose(np.ravel(drawn["term_effect"]), expected, rtol=1e-3, atol=1e-3)


def test_default_priors_of_terms(rng):
    p, blocks = problem(rng)
    model = fitted_blr(p, blocks)
    assert model.priors["term_sd_scale"] == pytest.approx(p.y.std())
    assert {"term_length_median", "term_length_log_sd"} < set(model.priors)
    groups = fitted_blr(p, blocks[1:], Terms(TERMS.groups))
    assert "term_length_median" not in groups.priors
    with pytest.raises(ValueError, match="prior has no number called 'term_length_median'"):
        BLRModel(
            Embedding(p.sizes, p.mu, None, covariates=np.column_stack([p.x, columns(blocks[1:])])),
            Labels(p.y),
            terms=Terms(TERMS.groups),
            prior={"term_length_median": 1.0},
        )


# ---------------------------------------------------------------- new levels


def draws_of(rng, S, U):
    drawn = {name: rng.gamma(2.0, size=S) for name in ("sigma", "eta")}
    drawn |= {"intercept": rng.normal(size=S), "w": rng.normal(size=(S, 3))}
    return drawn | {"gamma": rng.normal(size=(S, Q + U)), "term_sd": rng.gamma(2.0, size=(S, 3))}


def with_new_levels(rng, numbers):
    """An embedding of bags whose levels of two columns of groups are new where numbers > 0."""
    n = len(numbers)
    p, blocks = problem(rng, n=n)
    for k, block in enumerate(blocks[1:]):
        block.v[numbers[:, k] > 0] = 0
    x = np.column_stack([p.x, columns(blocks)])
    at = joint_coordinates(p.mu.mean(axis=0), p.Sigma, p.R, p.K)
    return at, Embedding(p.sizes, p.mu, None, covariates=x, new_levels=numbers)


def test_effects_of_new_levels_are_drawn_from_their_prior(rng):
    numbers = np.array([[7, 0], [0, 0], [0, 9], [7, 9], [8, 0]])
    at, embedding = with_new_levels(rng, numbers)
    draws = draws_of(rng, 20_000, embedding.x.shape[1] - Q)
    known = label_predictive(at, replace(embedding, new_levels=None), **draws)
    found = label_predictive(at, embedding, **draws)
    effects = found.expected(np.arange(5)) - known.expected(np.arange(5))
    of_state, of_party = (effects[:, [0, 4]], effects[:, [2]])
    np.testing.assert_array_equal(effects[:, 1], 0)
    np.testing.assert_allclose(effects[:, 3], effects[:, 0] + effects[:, 2], atol=1e-10)
    for each, sd in [(of_state, draws["term_sd"][:, [1]]), (of_party, draws["term_sd"][:, [2]])]:
        standard = each / sd
        for column in standard.T:
            assert stats.kstest(column, "norm").pvalue > 1e-4
    independent = np.corrcoef(np.column_stack([of_state / draws["term_sd"][:, [1]], of_party]).T)
    assert np.abs(independent - np.eye(3)).max() < 4 / np.sqrt(20_000)
    # The same level has the same effect in another call, whatever the other bags.
    again = label_predictive(at, embedding.take([3]), **draws)
    np.testing.assert_allclose(
        again.expected(np.array([0])), found.expected(np.array([3])), atol=1e-10
    )


def test_few_draws_have_the_variance_of_new_levels(rng):
    numbers = np.array([[7, 0], [0, 0], [0, 9], [7, 9], [8, 0]])
    at, embedding = with_new_levels(rng, numbers)
    draws = draws_of(rng, 1, embedding.x.shape[1] - Q)
    known = label_predictive(at, replace(embedding, new_levels=None), **draws)
    found = label_predictive(at, embedding, **draws)
    np.testing.assert_allclose(found.mean, known.mean, rtol=1e-12)
    variance = (numbers > 0) @ draws["term_sd"][0, 1:] ** 2
    np.testing.assert_allclose(found.sd**2, known.sd**2 + variance, rtol=1e-10)


def test_contributions_have_new_levels(rng):
    numbers = np.array([[7, 0], [0, 0], [0, 9], [7, 9], [8, 0]])
    at, embedding = with_new_levels(rng, numbers)
    slices = {"x": slice(0, 1), "year": slice(1, 1 + len(SMOOTH.mean))}
    slices |= {"state": slice(-7, -3), "party": slice(-3, None)}
    for S in (1, 500):
        draws = draws_of(rng, S, embedding.x.shape[1] - Q)
        found = contributions(at, embedding, slices, draws)
        total = label_predictive(at, embedding, **draws)
        parts = sum(part.mean for part in found.values())
        np.testing.assert_allclose(parts, total.mean - draws["intercept"].mean(), atol=1e-10)
        assert list(found) == ["embedding", "x", "year", "state", "party"]
        if S == 1:
            sd = draws["term_sd"][0]
            np.testing.assert_allclose(found["state"].sd, sd[1] * (numbers[:, 0] > 0), atol=1e-8)
            np.testing.assert_allclose(found["party"].sd, sd[2] * (numbers[:, 1] > 0), atol=1e-8)
