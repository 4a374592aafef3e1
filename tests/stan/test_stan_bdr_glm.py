"""stan/fast/bdr_glm.stan against SciPy's densities, and its integral over the bags' deviations."""

from dataclasses import replace

import numpy as np
import pytest
from builders import reference
from builders.families import EXAMPLES, FAMILIES, label_of, scipy_log_density
from builders.terms import no_effects
from scipy import stats
from scipy.special import logsumexp, roots_hermitenorm

from bdr_stan.cmdstan.programs import compile_program
from bdr_stan.embedding.shrinkage import joint_basis
from bdr_stan.families import label_densities
from bdr_stan.labels import Labels
from bdr_stan.models.bdr_glm import bdr_glm_data
from bdr_stan.models.embedding_model import rows_by_size
from bdr_stan.models.likelihoods import family_likelihood

# Stan's gradient of the gamma functions is exact to fewer digits than its values.
SLOPE = {"rtol": 1e-6, "atol": 1e-6}


@pytest.fixture(scope="session")
def model():
    return compile_program("bdr_glm", progress=False)


def problem_of(name, n=9, d=3):
    """Bags of several sizes with labels of a family, their trials, and scales of the family."""
    rng = np.random.default_rng(5)
    p = reference.random_problem(rng, n=n, d=d)
    cases = EXAMPLES[name].cases
    cases = [cases[k % len(cases)] for k in range(n)]
    scales = cases[0][2]
    trials = None if cases[0][1] is None else np.array([float(case[1]) for case in cases])
    priors = {k: v for k, v in p.priors.items() if k != "sigma_scale"}
    priors |= {f"{scale}_scale": 1.5 for scale in scales}
    p = replace(p, y=np.array([float(case[0]) for case in cases]), priors=priors)
    return p, trials, scales


def basis(p):
    return joint_basis(p.Sigma, p.R)[1]


def labels_in_order(p, trials, known_part):
    """Labels in the order of the rows, of which `known_part` is."""
    order = np.argsort(p.sizes, kind="stable")
    return replace(Labels(p.y, trials=trials).take(order), offset=known_part)


def stan_data(name, p, trials, *, uncertain=True, use_likelihood=True, whitened=True):
    """Data with coordinates that are not plain: the posterior does not depend on them."""
    rng = np.random.default_rng(9)
    (lam, V), n = joint_basis(p.Sigma, p.R), len(p.y)
    rows = rows_by_size((p.mu - p.m0) @ V, p.y, p.sizes)
    order = np.argsort(p.sizes, kind="stable")
    family, d = FAMILIES[name], len(lam)
    known_part = np.linspace(-1, 2, n)
    plain = reference.plain_coordinates(d) | no_effects(d + 1)
    if whitened:
        plain |= {"information": rng.uniform(0.5, 2, d), "linear_term": rng.normal(size=d)}
    out_of = [None] * n if trials is None else trials[order]
    centre = np.array([label_of(name, y, t) for y, t in zip(p.y[order], out_of)])
    data = bdr_glm_data(
        rows,
        lam if uncertain else np.zeros(d),
        np.linalg.cholesky(V.T @ p.K @ V).T,
        family,
        labels_in_order(p, trials, known_part),
        p.priors,
        uncertain=uncertain,
    )
    return {
        **data,
        "use_likelihood": int(use_likelihood),
        **plain,
        "label_information": rng.uniform(0, 3, n) * whitened,
        "label_variance": rng.uniform(0, 2, n) * whitened,
        "label_centre": centre,
    }


def points(p, scales, *, uncertain=True, number=4):
    """Parameters: landmark weights, scales, and the deviation of each bag."""
    rng = np.random.default_rng(7)
    for _ in range(number):
        drawn = reference.draw_scales(rng, p.priors, with_eta=uncertain)
        alpha = rng.multivariate_normal(np.zeros(len(p.K)), drawn["rho"] ** 2 * np.linalg.inv(p.K))
        family = {name: value * rng.uniform(0.7, 1.3) for name, value in scales.items()}
        u = rng.normal(size=len(p.y)) if uncertain else np.zeros(0)
        yield {**drawn, "alpha": alpha, "family": family, "u": u}


def predictors(data, p, point):
    """Mean and variance of the linear predictors, in the order of the rows."""
    order = np.argsort(p.sizes, kind="stable")
    if not data["uncertain"]:
        mean = point["intercept"] + (p.mu - p.m0) @ point["alpha"]
        return mean[order] + data["known_part"], np.zeros(len(p.y))
    mean, variance = reference.bdr_moments(p, point["alpha"], point["intercept"], 0.0, point["eta"])
    return mean[order] + data["known_part"], variance[order]


def label_log_densities(name, data, h, scales):
    trials = data["trials"] if data["trials"].any() else [None] * len(h)
    return np.array(
        [scipy_log_density(name, y, each, t, scales) for y, each, t in zip(data["y"], h, trials)]
    )


