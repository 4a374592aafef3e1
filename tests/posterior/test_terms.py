"""Effects of groups and smooth functions: their priors, and the coordinates that NUTS samples."""

from functools import partial

import numpy as np
import pytest
from builders import reference
from builders.terms import Term, effect_sds, matern, unwhiten

from bdr_stan.embedding.compression import compress
from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.embedding.terms import NO_TERMS, Smooth, Terms
from bdr_stan.labels import Labels
from bdr_stan.models.bdr import BLRModel
from bdr_stan.models.likelihoods import normal_likelihood
from bdr_stan.posterior.latent_gaussian import most_probable_scales
from bdr_stan.posterior.mode import find_mode
from bdr_stan.posterior.terms import (
    effect_amplitudes,
    rows_with_terms_last,
    term_data,
    without_effects,
)
from bdr_stan.posterior.terms import effect_sds as sds_of_package
from bdr_stan.posterior.whitening import whitened_coordinates, with_mode_shift


def smooth(*columns):
    """A smooth function of columns in [-1, 1], whose sines are not centred."""
    k = len(columns)
    plain = Smooth(columns, np.zeros(k), np.ones(k), np.zeros(1))
    return Smooth(columns, np.zeros(k), np.ones(k), np.zeros(len(plain.frequency)))


def grid(k, number):
    axes = [np.linspace(-1, 1, number)] * k
    return np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, k)


@pytest.mark.parametrize(
    "columns, length, digits",
    [
        (["year"], [0.25], 0.015),
        (["year"], [0.5], 0.005),
        (["year"], [0.7], 0.01),
        (["year"], [1.0], 0.04),
        (["lon", "lat"], [0.35, 0.35], 0.1),
        (["lon", "lat"], [0.5, 0.7], 0.1),
        (["lon", "lat"], [0.7, 0.7], 0.1),
    ],
)
def test_a_smooth_is_a_matern_process(columns, length, digits):
    """Within the range of the training bags, to its edges."""
    one = smooth(*columns)
    terms = Terms({}, [one])
    amplitude = effect_amplitudes(
        terms, {f"term_length[{k + 1}]": value for k, value in enumerate(length)}
    )
    x = grid(len(columns), 41 if len(columns) == 1 else 9)
    features = one.sines(x) * amplitude
    np.testing.assert_allclose(features @ features.T, matern(x, np.array(length)), atol=digits)


def test_standard_deviations_of_effects():
    smooths = [smooth("a", "b"), smooth("c")]
    terms = Terms({"state": ["a", "b", "c"], "urban": [False, True]}, smooths)
    sd, length = [0.3, 0.5, 0.7, 1.1], [0.4, 0.8, 1.3]
    scales = {f"term_sd[{k + 1}]": value for k, value in enumerate(sd)}
    scales |= {f"term_length[{k + 1}]": value for k, value in enumerate(length)}
    plain = [Term(np.empty((0, len(one.frequency))), one.frequency) for one in smooths]
    expected = effect_sds([*plain, Term(np.eye(3)), Term(np.eye(2))], sd, length)
    np.testing.assert_allclose(sds_of_package(terms, scales), expected, rtol=1e-12)
    np.testing.assert_allclose(expected[-5:], [0.7, 0.7, 0.7, 1.1, 1.1])


def test_no_terms_have_no_data():
    data = term_data(NO_TERMS, np.empty((7, 0)), {})
    assert (data["B"], data["U"], data["L"]) == (0, 0, 0)
    assert data["squared_frequency"].shape == (0, 2) and data["term_columns"].shape == (7, 0)
    assert len(sds_of_package(NO_TERMS, {})) == 0


@pytest.mark.parametrize("groups", [{"state": [0, 1, 2]}, {}])
@pytest.mark.parametrize("smooths", [["year"], []])
def test_coordinates_are_standard_normal_at_the_mode(rng, groups, smooths):
    """Of one function and one column of groups; of more columns of groups it is nearly so."""
    p = reference.with_covariates(rng, reference.random_problem(rng, n=60, d=3), 2)
    terms = Terms(groups, [smooth(name) for name in smooths])
    sines = [one.sines(rng.uniform(-1, 1, (60, 1))) for one in terms.smooths]
    indicators = [np.eye(len(known))[rng.integers(0, len(known), 60)] for known in groups.values()]
    v = np.hstack([np.empty((60, 0)), *sines, *indicators])
    model = BLRModel(
        Embedding(p.sizes, p.mu, None, covariates=np.column_stack([p.x, v])),
        Labels(p.y),
        terms=terms,
    )
    scales, mode, _ = most_probable_scales(model)
    data = model.whitening(scales, mode)
    blocks = [Term(each, one.frequency) for each, one in zip(sines, terms.smooths, strict=True)]
    blocks += [Term(each) for each in indicators]
    sd = [value for name, value in scales.items() if name.startswith("term_sd")]
    length = [value for name, value in scales.items() if name.startswith("term_length")]

    def theta(t):
        base, _ = reference.unwhiten_all(data, t[:6], scales["rho"])
        effects, _ = unwhiten(data, blocks, t[6:], base, sd, length)
        return np.r_[base[:-1], effects, base[-1]]

    size = 6 + v.shape[1]
    centre = theta(np.zeros(size))
    np.testing.assert_allclose(centre, mode.theta, rtol=1e-6, atol=1e-8)
    factor = np.column_stack([theta(unit) - centre for unit in np.eye(size)])
    np.testing.assert_allclose(
        factor.T @ mode.precision @ factor, np.eye(size), rtol=1e-6, atol=1e-6
    )


