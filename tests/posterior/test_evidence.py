"""Scales of highest evidence, and how sharply the evidence has them."""

from functools import partial

import numpy as np
import pytest
from builders import reference
from builders.scales import BLR_SCALES, SCALES, bdr_arguments, blr_arguments, mode_at

from bdr_stan.posterior.priors import log_prior_of_scales
from bdr_stan.posterior.scales import _inverse_curvature, maximise_evidence, minimum_in_boxes


@pytest.mark.parametrize("with_prior", [False, True])
@pytest.mark.parametrize("model", ["blr", "bdr"])
def test_no_nearby_scales_have_more_evidence(rng, model, with_prior):
    p = reference.random_problem(rng, n=80, d=3)
    arguments, start = (
        (blr_arguments(p), BLR_SCALES) if model == "blr" else (bdr_arguments(p)[0], SCALES)
    )
    log_prior = log_prior_of_scales(p.priors) if with_prior else None
    scales, mode, _ = maximise_evidence(partial(mode_at, arguments), start, log_prior=log_prior)

    def height(**changed):
        values = {**scales, **changed}
        found = mode_at(arguments, values).log_evidence
        return found + (log_prior(**values) if with_prior else 0.0)

    assert mode.log_evidence == pytest.approx(mode_at(arguments, scales).log_evidence)
    for name in scales:
        for factor in (0.7, 0.9, 0.99, 1.01, 1.1, 1.4):
            assert height(**{name: scales[name] * factor}) < height(), (name, factor)


def test_log_sds_of_scales_are_those_of_their_posterior(rng):
    """Of BLR, whose evidence is exact: moments over a grid of both scales."""
    p = reference.random_problem(rng, n=200, d=6)
    arguments = blr_arguments(p)
    log_prior = log_prior_of_scales(p.priors)
    scales, _, covariance = maximise_evidence(
        partial(mode_at, arguments), BLR_SCALES, log_prior=log_prior
    )
    log_sds = dict(zip(scales, np.sqrt(np.diag(covariance())), strict=True))
    steps = np.linspace(-4, 4, 25)
    grid = {name: scales[name] * np.exp(steps * log_sds[name]) for name in scales}
    height = np.array([
        [mode_at(arguments, s := {"sigma": a, "rho": b}).log_evidence + log_prior(**s)
         for b in grid["rho"]] for a in grid["sigma"]
    ])  # fmt: skip
    density = np.exp(height - height.max())
    for axis in (0, 1):
        weight = density.sum(axis=1 - axis)
        mean = np.average(steps, weights=weight)
        # in units of the sd found; log(rho) is a little skew
        assert np.average((steps - mean) ** 2, weights=weight) ** 0.5 == pytest.approx(1, abs=0.1)


def test_scales_of_simulated_labels_are_found(rng):
    p = reference.random_problem(rng, n=4000, d=3, sizes=rng.choice([2.0, 20.0, 2000.0], 4000))
    scales, *_ = maximise_evidence(partial(mode_at, bdr_arguments(p)[0]), SCALES)
    assert scales["sigma"] == pytest.approx(0.4, rel=0.1)
    assert scales["eta"] == pytest.approx(0.5, rel=0.25)


def test_scales_of_which_the_labels_say_nothing_have_log_sd_1(rng):
    """Of huge bags all embeddings are known, whatever eta."""
    p = reference.random_problem(rng, n=60, d=3, sizes=np.full(60, 1e14))
    scales, _, covariance = maximise_evidence(partial(mode_at, bdr_arguments(p)[0]), SCALES)
    assert list(scales) == list(SCALES)
    log_sds = dict(zip(scales, np.sqrt(np.diag(covariance())), strict=True))
    assert log_sds["eta"] == pytest.approx(1, abs=1e-4)
    assert log_sds["sigma"] < 0.2 and log_sds["rho"] < 1


# ---------------------------------------------------------------- minimum_in_boxes


def distances_from(target, slopes):
    def objective(x):
        value = np.sum((x - target) ** 2) + np.sum((x - target) ** 4)
        return (value, 2 * (x - target) + 4 * (x - target) ** 3) if slopes else value

    return objective


@pytest.mark.parametrize("slopes", [False, True])
@pytest.mark.parametrize("target", [[0.1, -0.2], [7.0, 0.5], [-9.5, 11.0]])
def test_minimum_is_found_box_after_box(target, slopes):
    start, target = np.array([0.3, 0.1]), np.array(target)
    x = minimum_in_boxes(
        distances_from(target, slopes), start, jac=slopes or None, eps=1e-6 if not slopes else 1e-8
    )
    np.testing.assert_allclose(x, target, atol=1e-4)


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_minimum_far_away_is_not_followed_for_ever(sign):
    """The search ends a factor exp(12) from its start."""
    x = minimum_in_boxes(lambda x: -sign * x.sum(), np.array([1.0]))
    np.testing.assert_allclose(x, [1 + 12 * sign])


def test_steps_stay_in_the_box():
    seen = []

    def objective(x):
        seen.append(x[0])
        return (x[0] - 5.0) ** 2

    minimum_in_boxes(objective, np.array([0.0]))
    steps = np.diff(np.maximum.accumulate(seen))
    assert steps.max() <= 2 + 1e-12


def test_covariance_at_a_minimum_is_the_inverse_hessian_with_sds_of_at_most_1(rng):
    at, axes = rng.normal(size=3), np.linalg.qr(rng.normal(size=(3, 3)))[0]
    curvatures = np.array([2.0, 9.0, 40.0])
    for values, variances in ((curvatures, 1 / curvatures), (curvatures / 20, [1, 1, 0.5])):
        H = axes * values @ axes.T
        found = _inverse_curvature(lambda x, H=H: 3 + (x - at) @ H @ (x - at) / 2, at)
        np.testing.assert_allclose(found, axes * variances @ axes.T, rtol=1e-6, atol=1e-8)
