"""Default priors, the user's numbers in place of some, and their table."""

import numpy as np
import pytest
from builders import reference

from bdr_stan.posterior.priors import (
    CLASSES,
    RATES,
    REGRESSION,
    class_priors,
    log_prior_of_scales,
    prior_centres,
    table,
    weight_priors,
    with_user_values,
)


@pytest.mark.parametrize("texts", [CLASSES, RATES], ids=["classes", "rates"])
def test_level_and_scale_have_the_priors_of_regression(texts):
    for name in ("intercept", "rho"):
        assert texts[name][0] == REGRESSION[name][0]
        assert texts[name][1] != REGRESSION[name][1]


def test_log_prior_of_scales_counts_their_logarithms(rng):
    """Against SciPy's densities of sigma, rho, eta times the Jacobian of the logarithm."""
    ours = log_prior_of_scales(reference.PRIORS)
    draws = [reference.draw_scales(rng, reference.PRIORS) for _ in range(5)]
    gap = [
        ours(**{k: v for k, v in draw.items() if k != "intercept"})
        - reference.log_prior_of_scales(reference.PRIORS, **{**draw, "intercept": 0.0})
        - np.log(draw["sigma"] * draw["rho"] * draw["eta"])
        for draw in draws
    ]
    np.testing.assert_allclose(gap, gap[0], rtol=1e-12)


def test_log_prior_of_a_model_without_some_scales():
    ours = log_prior_of_scales(reference.PRIORS)
    assert ours(rho=0.8) == 0.0  # the median
    assert ours(rho=0.8 * np.exp(0.4)) == pytest.approx(-0.5)
    assert ours(sigma=0.3, rho=0.8) == pytest.approx(np.log(0.3) - 0.5 * 0.5**2)


# ---------------------------------------------------------------- defaults


def test_priors_of_a_regression_are_on_the_scale_of_the_labels(rng):
    y, variance = 100 + 20 * rng.normal(size=50), rng.gamma(2.0, size=50)
    found = weight_priors(y.mean(), y.std(), variance)
    spread = np.sqrt(np.mean((y - y.mean()) ** 2))
    assert found == pytest.approx({
        "intercept_location": y.mean(),
        "intercept_scale": 2.5 * spread,
        "sigma_scale": spread,
        "rho_median": spread / np.sqrt(variance.mean()),
        "rho_log_sd": 1.5,
    })  # fmt: skip
    in_cents = weight_priors(100 * y.mean(), 100 * y.std(), variance)
    for name in found:
        factor = 1 if name == "rho_log_sd" else 100
        assert in_cents[name] == pytest.approx(factor * found[name])


def test_priors_of_classes_leave_most_probabilities_open(rng):
    variance = rng.gamma(2.0, size=50)
    assert class_priors(1.5, variance) == pytest.approx({
        "intercept_location": 0.0,
        "intercept_scale": 2.5,
        "rho_median": 1.5 / np.sqrt(variance.mean()),
        "rho_log_sd": 1.0,
    })  # fmt: skip


def test_the_latent_function_has_its_spread_at_the_median_of_rho(rng):
    """Over draws of weights and over the bags."""
    z = rng.normal(size=(30, 4)) * [3, 1, 0.5, 0.1]
    rho = class_priors(1.5, np.sum(z**2, axis=1))["rho_median"]
    f = rng.normal(0, rho, (40_000, 4)) @ z.T
    assert np.sqrt(np.mean(f**2)) == pytest.approx(1.5, rel=0.02)


# ---------------------------------------------------------------- the user's numbers


def test_numbers_of_the_user_replace_some():
    defaults = dict(reference.PRIORS)
    given = {"sigma_scale": 3, "intercept_location": np.float32(-1)}
    found = with_user_values(defaults, given)
    assert found == defaults | {"sigma_scale": 3.0, "intercept_location": -1.0}
    assert all(type(value) is float for value in found.values())
    assert defaults == reference.PRIORS
    assert with_user_values(defaults, None) == with_user_values(defaults, {}) == defaults


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"sigma": 1.0},
            "prior has no number called 'sigma'; this model has intercept_location, "
            "intercept_scale, sigma_scale, rho_median, rho_log_sd, eta_median, eta_log_sd",
        ),
        ({"sigma_scale": 0}, r"prior\['sigma_scale'\] must be positive, found 0"),
        ({"rho_log_sd": -1.0}, r"prior\['rho_log_sd'\] must be positive, found -1.0"),
        ({"sigma_scale": np.nan}, r"prior\['sigma_scale'\] must be a finite number, found nan"),
        ({"intercept_location": np.inf}, r"\['intercept_location'\] must be a finite number"),
        ({"sigma_scale": [1.0]}, r"prior\['sigma_scale'\] must be a finite number, found \[1.0\]"),
    ],
)
def test_numbers_that_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        with_user_values(reference.PRIORS, given)


# ---------------------------------------------------------------- middle and table


def test_prior_centres():
    assert prior_centres(reference.PRIORS, ("sigma", "rho", "eta")) == {
        "sigma": 0.3,
        "rho": 0.8,
        "eta": 0.5,
    }
    assert list(prior_centres(reference.PRIORS, ("rho", "sigma"))) == ["rho", "sigma"]


def test_table_of_priors():
    shown = table(reference.PRIORS, REGRESSION)
    assert list(shown.index) == ["intercept", "sigma", "rho", "eta"]
    assert list(shown.columns) == ["prior", "meaning", "unit"]
    assert list(shown["prior"]) == [
        "normal(0.7, 1.3)",
        "half-normal(0, 0.6)",
        "lognormal(log 0.8, 0.4)",
        "lognormal(log 0.5, 0.5)",
    ]
    classes = {k: v for k, v in reference.PRIORS.items() if k[:3] not in ("sig", "eta")}
    assert list(table(classes, REGRESSION).index) == ["intercept", "rho"]
    assert list(table(classes, CLASSES)["unit"]) == ["none", "none"]


def test_table_of_priors_of_samples():
    """What is of a sample is shown with what all of them have."""
    priors = {"rho_median[a]": 0.5, "rho_median[b]": 2.0, "rho_log_sd": 0.4}
    shown = table(priors, REGRESSION)["prior"]
    assert dict(shown) == {"rho[a]": "lognormal(log 0.5, 0.4)", "rho[b]": "lognormal(log 2, 0.4)"}
