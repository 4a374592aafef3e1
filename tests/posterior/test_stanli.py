"""stanli: densities and draws are those of CmdStan; options, messages and edited programs."""

import sys
import tomllib
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from builders import reference
from builders.training import labelled_bags

from bdr_stan import BDR, BLR
from bdr_stan.cmdstan.programs import ProgramError, eject, program_names
from bdr_stan.embedding.mean_embedding import embed
from bdr_stan.extras import STANLI_VERSION
from bdr_stan.kernels import RBF, LandmarkFeatures
from bdr_stan.labels import Labels
from bdr_stan.models.bdr import BLRModel
from bdr_stan.posterior.model import StanInput
from bdr_stan.posterior.sampling import run, sample_posterior
from bdr_stan.posterior.settings import SamplerSettings
from bdr_stan.posterior.stanli import constrained, load
from benchmarks import engines

program_of = cache(engines.program_of)
SHORT = {"chains": 2, "warmup": 100, "draws": 60, "seed": 1, "engine": "stanli"}
# All but the first model of each program are tested slowly.
FIRST = {
    *("BLR", "BDR, terms", "BDR, Poisson", "BDRClassifier", "BLRClassifier"),
    *("InverseBDR", "counts, square link", "counts, exp link, effects"),
    *("binomial totals, effects", "normal totals, coefficients", "counts and surveys"),
}
SHAPES = """
data {
  int<lower=1> N;
}
parameters {
  matrix[2, N] a, c;  // a parameter; and "another }"
  array[2] vector<lower=0>[N] b;
  vector[N - 3] none;
  cholesky_factor_corr[2] L;
}
transformed parameters {
  real total = sum(a);
}
model {
  to_vector(a) ~ normal(0, 1);
  to_vector(c) ~ normal(0, 1);
  for (k in 1 : 2) {
    b[k] ~ exponential(1);
  }
  L ~ lkj_corr_cholesky(2);
}
generated quantities {
  real z = normal_rng(0, 1);
}
"""
SCALE = """
data {
  int<lower=0> N;
}
parameters {
  real<lower=0> s;
}
model {
  s ~ gamma(3, 2);
}
"""


@pytest.fixture
def model(rng):
    bags, y = labelled_bags(rng)
    return BLRModel(embed(bags, LandmarkFeatures(RBF(1.5), rng.normal(size=(3, 3)))), Labels(y))


@pytest.fixture
def program(tmp_path):
    """Writes a program; its path."""

    def write(text):
        path = tmp_path / "own.stan"
        path.write_text(text)
        return path

    return write


def on_stanli(program, data, inits, method="nuts", **settings):
    settings = SamplerSettings(method, progress=False, **{**SHORT, **settings})
    return run(program, StanInput(data, inits), settings)


# ---------------------------------------------------------------- the same as by CmdStan


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n not in FIRST)) for n in engines.MODELS]
)
def test_density_and_gradient_are_those_of_cmdstan(name):
    program, stan_input = program_of(name)
    assert max(engines.differences(program, stan_input.data, n_points=4)[1:]) < 1e-11


def test_counts_of_any_size_are_those_of_cmdstan():
    program, stan_input = program_of("counts, square link")
    y = stan_input.data["y"].copy()
    y[:4] = 0, 1, 2**30, 2**31 - 1
    assert max(engines.differences(program, stan_input.data | {"y": y}, n_points=2)[1:]) < 1e-11


def test_every_program_is_compared():
    assert set(engines.MODELS) >= FIRST and len(FIRST) == len(program_names())
    assert {program_of(name)[0] for name in FIRST} == set(program_names())


def test_posterior_is_that_of_cmdstan(rng):
    bags, y = labelled_bags(rng)
    names = ["w", "intercept", "sigma", "rho", "eta"]
    found = []
    for engine in ("stanli", "cmdstan"):
        fit = BDR(4, kernel="rbf", engine=engine)
        fit = fit.fit(bags, y, seed=1, warmup=500, draws=1500)
        posterior = fit.idata["posterior"]
        assert posterior.attrs.get("engine") == ("stanli 0.24.0" if engine == "stanli" else None)
        found.append(fit)
    draws = [
        reference.columns({n: fit.idata["posterior"][n].values for n in names}, names)[0]
        for fit in found
    ]
    labels = [f"{name}" for name in (*(f"w[{k}]" for k in range(4)), *names[1:])]
    reference.assert_same_moments(*draws, labels)
    one, other = (fit.idata for fit in found)
    for group in ("posterior", "sample_stats", "log_likelihood", "posterior_predictive"):
        assert set(one[group].data_vars) == set(other[group].data_vars), group
        assert {n: v.dims for n, v in one[group].data_vars.items()} == {
            n: v.dims for n, v in other[group].data_vars.items()
        }
        assert {n: v.dtype for n, v in one[group].data_vars.items()} == {
            n: v.dtype for n, v in other[group].data_vars.items()
        }
    assert set(found[0].diagnostics()) == set(found[1].diagnostics())


