"""Methods of the program around a compiled model other than sampling."""

import json

import numpy as np
import pytest
from executables import TOSSES, body, column, names, rows


def test_optimize_and_laplace(run):
    run("optimize data file=coin.json random seed=1 output file=o.csv sig_figs=12")
    assert column(run.read("o.csv"), "theta")[0] == pytest.approx(0.2, abs=1e-4)
    run("optimize save_iterations=1 jacobian=1 data file=coin.json output file=j.csv sig_figs=12")
    assert column(run.read("j.csv"), "theta")[-1] == pytest.approx(0.25, abs=1e-4)
    run("laplace mode=j.csv draws=500 data file=coin.json output file=l.csv diagnostic_file=h.json")
    assert names(run.read("l.csv")) == ["log_p__", "log_q__", "theta", "next"]
    # at the mode, whichever row of the iterations it is in
    assert json.loads(run.read("h.json"))["gradient"][0] == pytest.approx(0, abs=1e-3)
    run.write("m.json", theta=0.25)
    run("laplace mode=m.json draws=500 data file=coin.json output file=l.csv")
    assert rows(run.read("l.csv"))[:, 2].mean() == pytest.approx(0.27, abs=0.03)
    run("sample num_samples=10 data file=coin.json output file=s.csv")
    run("laplace mode=s.csv data file=coin.json", code=1)
    assert "CSV file is not output from Stan optimization" in run.stderr


def test_pathfinder_paths(run, minor):
    run(
        "pathfinder num_draws=20 num_psis_draws=15 num_paths=2 save_single_paths=1 "
        "data file=coin.json random seed=1 output file=o.csv"
    )
    path = ["path__"] if minor > 35 else []
    assert names(run.read("o.csv")) == ["lp_approx__", "lp__", *path, "theta", "next"]
    assert len(rows(run.read("o.csv"))) == 15
    for i in (1, 2):
        assert len(rows(run.read(f"o_path_{i}.csv"))) == 20
        assert "0" in json.loads(run.read(f"o_path_{i}.json"))
    run(
        "pathfinder num_draws=20 num_paths=1 data file=coin.json random seed=1 "
        "output file=o.csv diagnostic_file=d.csv"
    )
    assert "Warning: Number of PSIS draws is larger than the total" in run.stdout
    assert "0" in json.loads(run.read("d.json"))


def test_names_of_the_files_of_paths(run):
    """Those of CmdStan 2.35, which calls them after the diagnostic file where there is one."""
    line = "pathfinder num_draws=5 num_psis_draws=5 {} data file=coin.json output file={}.csv"
    run(line.format("num_paths=1 save_single_paths=1", "one"))
    assert run.files() == ["coin.json", "one.csv", "one.json", "profile.csv"]
    run(line.format("num_paths=2", "two") + " diagnostic_file=d.csv")
    new = ["d_path_1.json", "d_path_2.json", "two.csv", "two_path_1.csv", "two_path_2.csv"]
    assert sorted(set(run.files()) - {"coin.json", "one.csv", "one.json", "profile.csv"}) == new


def test_variational(run):
    run(
        "variational algorithm=fullrank output_samples=100 data file=coin.json random seed=1 "
        "output file=o.csv diagnostic_file=d.csv"
    )
    assert names(run.read("o.csv")) == ["lp__", "log_p__", "log_g__", "theta", "next"]
    assert "# iter,time_in_seconds,ELBO" in run.read("d.csv")


def test_generate_quantities(run):
    run("sample num_samples=20 data file=coin.json random seed=1 output file=s.csv")
    run("generate_quantities fitted_params=s.csv data file=coin.json output file=o.csv")
    assert names(run.read("o.csv")) == ["next"]
    assert len(rows(run.read("o.csv"))) == 20
    (run.folder / "other.csv").write_text("lp__,alpha\n0,1\n")
    run("generate_quantities fitted_params=other.csv data file=coin.json", code=1)
    assert 'Mismatch between model and fitted_parameters csv file "other.csv"' in run.stderr
    run.write("bad.json", N=10, y=TOSSES, trouble=5)
    run("generate_quantities fitted_params=s.csv data file=bad.json output file=o.csv", code=0)
    assert "trouble in generated quantities" in run.stdout + run.stderr


