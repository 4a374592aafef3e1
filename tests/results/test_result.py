"""result: how a fit was made, as it keeps it."""

import platform

import numpy as np

from bdr_stan import BLR, __version__, load
from bdr_stan.cmdstan.programs import program_path
from bdr_stan.posterior.settings import SamplerSettings
from bdr_stan.results.result import run_settings


def test_plain_arguments_and_versions_are_kept(tmp_path):
    bags = [np.array([[x], [x + 1]]) for x in range(6)]
    model = BLR(2, method="exact").fit(bags, np.arange(6.0), draws=30, seed=4)
    model.save(tmp_path / "fit.nc")
    run = load(tmp_path / "fit.nc").result_.settings["run"]
    assert run["arguments"] == {"chains": 4, "warmup": 300, "draws": 30, "seed": 4}
    assert run["versions"]["bdr_stan"] == __version__
    assert run["versions"]["Python"] == platform.python_version()
    assert run["versions"]["numpy"] == np.__version__


def test_a_fit_without_a_seed_keeps_the_one_that_was_drawn(rng):
    bags, y = [rng.normal(size=(4, 1)) for _ in range(12)], rng.normal(size=12)
    model = BLR(4, method="exact").fit(bags, y, draws=30)
    seed = model.result_.settings["run"]["arguments"]["seed"]
    assert BLR(4, method="exact").fit(bags, y, draws=30).result_.draws("w").tolist() != (
        model.result_.draws("w").tolist()
    )
    again = BLR(4, method="exact").fit(bags, y, draws=30, seed=seed)
    np.testing.assert_array_equal(again.result_.draws("w"), model.result_.draws("w"))


def test_warmup_is_longer_for_a_program_of_ones_own(tmp_path):
    bags = [np.array([[x], [x + 1]]) for x in range(6)]
    own = tmp_path / "blr.stan"
    own.write_text(program_path("blr").read_text())  # whose executable is there already
    model = BLR(2, stan_file=own, method="optimize")
    for given, expected in [({}, 1000), ({"warmup": 50}, 50)]:
        model.fit(bags, np.arange(6.0), seed=4, **given)
        assert model.result_.settings["run"]["arguments"]["warmup"] == expected


def test_what_no_file_could_hold_is_left_out():
    options = {"inits": object(), "adapt_delta": 0.9}
    run = run_settings(SamplerSettings(chains=2, draws=50, options=options))
    assert run["arguments"] == {"chains": 2, "warmup": 300, "draws": 50, "adapt_delta": 0.9}


def test_another_engine_is_named():
    assert "engine" not in run_settings(SamplerSettings())["versions"]
    assert run_settings(SamplerSettings(), "stanli 0.24.0")["versions"]["engine"] == "stanli 0.24.0"
