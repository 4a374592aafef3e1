"""The programs with noise of size and known errors against SciPy's densities."""

import numpy as np
import pytest
from builders import reference
from builders.terms import no_effects

from bdr_stan.cmdstan.programs import compile_program
from bdr_stan.embedding.compression import compress
from bdr_stan.embedding.shrinkage import joint_basis
from bdr_stan.models.bdr import bdr_data, blr_data

PROGRAMS = {
    "blr": ("sigma", "sigma_point", "rho"),
    "bdr": ("sigma", "sigma_point", "rho", "eta"),
}
DENSITY = {name: getattr(reference, f"{name}_log_density") for name in PROGRAMS}
EACH = pytest.mark.parametrize("name", PROGRAMS)


def problem(rng, n=40, **options):
    return reference.with_label_noise(rng, reference.random_problem(rng, n=n, d=3, **options))


def data_of(name, p, *, lossless=True, use_likelihood=True):
    """Data of a program, in coordinates that do nothing; the basis of the weights."""
    whitening, d = reference.plain_coordinates(3) | no_effects(4), 3
    likelihood = {"use_likelihood": int(use_likelihood)}
    options = {"lossless": lossless, "known_variance": p.known}
    if name == "blr":
        rows = compress(p.mu - p.m0, p.y, p.sizes, **options)
        priors = {k: v for k, v in p.priors.items() if not k.startswith("eta")}
        return blr_data(rows, priors) | whitening | likelihood, np.eye(d)
    lam, V = joint_basis(p.Sigma, p.R)
    rows = compress((p.mu - p.m0) @ V, p.y, p.sizes, **options)
    factor = np.linalg.cholesky(V.T @ p.K @ V).T
    return bdr_data(rows, lam, factor, p.priors) | whitening | likelihood, V


def found_at(name, data, t, scales):
    """Log density of the program and its gradient, Jacobians and all."""
    parameters = {"t": t, **scales, "sigma_point": [scales["sigma_point"]]}
    model = compile_program(name, progress=False)
    return reference.log_density(model, data, parameters, jacobian=True)


def points(rng, name, number):
    """t and the logarithms of the scales."""
    return 0.5 * rng.normal(size=(number, 4 + len(PROGRAMS[name])))


def parts(name, x):
    return x[:4], dict(zip(PROGRAMS[name], np.exp(x[4:])))


@EACH
def test_data_are_what_the_program_declares(rng, name):
    p = problem(rng)
    data, _ = data_of(name, p)
    assert set(data) == set(compile_program(name, progress=False).src_info()["inputs"])
    assert data["size_noise"] == 1 and data["sigma_point_scale"] == 1.4
    groups = {*zip(p.sizes, p.known)}
    assert data["G"] == len(groups) < 40
    assert {*zip(data["bag_size"], data["known_variance"])} == groups


@EACH
@pytest.mark.parametrize("use_likelihood", [True, False])
def test_log_density_and_gradient(rng, name, use_likelihood):
    p = problem(rng)
    data, basis = data_of(name, p, use_likelihood=use_likelihood)

    def expected(x):
        t, scales = parts(name, x)
        w, intercept, log_jacobian = reference.unwhiten(data, t, scales["rho"])
        density = DENSITY[name](p, basis @ w, intercept, **scales, use_likelihood=use_likelihood)
        return density + log_jacobian + np.sum(np.log(list(scales.values())))

    at = points(rng, name, 6)
    found = [found_at(name, data, *parts(name, x)) for x in at]
    gap = np.subtract([expected(x) for x in at], [value for value, _ in found])
    np.testing.assert_allclose(gap, gap[0], atol=1e-8, rtol=1e-10)
    for x, (_, gradient) in zip(at[:3], found):
        np.testing.assert_allclose(gradient, reference.gradient(expected, x), rtol=1e-6, atol=1e-6)


@EACH
@pytest.mark.parametrize("sizes", [None, np.linspace(0.7, 60.3, 40)], ids=["shared", "all differ"])
def test_compression_keeps_the_density(rng, name, sizes):
    p = problem(rng, n=400 if sizes is None else 40, sizes=sizes)
    compressed, one_by_one = (data_of(name, p, lossless=lossless)[0] for lossless in (True, False))
    n = len(p.y)
    assert one_by_one["T"] == n and compressed["T"] == (12 * 5 if sizes is None else n)
    for x in points(rng, name, 4):
        values = [found_at(name, data, *parts(name, x))[0] for data in (compressed, one_by_one)]
        assert values[0] == pytest.approx(values[1], rel=1e-8)


@EACH
def test_without_noise_of_size_there_is_no_such_parameter(rng, name):
    p = reference.random_problem(rng, n=40, d=3)
    data, _ = data_of(name, p)
    assert data["size_noise"] == 0 and not np.any(data["known_variance"])
    scales = {k: 0.7 for k in PROGRAMS[name] if k != "sigma_point"}
    model = compile_program(name, progress=False)
    parameters = {"t": np.full(4, 0.3), **scales, "sigma_point": []}
    value, gradient = reference.log_density(model, data, parameters, jacobian=True)
    assert len(gradient) == 4 + len(scales)
    # Whatever the prior of what is not there.
    other, _ = reference.log_density(
        model, data | {"sigma_point_scale": 9.0}, parameters, jacobian=True
    )
    assert value == other