def test_the_mode_shift_is_that_of_weights_with_effects(rng):
    """To second order: at scales changed by 1%, t of the mode there is mode_shift times that."""
    d, n, levels = 3, 80, 4
    z, lam = rng.normal(size=(n, d)), rng.gamma(2.0, size=d)
    v = np.eye(levels)[rng.integers(0, levels, n)]
    y = z @ rng.normal(size=d) + v @ rng.normal(size=levels) + rng.normal(0, 0.3, n)
    rows = compress(np.column_stack([z, v]), y, rng.choice([2.0, 7.0, 90.0], n))
    likelihood, factor = partial(normal_likelihood, rows, lam), np.eye(d)
    terms, sds = Terms({"state": list(range(levels))}), {"term_sd[1]": 0.7}
    scales = {"sigma": 0.4, "eta": 0.6, "rho": 0.8} | sds

    def mode_at(sigma, eta):
        return find_mode(
            likelihood(sigma=sigma, eta=eta),
            factor,
            (0.0, 2.0),
            rho=0.8,
            gamma_scales=np.full(levels, 0.7),
        )

    mode = mode_at(0.4, 0.6)
    base, _ = without_effects(mode, terms, scales)
    whitened = whitened_coordinates(base, factor, 0.8)
    found = with_mode_shift(whitened, likelihood, factor, mode, scales, ("sigma", "eta"), levels)
    for k, shift in enumerate(found["mode_shift"].T):
        t = []
        for step in (0.01, -0.01):
            changed = np.array([0.4, 0.6])
            changed[k] *= np.exp(step)
            theta = mode_at(*changed).theta
            t.append(reference.whiten(whitened, theta[:d], theta[-1], 0.8))
        np.testing.assert_allclose(shift, (t[0] - t[1]) / 0.02, rtol=5e-3, atol=5e-3)


def test_the_unit_of_the_intercept_grows_with_the_spread_of_effects(rng):
    """As its variance given the weights does, in shares of that at the mode."""
    d, n, levels, sd = 3, 80, 4, 0.7
    v = np.eye(levels)[rng.integers(0, levels, n)]
    rows = compress(np.column_stack([rng.normal(size=(n, d)), v]), rng.normal(size=n), np.ones(n))
    likelihood = normal_likelihood(rows, np.zeros(d), sigma=0.4)
    given = {"rho": 0.8, "gamma_scales": np.full(levels, sd)}
    mode = find_mode(likelihood, np.eye(d), (0.0, 2.0), **given)
    scales = {"sigma": 0.4, "rho": 0.8, "term_sd[1]": sd}
    _, found = without_effects(mode, Terms({"state": list(range(levels))}), scales)

    def variance(squared_sd):
        precision = mode.precision[d:, d:].copy()
        precision[np.diag_indices(levels)] += 1 / squared_sd - 1 / sd**2
        return np.linalg.inv(precision)[-1, -1]

    growth = (variance(sd**2 + 1e-4) - variance(sd**2 - 1e-4)) / 2e-4 / variance(sd**2)
    np.testing.assert_allclose(found["intercept_by_term"], [growth], rtol=1e-5)
    assert found["intercept_share"] + growth * sd**2 == pytest.approx(1)


def test_the_last_rows_of_a_group_have_terms_alone(rng):
    terms = Terms({"state": [0, 1, 2]}, [])
    z, v = rng.normal(size=(30, 4)), np.eye(3)[rng.integers(0, 3, 30)]
    y = rng.normal(size=30)
    sizes = np.where(np.arange(30) < 5, 1.0, 2.0)  # 5 bags, fewer than columns; and 25
    rows = compress(np.column_stack([z, v]), y, sizes)
    found = rows_with_terms_last(rows, terms)
    np.testing.assert_array_equal(found[:5], rows.rows[:5])
    np.testing.assert_allclose(found.T @ found, rows.rows.T @ rows.rows, rtol=1e-10, atol=1e-12)
    assert found[5:].shape == (9, 9)
    last = found[10:]  # after those of z and the intercept
    assert np.all(last[:, :4] == 0) and np.all(last[:, 7] == 0) and np.any(last[:, 4:7] != 0)
