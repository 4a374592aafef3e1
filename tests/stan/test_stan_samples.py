"""stan/fast/bdr_glm.stan of bags with two samples, one perhaps lacking, by the definitions."""

from dataclasses import dataclass

import numpy as np
import pytest
from builders import reference
from builders.terms import no_effects
from scipy import stats

from bdr_stan.cmdstan.programs import compile_program
from bdr_stan.embedding.coordinates import joined, joint_coordinates
from bdr_stan.families import FAMILIES, NormalNumbers
from bdr_stan.labels import Labels
from bdr_stan.models.bdr_glm import bdr_glm_data
from bdr_stan.models.embedding_model import order_by_size, rows_by_size
from bdr_stan.models.likelihoods import family_likelihood, normal_likelihood

N, DIMENSIONS = 9, {"residents": 3, "houses": 2}
LACKS = {"residents": [], "houses": [2, 7]}  # bags without the sample
MEDIANS = {"rho_median": [0.8, 1.7], "eta_median": [0.5, 1.4], "eta_log_sd": [0.5, 0.3]}
SHARED = {"intercept_location": 0.7, "intercept_scale": 1.3, "rho_log_sd": 0.4}
SCALES = {"normal": {"sigma": 0.6}, "poisson": {}}
KINDS = {"normal": NormalNumbers(), "poisson": FAMILIES["poisson"]}


@dataclass
class Case:
    """Two problems of the same bags, and the data of the program."""

    family: str
    y: np.ndarray
    problems: dict
    coordinates: object
    sizes: np.ndarray
    data: dict


def case(rng, family, use_likelihood=True):
    problems, parts, sizes, z = {}, [], np.zeros((N, 2)), []
    for m, (name, d) in enumerate(DIMENSIONS.items()):
        p = problems[name] = reference.random_problem(rng, n=N, d=d)
        parts.append(joint_coordinates(p.m0, p.Sigma, p.R, p.K))
        sizes[:, m] = p.sizes
        sizes[LACKS[name], m] = 0
        z.append(parts[-1].transform(p.mu))
    coordinates = joined(parts)
    y = rng.poisson(3.0, N) if family == "poisson" else rng.normal(0.7, 1.0, N)
    y = y.astype(float)
    rows, kind = rows_by_size(np.hstack(z), y, sizes), KINDS[family]
    priors = {**SHARED, **{f"{name}_scale": 0.9 for name in SCALES[family]}}
    for name, values in MEDIANS.items():
        priors |= {f"{name}[{sample}]": v for sample, v in zip(DIMENSIONS, values, strict=True)}
    data = bdr_glm_data(
        rows,
        coordinates.lam,
        coordinates.prior_factor,
        kind,
        Labels(rows.rows[:, -1]),
        priors,
        samples=DIMENSIONS,
    )
    D = len(coordinates.lam)
    cross = np.zeros((D, D))
    cross[3:, :3] = rng.normal(size=(2, 3))
    data |= {"use_likelihood": int(use_likelihood)}
    data |= reference.plain_coordinates(D) | no_effects(D + 1)
    data |= {"information": rng.uniform(0.5, 2, D), "linear_term": rng.normal(size=D)}
    data |= {"block_cross": cross, "label_centre": rng.normal(size=N)}
    data["label_information"] = rng.uniform(0, 3, N)
    return Case(family, y, problems, coordinates, sizes, data)


def moments(one, alphas, intercept, etas):
    """Mean and variance of each predictor: a sample that is lacking leaves its prior."""
    mean, variance = np.full(N, intercept), np.zeros(N)
    for name, eta in zip(DIMENSIONS, etas, strict=True):
        p, alpha = one.problems[name], alphas[name]
        m, v = reference.bdr_moments(p, alpha, 0.0, 0.0, eta)
        m[LACKS[name]], v[LACKS[name]] = 0.0, eta * alpha @ p.R @ alpha
        mean, variance = mean + m, variance + v
    return mean, variance


