"""The program around a compiled model: command line, files and messages of CmdStan 2.35."""

import json
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from bdr_stan import cmdstan
from bdr_stan.cmdstan.discovery import choose
from bdr_stan.cmdstan.programs import compile_program

STAN = Path(__file__).parents[1] / "stan"
TOSSES = [0, 1, 0, 0, 0, 0, 0, 0, 0, 1]

pytestmark = pytest.mark.skipif(
    not cmdstan.is_own(choose()), reason="another CmdStan is installed and used"
)


@pytest.fixture(scope="module")
def coin():
    return compile_program(STAN / "driver_coin.stan", progress=False)


class Runner:
    """Runs an executable in a folder of its own and keeps what it printed."""

    def __init__(self, executable, folder):
        self.executable, self.folder = executable, folder

    def __call__(self, line, code=0):
        done = subprocess.run(
            [self.executable, *line.split()],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        self.stdout, self.stderr = done.stdout, done.stderr
        return done.stdout

    def write(self, name, **values):
        (self.folder / name).write_text(json.dumps(values))
        return name

    def read(self, name):
        return (self.folder / name).read_text()

    def files(self):
        return sorted(p.name for p in self.folder.iterdir() if p.suffix in (".csv", ".json"))


@pytest.fixture
def run(coin, tmp_path):
    runner = Runner(coin.exe_file, tmp_path)
    runner.write("coin.json", N=10, y=TOSSES, trouble=0)
    return runner


def body(text):
    """Everything from the column names on, without the times."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if not line.startswith("#"))
    return [line for line in lines[start:] if "seconds" not in line]


def names(text):
    return body(text)[0].split(",")


def rows(text):
    lines = [line for line in body(text)[1:] if not line.startswith("#")]
    return np.array([line.split(",") for line in lines], float)


# ------------------------------------------------------------------ the same bytes


@pytest.mark.slow
def test_reproduces_the_output_of_cmdstan(reference_data, tmp_path):
    golden = reference_data / "cmdstan_golden"
    for data in golden.glob("*.json"):
        shutil.copy(data, tmp_path)
    executables = {
        name: compile_program(golden / f"{name}.stan", progress=False).exe_file
        for name in ("bern", "glm")
    }
    different = []
    for case in json.loads((golden / "index.json").read_text()):
        Runner(executables[case["model"]], tmp_path)(case["arguments"])
        different += [
            file
            for file in case["files"]
            if body((tmp_path / file).read_text()) != (golden / file).read_text().splitlines()
        ]
    assert different == []


# ------------------------------------------------------------------ info, help, usage


def test_info_names_version_and_flags(run):
    assert run("info").splitlines() == [
        "stan_version_major = 2",
        "stan_version_minor = 35",
        "stan_version_patch = 0",
        "STAN_THREADS=false",
        "STAN_MPI=false",
        "STAN_OPENCL=false",
        "STAN_NO_RANGE_CHECKS=false",
        "STAN_CPP_OPTIMS=false",
    ]


def test_no_arguments_print_the_usage(run):
    assert run("", code=1).startswith("Usage: ")
    assert run("help").startswith("Usage: ")
    assert "generate_quantities" in run.stdout


def test_help_of_a_group_lists_its_options(run):
    assert "Valid subarguments: num_samples, num_warmup, save_warmup" in run("sample help")
    assert "max_depth" not in run.stdout
    assert "max_depth=<int>" in run("sample help-all")
    assert "tol_rel_grad=<double>" in run("help-all")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("foo", "foo is either mistyped or misplaced.\nFailed to parse"),
        (
            "optimize algorithm=newton tol_grad=1",
            """tol_grad=1 is either mistyped or misplaced.
Perhaps you meant one of the following valid configurations?
  method=optimize algorithm=bfgs tol_grad=<double>
""",
        ),
        ("sample output file=x num_samples=5", "num_samples=5 is either mistyped or misplaced."),
        ("sample data file=a data file=b", "data is either mistyped or misplaced."),
        (
            "sample num_samples=abc",
            'abc is not a valid value for "num_samples"\n  Valid values: 0 < num_samples\n',
        ),
        ("sample adapt delta=1", '1 is not a valid value for "delta"'),
        ("sample algorithm=gibbs", "Valid values: hmc, fixed_param"),
        ("sample random seed=4294967296", "non-negative integer < 4294967296"),
        ("sample num_threads=2", '2 is not a valid value for "num_threads"'),
        ("id=3", "A method must be specified!"),
    ],
)
def test_wrong_command_line(run, line, message):
    run(line, code=1)
    assert message in run.stderr
    assert run.stderr.endswith("Failed to parse command arguments, cannot run model.\n")
    assert run.files() == ["coin.json"]


# ------------------------------------------------------------------ configuration


def test_configuration_is_printed_with_defaults_marked(run):
    run(
        "sample num_samples=10.7 adapt delta=.9 num_chains=1 data file=coin.json "
        "random seed=4294967295 output refresh=0 file=o.csv"
    )
    console = run.stdout.partition("\n\n")[0].splitlines()
    assert console[:3] == ["method = sample (Default)", "  sample", "    num_samples = 10"]
    assert "      delta = 0.9" in console
    assert "    num_chains = 1 (Default)" in console
    assert "  seed = 4294967295" in console
    top = run.read("o.csv").splitlines()
    assert top[:4] == [
        "# stan_version_major = 2",
        "# stan_version_minor = 35",
        "# stan_version_patch = 0",
        "# model = driver_coin_model",
    ]
    assert re.fullmatch(r"# start_datetime = \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", top[4])
    assert top[5 : 5 + len(console)] == [f"# {line}" for line in console]
    assert top[5 + len(console) :][0] == "# stanc_version = stanc3 v2.35.0"


def test_position_decides_which_group_an_option_belongs_to(run):
    run("variational adapt engaged=1 iter=7 tol_rel_obj=0.5 data file=coin.json random seed=1")
    assert "      iter = 7\n" in run.stdout
    assert "    iter = 10000 (Default)\n" in run.stdout


def test_a_repeated_option_of_a_group_takes_its_last_value(run):
    run("diagnose test=gradient epsilon=1e-3 epsilon=1e-5 data file=coin.json random seed=1")
    assert "epsilon = 1e-05\n" in run.stdout


def test_the_seed_is_taken_from_the_clock_unless_given(run):
    run("optimize data file=coin.json")
    assert re.search(r"  seed = \d+ \(Default\)\n", run.stdout)


def test_configuration_as_json(run):
    run("sample num_samples=1 data file=coin.json output save_cmdstan_config=1 file=o.csv")
    config = json.loads(run.read("o_config.json"))
    assert config["stan_minor_version"] == "35"
    assert config["model_name"] == "driver_coin_model"
    assert config["method"]["sample"]["num_samples"] == 1
    assert config["method"]["sample"]["adapt"]["delta"] == 0.8
    assert config["method"]["sample"]["algorithm"]["hmc"]["metric"]["value"] == "diag_e"
    assert config["output"]["save_cmdstan_config"] is True


# ------------------------------------------------------------------ inputs


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("nope.json", 'Can\'t open specified file, "nope.json"'),
        ('{"N": 10, "y": [', "Error in JSON parsing"),
        ('{"junk": "text"}', "Variable: junk, error: string values not allowed."),
        ("{}", "variable does not exist; processing stage=data initialization; variable name=N"),
        ('{"N": 2, "y": [1], "trouble": 0}', "mismatch in dimension declared and found"),
        ('{"N": 1, "y": [0.5], "trouble": 0}', "int variable contained non-int values"),
        ('{"N": 1, "y": [2], "trouble": 0}', "y[1] is 2, but must be less than or equal to 1"),
        ('{"N": 0, "y": [], "trouble": 1}', "trouble in transformed data"),
    ],
)
def test_bad_data_ends_the_run_before_any_output(run, data, message):
    if data != "nope.json":
        (run.folder / "bad.json").write_text(data)
        data = "bad.json"
    run(f"sample data file={data} output file=o.csv", code=1)
    assert message in run.stderr
    assert "o.csv" not in run.files()


def test_no_tosses_give_the_prior(run):
    run.write("none.json", N=0, y=[], trouble=0)
    run("sample data file=none.json random seed=1 output file=o.csv")
    theta = rows(run.read("o.csv"))[:, 7]
    assert abs(theta.mean() - 0.5) < 0.1


def test_r_dump_is_read_with_a_word_of_warning(run):
    (run.folder / "coin.R").write_text("N <- 3\ny <- c(0, 1, 1)\ntrouble <- 0\n")
    run("optimize data file=coin.R random seed=1 output file=o.csv")
    assert "deprecated" in run.stderr
    assert rows(run.read("o.csv"))[0, 1] == pytest.approx(2 / 3, abs=1e-4)


def test_initial_values_from_a_number_or_a_file(run):
    start = "sample num_samples=1 algorithm=fixed_param data file=coin.json output file=o.csv "
    run.write("i.json", theta=0.25)
    run(start + "init=i.json")
    assert rows(run.read("o.csv"))[0, 2] == 0.25
    run(start + "init=0")
    assert rows(run.read("o.csv"))[0, 2] == 0.5
    run.write("2b.json", theta=0.125)
    run(start + "init=2b.json")
    assert rows(run.read("o.csv"))[0, 2] == 0.125


@pytest.mark.parametrize(
    ("inits", "message"),
    [
        ({"theta": 2}, "Initialization failed."),
        ({"theta": [0.1, 0.2]}, "mismatch in number dimensions declared and found in context"),
    ],
)
def test_bad_initial_values_leave_a_header_at_most(run, inits, message):
    run.write("i.json", **inits)
    run("sample data file=coin.json init=i.json output file=o.csv", code=1)
    assert message in run.stdout + run.stderr
    assert all(line.startswith("#") for line in run.read("o.csv").splitlines())


def test_missing_initial_values(run):
    run("sample data file=coin.json init=nope.json", code=1)
    assert 'Can\'t open specified file, "nope.json"' in run.stderr


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ([1, 1, 1], "Cannot get inverse Euclidean metric from input file."),
        ([-1], "Inverse Euclidean metric not positive definite."),
    ],
)
def test_bad_metric(run, metric, message):
    run.write("m.json", inv_metric=metric)
    run("sample algorithm=hmc metric_file=m.json data file=coin.json", code=1)
    assert message in run.stdout + run.stderr


# ------------------------------------------------------------------ sample


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
def test_a_model_without_parameters_switches_to_fixed_param(tmp_path):
    none = Runner(compile_program(STAN / "numbers.stan", progress=False).exe_file, tmp_path)
    data = f"data file={none.write('none.json', G=0)}"
    none(f"sample num_samples=5 num_warmup=0 {data} random seed=1 output file=o.csv")
    assert "Model contains no parameters, running fixed_param sampler, no updates" in none.stdout
    assert names(none.read("o.csv")) == ["lp__", "accept_stat__", "face"]
    none(f"pathfinder {data}", code=1)
    assert "Model has 0 parameters, cannot run Pathfinder." in none.stderr


def test_no_draws(run):
    run("sample num_samples=0 data file=coin.json output file=o.csv")
    assert len(rows(run.read("o.csv"))) == 0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("sample num_warmup=0", "The number of warmup samples (num_warmup) must be greater than"),
        ("sample num_chains=2 algorithm=hmc engine=static", "Argument 'num_chains' is unavailable"),
        ("generate_quantities", "Missing fitted_params argument"),
        ("generate_quantities fitted_params=a.txt", "Fitted params file must be a CSV file."),
        ("generate_quantities fitted_params=output.csv", "Filename conflict, fitted_params file"),
        ("log_prob constrained_params=a.csv output file=a", "Filename conflict"),  # a.csv, too
        ("laplace", "Missing mode argument"),
        ("laplace mode=m.txt", "Mode file must be CSV or JSON, found m.txt"),
        ("log_prob", "No input parameter files provided, cannot calculate log probability"),
        ("optimize output file=no/folder/o.csv", 'Can\'t open output file "no/folder/o.csv"'),
        ("optimize output file=./", 'Output file "./" is a folder; add the name of a file.'),
        ("optimize output diagnostic_file=a/..", 'Diagnostic file "a/.." is a folder'),
        ("sample adapt save_metric=1 engaged=0", "can only be enabled when adaptation is engaged"),
    ],
)
def test_options_that_do_not_go_together(run, line, message):
    run(
        f"{line} data file=coin.json"
        if "output file" not in line
        else line.replace(" output", " data file=coin.json output"),
        code=1,
    )
    assert message in run.stderr


@pytest.mark.parametrize(
    "line",
    [
        "generate_quantities fitted_params=./fit.csv {} output file=fit.csv",
        "generate_quantities fitted_params=fit.csv {} output file={folder}/fit.csv",
        "generate_quantities fitted_params=fit.csv {} output file=link.csv",
        "generate_quantities fitted_params=fit.csv {} output file=hard.csv",
        "generate_quantities fitted_params=fit.csv {} output file=new/../fit",
        "generate_quantities fitted_params=fit.csv {} output diagnostic_file=./fit.csv",
        "generate_quantities fitted_params=fit.csv {} output profile_file=./fit.csv",
        "generate_quantities fitted_params=s.csv num_chains=2 {} output file=./s.csv",
        "laplace mode=./fit.csv {} output file=fit.csv",
        "log_prob constrained_params=./fit.csv {} output file=fit.csv",
        "log_prob constrained_params=./i.json {} output file=o.csv diagnostic_file=i.json",
        "optimize {} init=i.json output file={folder}/i.json",
        "optimize {} output file=./coin.json",
        "pathfinder num_paths=1 save_single_paths=1 {} output file=coin.csv",
        "sample {} output save_cmdstan_config=1 file=a.csv init=./a_config.json",
        "sample algorithm=hmc metric_file=i.json {} output file=./i.json",
    ],
)
def test_no_input_is_written_over(run, line):
    (run.folder / "new").mkdir()
    for name in ("fit.csv", "s_1.csv", "s_2.csv", "i.json", "a_config.json"):
        (run.folder / name).write_text('{"theta": 0.5, "inv_metric": [1]}')
    (run.folder / "link.csv").symlink_to("fit.csv")
    (run.folder / "hard.csv").hardlink_to(run.folder / "fit.csv")
    before = {path.name: path.read_text() for path in run.folder.glob("*.*")}
    run(line.replace("{}", "data file=coin.json").replace("{folder}", str(run.folder)), code=1)
    assert "Filename conflict, " in run.stderr
    assert "identical, must be different." in run.stderr
    assert {name: run.read(name) for name in before} == before


def test_no_output_is_written_over_another(run):
    run("sample data file=coin.json output file=o.csv diagnostic_file=./o.csv", code=1)
    assert "Filename conflict, output file o.csv" in run.stderr


def test_a_profile_is_not_written_over_an_input(run):
    """Its default name is in nobody's mind."""
    run("optimize data file=coin.json random seed=1 output file=o.csv sig_figs=12")
    shutil.copy(run.folder / "o.csv", run.folder / "profile.csv")
    run("laplace mode=profile.csv data file=coin.json output file=l.csv")
    assert "Filename conflict, mode file profile.csv" in run.stderr
    assert run.read("profile.csv") == run.read("o.csv")


@pytest.mark.parametrize(
    "method",
    [
        "optimize",
        "diagnose",
        "generate_quantities fitted_params=s.csv",
        "log_prob constrained_params=i.json",
    ],
)
def test_methods_without_diagnostics_write_the_heading_of_the_file(run, method):
    run.write("i.json", theta=0.5)
    run("sample num_samples=3 data file=coin.json output file=s.csv")
    run(f"{method} data file=coin.json random seed=1 output file=o.csv diagnostic_file=d.csv")
    told = run.read("d.csv").splitlines()
    assert told[3] == "# model = driver_coin_model"
    assert f"# method = {method.split()[0]}" in told
    assert all(line.startswith("#") for line in told)


@pytest.mark.parametrize(
    ("trouble", "message"),
    [(2, "trouble in the model"), (3, "log(0)"), (4, "Rejecting initial value")],
)
def test_a_model_that_rejects_everything(run, trouble, message):
    run.write("bad.json", N=1, y=[1], trouble=trouble)
    run("sample data file=bad.json", code=1)
    assert message in run.stdout + run.stderr
    assert "Initialization failed." in run.stderr


def test_a_full_disk_is_told(run):
    (run.folder / "full.csv").symlink_to("/dev/full")
    run("sample data file=coin.json output file=full.csv", code=1)
    assert 'Can\'t write all of output file "full.csv"; is the disk full?' in run.stderr


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


# ------------------------------------------------------------------ the other methods


def test_optimize_and_laplace(run):
    run("optimize data file=coin.json random seed=1 output file=o.csv sig_figs=12")
    assert rows(run.read("o.csv"))[0, 1] == pytest.approx(0.2, abs=1e-4)
    run("optimize save_iterations=1 jacobian=1 data file=coin.json output file=j.csv sig_figs=12")
    assert rows(run.read("j.csv"))[-1, 1] == pytest.approx(0.25, abs=1e-4)
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


def test_pathfinder_paths(run):
    run(
        "pathfinder num_draws=20 num_psis_draws=15 num_paths=2 save_single_paths=1 "
        "data file=coin.json random seed=1 output file=o.csv"
    )
    assert names(run.read("o.csv")) == ["lp_approx__", "lp__", "theta", "next"]
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


@pytest.mark.slow
def test_draws_do_not_depend_on_threads(run, tmp_path, monkeypatch):
    threaded = compile_program(STAN / "driver_coin.stan", threads=True, progress=False)
    several = Runner(threaded.exe_file, tmp_path)
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


# ------------------------------------------------------------------ through cmdstanpy


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
