"""Kernels learned from totals: slopes of the evidence by differences, and its maximum."""

from dataclasses import replace

import numpy as np
import pytest
from builders import reference, totals

from bdr_stan import Bags
from bdr_stan.aggregate import kernel_learning
from bdr_stan.aggregate.densities import aggregate_likelihood
from bdr_stan.aggregate.kernel_learning import learn_kernel, slope_in_rows
from bdr_stan.aggregate.links import LINKS
from bdr_stan.aggregate.rows import point_rows
from bdr_stan.kernels import RBF, FieldFeatures, Matern32
from bdr_stan.posterior.mode import find_mode
from bdr_stan.posterior.scales import maximise_evidence


def mode_of(rows, p, scales):
    density = aggregate_likelihood(rows, totals.labels_of(p), **scales)
    prior = p.priors["intercept_location"], p.priors["intercept_scale"]
    factor = np.eye(rows.rows.shape[1] - 1)
    return find_mode(density, factor, prior, rho=scales["rho"], tol=1e-20)


def rows_of(bags, landmarks, link):
    """Points' rows of a kernel as a fit takes them."""

    def rows_at(kernel):
        features = FieldFeatures(kernel, landmarks)
        return point_rows(bags, features, with_residual_variance=link.uses_residual_variance)

    return rows_at


