"""log_prior: against the Stan programs' densities without labels, and ArviZ's power scaling."""

from dataclasses import replace

import numpy as np
import pytest
from builders.log_density import log_density_of
from builders.training import labelled_bags
from scipy import stats

from bdr_stan import BDR, BLR, AggregateRegressor
from bdr_stan.posterior.priors import log_prior
from bdr_stan.results.inference_data import arviz_is_1

MODELS = {
    "BLR": BLR(3, engine="stanli"),
    "BDR": BDR(3, engine="stanli"),
    "negative binomial": BLR(3, engine="stanli", family="negative_binomial"),
    "totals": AggregateRegressor("normal", n_landmarks=3, engine="stanli"),
}
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # runs are short


def flat(parameters, scales):
    """Parameters with the logarithms of scales side by side, shape (S, n)."""
    logs = [np.log(parameters[name]) for name in scales]
    return np.column_stack([parameters["w"], parameters["intercept"], *logs])


@pytest.mark.parametrize("name", MODELS)
def test_with_the_weights_it_is_the_density_of_the_program_without_labels(name, rng):
    """Up to a constant and the Jacobian of the program's coordinates, found by differences."""
    bags, y = labelled_bags(rng)
    y = rng.poisson(np.abs(y)) if name == "negative binomial" else y
    fit = MODELS[name]
    density = log_density_of(fit, bags, y, chains=2, warmup=100, draws=50, seed=1)
    density = replace(density, data={**density.data, "use_likelihood": 0})
    points = rng.normal(size=(6, density.program.n_unconstrained)) / 2
    parameters = density.parameters(points)
    ours = log_prior(fit.priors(as_table=False), fit.prior_texts, parameters)
    assert set(ours) == set(fit.priors().index)
    scales = [key for key in ours if key != "intercept"]
    factor = fit.result_.groups["constant_data"].get(
        "prior_factor", np.eye(parameters["w"].shape[1])
    )
    weights = stats.norm.logpdf(
        parameters["w"] @ np.asarray(factor).T, 0, parameters["rho"][:, None]
    )
    gaps = []
    for k, point in enumerate(points):
        steps = 1e-5 * np.eye(len(point))
        up, down = (flat(density.parameters(point + s), scales) for s in (steps, -steps))
        _, log_jacobian = np.linalg.slogdet((up - down) / 2e-5)
        log_scales = sum(np.log(parameters[key][k]) for key in scales)
        known = sum(values[k] for values in ours.values()) + weights[k].sum()
        gaps.append(density.program.log_prob_grad(point)[0] - known - log_jacobian - log_scales)
    np.testing.assert_allclose(gaps, gaps[0], atol=1e-5)


def test_a_fit_has_it_and_arviz_scales_its_power(rng):
    fit = BDR(3).fit(*labelled_bags(rng), chains=2, warmup=100, draws=50, seed=1)
    group, drawn = fit.idata["log_prior"], fit.idata["posterior"]
    expected = stats.halfnorm.logpdf(drawn["sigma"], scale=fit.priors(False)["sigma_scale"])
    np.testing.assert_allclose(group["sigma"], expected)
    if arviz_is_1():
        from arviz_stats import psense_summary

        found = psense_summary(fit.idata, var_names=["sigma", "rho"])
        assert np.isfinite(found[["prior", "likelihood"]].to_numpy()).all()


def test_samples_and_correlations_have_theirs(rng):
    """Entries of an array with priors of their own, and LKJ of 2 x 2 matrices."""
    priors = {"rho_median[a]": 1.0, "rho_median[b]": 3.0, "rho_log_sd": 0.5, "c_shape": 3.0}
    texts = {"rho": ("lognormal(", "", ""), "c": ("LKJ(", "", ""), "absent": ("normal(", "", "")}
    rho, r = rng.gamma(3, size=(2, 4, 2)), rng.uniform(-1, 1, (2, 4))
    matrices = np.stack([np.stack([r**0, r], -1), np.stack([r, r**0], -1)], -1)
    found = log_prior(priors, texts, {"rho": rho, "c": matrices})
    assert set(found) == {"rho", "c"}
    expected = stats.norm.logpdf(np.log(rho), np.log([1.0, 3.0]), 0.5) - np.log(rho)
    np.testing.assert_allclose(found["rho"], expected)
    np.testing.assert_allclose(found["c"], 2 * np.log(1 - r**2))