def test_log_density_and_gradient(run):
    def log_density(theta):
        return 2 * np.log(theta) + 8 * np.log1p(-theta)

    run.write("p.json", theta=0.3)
    run(
        "log_prob constrained_params=p.json jacobian=0 data file=coin.json "
        "output file=o.csv sig_figs=12"
    )
    assert names(run.read("o.csv")) == ["lp__", "g_theta"]
    assert rows(run.read("o.csv"))[0] == pytest.approx([log_density(0.3), 2 - 10 * 0.3])
    logits = [-1.0, 0.5]
    theta = 1 / (1 + np.exp(-np.array(logits)))
    run.write("u.json", params_r=[[x] for x in logits])
    run("log_prob unconstrained_params=u.json data file=coin.json output file=o.csv sig_figs=12")
    jacobian = np.log(theta) + np.log1p(-theta)
    assert rows(run.read("o.csv"))[:, 0] == pytest.approx(log_density(theta) + jacobian)
    run("sample num_samples=3 data file=coin.json output file=s.csv sig_figs=15")
    run("log_prob constrained_params=s.csv data file=coin.json output file=o.csv sig_figs=12")
    draws, again = rows(run.read("s.csv")), rows(run.read("o.csv"))
    assert again[:, 0] == pytest.approx(draws[:, 0])
    run.write("bad.json", alpha=1)
    run("log_prob constrained_params=bad.json data file=coin.json", code=1)
    assert "Bad or missing parameter values, cannot unconstrain." in run.stderr


def test_diagnose_compares_gradients(run):
    run("diagnose data file=coin.json random seed=1 output file=o.csv")
    assert "finite diff" in run.stdout
    run("diagnose test=gradient error=1e-300 data file=coin.json random seed=1", code=1)


def test_profile_file(run):
    run("optimize data file=coin.json output file=o.csv profile_file=p.csv")
    assert names(run.read("p.csv")) == [
        "name",
        "thread_id",
        "total_time",
        "forward_time",
        "reverse_time",
        "chain_stack",
        "no_chain_stack",
        "autodiff_calls",
        "no_autodiff_calls",
    ]
    assert body(run.read("p.csv"))[1].startswith("tosses,")


def test_every_method_of_cmdstanpy(coin, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # profile.csv is written to the working directory
    data = {"N": 10, "y": TOSSES, "trouble": 0}

    def into(name):  # CmdStanPy names files by the second: each run needs its own folder
        return {"data": data, "seed": 1, "output_dir": tmp_path / name}

    sampled = coin.sample(chains=2, show_progress=False, **into("apart"))
    assert sampled.stan_variable("theta").shape == (2000,)
    assert sampled.metric_type == "diag_e"
    together = coin.sample(
        chains=2, force_one_process_per_chain=False, show_progress=False, **into("together")
    )
    assert (together.stan_variable("theta") == sampled.stan_variable("theta")).all()
    optimum = coin.optimize(**into("optimum"))
    assert optimum.stan_variable("theta") == pytest.approx(0.2, abs=1e-3)
    mode = coin.optimize(jacobian=True, **into("mode"))
    laplace = coin.laplace_sample(mode=mode, draws=50, **into("laplace"))
    assert laplace.stan_variable("theta").shape == (50,)
    assert coin.pathfinder(draws=50, **into("paths")).stan_variable("theta").shape == (50,)
    assert coin.variational(draws=50, **into("advi")).variational_sample.shape[0] == 50
    fresh = coin.generate_quantities(
        data, previous_fit=sampled, seed=1, gq_output_dir=tmp_path / "fresh"
    )
    assert fresh.stan_variable("next").shape == (2000,)
    assert coin.log_prob({"theta": 0.3}, data=data, jacobian=False).iloc[0, 1] == pytest.approx(-1)
    assert coin.diagnose(data=data, inits={"theta": 0.3}).shape[0] == 1
