"""bdr_stan.models.joint: the likelihood of totals and surveys, and its mode."""

from dataclasses import replace

import numpy as np
import pytest
from builders import joint, reference

from bdr_stan.models.aggregate import AggregateModel
from bdr_stan.models.joint import survey_theta
from bdr_stan.posterior.latent_gaussian import most_probable_scales


def problem(likelihood, family, **size):
    p, true = joint.random_joint(np.random.default_rng(5), likelihood, family, **size)
    model = joint.package_model(p)
    # The package's own overall rate, which tests of the program replace.
    p = replace(p, overall=model.data["overall"])
    scales = {"dispersion": true["dispersion"]} if "dispersion" in true else {}
    names = [f"survey_dispersion[{name}]" for name in p.names] or ["survey_dispersion"]
    scales |= zip(names, true.get("survey_dispersion", ()))
    theta = np.r_[true["w"], joint.gamma_of(p, true), true["intercept"]]
    return p, model, true, scales, theta


@pytest.mark.parametrize("likelihood", ["poisson", "negative binomial"])
@pytest.mark.parametrize("family", ["binomial", "beta_binomial"])
@pytest.mark.parametrize("n_surveys", [1, 2])
def test_likelihood_is_that_of_scipy_and_its_slope_that_of_differences(
    likelihood, family, n_surveys
):
    p, model, true, scales, theta = problem(likelihood, family, n_surveys=n_surveys)
    density = model.likelihood(**scales)
    assert density(theta)[0] == pytest.approx(joint.log_likelihood(p, **true), rel=1e-10)
    slope = reference.gradient(lambda x: density(x)[0], theta)
    np.testing.assert_allclose(density(theta)[1], slope, rtol=1e-7, atol=1e-7)


def test_curvature_of_places_of_one_point_is_that_of_differences():
    p, model, _, scales, theta = problem("poisson", "beta_binomial", n_surveys=2)
    first = [psi[:1] for psi in p.psi]
    single = replace(p, psi=first, weights=[np.ones(1)] * len(first))
    totals = AggregateModel.likelihood(model)

    def slope(x):  # of the surveys alone
        f = np.r_[:3, len(x) - 1]
        found = joint.package_model(single).likelihood(**scales)(x)[1]
        found[f] -= totals(x[f])[1]
        return found

    f = np.r_[:3, len(theta) - 1]
    curvature = joint.package_model(single).likelihood(**scales)(theta)[3]
    curvature[np.ix_(f, f)] -= totals(theta[f])[3]
    step = 1e-5 * np.eye(len(theta))
    expected = [(slope(theta - d) - slope(theta + d)) / 2e-5 for d in step]
    np.testing.assert_allclose(curvature, expected, rtol=1e-5, atol=1e-5)


def test_information_of_single_points_is_minus_the_expected_hessian():
    """The covariance of the slope, which is affine in the labels, over labels from the model."""
    p, model, true, _, theta = problem("poisson", "binomial")
    of_totals = joint.totals.law_of_labels(p.totals, **joint.of_totals(true) | {"rho": 0.0})
    of_positives = joint.law_of_positives(p, **true)
    n, variances = len(p.totals.y), np.r_[of_totals.var(), of_positives.var()]

    def slope(labels):
        again = replace(p, totals=replace(p.totals, y=labels[:n]), positives=labels[n:])
        drawn = joint.package_model(again)
        # Data whose level is that of the first: the overall rate is data too.
        drawn.overall = p.overall
        return drawn.likelihood()(theta)[1]

    labels = np.r_[p.totals.y, p.positives].astype(float)
    by_label = np.array([slope(labels + e) - slope(labels) for e in np.eye(len(labels))])
    other = np.r_[of_totals.rvs(random_state=1), of_positives.rvs(random_state=1)]
    moved = slope(labels) + (other - labels) @ by_label
    np.testing.assert_allclose(slope(other), moved, rtol=1e-9, atol=1e-9)
    expected = by_label.T @ (variances[:, None] * by_label)
    np.testing.assert_allclose(model.likelihood()(theta)[2], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n_surveys", [1, 2])
def test_the_mode_has_slope_zero(n_surveys):
    _, model, *_ = problem("negative binomial", "beta_binomial", n_surveys=n_surveys)
    scales, mode, _ = most_probable_scales(model)
    given = {name: value for name, value in scales.items() if name != "rho"}
    slope = model.likelihood(**given)(mode.theta)[1]
    location, spread = model.intercept_prior
    sds = np.r_[np.full(3, scales["rho"]), model.gamma_scales(scales), spread]
    slope -= (mode.theta - np.r_[np.zeros(len(sds) - 1), location]) / sds**2
    np.testing.assert_allclose(slope, 0, atol=1e-4)


def test_log_odds_of_surveys_from_draws():
    rng = np.random.default_rng(2)
    p, *_ = problem("poisson", "binomial")
    draws = [joint.draw_parameters(rng, p) for _ in range(3)]
    theta = np.array([np.append(d["w"], d["intercept"]) for d in draws])
    intercept, slope = (np.array([d[name][0] for d in draws]) for name in joint.LINE)
    of_odds = survey_theta(theta, intercept, slope, p.overall)
    single = replace(p, psi=[psi[:1] for psi in p.psi], weights=[np.ones(1)] * len(p.psi))
    for found, d in zip(of_odds, draws):
        h = np.array([psi[0] for psi in single.psi]) @ found[:-1] + found[-1]
        d = {name: d[name] for name in ("w", "intercept", *joint.LINE)}
        np.testing.assert_allclose(1 / (1 + np.exp(-h)), joint.probabilities(single, **d))


def test_priors_are_those_of_the_data_and_the_users():
    p, _ = joint.random_joint(np.random.default_rng(5))
    given = joint.JointModel(
        joint.totals.compressed(p.totals),
        joint.totals.labels_of(p.totals),
        joint.surveys(p),
        joint.FAMILIES["beta_binomial"],
        prior={"survey_slope_scale": 0.2, "rho_log_sd": 0.3},
    ).priors
    share = (p.positives.sum() + 0.5) / (p.examined.sum() + 1)
    assert given["survey_intercept_location"] == pytest.approx(np.log(share / (1 - share)))
    assert (given["survey_slope_location"], given["survey_slope_scale"]) == (1.0, 0.2)
    assert given["rho_log_sd"] == 0.3
    with pytest.raises(ValueError, match="no number called 'tau_scale'; this model has .*survey_s"):
        joint.package_model(replace(p, totals=replace(p.totals, priors={"tau_scale": 1})))


def test_data_have_the_numbers_of_totals_and_one_entry_per_survey():
    """Priors of surveys by name become arrays; the program takes no names with brackets."""
    p, model, *_ = problem("poisson", "binomial", n_surveys=2)
    assert not [name for name in model.data if "[" in name]
    assert model.data["rho_median"] == model.priors["rho_median"] > 0
    np.testing.assert_array_equal(model.data["y"], p.totals.y)
    ends = model.data["survey_start"] + model.data["survey_length"]  # Stan counts from 1
    assert model.data["survey_start"].tolist() == [1, *ends[:-1]]
    locations = [model.priors[f"survey_intercept_location[{name}]"] for name in p.names]
    np.testing.assert_array_equal(model.data["survey_intercept_location"], locations)
