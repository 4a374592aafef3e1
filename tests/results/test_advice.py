"""advice: what is said of a sample, and each advice tried: the trouble is produced and lessened."""

from pathlib import Path

import arviz as az
import numpy as np
import pytest
from sklearn.base import clone

from bdr_stan import BDR, BLR
from bdr_stan.posterior import sampling
from bdr_stan.posterior.model import StanInput
from bdr_stan.posterior.settings import SamplerSettings
from bdr_stan.results.advice import checks, report, sampling_warnings
from bdr_stan.results.diagnostics import diagnostics
from bdr_stan.results.inference_data import build, dataset

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # the troubles are wanted
WIDE_SCALE = Path(__file__).parents[1] / "stan" / "wide_scale.stan"
NARROW = {"eta_log_sd": 0.7, "rho_log_sd": 0.5}
WIDE = {"eta_log_sd": 2.0}  # that of rho is 1.5
BETWEEN = {"eta_log_sd": 1.2}
SEEDS = range(5)  # of fits over which numbers that vary much between chains are averaged

GOOD = {
    "method": "nuts",
    "n_chains": 4,
    "n_draws": 250,
    "divergences": 0,
    "max_r_hat": 1.004,
    "max_r_hat_of": "w[2]",
    "min_ess_bulk": 820.0,
    "min_ess_bulk_of": "sigma",
    "min_ess_tail": 640.0,
    "min_ess_tail_of": "w[0]",
    "min_e_bfmi": 0.9,
    "share_at_max_tree_depth": 0.0,
    "max_tree_depth": 5,
    "mean_n_steps": 7.0,
}


# ---------------------------------------------------------------- what is said


def test_good_sample_gives_no_warning():
    assert sampling_warnings(GOOD) == []
    assert [check.bad for check in checks(GOOD)] == [False] * 6


def test_each_trouble_gives_its_sentence():
    bad = {"divergences": 3, "max_r_hat": 1.6, "min_ess_bulk": 7.0, "min_ess_bulk_of": "w[2]"}
    bad |= {"min_e_bfmi": 0.001, "share_at_max_tree_depth": 0.01}
    said = " ".join(sampling_warnings(GOOD | bad))
    for part in [
        "3 of 1000 transitions diverged",
        "Raise adapt_delta",
        "R-hat of the weights is 1.600",
        "predictions from each, do not agree yet",
        "Raise warmup and draws",
        "bulk effective sample size of the weights is 7",
        "at least 400 is good",
        "E-BFMI of a chain is 0.00",
        "1.0% of the transitions stopped at the largest tree depth 5",
    ]:
        assert part in said, part


def test_entries_of_vectors_are_reported_together():
    bad = {"max_r_hat": 1.2, "max_r_hat_of": "effect[12]"}
    (said,) = sampling_warnings(GOOD | bad)
    assert said.startswith("R-hat of the bags' effects is 1.200")
    for element in ("w[12]", "beta[3]", "effect[12]"):
        assert element not in report(GOOD | {"max_r_hat_of": element})
    assert "1.004 of eta[2] " in report(GOOD | {"max_r_hat_of": "eta[2]"})  # of a user's program