def point(rng, one):
    """Parameters of the program, and the log joint density from the definition, Jacobians too."""
    d, data = one.coordinates, one.data
    rho, eta = rng.uniform(0.5, 2, 2), rng.uniform(0.3, 2, 2)
    scales = {name: rng.uniform(0.4, 1) for name in SCALES[one.family]}
    t, e = rng.normal(size=len(d.lam) + 1), rng.normal(size=N * (one.family == "poisson"))
    # The weights along the axes, sample by sample.
    q = data["information"] + rho[d.sample] ** -2
    along = data["linear_term"] / q + t[:-1] / np.sqrt(q)
    along[3:] += (data["block_cross"] @ along)[3:] / q[3:]
    alpha, intercept = d.basis @ along, t[-1]
    alphas = {"residents": alpha[:3], "houses": alpha[3:]}
    value = -0.5 * np.log(q).sum() + stats.norm.logpdf(intercept, 0.7, 1.3)
    for m, (name, p) in enumerate(one.problems.items()):
        cov = rho[m] ** 2 * np.linalg.inv(p.K)
        value += stats.multivariate_normal.logpdf(alphas[name], cov=cov)
        value += stats.lognorm.logpdf(rho[m], 0.4, scale=MEDIANS["rho_median"][m])
        value += stats.lognorm.logpdf(
            eta[m], MEDIANS["eta_log_sd"][m], scale=MEDIANS["eta_median"][m]
        )
    value += sum(stats.halfnorm.logpdf(each, scale=0.9) for each in scales.values())
    order = order_by_size(one.sizes)
    h, nu = (each[order] for each in moments(one, alphas, intercept, eta))
    if one.family == "normal":
        labels = stats.norm.logpdf(one.y[order], h, np.sqrt(nu + scales["sigma"] ** 2)).sum()
    else:
        information = data["label_information"]
        q = 1 + nu * information
        u = np.sqrt(nu) * information * (data["label_centre"] - h) / q + e / np.sqrt(q)
        value += stats.norm.logpdf(u).sum() - 0.5 * np.log(q).sum()
        labels = stats.poisson.logpmf(one.y[order], np.exp(h + np.sqrt(nu) * u)).sum()
    parameters = {"t": t, "rho": rho, "eta": eta, "scale": list(scales.values()), "e": e}
    return parameters, value + data["use_likelihood"] * labels


@pytest.fixture(scope="module")
def model():
    return compile_program("bdr_glm", progress=False)


@pytest.mark.parametrize("family", KINDS)
@pytest.mark.parametrize("use_likelihood", [True, False])
def test_log_density(rng, model, family, use_likelihood):
    one = case(rng, family, use_likelihood)
    assert set(one.data) == set(model.src_info()["inputs"])
    assert (one.sizes == 0).sum() == 2
    each = [point(rng, one) for _ in range(4)]
    stan = [reference.log_density(model, one.data, parameters)[0] for parameters, _ in each]
    gap = np.subtract([value for _, value in each], stan)
    np.testing.assert_allclose(gap, gap[0], rtol=0, atol=1e-8)


@pytest.mark.parametrize("family", KINDS)
def test_gradient(rng, model, family):
    one = case(rng, family)
    parameters, _ = point(rng, one)
    names, positive = list(parameters), ("rho", "eta", "scale")
    parts = [np.log(parameters[n]) if n in positive else np.asarray(parameters[n]) for n in names]
    cuts = np.cumsum([len(part) for part in parts])[:-1]

    def stan(x):
        at = {
            n: np.exp(part) if n in positive else part
            for n, part in zip(names, np.split(x, cuts), strict=True)
        }
        return reference.log_density(model, one.data, at, jacobian=True)

    x = np.concatenate(parts)
    _, gradient = stan(x)
    assert np.isfinite(gradient).all()
    expected = reference.gradient(lambda y: stan(y)[0], x, step=1e-4)
    np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-6 * np.abs(gradient).max())


@pytest.mark.parametrize("family", KINDS)
def test_likelihood_of_weights(rng, family):
    """What the search for the mode takes, by the definition, and its derivatives by differences."""
    one = case(rng, family)
    z = np.hstack(
        [d.transform(one.problems[n].mu) for n, d in zip(DIMENSIONS, parts_of(one), strict=True)]
    )
    rows, d = rows_by_size(z, one.y, one.sizes), one.coordinates
    etas = np.array([0.6, 1.3])
    shared = {"eta": etas[d.sample], "sample": d.sample}
    if family == "normal":
        likelihood = normal_likelihood(rows, d.lam, sigma=0.6, **shared)
    else:
        likelihood = family_likelihood(
            rows, d.lam, FAMILIES["poisson"], Labels(rows.rows[:, -1]), **shared
        )
    theta = rng.normal(0, 0.4, len(d.lam) + 1)
    value, slope, _, curvature = likelihood(theta)
    if family == "normal":
        alpha = d.basis @ theta[:-1]
        h, nu = moments(one, {"residents": alpha[:3], "houses": alpha[3:]}, theta[-1], etas)
        expected = stats.norm.logpdf(one.y, h, np.sqrt(nu + 0.36)).sum()
        np.testing.assert_allclose(value, expected, rtol=1e-10)
    np.testing.assert_allclose(
        slope, reference.gradient(lambda x: likelihood(x)[0], theta, step=1e-3), rtol=1e-5
    )
    hessian = [
        reference.gradient(lambda x, k=k: -likelihood(x)[1][k], theta, step=1e-3)
        for k in range(len(theta))
    ]
    np.testing.assert_allclose(curvature, hessian, rtol=1e-4, atol=1e-4 * np.abs(hessian).max())


def parts_of(one):
    return [joint_coordinates(p.m0, p.Sigma, p.R, p.K) for p in one.problems.values()]
