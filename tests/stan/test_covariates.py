"""The programs with covariates against SciPy's densities, in any coordinates."""

from dataclasses import dataclass

import numpy as np
import pytest
from builders import reference
from builders.terms import no_effects

from bdr_stan.cmdstan.programs import compile_program
from bdr_stan.embedding.compression import compress
from bdr_stan.embedding.shrinkage import joint_basis
from bdr_stan.models.bdr import bdr_data, blr_data
from bdr_stan.models.embedding_model import rows_by_size
from bdr_stan.models.two_classes import bdr_probit_data, blr_logit_data

Q = 3
PROGRAMS = {
    "blr": ("sigma", "rho"),
    "bdr": ("sigma", "rho", "eta"),
    "blr_logit": ("rho",),
    "bdr_probit": ("rho", "eta"),
}
DENSITY = {name: getattr(reference, f"{name}_log_density") for name in PROGRAMS}


@dataclass(frozen=True)
class Case:
    """A program with its data, and the reference's density of what it samples."""

    name: str
    p: reference.Problem
    basis: np.ndarray
    data: dict

    def parts(self, x):
        """t and the scales, by name."""
        names = PROGRAMS[self.name]
        return x[: -len(names)], dict(zip(names, np.exp(x[-len(names) :])))

    def expected(self, x):
        """Log density by t and the logarithms of the scales, Jacobians and all."""
        t, scales = self.parts(x)
        theta, log_jacobian = reference.unwhiten_all(self.data, t, scales["rho"])
        w, gamma, intercept = theta[: -Q - 1], theta[-Q - 1 : -1], theta[-1]
        density = DENSITY[self.name](
            self.p,
            self.basis @ w,
            intercept,
            **scales,
            gamma=gamma,
            use_likelihood=bool(self.data["use_likelihood"]),
        )
        return density + log_jacobian + np.sum(np.log(list(scales.values())))

    def found(self, x):
        """What the program says: log density and gradient."""
        t, scales = self.parts(x)
        model = compile_program(self.name, progress=False)
        return reference.log_density(model, self.data, {"t": t, **scales}, jacobian=True)

    def points(self, rng, number):
        size = len(self.basis) + Q + 1 + len(PROGRAMS[self.name])
        return 0.5 * rng.normal(size=(number, size))


def any_whitening(rng, name, d):
    """Coordinates that have nothing to do with the posterior."""
    whitening = reference.any_coordinates(rng, d, Q)
    if name in ("blr", "bdr"):
        return whitening | no_effects(d + Q + 1)
    return whitening | ({"latent_spread": 0.4} if name == "bdr_probit" else {})


def case(rng, name, use_likelihood):
    classes = name in ("blr_logit", "bdr_probit")
    make = reference.random_classes if classes else reference.random_problem
    p = reference.with_covariates(rng, make(rng, n=40, d=4), Q)
    whitening = any_whitening(rng, name, 4) | {"use_likelihood": int(use_likelihood)}
    priors = {k: v for k, v in p.priors.items() if "eta" in PROGRAMS[name] or "eta" not in k}
    if name.startswith("blr"):
        columns = np.column_stack([p.mu - p.m0, p.x])
        rows = compress(columns, p.y, np.ones(40), lossless=not classes)
        data_of = blr_logit_data if classes else blr_data
        data = data_of(rows, priors, n_covariates=Q)
        return Case(name, p, np.eye(4), data | whitening)
    lam, V = joint_basis(p.Sigma, p.R)
    factor = np.linalg.cholesky(V.T @ p.K @ V).T
    columns = np.column_stack([(p.mu - p.m0) @ V, p.x])
    rows = (rows_by_size if classes else compress)(columns, p.y, p.sizes)
    data_of = bdr_probit_data if classes else bdr_data
    data = data_of(rows, lam, factor, priors)
    return Case(name, p, V, data | whitening)


@pytest.mark.parametrize("name", PROGRAMS)
def test_data_are_what_the_program_declares(rng, name):
    data = case(rng, name, True).data
    assert set(data) == set(compile_program(name, progress=False).src_info()["inputs"])
    assert (data["D"], data["Q"], data["gamma_scale"]) == (4, Q, 0.9)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("use_likelihood", [True, False])
def test_log_density_and_gradient(rng, name, use_likelihood):
    one = case(rng, name, use_likelihood)
    points = one.points(rng, 4)
    found = [one.found(x) for x in points]
    gap = np.subtract([one.expected(x) for x in points], [value for value, _ in found])
    np.testing.assert_allclose(gap, gap[0], atol=1e-8, rtol=1e-10)
    for x, (_, gradient) in zip(points[:2], found):
        expected = reference.gradient(one.expected, x)
        # Stan's slope of the normal tail is an approximation.
        tolerance = 1e-4 if name == "bdr_probit" else 1e-6
        np.testing.assert_allclose(gradient, expected, rtol=tolerance, atol=tolerance)