@pytest.mark.parametrize("jacobian", [False, True])
def test_mode_is_that_of_cmdstan(model, jacobian):
    modes = [
        sample_posterior(
            model,
            SamplerSettings("optimize", seed=1, engine=e, options={"jacobian": jacobian}),
        )
        for e in ("stanli", "cmdstan")
    ]
    for name, values in modes[0].draws.items():
        assert values.shape[:2] == (1, 1)
        np.testing.assert_allclose(values, modes[1].draws[name], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(modes[0].stats["lp"], modes[1].stats["lp"], rtol=1e-6)


def test_mode_without_the_jacobian_in_closed_form(program):
    """A gamma(3, 2) density is highest at 1, that of its logarithm at 1.5."""
    path = program(SCALE)
    for jacobian, mode in ((False, 1.0), (True, 1.5)):
        draws, _, _ = on_stanli(path, {"N": 0}, [{"s": 4.0}], "optimize", options={
            "jacobian": jacobian
        })  # fmt: skip
        np.testing.assert_allclose(draws["s"], mode, rtol=1e-6)


def test_laplace_draws_are_those_of_cmdstan(model):
    names = ["w", "intercept", "sigma"]
    drawn, k_hat = [], []
    for engine in ("stanli", "cmdstan"):
        posterior = sample_posterior(
            model, SamplerSettings("laplace", draws=4000, seed=2, engine=engine)
        )
        drawn.append(reference.columns({n: posterior.draws[n] for n in names}, names)[0])
        ratio = posterior.stats["lp"] - posterior.stats["log_q"]
        k_hat.append(np.std(ratio))
    labels = reference.columns({n: posterior.draws[n] for n in names}, names)[1]
    reference.assert_same_moments(*drawn, labels)
    np.testing.assert_allclose(*k_hat, rtol=0.3)


def test_laplace_in_closed_form(program):
    """log(s) has the mode log(3/2) and there the second derivative -3."""
    draws, stats, _ = on_stanli(
        program(SCALE), {"N": 0}, [{"s": 1.0}], "laplace", draws=2000, seed=3
    )
    z = (np.log(draws["s"][0]) - np.log(1.5)) * np.sqrt(3)
    assert abs(z.mean()) < 0.1 and abs(z.std() - 1) < 0.08
    np.testing.assert_allclose(stats["log_q"][0], -0.5 * z**2, atol=1e-5)


# ---------------------------------------------------------------- settings


def test_draws_come_from_the_seed(model):
    one, same, other = (
        sample_posterior(model, SamplerSettings(**{**SHORT, "seed": seed})).draws["w"]
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


def test_options_reach_stanli(model):
    options = {"max_treedepth": 1, "thin": 3, "metric": "dense_e", "adapt_delta": 0.6}
    posterior = sample_posterior(model, SamplerSettings(**SHORT, options=options))
    assert posterior.draws["rho"].shape == (2, 20)
    assert posterior.stats["tree_depth"].max() == 1
    assert posterior.attrs["max_tree_depth"] == 1


def test_poor_diagnostics_are_warned_of(rng):
    bags, y = labelled_bags(rng)
    fit = BLR(4, engine="stanli")
    with warnings.catch_warnings(record=True) as warned:
        fit.fit(bags, y, seed=1, chains=2, draws=200, warmup=100, max_treedepth=1)
    assert any("tree depth" in str(each.message) for each in warned)
    assert any("R-hat" in str(each.message) for each in warned)
    assert fit.diagnostics()["share_at_max_tree_depth"] > 0.5


def test_initial_values_keep_their_shapes(program):
    """Without adaptation a first step of no length returns them; what lacks is drawn."""
    init = {
        "a": np.arange(1, 7.0).reshape(2, 3),
        "c": (np.arange(1, 7.0).reshape(2, 3) / 2).tolist(),
        "b": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]],
        "unknown": 3.0,
    }
    still = {"adapt_engaged": False, "step_size": 1e-300, "max_treedepth": 1}
    draws, _, _ = on_stanli(
        program(SHAPES), {"N": 3}, [init], chains=1, warmup=0, draws=1, options=still
    )
    for name in "acb":
        np.testing.assert_allclose(draws[name][0, 0], init[name], rtol=1e-12)
    assert draws["L"].shape == (1, 1, 2, 2) and 0 < abs(draws["L"][0, 0, 1, 0]) < 1
    assert draws["total"][0, 0] == 21 and draws["z"].shape == (1, 1)
    assert "none" not in draws


