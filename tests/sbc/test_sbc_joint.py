"""Simulation-based calibration of totals with surveys; see builders/calibration.py for the method.

The simulator is builders.joint.random_joint: SciPy's distributions, place by place.
"""

import numpy as np
import pytest
from builders import calibration, joint
from builders.calibration import FALSE_ALARM, LANDMARKS, p_values, ranks

from bdr_stan.cmdstan.programs import compile_program

pytestmark = pytest.mark.slow


def named(parameters):
    """The parameters, of which the features' are "weights"."""
    values = {("weights" if name == "w" else name): v for name, v in parameters.items()}
    return {n: v[..., 0] if n.startswith("survey") else v for n, v in values.items()}


def simulate(rng):
    p, true = joint.random_joint(rng, n=8, d=LANDMARKS)
    while p.totals.y.sum() == 0:  # the priors of a fit need a case
        p, true = joint.random_joint(rng, n=8, d=LANDMARKS)
    return p, named(true)


def log_likelihood(p, weights, **parameters):
    of_survey = {n: np.array([v]) for n, v in parameters.items() if n.startswith("survey")}
    return joint.log_likelihood(p, w=weights, **parameters | of_survey)


def fit(model, p, seed):
    data = joint.stan_data(p, whitened=False) | {"grainsize": 8}
    draws = calibration.thinned(model, data, joint.start_at(p), seed)
    return named({name: values for name, values in draws.items() if values.size})


def test_joint_is_calibrated():
    model = compile_program("aggregate_joint", progress=False)
    found = p_values(ranks(model, simulate, fit, log_likelihood, 40, seed=21), bins=10)
    names = {"intercept", "rho", "weight 0", "log likelihood", "survey_dispersion", *joint.LINE}
    assert set(found) == names | {"weight 1", "weight 2"}
    assert min(found.values()) > FALSE_ALARM, found
