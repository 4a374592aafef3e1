"""inference_data: draws of every CmdStan method, files across ArviZ versions, diagnostics.

Stan's CSV files are written by hand here, so nothing is compiled.
"""

import json

import cmdstanpy
import numpy as np
import pytest
import xarray as xr

from bdr_stan.results import inference_data
from bdr_stan.results.inference_data import (
    build,
    dataset,
    diagnostics,
    fit_attrs,
    groups_from_fit,
    groups_of,
    load,
    pareto_smoothed,
    report,
    sample_stats,
    sampling_warnings,
    save,
    stan_draws,
    summary,
)

arviz = inference_data._arviz()
VERSION_1 = not arviz.__version__.startswith("0.")
N_CHAINS, N_DRAWS, N_BAGS, N_LANDMARKS = 4, 250, 12, 3
DIMS = {"w": ["landmark"], "y": ["bag"], "embedding": ["bag", "landmark"]}
COORDS = {"landmark": range(N_LANDMARKS), "bag": [f"county {i}" for i in range(N_BAGS)]}
NUTS_COLUMNS = "lp__,accept_stat__,stepsize__,treedepth__,n_leapfrog__,divergent__,energy__"
VARIABLES = "a,w.1,w.2,m.1.1,m.2.1,m.1.2,m.2.2"


def nuts_groups(rng):
    shape = (N_CHAINS, N_DRAWS)
    attrs = {"inference_method": "nuts", "max_tree_depth": 5}
    posterior = {"w": rng.normal(size=(*shape, N_LANDMARKS)), "sigma": rng.gamma(9, size=shape)}
    stats = {
        "lp": rng.normal(size=shape),
        "energy": rng.normal(size=shape),
        "diverging": np.zeros(shape, dtype=bool),
        "tree_depth": np.full(shape, 3),
        "n_steps": np.full(shape, 7),
    }
    of_bags = (*shape, N_BAGS)
    return {
        "posterior": dataset(posterior, DIMS, COORDS, attrs=attrs),
        "sample_stats": dataset(stats, {}),
        "log_likelihood": dataset({"y": rng.normal(-1, 0.1, size=of_bags)}, DIMS, COORDS),
        "posterior_predictive": dataset({"y": rng.normal(size=of_bags)}, DIMS, COORDS),
        "observed_data": dataset({"y": rng.normal(size=N_BAGS)}, DIMS, COORDS, sample=False),
        "constant_data": dataset(
            {"embedding": rng.normal(size=(N_BAGS, N_LANDMARKS))}, DIMS, COORDS, sample=False
        ),
    }


@pytest.fixture
def groups(rng):
    return nuts_groups(rng)


def write_csv(path, columns, rows, **config):
    config = {
        "stan_version_major": 2,
        "stan_version_minor": 35,
        "stan_version_patch": 0,
        "model": "hand_model",
        **config,
    }
    lines = [f"# {key} = {value}" for key, value in config.items()]
    lines.append(columns)
    n_warmup, adaptation, timing = 0, [], []
    if config["method"] == "sample":
        n_warmup = config["num_warmup"] if config["save_warmup"] else 0
        timing = ["# ", "#  Elapsed Time: 0.1 seconds (Warm-up)", "#   0.2 seconds (Sampling)"]
        timing += ["#   0.3 seconds (Total)"]
        adaptation = ["# Adaptation terminated", "# Step size = 0.5"]
        adaptation += ["# Diagonal elements of inverse mass matrix:", "# 1, 1, 1, 1, 1, 1, 1"]
    elif config["method"] == "variational":
        adaptation = ["# Stepsize adaptation complete.", "# eta = 1"]
    text = [",".join(repr(float(v)) for v in row) for row in rows]
    lines += [*text[:n_warmup], *adaptation, *text[n_warmup:], *timing]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def nuts_fit(folder, rng, n_chains=2, n_draws=6, n_warmup=3, save_warmup=1):
    n_rows = n_draws + n_warmup * save_warmup
    tables = [rng.normal(size=(n_rows, 14)) for _ in range(n_chains)]
    files = []
    for chain, table in enumerate(tables, start=1):
        table[:, 3], table[:, 4], table[:, 5] = chain, 2**chain - 1, np.arange(n_rows) % 2
        files.append(
            write_csv(
                folder / f"chain-{chain}.csv",
                f"{NUTS_COLUMNS},{VARIABLES}",
                table,
                method="sample",
                algorithm="hmc",
                metric="diag_e",
                num_samples=n_draws,
                num_warmup=n_warmup,
                save_warmup=save_warmup,
                thin=1,
                max_depth=7,
            )
        )
    return cmdstanpy.from_csv(files), np.stack(tables)[:, n_rows - n_draws :]


