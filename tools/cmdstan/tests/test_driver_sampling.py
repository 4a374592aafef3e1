"""Chains of the program around a compiled model, as CmdStan 2.35 draws them."""

import json
import shutil
import signal
import subprocess
import time

import pytest
from executables import COIN, Runner, body, names, rows


@pytest.mark.slow
def test_reproduces_the_output_of_cmdstan(reference_data, compiled, minor, tmp_path):
    if minor != 35:
        pytest.skip("the reference is CmdStan 2.35")
    golden = reference_data / "cmdstan_golden"
    for data in golden.glob("*.json"):
        shutil.copy(data, tmp_path)
    executables = {name: compiled(golden / f"{name}.stan") for name in ("bern", "glm")}
    different = []
    for case in json.loads((golden / "index.json").read_text()):
        Runner(executables[case["model"]], tmp_path)(case["arguments"])
        different += [
            file
            for file in case["files"]
            if body((tmp_path / file).read_text()) != (golden / file).read_text().splitlines()
        ]
    assert different == []


def test_several_chains_equal_several_processes(run):
    line = "num_samples=5 num_warmup=50 data file=coin.json random seed=3 output file=o.csv"
    run(f"sample num_chains=2 {line} id=4")
    together = [body(run.read(f"o_{i}.csv")) for i in (4, 5)]
    assert "Chain [5] Iteration:" in run.stdout
    for i, chain in zip((4, 5), together, strict=True):
        run(f"sample {line} id={i}")
        assert body(run.read("o.csv")) == chain


def test_several_chains_take_numbered_initial_values(run):
    for i, theta in ((1, 0.25), (2, 0.75)):
        run.write(f"i_{i}.json", theta=theta)
    run(
        "sample num_samples=1 algorithm=fixed_param num_chains=2 data file=coin.json "
        "init=i.json output file=o.csv"
    )
    assert [rows(run.read(f"o_{i}.csv"))[0, 2] for i in (1, 2)] == [0.25, 0.75]
    run.write("i.txt", theta=0.1)
    run("sample num_chains=2 data file=coin.json init=i.txt", code=1)
    assert "must end in .json or .R" in run.stderr


@pytest.mark.parametrize("metric", ["unit_e", "diag_e", "dense_e"])
@pytest.mark.parametrize("engaged", [0, 1])
@pytest.mark.parametrize("engine", ["static", "nuts"])
def test_every_sampler_finds_the_posterior(run, engine, engaged, metric):
    run(
        f"sample num_samples=2000 num_warmup=200 adapt engaged={engaged} algorithm=hmc "
        f"engine={engine} metric={metric} data file=coin.json random seed=1 output file=o.csv"
    )
    text = run.read("o.csv")
    extra = ["int_time__"] if engine == "static" else ["treedepth__", "n_leapfrog__", "divergent__"]
    start = ["lp__", "accept_stat__", "stepsize__", *extra, "energy__"]
    assert names(text) == [*start, "theta", "next"]
    assert "# Adaptation terminated" in text
    theta = rows(text)[:, len(start)]
    assert len(theta) == 2000
    assert theta.mean() == pytest.approx(3 / 12, abs=0.03)  # beta(3, 9)


def test_saved_metric_starts_another_run(run):
    run("sample adapt save_metric=1 data file=coin.json random seed=1 output file=o.csv")
    metric = json.loads(run.read("o_metric.json"))
    assert metric["metric_type"] == "diag_e"
    run.write("m.json", inv_metric=metric["inv_metric"])  # 2.35 reads no text in a metric file
    run(
        f"sample num_warmup=0 adapt engaged=0 algorithm=hmc metric_file=m.json "
        f"stepsize={metric['stepsize']} data file=coin.json random seed=1 output file=p.csv"
    )
    assert f"# {metric['inv_metric'][0]}" in run.read("p.csv")


def test_warmup_thinning_and_diagnostics(run):
    run(
        "sample num_samples=10 num_warmup=20 save_warmup=1 thin=2 data file=coin.json "
        "output file=o.csv diagnostic_file=d.csv sig_figs=12"
    )
    assert len(rows(run.read("o.csv"))) == 15
    assert names(run.read("d.csv"))[-3:] == ["theta", "p_theta", "g_theta"]
    assert "start_datetime" not in run.read("d.csv")


@pytest.mark.slow
def test_a_model_without_parameters_switches_to_fixed_param(compiled, tmp_path):
    program = tmp_path / "none.stan"
    program.write_text(
        "generated quantities {\n  int face = categorical_rng(rep_vector(1.0 / 6, 6));\n}\n"
    )
    none = Runner(compiled(program), tmp_path)
    none("sample num_samples=5 num_warmup=0 random seed=1 output file=o.csv")
    assert "Model contains no parameters, running fixed_param sampler, no updates" in none.stdout
    assert names(none.read("o.csv")) == ["lp__", "accept_stat__", "face"]
    none("pathfinder", code=1)
    assert "Model has 0 parameters, cannot run Pathfinder." in none.stderr


def test_no_draws(run):
    run("sample num_samples=0 data file=coin.json output file=o.csv")
    assert len(rows(run.read("o.csv"))) == 0


def test_a_terminated_run_keeps_its_draws(run, coin):
    process = subprocess.Popen(
        [
            coin.exe_file,
            "sample",
            "num_samples=1000000000",
            "data",
            "file=coin.json",
            "output",
            "file=o.csv",
        ],
        cwd=run.folder,
        stdout=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if (run.folder / "o.csv").exists() and run.read("o.csv").count("\n") > 100:
            break
        time.sleep(0.05)
    process.terminate()
    assert process.wait() == -signal.SIGTERM
    assert run.read("o.csv").count("\n") > 100


@pytest.mark.slow
def test_draws_do_not_depend_on_threads(run, compiled, tmp_path, monkeypatch):
    several = Runner(compiled(COIN, "STAN_THREADS=TRUE"), tmp_path)
    line = "sample num_samples=5 num_chains=2 data file=coin.json random seed=3 output file={}.csv"
    run(line.format("one"))
    monkeypatch.setenv("STAN_NUM_THREADS", "2")
    assert "STAN_THREADS=true" in several("info")
    assert "num_threads = 2 (Default)" in several(line.format("two"))
    for i in (1, 2):
        assert body(run.read(f"one_{i}.csv")) == body(run.read(f"two_{i}.csv"))
    several(line.format("two") + " num_threads=1", code=1)
    assert "contradicts STAN_NUM_THREADS = 2" in several.stderr
    monkeypatch.setenv("STAN_NUM_THREADS", "many")
    several(line.format("two"), code=1)
    assert "must be a positive number or -1" in several.stderr
