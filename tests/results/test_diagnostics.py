"""diagnostics: summaries, convergence of NUTS, Pareto k-hat of approximations."""

import numpy as np
import pytest

from bdr_stan.results.diagnostics import diagnostics, pareto_smoothed, summary
from bdr_stan.results.inference_data import arviz, build, dataset


def test_summary_of_nuts(groups):
    table = summary(build(groups))
    assert list(table.columns) == [
        "mean", "sd", "2.5%", "97.5%", "ess_bulk", "ess_tail", "r_hat"
    ]  # fmt: skip
    assert list(table.index) == ["w[0]", "w[1]", "w[2]", "sigma"]
    draws = groups["posterior"]["w"].values[..., 1].ravel()
    expected = [draws.mean(), draws.std(ddof=1), *np.quantile(draws, [0.025, 0.975])]
    np.testing.assert_allclose(table.loc["w[1]", ["mean", "sd", "2.5%", "97.5%"]], expected)
    assert ((table["ess_bulk"] > 700) & (table["ess_tail"] > 700)).all()
    assert table["r_hat"].between(0.99, 1.02).all()


def test_tails_are_the_lowest_and_highest_5_percent(groups):
    x = groups["posterior"]["sigma"].values
    tails = [float(arviz().ess(x, method="quantile", prob=prob)) for prob in (0.05, 0.95)]
    assert summary(build(groups)).loc["sigma", "ess_tail"] == pytest.approx(min(tails))


def test_summary_selects_variables(groups):
    idata = build(groups)
    assert list(summary(idata, ["sigma"]).index) == ["sigma"]
    with pytest.raises(ValueError, match="posterior has no variable 'tau'; it has w, sigma"):
        summary(idata, ["tau"])
    with pytest.raises(ValueError, match="no posterior variable is left"):
        summary(idata, [])


def test_summary_of_one_draw_claims_no_uncertainty():
    group = dataset(
        {"w": np.ones((1, 1, 2))}, {"w": ["landmark"]}, attrs={"inference_method": "optimize"}
    )
    table = summary(build({"posterior": group}))
    assert table["mean"].tolist() == [1, 1]
    assert list(table.columns) == ["mean"]


def test_r_hat_of_one_chain_is_that_of_its_halves(groups, caplog):
    def of_one_chain(draws):
        one = {"posterior": dataset({"x": draws}, {}, attrs={"inference_method": "nuts"})}
        return summary(build(one)).loc["x", "r_hat"]

    still = groups["posterior"]["sigma"].values[:1]
    moved = still + 5 * still.std() * (np.arange(still.shape[1]) > still.shape[1] / 2)
    assert of_one_chain(still) < 1.05 and of_one_chain(moved) > 1.5
    assert not caplog.records


def test_what_never_varies_has_no_convergence(groups):
    groups["posterior"]["one"] = ("chain", "draw"), np.ones((4, 250))
    table = summary(build(groups))
    assert table.loc["one", ["ess_bulk", "ess_tail", "r_hat"]].isna().all()
    assert diagnostics(build(groups))["max_r_hat_of"] != "one"


def test_diagnostics_of_a_good_sample(groups):
    found = diagnostics(build(groups))
    assert found["method"] == "nuts" and (found["n_chains"], found["n_draws"]) == (4, 250)
    assert found["divergences"] == 0 and found["share_at_max_tree_depth"] == 0
    assert found["mean_n_steps"] == 7 and found["max_tree_depth"] == 5
    # Independent energies: E (e_t - e_{t-1})^2 / var = 2.
    assert found["min_e_bfmi"] == pytest.approx(2, abs=0.3)


def test_diagnostics_find_what_is_worst(groups):
    stats, posterior = groups["sample_stats"], groups["posterior"]
    stats["diverging"][0, :3] = True
    stats["tree_depth"][1, :10] = 5
    stats["energy"][2] = np.linspace(-1, 1, 250)
    posterior["w"][0, :, 2] += 5
    found = diagnostics(build(groups))
    assert found["divergences"] == 3
    assert found["max_r_hat_of"] == found["min_ess_bulk_of"] == "w[2]" and found["max_r_hat"] > 1.5
    assert found["min_e_bfmi"] < 0.001
    assert found["share_at_max_tree_depth"] == 10 / 1000
    posterior.attrs["max_tree_depth"] = 8
    assert diagnostics(build(groups))["share_at_max_tree_depth"] == 0


@pytest.mark.parametrize("method", ["optimize", "laplace", "vb"])
def test_other_methods_have_no_convergence(rng, method):
    attrs, shape = {"inference_method": method}, (1, 5)
    posterior = {"w": rng.normal(size=(*shape, 2))}
    stats = {"lp": rng.normal(size=shape), "log_q": rng.normal(size=shape)}
    groups = {
        "posterior": dataset(posterior, {"w": ["landmark"]}, attrs=attrs),
        "sample_stats": dataset(stats, {}, attrs=attrs),
    }
    assert list(summary(groups).columns) == ["mean", "sd", "2.5%", "97.5%"]
    found = diagnostics(groups)
    assert found["method"] == method and "max_r_hat" not in found
    assert np.isnan(found.get("pareto_k", np.nan))  # five draws have no tail


@pytest.mark.parametrize("k", [0.2, 0.5, 0.9])
def test_pareto_k_is_the_tail_of_the_ratios(rng, k):
    pareto = k * rng.exponential(size=(20, 4000))  # log of ratios with P(ratio > t) = t^(-1/k)
    assert np.mean([pareto_smoothed(row)[1] for row in pareto]) == pytest.approx(k, abs=0.05)


def test_pareto_smoothed_weights_give_the_target(rng):
    x = rng.normal(scale=0.8, size=40_000)
    log_ratios = (x / 0.8) ** 2 / 2 - x**2 / 2  # of a standard normal to that of sd 0.8
    weights, k = pareto_smoothed(log_ratios + 1e3)  # constants do not matter
    assert weights.sum() == pytest.approx(1) and k < 0.7
    assert weights @ x**2 == pytest.approx(1, abs=0.05)
    log_ratios[:3] = np.nan, -np.inf, -np.inf
    weights, again = pareto_smoothed(log_ratios)
    assert (weights[:3] == 0).all() and again == pytest.approx(k, abs=0.05)


def test_no_tail_no_k():
    for log_ratios in (np.arange(24.0), np.ones(100)):
        weights, k = pareto_smoothed(log_ratios)
        assert np.isnan(k) and weights.sum() == pytest.approx(1)
    np.testing.assert_allclose(pareto_smoothed(np.log([1.0, 3.0]))[0], [0.25, 0.75])


def approximation(rng, k):
    attrs = {"inference_method": "laplace"}
    stats = {"lp": 7 + k * rng.exponential(size=(1, 1000)), "log_q": np.full((1, 1000), 2.0)}
    posterior = dataset({"sigma": rng.gamma(9, size=(1, 1000))}, {}, attrs=attrs)
    return build({"posterior": posterior, "sample_stats": dataset(stats, {})})


def test_pareto_k_of_laplace_comes_from_its_draws(rng):
    good = diagnostics(approximation(rng, 0.3))
    assert good["pareto_k"] < 0.6 and good["n_draws"] == 1000
    assert diagnostics(approximation(rng, 1.2))["pareto_k"] > 0.9