def log_density(name, data, p, point, use_likelihood=True):
    """Log joint density of labels, parameters and deviations u, from the definition."""
    priors, family = p.priors, point["family"]
    value = reference.log_prior_of_scales(
        priors, point["intercept"], None, point["rho"], point.get("eta")
    )
    value += sum(
        stats.halfnorm.logpdf(scale, scale=priors[f"{each}_scale"])
        for each, scale in family.items()
    )
    covariance = point["rho"] ** 2 * np.linalg.inv(p.K)
    value += stats.multivariate_normal.logpdf(point["alpha"], cov=covariance)
    value += stats.norm.logpdf(point["u"]).sum()
    mean, variance = predictors(data, p, point)
    h = mean + (np.sqrt(variance) * point["u"] if len(point["u"]) else 0.0)
    return value + use_likelihood * label_log_densities(name, data, h, family).sum()


def stan_parameters(data, p, point):
    """The program's parameters at a point, and the log Jacobian of e -> u."""
    w = np.linalg.solve(basis(p), point["alpha"])
    t = reference.whiten(data, w, point["intercept"], point["rho"])
    mean, nu = predictors(data, p, point)
    information = data["label_information"]
    for scale in list(point["family"].values())[:1]:
        information = information / (1 + information * data["label_variance"] * scale**2)
    q = 1 + nu * information
    centre = np.sqrt(nu) * information * (data["label_centre"] - mean)
    e = (q * point["u"] - centre) / np.sqrt(q) if data["uncertain"] else np.zeros(0)
    parameters = {
        "t": t,
        "rho": np.array([point["rho"]]),
        "eta": [point["eta"]] if data["uncertain"] else [],
        "scale": list(point["family"].values()),
        "e": e,
    }
    return parameters, -0.5 * np.sum(np.log(q)) if data["uncertain"] else 0.0


def found_by_stan(model, data, p, point):
    parameters, log_jacobian = stan_parameters(data, p, point)
    return reference.density_of_weights(model, data, parameters) - log_jacobian


def test_data_are_what_the_program_declares(model):
    p, trials, _ = problem_of("binomial")
    data = stan_data("binomial", p, trials)
    assert set(data) == set(model.src_info()["inputs"])
    order = np.argsort(p.sizes, kind="stable")
    np.testing.assert_array_equal(data["trials"], trials[order])
    np.testing.assert_array_equal(data["y"], p.y[order])
    assert (data["family"], data["n_scales"], data["uncertain"]) == (5, 0, 1)


@pytest.mark.parametrize("uncertain", [True, False])
@pytest.mark.parametrize("name", FAMILIES)
def test_log_density(model, name, uncertain):
    p, trials, scales = problem_of(name)
    for use_likelihood in (True, False):
        data = stan_data(name, p, trials, uncertain=uncertain, use_likelihood=use_likelihood)
        each = list(points(p, scales, uncertain=uncertain))
        stan = [found_by_stan(model, data, p, x) for x in each]
        ours = [log_density(name, data, p, x, use_likelihood) for x in each]
        gap = np.subtract(ours, stan)
        np.testing.assert_allclose(gap, gap[0], rtol=0, atol=1e-8 + 1e-11 * np.abs(ours).max())


@pytest.mark.parametrize(
    "name, n_nodes", [*((name, 0) for name in FAMILIES), ("poisson", 5), ("binomial", 5)]
)
def test_gradient(model, name, n_nodes):
    p, trials, scales = problem_of(name)
    data = stan_data(name, p, trials)
    point = next(points(p, scales))
    parameters, _ = stan_parameters(data, p, point)
    if n_nodes:
        data = with_nodes(data, n_nodes, name, p, point)
        parameters["e"] = []
    names = ["t", "rho", "eta", "scale", "e"]
    parts = [np.atleast_1d(np.asarray(parameters[each], float)) for each in names]
    positive = np.repeat(
        [each in ("rho", "eta", "scale") for each in names], [len(x) for x in parts]
    )
    x = np.concatenate(parts)
    x[positive] = np.log(x[positive])

    def stan(x):
        values = np.where(positive, np.exp(x), x)
        split = np.split(values, np.cumsum([len(part) for part in parts])[:-1])
        return reference.log_density(model, data, dict(zip(names, split)), jacobian=True)

    # Along three directions: each evaluation is a process, and a slope is off in any direction.
    directions = np.random.default_rng(8).normal(size=(3, len(x)))
    _, gradient = stan(x)
    along = reference.gradient(lambda s: stan(x + s @ directions)[0], np.zeros(3), step=1e-4)
    np.testing.assert_allclose(
        directions @ gradient, along, rtol=1e-5, atol=1e-5 * np.abs(gradient).max()
    )