def test_r_hat_may_be_as_large_as_chance_makes_it(rng):
    """Converged chains with half as many independent draws: one of 10,000 is above the limit."""
    for n_chains, n_draws in [(2, 400), (4, 1000)]:
        ends = {"n_chains": n_chains, "n_draws": n_draws}
        independent = rng.normal(size=(1000, n_chains, n_draws // 2))
        r_hat = [az.rhat(draws, method="rank") for draws in independent]
        said = [sampling_warnings(GOOD | ends | {"max_r_hat": value}) for value in r_hat]
        assert np.mean([len(lines) > 0 for lines in said]) < 0.002
        assert sampling_warnings(GOOD | ends | {"max_r_hat": 1.05})
    assert not sampling_warnings(GOOD | {"n_draws": 2000, "max_r_hat": 1.0099})
    assert sampling_warnings(GOOD | {"n_draws": 2000, "max_r_hat": 1.0101})


def test_few_bags_are_part_of_the_advice():
    with pytest.warns(UserWarning, match="The fit has 5 labelled bags: so few hardly"):
        BLR(2).fit([np.arange(4.0)[:, None] + k for k in range(5)], np.arange(5.0), seed=1, draws=9)


def test_a_short_run_is_labelled_as_exploratory_and_no_more():
    few = GOOD | {"n_draws": 100, "max_r_hat": 1.3, "min_ess_bulk": 20.0, "min_ess_tail": 15.0}
    (said,) = sampling_warnings(few)
    assert said.startswith("4 chains of 100 draws are too few to assess convergence")
    assert "at least draws=200" in said and "R-hat" not in report(few)
    assert len(sampling_warnings(few | {"divergences": 1})) == 2
    assert len(sampling_warnings(few | {"n_draws": 200})) == 3


def test_report_says_value_good_value_and_verdict():
    lines = report(GOOD).splitlines()
    assert lines[0] == "NUTS: 4 chains x 250 draws, 7.0 leapfrog steps per draw"
    assert [line.split()[-1] for line in lines[1:]] == ["ok"] * 6
    assert "bulk ESS     820 of sigma" in lines[3] and "(good: >= 400" in lines[3]

    lines = report(GOOD | {"divergences": 3, "min_e_bfmi": np.nan}).splitlines()
    assert lines[1].split()[:2] == ["divergences", "3"]
    assert "  Raise adapt_delta (0.95, then 0.99); if some remain, narrow the" in lines[1]
    assert lines[5].split()[:2] == ["E-BFMI", "unknown"] and lines[5].endswith(")")


@pytest.mark.parametrize(
    "method, says",
    [
        ("optimize", "The posterior mode, a single point"),
        ("exact", "Independent draws from the exact posterior"),
        ("variational", "There are no diagnostics of method 'variational'."),
    ],
)
def test_report_of_what_has_no_checks_is_one_line(method, says):
    said = report({"method": method})
    assert said.startswith(says) and "\n" not in said
    assert sampling_warnings({"method": method}) == []


def test_report_of_an_approximation_is_its_pareto_k():
    good = {"method": "laplace", "n_draws": 1000, "pareto_k": 0.31}
    assert sampling_warnings(good) == []
    assert report(good) == (
        "Laplace: 1000 draws of an approximation\n  Pareto k-hat  0.31  (good: <= 0.7)  ok"
    )
    bad = good | {"pareto_k": 1.2}
    (said,) = sampling_warnings(bad)
    assert said.startswith(
        "Pareto k-hat of the laplace approximation is 1.20 (at most 0.7 is good)"
    )
    assert said.endswith('Use method="nuts".')
    assert report(bad).endswith('  Pareto k-hat  1.20  (good: <= 0.7)  Use method="nuts".')
    unknown = good | {"pareto_k": np.nan}
    assert sampling_warnings(unknown) == []
    assert report(unknown).splitlines()[1].split() == [
        "Pareto", "k-hat", "unknown", "(good:", "<=", "0.7)"
    ]  # fmt: skip


# ---------------------------------------------------------------- what is advised, tried


def bags_without_noise(n_bags, size):
    """Bags around their labels: the labels have no noise, the embeddings all of it."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=n_bags)
    return [rng.normal(0, 0.3, (size, 2)) + np.array([label, 0]) for label in y], y


def measured(prior=None, n_bags=12, size=30, **run):
    """Diagnostics of BDR with more landmarks than bags."""
    run = {"chains": 4, "warmup": 500, "draws": 500, "seed": 3, **run}
    return BDR(20, prior=prior).fit(*bags_without_noise(n_bags, size), **run).diagnostics()


@pytest.fixture(scope="module")
def wide():
    return measured(WIDE, seed=4)


@pytest.fixture(scope="module")
def narrow():
    return measured(NARROW)


def advice(found, trouble):
    """The one warning that names the trouble."""
    (said,) = [text for text in sampling_warnings(found) if trouble in text]
    return said


# ---------------------------------------------------------------- NUTS


@pytest.mark.slow
def test_divergences_go_with_adapt_delta_or_narrow_priors(wide, narrow):
    said = advice(wide, "transitions diverged")
    assert "Raise adapt_delta (0.95, then 0.99)" in said and "rho_log_sd" in said
    assert narrow["divergences"] <= 2
    # Under the widest priors a chain that is stuck has dozens by chance, whatever adapt_delta is.
    careless, careful = (
        sum(measured(BETWEEN, seed=s, adapt_delta=a)["divergences"] for s in (4, 5))
        for a in (0.5, 0.99)
    )
    assert careful < careless / 5


@pytest.mark.slow
def test_short_chains_agree_when_they_are_longer(narrow):
    short = measured(NARROW, warmup=50, draws=25)
    assert short["max_r_hat"] > 1.03
    assert "Use at least draws=200" in advice(short, "too few to assess convergence")
    assert narrow["max_r_hat"] < 1.02


@pytest.mark.slow
def test_effective_sample_sizes_grow_with_the_draws():
    # Of trees that are too shallow, 200 draws have too few effective ones under any seed.
    few, many = (measured(NARROW, draws=n, max_treedepth=2) for n in (200, 3000))
    assert few["min_ess_tail"] < 400
    assert "Raise draws" in advice(few, "tail effective sample size")
    for part in ("bulk", "tail"):
        assert many[f"min_ess_{part}"] > 1.5 * few[f"min_ess_{part}"]
        assert many[f"min_ess_{part}"] > 400


@pytest.mark.slow
def test_trees_end_by_themselves_when_they_may_be_deeper(narrow):
    shallow = measured(NARROW, max_treedepth=2)
    assert shallow["share_at_max_tree_depth"] > 0.9
    assert "Raise max_treedepth" in advice(shallow, "largest tree depth 2")
    assert narrow["share_at_max_tree_depth"] == 0
    assert narrow["min_ess_bulk"] > shallow["min_ess_bulk"]


@pytest.mark.slow
def test_trees_end_earlier_under_narrow_priors():
    wide, narrow = (
        [measured(prior, seed=s, max_treedepth=4, warmup=300, draws=200) for s in SEEDS]
        for prior in (WIDE, NARROW)
    )
    assert "narrow the priors of the scales" in advice(wide[0], "largest tree depth 4")
    for name, less, more in (
        ("share_at_max_tree_depth", narrow, wide),
        ("min_ess_bulk", wide, narrow),
    ):
        assert sum(found[name] for found in less) < sum(found[name] for found in more)


def run_wide_scale(method, K, log_sd, in_units, warmup=500, draws=1000, seed=1):
    """Draws, sample_stats and diagnostics of the test program; the truth is known."""
    rng = np.random.default_rng(seed)
    stan_input = StanInput(
        {"K": K, "log_sd": log_sd, "in_units": int(in_units)},
        [{"scale": rng.uniform(0.5, 2), "t": rng.normal(size=K)} for _ in range(4)],
    )
    settings = SamplerSettings(method, 4, warmup, draws, seed, progress=False, engine="stanli")
    draws_, stats, attrs = sampling.run(WIDE_SCALE, stan_input, settings)
    posterior = dataset(draws_, {"x": ["k"], "t": ["k"]}, attrs=attrs)
    found = diagnostics(build({"posterior": posterior, "sample_stats": dataset(stats, {})}))
    return draws_, stats, found


def mean_k():
    """Average of Pareto k-hat in a funnel over runs; that of one has an sd of 0.2."""
    found = [run_wide_scale("laplace", 10, 1.0, in_units=False, seed=s)[2] for s in range(8)]
    return np.mean([each["pareto_k"] for each in found])


@pytest.mark.slow
def test_energy_changes_faster_under_narrow_priors_or_in_units_of_the_scale():
    wide = run_wide_scale("nuts", 10, 1.0, in_units=False)[2]
    assert wide["min_e_bfmi"] < 0.2
    said = advice(wide, "E-BFMI")
    assert "Narrow the priors of the scales" in said and "non-centred parametrisation" in said
    # the advice does not speak of warmup, because that does not help
    assert run_wide_scale("nuts", 10, 1.0, in_units=False, warmup=4000)[2]["min_e_bfmi"] < 0.3
    assert run_wide_scale("nuts", 10, 0.2, in_units=False)[2]["min_e_bfmi"] > 0.5
    assert run_wide_scale("nuts", 10, 1.0, in_units=True)[2]["min_e_bfmi"] > 0.7


# ---------------------------------------------------------------- approximations


@pytest.mark.slow
def test_where_an_approximation_is_far_off_nuts_is_not():
    data = bags_without_noise(60, 3)
    model = BDR(20, kernel="rbf", method="laplace", prior=WIDE)
    fits = [clone(model).fit(*data, seed=seed) for seed in range(8)]
    k = np.mean([fit.diagnostics()["pareto_k"] for fit in fits])
    assert k > 0.7
    assert 'Use method="nuts"' in advice(fits[0].diagnostics() | {"pareto_k": k}, "Pareto k-hat")
    nuts = BDR(20, kernel="rbf", prior=WIDE)
    nuts.fit(*data, warmup=500, draws=1000, adapt_delta=0.95, seed=1)
    assert nuts.diagnostics()["max_r_hat"] < 1.05
    # Laplace is about the joint mode, where eta is far larger than its posterior.
    *eta, true = (np.log(fit.idata.posterior["eta"].values) for fit in (*fits, nuts))
    assert np.mean([np.quantile(e, 0.05) for e in eta]) > np.median(true)


@pytest.mark.slow
def test_laplace_of_blr_is_close_and_said_to_be():
    data = bags_without_noise(200, 30)
    fits = [BLR(5, method="laplace").fit(*data, seed=seed).diagnostics() for seed in range(4)]
    k = np.mean([found["pareto_k"] for found in fits])
    assert k < 0.7 and sampling_warnings(fits[0] | {"pareto_k": k}) == []


@pytest.mark.slow
def test_laplace_densities_are_on_the_unconstrained_scale():
    # normal in (log scale, t): Laplace is exact, the ratio constant, if both have the Jacobian
    draws, stats, _ = run_wide_scale("laplace", 3, 0.8, in_units=True)
    assert np.std(stats["lp"] - stats["log_q"]) < 1e-6
    assert np.std(np.log(draws["scale"])) == pytest.approx(0.8, abs=0.1)
    assert mean_k() > 0.7
