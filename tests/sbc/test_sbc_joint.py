"""Simulation-based calibration of totals with surveys; see builders/calibration.py for the method.

The simulator is builders.joint.random_joint: SciPy's distributions, place by place.
"""

from functools import partial

import numpy as np
import pytest
from builders import calibration, joint
from builders.calibration import FALSE_ALARM, LANDMARKS, p_values, ranks

from bdr_stan.cmdstan.programs import compile_program

pytestmark = pytest.mark.slow
N_SURVEYS = 2
OF_SURVEYS = ("survey_dispersion", *joint.LINE)


def named(parameters):
    """The parameters, of which the features' are "weights", and those of surveys have numbers."""
    found = {}
    for name, values in parameters.items():
        if name.startswith("survey"):
            found |= {f"{name} {g}": values[..., g] for g in range(values.shape[-1])}
        else:
            found["weights" if name == "w" else name] = values
    return found


def simulate(rng, n_surveys):
    p, true = joint.random_joint(rng, n=8, d=LANDMARKS, n_surveys=n_surveys)
    while p.totals.y.sum() == 0:  # the priors of a fit need a case
        p, true = joint.random_joint(rng, n=8, d=LANDMARKS, n_surveys=n_surveys)
    return p, named(true)


def log_likelihood(p, weights, **parameters):
    of_surveys = {
        name: np.array([parameters.pop(f"{name} {g}") for g in range(p.survey[-1] + 1)])
        for name in OF_SURVEYS
    }
    return joint.log_likelihood(p, w=weights, **parameters, **of_surveys)


def fit(model, p, seed):
    data = joint.stan_data(p, whitened=False) | {"grainsize": 8}
    draws = calibration.thinned(model, data, joint.start_at(p), seed)
    return named({name: values for name, values in draws.items() if values.size})


def test_joint_is_calibrated():
    model = compile_program("aggregate_joint", progress=False)
    simulated = partial(simulate, n_surveys=N_SURVEYS)
    found = p_values(ranks(model, simulated, fit, log_likelihood, 32, seed=21))
    names = {"intercept", "rho", "log likelihood", *(f"weight {k}" for k in range(LANDMARKS))}
    names |= {f"{name} {g}" for name in OF_SURVEYS for g in range(N_SURVEYS)}
    assert set(found) == names
    assert min(found.values()) > FALSE_ALARM, found