@pytest.mark.parametrize("save_warmup", [0, 1])
def test_nuts_draws_have_stan_shapes_and_no_warmup(tmp_path, rng, save_warmup):
    fit, table = nuts_fit(tmp_path, rng, save_warmup=save_warmup)
    draws = stan_draws(fit)
    assert list(draws) == ["a", "w", "m"]
    np.testing.assert_array_equal(draws["a"], table[:, :, 7])
    np.testing.assert_array_equal(draws["w"], table[:, :, 8:10])
    np.testing.assert_array_equal(draws["m"][:, :, 1, 0], table[:, :, 11])  # columns run first
    assert draws["m"].shape == (2, 6, 2, 2)


def test_nuts_sample_stats_have_arviz_names_and_types(tmp_path, rng):
    fit, table = nuts_fit(tmp_path, rng)
    stats = sample_stats(fit)
    assert set(stats) == {
        "lp", "acceptance_rate", "step_size", "tree_depth", "n_steps", "diverging", "energy"
    }  # fmt: skip
    np.testing.assert_array_equal(stats["lp"], table[:, :, 0])
    assert stats["diverging"].dtype == bool
    np.testing.assert_array_equal(stats["diverging"], table[:, :, 5] == 1)
    assert stats["tree_depth"].dtype == stats["n_steps"].dtype == int
    assert fit_attrs(fit) == {"inference_method": "nuts", "max_tree_depth": 7}


def test_draws_outlive_the_csv_files(tmp_path, rng):
    fit, table = nuts_fit(tmp_path, rng)
    groups = groups_from_fit(fit, ["w"], DIMS, {"landmark": ["u0", "u1"]})
    for file in tmp_path.iterdir():
        file.unlink()
    del fit
    assert groups["posterior"]["w"].dims == ("chain", "draw", "landmark")
    assert groups["posterior"].attrs["inference_method"] == "nuts"
    np.testing.assert_array_equal(groups["posterior"]["w"].sel(landmark="u1"), table[:, :, 9])


def mode_fit(folder, rng):
    row = rng.normal(size=(1, 8))
    file = write_csv(
        folder / "mode.csv",
        f"lp__,{VARIABLES}",
        row,
        method="optimize",
        algorithm="lbfgs",
        save_iterations=0,
        jacobian=0,
    )
    return cmdstanpy.from_csv(file), row[None]


def laplace_fit(folder, rng):
    mode_fit(folder, rng)
    table = rng.normal(size=(5, 9))
    file = write_csv(
        folder / "laplace.csv",
        f"log_p__,log_q__,{VARIABLES}",
        table,
        method="laplace",
        mode=folder / "mode.csv",
        draws=5,
        jacobian=1,
    )
    return cmdstanpy.from_csv(file), table[None]


def pathfinder_fit(folder, rng):
    table = rng.normal(size=(5, 9))
    file = write_csv(
        folder / "pathfinder.csv",
        f"lp_approx__,lp__,{VARIABLES}",
        table,
        method="pathfinder",
        num_draws=5,
        num_paths=4,
    )
    return cmdstanpy.from_csv(file), table[None]


def variational_fit(folder, rng):
    table = rng.normal(size=(6, 10))  # the first row is the mean
    file = write_csv(
        folder / "variational.csv",
        f"lp__,log_p__,log_g__,{VARIABLES}",
        table,
        method="variational",
        algorithm="meanfield",
        iter=100,
        grad_samples=1,
        elbo_samples=10,
        eta=1,
        tol_rel_obj=0.01,
        eval_elbo=10,
        output_samples=5,
    )
    return cmdstanpy.from_csv(file), table[None, 1:]


