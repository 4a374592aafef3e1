"""The program around a compiled model: command line, configuration and input of CmdStan."""

import json
import re

import pytest
from executables import column, rows


def test_info_names_version_and_flags(run, minor):
    assert run("info").splitlines() == [
        "stan_version_major = 2",
        f"stan_version_minor = {minor}",
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


def test_configuration_is_printed_with_defaults_marked(run, minor):
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
        f"# stan_version_minor = {minor}",
        "# stan_version_patch = 0",
        "# model = driver_coin_model",
    ]
    assert re.fullmatch(r"# start_datetime = \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", top[4])
    assert top[5 : 5 + len(console)] == [f"# {line}" for line in console]
    assert top[5 + len(console) :][0] == f"# stanc_version = stanc3 v2.{minor}.0"


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


def test_configuration_as_json(run, minor):
    run("sample num_samples=1 data file=coin.json output save_cmdstan_config=1 file=o.csv")
    config = json.loads(run.read("o_config.json"))
    assert config["stan_minor_version"] == str(minor)
    assert config["model_name"] == "driver_coin_model"
    assert config["method"]["sample"]["num_samples"] == 1
    assert config["method"]["sample"]["adapt"]["delta"] == 0.8
    assert config["method"]["sample"]["algorithm"]["hmc"]["metric"]["value"] == "diag_e"
    assert config["output"]["save_cmdstan_config"] is True


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
    assert column(run.read("o.csv"), "theta")[0] == pytest.approx(2 / 3, abs=1e-4)


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