def test_variables_at_points_are_those_of_the_points(program):
    model = load(program(SHAPES), {"N": 4})
    points = np.random.default_rng(2).normal(size=(3, model.n_unconstrained))
    drawn, lp = constrained(model, points)
    assert drawn["a"].shape == (1, 3, 2, 4) and drawn["b"].shape == (1, 3, 2, 4)
    np.testing.assert_allclose(drawn["a"][0, :, 0, 1], points[:, 2])  # columns first
    np.testing.assert_allclose(np.log(drawn["b"][0, :, 0]), points[:, 16:20])  # vector by vector
    np.testing.assert_allclose(lp[0], [model.log_prob_grad(q)[0] for q in points])


def test_jacobian_alone(program):
    path = program(SCALE)
    whole, alone = load(path, {"N": 0}), load(path, {"N": 0}, only_jacobian=True)
    assert alone.log_prob_grad([0.7])[0] == pytest.approx(0.7)  # that of s = exp(0.7)
    density = whole.log_prob_grad([0.7])[0] - whole.log_prob_grad([0.0])[0]
    assert density == pytest.approx(3 * 0.7 - 2 * (np.exp(0.7) - 1))


@pytest.mark.parametrize("name", ["bdr", "blr"])
def test_edited_program_runs_without_a_compiler(name, rng, tmp_path, monkeypatch):
    monkeypatch.setenv("BDR_STAN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CXX", "no-such-compiler")
    bags, y = labelled_bags(rng)
    path = tmp_path / "own" / "student.stan"
    eject(name, path)
    cls = {"bdr": BDR, "blr": BLR}[name]
    fit = cls(4, stan_file=path, engine="stanli", compress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # few draws
        fit.fit(bags, y, chains=2, warmup=100, draws=50, seed=1)
    assert fit.idata["log_likelihood"]["y"].shape == (2, 50, len(y))
    assert np.isfinite(fit.idata["log_likelihood"]["y"].values).all()


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize("method", ["nuts", "optimize", "laplace"])
def test_stan_says_why_it_fails(model, method):
    data = model.stan_input(SamplerSettings()).data | {"sigma_scale": -1.0}
    message = f"^Stan's {method} of blr failed: .*sigma_scale is -1, but must be greater than or eq"
    with pytest.raises(RuntimeError, match=message):
        on_stanli("blr", data, [{"t": np.zeros(4), "sigma": 1.0, "rho": 1.0}], method)


@pytest.mark.parametrize(
    "name, change, message",
    [
        ("BLR", lambda d: {"rho_median": 0.0}, "rho_median and rho_log_sd must be > 0, found"),
        ("BDR, terms", lambda d: {"gamma_unit": [[0.0]]}, r"gamma_unit\[1, 1\] must be > 0, found"),
        (
            "BDR, terms",
            lambda d: {"prior_factor": d["prior_factor"] * (np.arange(6) != 1)},
            "column 2 of prior_factor must hold finite numbers, not all of them 0",
        ),
        ("BDR, Poisson", lambda d: {"family": 13}, "family must be a number from 1 to 12, found"),
        ("counts, square link", lambda d: {"likelihood": 5}, "likelihood must be a number from 1"),
        (
            "counts, square link",
            lambda d: {"y": d["y"] + 0.5},
            r"y\[1\] must be a whole number up to 2147483647, as counts are, found",
        ),
        (
            "counts, exp link, effects",
            lambda d: {"use_likelihood": 0},
            "effect_information must be 0 where use_likelihood = 0",
        ),
        (
            "counts, exp link, effects",
            lambda d: {"start": d["start"] + 1},
            r"start\[1\] must be 1, the first row that no bag",
        ),
    ],
)
def test_rejections_of_the_programs_are_told(name, change, message):
    program, stan_input = program_of(name)
    data = stan_input.data | change(stan_input.data)
    with pytest.raises(RuntimeError, match=f"failed: .*{message}"):
        on_stanli(program, data, stan_input.inits[:1])


@pytest.mark.parametrize(
    "text, error, message",
    [
        ("parameters { real m } model { }", ProgramError, "own.stan is not a valid Stan program"),
        (
            "functions { void f(real x) { print(x); } } transformed data { f(1.0); } "
            "parameters { real m; } model { m ~ normal(0, 1); }",
            RuntimeError,
            "unsupported .*; engine='cmdstan' takes all of Stan$",
        ),
        (
            'parameters { real m; } model { reject("never at ", m); }',
            RuntimeError,
            "failed: initialization failed: .*never at",
        ),
    ],
)
def test_programs_that_stanli_does_not_run(program, text, error, message):
    with pytest.raises(error, match=message):
        on_stanli(program(text), {}, [{"m": 0.0}])


def test_initial_values_that_do_not_fit_are_refused(program):
    path = program(SCALE)
    with pytest.raises(RuntimeError, match="failed: 3 initial values for 2 chains"):
        on_stanli(path, {"N": 0}, 3 * [{"s": 1.0}])
    with pytest.raises(RuntimeError, match="failed: .*s"):
        on_stanli(path, {"N": 0}, [{"s": -1.0}])


def test_a_mode_that_is_not_found_is_an_error(program):
    with pytest.raises(RuntimeError, match="no mode was found in 1 iterations: set iter to more"):
        on_stanli(program(SCALE), {"N": 0}, [{"s": 50.0}], "optimize", options={"iter": 1})


def test_flat_density_has_no_laplace_approximation(program):
    text = "parameters { real m; } model { target += 0 * m; }"
    with pytest.raises(RuntimeError, match="no curvature downwards at its mode"):
        on_stanli(program(text), {}, [{"m": 0.0}], "laplace")


@pytest.mark.parametrize(
    "params, options, error, message",
    [
        ({"engine": "stan"}, {}, ValueError, "engine must be None, 'cmdstan' or 'stanli', found"),
        (
            {"engine": "stanli", "method": "exact"},
            {},
            ValueError,
            "method='exact' runs no Stan program: leave engine out",
        ),
        (
            {"engine": "stanli"},
            {"inits": 2},
            ValueError,
            "inits must be a dict or a list of dicts, found 2",
        ),
    ],
)
def test_settings_that_stanli_does_not_take(rng, params, options, error, message):
    bags, y = labelled_bags(rng)
    with pytest.raises(error, match=message):
        BLR(4, **params).fit(bags, y, **options)


def test_another_thread_is_refused_instead_of_a_crash(rng):
    bags, y = labelled_bags(rng)
    message = "stanli runs only in the main thread: use processes instead of threads, or engine="
    calls = [
        lambda: BLR(4, engine="stanli").fit(bags, y),
        lambda: load("blr", {}),
    ]
    with ThreadPoolExecutor(1) as pool:
        for call in calls:
            with pytest.raises(RuntimeError, match=message):
                pool.submit(call).result()


def test_missing_or_other_stanli_is_told_before_any_work(rng, monkeypatch):
    bags, y = labelled_bags(rng)
    monkeypatch.setattr("bdr_stan.extras.stanli_version", lambda: "9.9")
    with pytest.raises(ImportError, match="needs stanli 0.24.0, found 9.9, which is not tested"):
        BLR(4, engine="stanli").fit(bags, y)
    monkeypatch.setitem(sys.modules, "stanli", None)
    message = r"engine='stanli' needs stanli, .* pip install 'bdr-stan\[stanli\]'"
    with pytest.raises(ImportError, match=message):
        BLR(4, engine="stanli").fit(bags, y)


def test_the_extra_has_the_version_that_is_tested():
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    extras = tomllib.loads(text)["project"]["optional-dependencies"]
    assert extras["stanli"] == [f"stanli =={STANLI_VERSION}"]
