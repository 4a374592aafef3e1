"""The program with a prior of the bandwidth has the density of its definition."""

import numpy as np
from scipy import stats

from bdr_stan import Bags
from bdr_stan.posterior.stanli import load
from experiments.bandwidth_bayes import (
    LANDMARKS,
    LOG_SD,
    MEDIAN,
    PROGRAM,
    features,
    model_at,
    own_data,
    simulated,
)


def test_the_program_has_the_density_of_its_definition(rng):
    points, y = simulated(rng, 12)
    model = model_at(MEDIAN, stan_file=PROGRAM)
    data = model.stan_data(Bags.from_list(list(points)), y, stan_data=own_data(points))
    D, program = len(LANDMARKS), load(PROGRAM, data)

    def log_density(x):
        intercept, w, (sigma, rho, bandwidth) = x[0], x[1 : D + 1], np.exp(x[D + 1 :])
        z = features(points, bandwidth)
        location, spread = data["intercept_location"], data["intercept_scale"]
        return (
            stats.norm.logpdf(y, intercept + (z - z.mean(axis=0)) @ w, sigma).sum()
            + stats.norm.logpdf(intercept, location, spread)
            + stats.norm.logpdf(w, 0, rho).sum()
            + stats.halfnorm.logpdf(sigma, scale=data["sigma_scale"]) + np.log(sigma)
            + stats.norm.logpdf(np.log(rho), np.log(data["rho_median"]), data["rho_log_sd"])
            + stats.norm.logpdf(np.log(bandwidth), np.log(MEDIAN), LOG_SD)
        )  # fmt: skip

    vectors = 0.5 * rng.normal(size=(4, D + 4))
    expected = np.array([log_density(x) for x in vectors])
    found = np.array([program.log_prob_grad(x)[0] for x in vectors])
    np.testing.assert_allclose(np.diff(found), np.diff(expected), rtol=1e-9)