@pytest.mark.parametrize("name", ["poisson", "beta_binomial", "student_t", "ordinal"])
def test_integral_over_deviations_is_the_likelihood_of_weights(model, name):
    """Of one bag, by summation over its whitened deviation e."""
    p, trials, scales = problem_of(name, n=1)
    data = stan_data(name, p, trials)
    prior = stan_data(name, p, trials, use_likelihood=False)
    rows = rows_by_size((p.mu - p.m0) @ basis(p), p.y, p.sizes)
    grid = np.linspace(-9, 9, 28)
    for point in points(p, scales, number=1):
        parameters, _ = stan_parameters(data, p, point)

        def total(data, at=parameters):
            return logsumexp(
                [reference.log_density(model, data, {**at, "e": [e]})[0] for e in grid]
            )

        theta = np.r_[np.linalg.solve(basis(p), point["alpha"]), point["intercept"]]
        likelihood = family_likelihood(
            rows,
            data["lambda"],
            FAMILIES[name],
            Labels(p.y, trials=trials, offset=data["known_part"]),
            eta=point["eta"],
            **point["family"],
        )
        np.testing.assert_allclose(
            total(data) - total(prior), likelihood(theta)[0], rtol=1e-8, atol=1e-6
        )


def with_nodes(data, number, name, p, point):
    """The data with nodes, near the mean and standard deviation of each u given its label."""
    trials = data["trials"].astype(float) if data["trials"].any() else None
    mean, nu = predictors(data, p, point)
    found = label_densities(
        FAMILIES[name], Labels(data["y"], trials=trials), mean, nu, **point["family"]
    )
    curvature = np.clip(found.curvature, 0, (1 - 1e-9) / nu)
    node, weight = roots_hermitenorm(number)
    return {
        **data,
        "K": number,
        "node": node,
        "log_node_weight": np.log(weight / weight.sum()),
        "label_information": curvature / (1 - nu * curvature),
        "label_variance": np.zeros(len(nu)),
        "label_centre": mean + found.slope / np.maximum(curvature, 1e-12),
    }


@pytest.mark.parametrize("name", ["poisson", "binomial"])
def test_nodes_integrate_deviations_out(model, name):
    p, trials, scales = problem_of(name)
    plain = stan_data(name, p, trials)
    rows = rows_by_size((p.mu - p.m0) @ basis(p), p.y, p.sizes)
    for point in points(p, scales, number=3):
        data = with_nodes(plain, 60, name, p, point)
        parameters = {**stan_parameters(data, p, point)[0], "e": []}
        prior = {**data, "use_likelihood": 0}
        of_labels, of_prior = (
            reference.log_density(model, each, parameters)[0] for each in (data, prior)
        )
        theta = np.r_[np.linalg.solve(basis(p), point["alpha"]), point["intercept"]]
        likelihood = family_likelihood(
            rows,
            data["lambda"],
            FAMILIES[name],
            labels_in_order(p, trials, data["known_part"]),
            eta=point["eta"],
            **point["family"],
        )
        np.testing.assert_allclose(of_labels - of_prior, likelihood(theta)[0], rtol=1e-8, atol=1e-6)


def test_a_node_that_is_too_large_for_a_number_is_no_place_to_go_to(model):
    """The log density is then -inf: with inf, NUTS would stay there."""
    p, trials, scales = problem_of("poisson")
    plain = stan_data("poisson", p, trials)
    point = next(points(p, scales)) | {"intercept": 30.0}
    data = with_nodes(plain, 5, "poisson", p, point)
    data |= {"label_information": np.zeros(len(p.y))}
    parameters = {**stan_parameters(data, p, point)[0], "e": []}
    assert reference.log_density(model, data, parameters)[0] == -np.inf


@pytest.mark.parametrize("name", FAMILIES)
def test_likelihood_has_the_derivatives_of_differences(name):
    p, trials, scales = problem_of(name)
    data = stan_data(name, p, trials)
    rows = rows_by_size((p.mu - p.m0) @ basis(p), p.y, p.sizes)
    likelihood = family_likelihood(
        rows,
        data["lambda"],
        FAMILIES[name],
        labels_in_order(p, trials, data["known_part"]),
        eta=0.5,
        **scales,
    )
    theta = np.array([0.3, -0.2, 0.4, 0.1])
    _, slope, information, curvature = likelihood(theta)
    expected = reference.gradient(lambda x: likelihood(x)[0], theta, step=1e-3)
    np.testing.assert_allclose(slope, expected, rtol=1e-5, atol=1e-5 * np.abs(slope).max())
    hessian = [
        reference.gradient(lambda x, k=k: -likelihood(x)[1][k], theta, step=1e-3) for k in range(4)
    ]
    scale = np.abs(curvature).max()
    np.testing.assert_allclose(curvature, hessian, rtol=1e-4, atol=1e-4 * scale)
    assert np.all(np.linalg.eigvalsh(information) > -1e-9 * np.abs(information).max())
