"""options: of CmdStanPy, and values that Stan takes; refusals are in tests/bad_input."""

import inspect
import warnings

import cmdstanpy
import numpy as np
import pytest

from bdr_stan import BLR
from bdr_stan.posterior.settings import OPTIONS, check_options

FUNCTIONS = {
    "nuts": cmdstanpy.CmdStanModel.sample,
    "optimize": cmdstanpy.CmdStanModel.optimize,
    "laplace": cmdstanpy.CmdStanModel.laplace_sample,
}


@pytest.mark.parametrize("method", OPTIONS)
def test_every_option_is_one_of_cmdstanpy(method):
    assert set(OPTIONS[method]) <= set(inspect.signature(FUNCTIONS[method]).parameters)


def test_good_options_pass():
    check_options("nuts", {"adapt_delta": np.float64(0.95), "max_treedepth": np.int64(12)})
    check_options("nuts", {"adapt_engaged": False}, warmup=0)
    with pytest.raises(ValueError, match="warmup=0 leaves NUTS no iterations to adapt in"):
        check_options("nuts", {}, warmup=0)
    check_options("optimize", {"iter": 500, "history_size": 9, "jacobian": True}, warmup=0)
    check_options("exact", {})


@pytest.mark.parametrize(
    "options", [{"metric": "dense_e"}, {"warmup": 0, "adapt_engaged": False, "step_size": 0.3}]
)
def test_stan_takes_what_passes(options, rng):
    centres = rng.normal(size=30)
    bags = [rng.normal(centre, 0.5, (8, 1)) for centre in centres]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # too few draws
        run = {"chains": 1, "warmup": 100, "draws": 50, "seed": 1, **options}
        fit = BLR(4).fit(bags, centres, **run)
    assert fit.idata["posterior"]["w"].shape == (1, 50, 4)
    assert np.corrcoef(fit.predict(bags), centres)[0, 1] > 0.8


@pytest.mark.parametrize(
    "method, name, message",
    [
        ("nuts", "random_state", "fit takes no random_state: did you mean 'seed'\\?"),
        ("exact", "random_state", "fit takes no random_state: did you mean 'seed'\\?"),
        ("exact", "adapt_delta", "method='exact' runs no Stan program: leave adapt_delta out"),
        (
            "laplace",
            "adapt_delta",
            "method='laplace' takes no adapt_delta; its options are chains, .*, label_sd$",
        ),
    ],
)
def test_other_options_are_answered(method, name, message):
    with pytest.raises((TypeError, ValueError), match=f"^{message}"):
        check_options(method, {name: 1})


def test_bounds_of_options_are_excluded_where_stan_excludes_them():
    for value in (0, np.inf, True):
        with pytest.raises((TypeError, ValueError), match="step_size must be a positive number"):
            check_options("nuts", {"step_size": value})
    for value in (0, 1):
        with pytest.raises(ValueError, match="adapt_delta must be a number between 0 and 1"):
            check_options("nuts", {"adapt_delta": value})
    with pytest.raises(ValueError, match="max_treedepth must be an integer >= 1"):
        check_options("nuts", {"max_treedepth": 0})
    for inits in ([], [1], 1):
        with pytest.raises(ValueError, match="inits must be a dict or a list of dicts"):
            check_options("nuts", {"inits": inits})
