"""stan/inverse.stan, the plain program: posterior of the accelerated one, labels by Bayes' rule."""

import numpy as np
import pytest
from builders import curves, reference
from scipy import stats

from bdr_stan.cmdstan.programs import program_path
from bdr_stan.embedding.label_functions import functions_of_classes
from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.models.bayes_rule import InverseCoordinates, inverse_predictive
from bdr_stan.models.embedding_curves import CurveSums
from bdr_stan.models.inverse import inverse_data
from bdr_stan.posterior.stanli import constrained, load
from bdr_stan.predictive.grid import trapezoid_weights, weights_at

N_DRAWS = 20_000
NEW = slice(0, 4)
KINDS = ["numbers", "numbers with errors", "classes"]


def problem_of(kind):
    """Bags and their labels, and labels before a bag is seen."""
    rng = np.random.default_rng(17)
    if kind == "classes":
        codes = rng.permutation(np.arange(24) % 3)
        p = curves.draw_problem(rng, functions=functions_of_classes(3), labels=codes)[0]
        labels, log_prior = np.arange(3.0), np.log([0.5, 0.2, 0.3])
    else:
        p = curves.draw_problem(rng, 24)[0]
        labels = np.sort(rng.uniform(p.y.min() - 1, p.y.max() + 1, 60))
        log_prior = stats.t.logpdf(labels, 5, 2, 3)
    offsets = np.array([0.4, -0.9, 0.1]) if kind == "classes" else None
    power = 0.05 if kind == "classes" else 0.6  # low, so that no class is certain
    coordinates = InverseCoordinates(
        np.zeros(3), np.eye(3), p.lam, p.functions, labels, log_prior, power, offsets=offsets
    )
    return p, coordinates, [0.0, 0.3, 0.0, 1.1] if kind == "numbers with errors" else np.zeros(4)


def plain_data(p, coordinates, label_sd):
    labels, y = coordinates.labels, p.y[NEW]
    if p.functions.has_classes:
        widths, given = np.ones(3), np.eye(3)[y.astype(int)]
    else:
        widths = trapezoid_weights(labels)
        given = weights_at(y, labels, np.array(label_sd)) / widths
    offsets = coordinates.offsets
    return {
        "N": len(p.y),
        "N_new": 4,
        "D": len(p.lam),
        "J": p.B.shape[1],
        "S": p.functions.n_straight,
        "M": len(labels),
        "z": p.z,
        "z_new": p.z[NEW],
        "size": p.sizes,
        "size_new": p.sizes[NEW],
        "B": p.B,
        "B_label": p.functions(labels),
        "label": labels,
        "log_prior": coordinates.log_prior + np.log(widths),
        "correction": np.zeros(len(labels)) if offsets is None else offsets,
        "label_sd_new": label_sd,
        "y_at_given": given,
        "lambda": p.lam,
        "smooth": p.functions.smooth,
        "power": coordinates.power,
        **p.priors,
    }


def plain_model(kind):
    return load(program_path("inverse", fast=False), plain_data(*problem_of(kind)))


def drawn(model, q):
    return {name: values[0, 0] for name, values in constrained(model, q[None])[0].items()}


@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_log_density_is_that_of_the_accelerated_program_and_of_curves(kind, recwarn):
    """The accelerated program integrates curves out, whose posterior given scales is normal."""
    p = problem_of(kind)[0]
    model, K = plain_model(kind), len(p.lam)
    sums = CurveSums.from_rows(p.B, p.z, p.sizes)
    accelerated = load("inverse", inverse_data(sums, p.lam, p.functions, p.priors))
    rng, gaps = np.random.default_rng(2), []
    for _ in range(5):
        q = rng.normal(0, 0.6, model.n_unconstrained)
        point = drawn(model, q)
        scales = {name: point[name] for name in ("tau", "amplitude", "curvature")}
        means, covariances = curves.curve_posterior(p, **scales)
        each = zip(point["curve"], means, covariances, strict=True)
        of_curves = sum(stats.multivariate_normal.logpdf(*one) for one in each)
        jacobian = np.log(curves.coefficient_sds(p.functions, p.priors, **scales)).sum()
        if not p.has_curvature:  # the accelerated program has none either
            prior = p.priors["curvature_log_sd"], 0, p.priors["curvature_median"]
            of_curves += stats.lognorm.logpdf(point["curvature"], *prior) + q[2 * K]
        value = model.log_prob_grad(q)[0] - jacobian - of_curves
        gaps.append(value - accelerated.log_prob_grad(q[: accelerated.n_unconstrained])[0])
    np.testing.assert_allclose(gaps, gaps[0], rtol=0, atol=1e-9)
    assert not [w for w in recwarn if "stanli" in str(w.message)]


@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_gradient(kind):
    model = plain_model(kind)
    q = np.random.default_rng(3).normal(0, 0.5, model.n_unconstrained)
    expected = reference.gradient(lambda x: model.log_prob_grad(x)[0], q)
    np.testing.assert_allclose(model.log_prob_grad(q)[1], expected, rtol=1e-7, atol=1e-7)


def predictive_at(kind, point):
    p, coordinates, label_sd = problem_of(kind)
    embedding = Embedding(p.sizes[NEW], p.z[NEW], np.diag(p.lam))
    classes = np.arange(3) if kind == "classes" else None
    known = {} if classes is not None else {"known_variance": np.square(label_sd)}
    return inverse_predictive(
        coordinates, embedding, point["tau"][None], point["curve"][None], classes, **known
    )


@pytest.mark.parametrize("kind", KINDS)
def test_log_lik_is_the_log_density_by_bayes_rule(kind):
    p, model = problem_of(kind)[0], plain_model(kind)
    rng = np.random.default_rng(4)
    for _ in range(3):
        point = drawn(model, rng.normal(0, 0.5, model.n_unconstrained))
        predictive = predictive_at(kind, point)
        if kind == "classes":
            expected = np.log(predictive.probabilities)[np.arange(4), p.y[NEW].astype(int)]
        else:
            expected = predictive.log_prob(p.y[NEW])
        np.testing.assert_allclose(point["log_lik"], expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_new_labels_have_the_moments_by_bayes_rule(kind):
    model = plain_model(kind)
    q = np.random.default_rng(5).normal(0, 0.5, model.n_unconstrained)
    fit = model.sample(
        chains=1,
        warmup=0,
        samples=N_DRAWS,
        inits=q,
        adapt_engaged=False,
        step_size=1e-300,  # of NUTS, which stays where it is
        max_depth=1,
        refresh=0,
        seed=1,
    )
    predictive = predictive_at(kind, drawn(model, q))
    if kind == "classes":
        assert np.all(predictive.probabilities > 1e-3)
        mean = predictive.probabilities @ np.arange(3)
        variance = predictive.probabilities @ np.arange(3) ** 2 - mean**2
    else:
        mean, variance = predictive.mean, predictive.sd**2
    y_new = fit.draws("y_new").reshape(20, N_DRAWS // 20, 4)
    reference.assert_moments(y_new, mean, variance, [f"y_new[{i}]" for i in range(4)])