@pytest.mark.parametrize("likelihood, link", totals.MODELS)
def test_slope_of_the_evidence_in_the_rows(likelihood, link):
    """The mode moves with the rows; its move is part of the slope."""
    p, scales, _ = totals.problem(likelihood, link)
    rows = totals.point_rows(p)
    mode = mode_of(rows, p, scales)
    slope = slope_in_rows(rows, totals.labels_of(p), mode, **scales)
    rng = np.random.default_rng(4)
    for _ in range(4):
        along = rng.normal(size=rows.rows.shape)

        def evidence(step, along=along):
            moved = replace(rows, rows=rows.rows + step[0] * along)
            return mode_of(moved, p, scales).log_evidence

        by_step = reference.gradient(evidence, [0.0], step=1e-3)[0]
        assert slope.along(along, slice(None)) == pytest.approx(by_step, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("likelihood", [name for name, link in totals.MODELS if link == "square"])
def test_slope_of_the_evidence_in_what_is_left_out(likelihood):
    p, scales, _ = totals.problem(likelihood, "square")
    rows = totals.point_rows(p)
    slope = slope_in_rows(rows, totals.labels_of(p), mode_of(rows, p, scales), **scales)

    def evidence(residual_variance):
        return mode_of(replace(rows, residual_variance=residual_variance), p, scales).log_evidence

    by_step = reference.gradient(evidence, p.residual_variance, step=1e-3)
    np.testing.assert_allclose(slope.by_residual_variance, by_step, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("likelihood, link", [("poisson", "square"), ("normal", "identity")])
def test_learned_parameters_have_the_highest_evidence(likelihood, link, rng):
    """Higher, with the priors, than at any step away from them along an axis."""
    points = [rng.uniform(-2, 2, 2) + 0.3 * rng.normal(size=(6, 2)) for _ in range(40)]
    bags = Bags.from_list(points, weights=[rng.gamma(2, 1, 6) for _ in points])
    of = LINKS[link]
    f = 1.5 + np.sin(2 * bags.points[:, 0]) + 0.3 * bags.points[:, 1]
    total = bags.sums(bags.weights * of.rate(f))
    y = 1.0 * rng.poisson(total) if link == "square" else total + rng.normal(size=40)
    labels = totals.labelled(y, likelihood, link)
    landmarks, start = np.array(bags.points[::20]), RBF([1.0, 1.0]) + Matern32(1.0, columns=(1,))
    level = 1.5, 0.5
    others = {"rho": 0.5, "sigma": 0.5} if link == "identity" else {"rho": 0.5}

    def log_prior(**scales):
        return -0.5 * sum(np.log(scale / 0.5) ** 2 for scale in scales.values())

    rows_at = rows_of(bags, landmarks, of)
    found = learn_kernel(
        start, rows_at, labels,
        intercept_prior=level, scales=others, log_prior=log_prior,
    )  # fmt: skip
    assert type(found) is type(start) and found.log_parameters.shape == (4,)

    def best(log_parameters):
        """Highest log evidence over the other scales, with the priors."""
        rows = rows_at(start.with_log_parameters(log_parameters))

        def mode_at(scales, **search):
            likelihood = aggregate_likelihood(rows, labels, **scales)
            factor = np.eye(rows.rows.shape[1] - 1)
            return find_mode(likelihood, factor, level, rho=scales["rho"], **search)

        scales, mode, _ = maximise_evidence(mode_at, others, log_prior=log_prior)
        away = (log_parameters - start.log_parameters) / [1.5, 1.5, 1.5, 3]  # the last a variance
        return mode.log_evidence + log_prior(**scales) - 0.5 * away @ away

    at, top = found.log_parameters, best(found.log_parameters)
    for step in 0.5 * np.vstack([np.eye(4), -np.eye(4)]):
        assert best(at + step) < top
    assert best(start.log_parameters) < top


ISOTROPIC = RBF([1.0, 1.0])


def learned_from_waves(seed, start=ISOTROPIC, log_prior=lambda **scales: 0.0, **options):
    """A kernel of counts whose root is a wave: with the square link of several modes."""
    rng = np.random.default_rng(seed)
    bags = Bags.from_list([rng.uniform(-3, 3, (8, 2)) for _ in range(30)])
    f = 1 + 1.5 * np.sin(2 * bags.points[:, 0])
    landmarks = np.array(bags.points[::8])
    return learn_kernel(
        start,
        rows_of(bags, landmarks, LINKS["square"]),
        totals.labelled(1.0 * rng.poisson(bags.sums(f**2)), "poisson", "square"),
        intercept_prior=(1.5, 1.0),
        scales={"rho": 1.0},
        log_prior=log_prior,
        **options,
    )


@pytest.mark.parametrize("seed", [1, 2, 4])
def test_a_step_too_long_leaves_no_trace(seed, monkeypatch):
    """The same parameters score the same after parameters that are poor."""
    scores = []

    def search(objective, start, **_):
        scores.extend(objective(start + away)[0] for away in (0, 3, 0, -3, 0))
        return start + 1e-6

    monkeypatch.setattr(kernel_learning, "minimum_in_boxes", search)
    learned_from_waves(seed)
    assert min(scores[1], scores[3]) > scores[0]
    np.testing.assert_allclose(scores[2::2], scores[0], rtol=1e-10)


def test_a_search_that_goes_nowhere_is_told(monkeypatch):
    monkeypatch.setattr(kernel_learning, "minimum_in_boxes", lambda _, start, **options: start)
    given = RBF([0.7, 1.3])
    with pytest.warns(UserWarning, match="ended where it began, though the evidence rises"):
        found = learned_from_waves(1, given)
    np.testing.assert_allclose(found.bandwidth, given.bandwidth)


def test_parameters_that_are_learned_together_keep_their_ratio(monkeypatch):
    given = RBF([0.5, 1.5])
    monkeypatch.setattr(kernel_learning, "minimum_in_boxes", lambda _, start, **options: start + 1)
    found = learned_from_waves(1, given, together=np.zeros(2, int))
    np.testing.assert_allclose(found.bandwidth, np.exp(1) * given.bandwidth)


def test_slope_of_the_search_is_that_of_its_objective(monkeypatch):
    """With a prior of the scale."""

    def search(objective, start, **_):
        x = start + 0.1
        by_step = reference.gradient(lambda at: objective(at)[0], x, step=1e-3)
        np.testing.assert_allclose(objective(x)[1], by_step, rtol=0.01)
        return x

    monkeypatch.setattr(kernel_learning, "minimum_in_boxes", search)
    learned_from_waves(1, log_prior=lambda rho: -2 * np.log(rho / 5) ** 2)