@pytest.mark.parametrize(
    "make, method, lp, log_q",
    [
        (mode_fit, "optimize", 0, None),
        (laplace_fit, "laplace", 0, 1),
        (pathfinder_fit, "pathfinder", 1, 0),
        (variational_fit, "variational", 1, 2),
    ],
)
def test_other_methods_are_one_chain(tmp_path, rng, make, method, lp, log_q):
    fit, table = make(tmp_path, rng)
    draws, stats = stan_draws(fit, ["m", "a"]), sample_stats(fit)
    assert list(draws) == ["m", "a"]
    assert draws["m"].shape == (1, table.shape[1], 2, 2)
    np.testing.assert_array_equal(draws["a"], table[:, :, -7])
    np.testing.assert_array_equal(stats["lp"], table[:, :, lp])
    if log_q is None:
        assert set(stats) == {"lp"}
    else:
        np.testing.assert_array_equal(stats["log_q"], table[:, :, log_q])
    assert fit_attrs(fit) == {"inference_method": method}

    idata = build(groups_from_fit(fit, ["w"], DIMS))
    assert list(summary(idata).columns) == ["mean", "sd", "2.5%", "97.5%"]
    found = diagnostics(idata)
    assert found["method"] == method and "max_r_hat" not in found
    assert np.isnan(found.get("pareto_k", np.nan))  # five draws have no tail
    assert sampling_warnings(found) == []


def test_unknown_stan_variable_and_unknown_fit(tmp_path, rng):
    fit, _ = mode_fit(tmp_path, rng)
    with pytest.raises(ValueError, match="no variable 'beta'; it has a, w, m"):
        stan_draws(fit, ["beta"])
    with pytest.raises(TypeError, match="expected a CmdStanPy fit .* found <class 'dict'>"):
        stan_draws({})


def test_dataset_names_axes_and_keeps_only_used_labels(rng):
    made = dataset({"w": rng.normal(size=(2, 5, 3)), "sigma": np.ones((2, 5))}, DIMS, COORDS)
    assert made["w"].dims == ("chain", "draw", "landmark")
    assert made["sigma"].dims == ("chain", "draw")
    assert set(made.coords) == {"chain", "draw", "landmark"}
    with pytest.raises(ValueError, match=r"'w' has shape \(2, 5\), expected axes \(chain, draw, l"):
        dataset({"w": np.ones((2, 5))}, DIMS, COORDS)


def test_build_gives_what_the_installed_arviz_works_on(groups):
    idata = build(groups)
    assert type(idata).__name__ == ("DataTree" if VERSION_1 else "InferenceData")
    assert "posterior" in idata and idata.posterior["w"].sizes["landmark"] == N_LANDMARKS
    for name, group in groups_of(idata).items():
        assert group.identical(groups[name])


@pytest.mark.filterwarnings("ignore")  # ArviZ's own
def test_arviz_functions_run(groups):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    idata = build(groups)
    loo = arviz.loo(idata)
    # With likelihoods of sd 0.1 around -1 in log, each bag's elpd is near -1.
    assert (loo.elpd if VERSION_1 else loo.elpd_loo) == pytest.approx(-N_BAGS, abs=0.5)
    assert len(arviz.summary(idata)) == N_LANDMARKS + 1
    assert float(arviz.rhat(idata)["sigma"]) == pytest.approx(1, abs=0.02)
    assert float(arviz.ess(idata)["sigma"]) > 500
    arviz.plot_trace(idata, var_names=["w"])
    (arviz.plot_ppc_dist if VERSION_1 else arviz.plot_ppc)(idata)
    plt.close("all")


# ---------------------------------------------------------------- file


def test_file_returns_the_same_groups_and_configuration(groups, tmp_path):
    config = {
        "kernel": "rbf",
        "eta": None,
        "center": True,
        "nested": {"a": [1, 2]},
        "bandwidth": np.float64(0.5),
        "sizes": np.arange(3),
        "long": "x" * 200_000,  # HDF5 keeps short attributes up to 64 kB
    }
    save(build(groups), tmp_path / "fit.nc", config)
    idata, found = load(tmp_path / "fit.nc")
    assert found == {**config, "sizes": [0, 1, 2]}
    assert set(groups_of(idata)) == set(groups)
    for name, group in groups_of(idata).items():
        assert group.identical(groups[name]), name
    assert groups_of(idata)["sample_stats"]["diverging"].dtype == bool
    assert [p.name for p in tmp_path.iterdir()] == ["fit.nc"]


def test_loaded_fit_does_not_need_its_file(groups, tmp_path):
    path = tmp_path / "fit.nc"
    save(build(groups), path, {})
    idata, _ = load(path)
    save(idata, path, {"again": 1})  # fails where the file is still open
    path.unlink()
    np.testing.assert_array_equal(idata.posterior["w"], groups["posterior"]["w"])


def test_arviz_itself_reads_the_file(groups, tmp_path):
    save(build(groups), tmp_path / "fit.nc", {})
    idata = arviz.from_netcdf(tmp_path / "fit.nc")
    np.testing.assert_array_equal(idata["posterior"]["w"], groups["posterior"]["w"])
    idata.close()


