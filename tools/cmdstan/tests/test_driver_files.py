"""Files of the program around a compiled model: what is refused, and what is not written over."""

import shutil

import pytest


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
