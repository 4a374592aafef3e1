"""Simulation-based calibration of embeddings given the label; builders.calibration has the method.

Coordinates are drawn bag by bag around a curve that is drawn first; the program integrates the
curve out and draws it again.
"""

from dataclasses import replace

import numpy as np
import pytest
from builders import calibration, curves
from builders.calibration import FALSE_ALARM, p_values, ranks
from scipy import stats

from bdr_stan.cmdstan.programs import compile_program
from bdr_stan.models.embedding_curves import CurveSums
from bdr_stan.models.inverse import inverse_data

pytestmark = pytest.mark.slow

K, N_BAGS, SIZES = 3, 30, (1, 5, 40)


def simulate(rng):
    p, true = curves.draw_problem(rng, N_BAGS, K, sizes=SIZES)
    return p, one_by_one(**true)


def one_by_one(tau, amplitude, curvature, curve):
    """Parameters as numbers with names, the curves' coefficients in a row."""
    each = {"curvature": curvature, "weights": curve.reshape(*curve.shape[:-2], -1)}
    each |= {f"tau {k}": tau[..., k] for k in range(K)}
    return each | {f"amplitude {k}": amplitude[..., k] for k in range(K)}


def fit(model, p, seed):
    data = inverse_data(CurveSums.from_rows(p.B, p.z, p.sizes), p.lam, p.functions, p.priors)
    start = {"tau": np.full(K, 0.7), "amplitude": np.full(K, 0.8), "curvature": [0.5]}
    draws = calibration.thinned(model, data, start, seed)
    names = ("tau", "amplitude", "curvature", "curve")
    return one_by_one(
        **{name: draws[name] for name in names} | {"curvature": draws["curvature"][:, 0]}
    )


def log_likelihood(p, weights, **scales):
    tau = np.array([scales[f"tau {k}"] for k in range(K)])
    mean, sd = p.B @ weights.reshape(K, -1).T, np.sqrt(tau**2 + p.lam / p.sizes[:, None])
    return stats.norm.logpdf(p.z, mean, sd).sum()


def test_inverse_is_calibrated():
    model = compile_program("inverse", progress=False)
    found = p_values(ranks(model, simulate, fit, log_likelihood, 40, seed=11))
    names = {"tau 0", "tau 2", "amplitude 0", "curvature", "weight 0", "weight 2", "log likelihood"}
    assert set(found) >= names
    assert min(found.values()) > FALSE_ALARM, found


def test_ranks_of_curves_tell_when_sizes_are_ignored():
    """Coordinates of bags of few points, given to the fit as if of many."""

    def of_many_points(rng):
        p, true = simulate(rng)
        return replace(p, sizes=np.full(N_BAGS, 1e6)), true

    model = compile_program("inverse", progress=False)
    found = p_values(ranks(model, of_many_points, fit, log_likelihood, 16, seed=12))
    assert min(found.values()) < FALSE_ALARM, found