@pytest.mark.parametrize("labels", [["a", "b", "ü"], [3, 1, 2], ["a", 1, None], [(1, 2)] * 3])
def test_labels_of_any_kind_can_be_saved(labels, tmp_path):
    values = np.empty(3, dtype=object)
    values[:] = labels
    group = dataset({"y": np.zeros(3)}, DIMS, {"bag": values}, sample=False)
    save(build({"observed_data": group}), tmp_path / "fit.nc", {})
    idata, _ = load(tmp_path / "fit.nc")
    assert idata["observed_data"]["bag"].values.tolist() == [str(label) for label in labels]


def test_failed_save_leaves_the_old_file_alone(groups, tmp_path, monkeypatch):
    path = tmp_path / "fit.nc"
    save(build(groups), path, {"version": 1})
    with pytest.raises(TypeError, match="configuration holds a object, which JSON cannot"):
        save(build(groups), path, {"bad": object()})

    def broken(self, *args, **kwargs):
        raise OSError("disk full")

    monkeypatch.setattr(xr.Dataset, "to_netcdf", broken)
    with pytest.raises(OSError, match="disk full"):
        save(build(groups), path, {"version": 2})
    monkeypatch.undo()
    assert load(path)[1] == {"version": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["fit.nc"]


def test_file_errors_are_clear(groups, tmp_path):
    idata = build(groups)
    with pytest.raises(FileNotFoundError, match="the folder .*nowhere does not exist"):
        save(idata, tmp_path / "nowhere" / "fit.nc", {})
    with pytest.raises(IsADirectoryError, match="it is a folder, give a file name"):
        save(idata, tmp_path, {})
    with pytest.raises(FileNotFoundError, match="there is no file .*absent.nc"):
        load(tmp_path / "absent.nc")
    (tmp_path / "text.nc").write_text(json.dumps({"no": "netcdf"}))
    with pytest.raises(ValueError, match="text.nc is no fit saved by bdr_stan: not a NetCDF file"):
        load(tmp_path / "text.nc")
    xr.Dataset({"x": 1}).to_netcdf(tmp_path / "other.nc", engine="h5netcdf")
    with pytest.raises(ValueError, match="other.nc is no fit saved by bdr_stan: it has no attr"):
        load(tmp_path / "other.nc")


# ---------------------------------------------------------------- summary and diagnostics


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


def test_summary_selects_variables(groups):
    idata = build(groups)
    assert list(summary(idata, ["sigma"]).index) == ["sigma"]
    assert list(summary(idata, skip=["w"]).index) == ["sigma"]
    with pytest.raises(ValueError, match="posterior has no variable 'tau'; it has w, sigma"):
        summary(idata, ["tau"])
    with pytest.raises(ValueError, match="no posterior variable is left"):
        summary(idata, skip=["w", "sigma"])


def test_summary_of_one_draw_claims_no_uncertainty():
    group = dataset({"w": np.ones((1, 1, 2))}, DIMS, attrs={"inference_method": "optimize"})
    table = summary(build({"posterior": group}))
    assert table["mean"].tolist() == [1, 1]
    assert table[["sd", "2.5%", "97.5%"]].isna().all(axis=None)


def test_what_never_varies_has_no_convergence(groups):
    groups["posterior"]["one"] = ("chain", "draw"), np.ones((N_CHAINS, N_DRAWS))
    table = summary(build(groups))
    assert table.loc["one", ["ess_bulk", "ess_tail", "r_hat"]].isna().all()
    assert diagnostics(build(groups))["max_r_hat_of"] != "one"


def test_good_sample_gives_no_warning(groups):
    found = diagnostics(build(groups))
    assert found["divergences"] == 0 and found["share_at_max_tree_depth"] == 0
    assert found["mean_n_steps"] == 7
    # Independent energies: E (e_t - e_{t-1})^2 / var = 2.
    assert found["min_e_bfmi"] == pytest.approx(2, abs=0.3)
    assert sampling_warnings(found) == []


def test_each_trouble_gives_its_sentence(groups):
    stats, posterior = groups["sample_stats"], groups["posterior"]
    stats["diverging"][0, :3] = True
    stats["tree_depth"][1, :10] = 5
    stats["energy"][2] = np.linspace(-1, 1, N_DRAWS)
    posterior["w"][0, :, 2] += 5
    found = diagnostics(build(groups))
    assert found["divergences"] == 3
    assert found["max_r_hat_of"] == found["min_ess_bulk_of"] == "w[2]" and found["max_r_hat"] > 1.5
    assert found["share_at_max_tree_depth"] == 10 / (N_CHAINS * N_DRAWS)
    said = " ".join(sampling_warnings(found))
    for part in [
        "3 of 1000 transitions diverged",
        "Raise adapt_delta",
        f"R-hat of w[2] is {found['max_r_hat']:.3f}",
        "Raise warmup and draws",
        "bulk effective sample size of w[2]",
        "at least 400 is good",
        "E-BFMI of a chain is 0.00",
        "1.0% of the transitions stopped at the largest tree depth 5",
    ]:
        assert part in said, part
    assert diagnostics(build(groups), max_tree_depth=8)["share_at_max_tree_depth"] == 0
    assert diagnostics(build(groups), skip=["w"])["max_r_hat_of"] == "sigma"


def test_report_says_value_good_value_and_verdict(groups):
    found = diagnostics(build(groups))
    lines = report(found).splitlines()
    assert lines[0] == "NUTS: 4 chains x 250 draws, 7.0 leapfrog steps a draw"
    assert [line.split()[-1] for line in lines[1:]] == ["ok"] * 6
    ess = f"{found['min_ess_bulk']:.0f} of {found['min_ess_bulk_of']}"
    assert f"bulk ESS     {ess}" in lines[3] and "(good: >= 400" in lines[3]

    groups["sample_stats"]["diverging"][0, :3] = True
    groups["sample_stats"]["energy"][:] = np.nan
    lines = report(diagnostics(build(groups))).splitlines()
    assert lines[1].split()[:2] == ["divergences", "3"]
    assert "  Raise adapt_delta (0.95, then 0.99); if some remain, narrow the" in lines[1]
    assert lines[5].split()[:2] == ["E-BFMI", "unknown"] and lines[5].endswith(")")


@pytest.mark.parametrize(
    "method, says",
    [
        ("optimize", "The posterior mode, a single point"),
        ("exact", "Independent draws from the exact posterior"),
        ("variational", "Nothing is measured of method 'variational'."),
    ],
)
def test_report_of_what_has_no_checks_is_one_line(method, says):
    group = dataset({"w": np.ones((1, 1, 2))}, DIMS, attrs={"inference_method": method})
    said = report(diagnostics(build({"posterior": group})))
    assert said.startswith(says) and "\n" not in said


# ---------------------------------------------------------------- Pareto k-hat


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


def approximation(rng, method, k, **attrs):
    attrs = {"inference_method": method, **attrs}
    stats = {"lp": 7 + k * rng.exponential(size=(1, 1000)), "log_q": np.full((1, 1000), 2.0)}
    posterior = dataset({"sigma": rng.gamma(9, size=(1, 1000))}, {}, attrs=attrs)
    return build({"posterior": posterior, "sample_stats": dataset(stats, {})})


def test_pareto_k_of_laplace_comes_from_its_draws(rng):
    good = diagnostics(approximation(rng, "laplace", 0.3))
    assert good["pareto_k"] < 0.6 and good["n_draws"] == 1000 and sampling_warnings(good) == []
    assert report(good) == (
        "Laplace: 1000 draws of an approximation\n"
        f"  Pareto k-hat  {good['pareto_k']:.2f}  (good: <= 0.7)  ok"
    )
    bad = diagnostics(approximation(rng, "laplace", 1.2))
    k = f"{bad['pareto_k']:.2f}"
    (said,) = sampling_warnings(bad)
    assert said.startswith(
        f"Pareto k-hat of the laplace approximation is {k} (at most 0.7 is good)"
    )
    assert said.endswith('Use method="nuts".')
    assert report(bad).endswith(f'  Pareto k-hat  {k}  (good: <= 0.7)  Use method="nuts".')


def test_pareto_k_of_pathfinder_is_that_of_all_its_draws(rng):
    # the draws kept are resampled: their own ratios say nothing
    found = diagnostics(approximation(rng, "pathfinder", 0.3, pareto_k=0.9))
    assert found["pareto_k"] == 0.9
    assert "pathfinder approximation is 0.90" in sampling_warnings(found)[0]
    unknown = diagnostics(approximation(rng, "pathfinder", 0.3))
    assert np.isnan(unknown["pareto_k"]) and sampling_warnings(unknown) == []
    assert report(unknown).splitlines()[1].split() == [
        "Pareto", "k-hat", "unknown", "(good:", "<=", "0.7)"
    ]  # fmt: skip
