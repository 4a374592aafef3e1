"""What the command line refuses."""

import pytest
from builders.mistakes import check_sentence
from click.testing import CliRunner

from bdr_stan import cli


def fit_arguments(*more, table="table.csv"):
    """A good command ``fit``, and more options; of those that come twice the last one counts."""
    good = [
        "--bag",
        "town",
        "--label",
        "y",
        "--features",
        "x,z",
        "--model",
        "blr",
        "--landmarks",
        "5",
        "-o",
        "new.nc",
    ]
    return ["fit", table, *good, *more]


MODEL = ["--model", "blr"]


def predict_arguments(*more, fit="fit.nc", table="table.csv"):
    return ["predict", fit, table, "--bag", "town", "-o", "new.csv", *more]


COMMANDS = [
    (["fit"], "DATA"),
    (["fit", "table.csv"], "--bag"),
    (["fit", "table.csv", "--bag", "town"], "--label"),
    (["fit", "table.csv", "--bag", "town", "--label", "y"], "--output"),
    (fit_arguments(table="nowhere.csv"), "nowhere.csv"),
    (fit_arguments(table="folder"), "folder"),
    (fit_arguments(table="table.txt"), "table.txt"),
    (fit_arguments(table="empty.csv"), "empty.csv"),
    (fit_arguments(table="binary.csv"), "binary.csv"),
    (fit_arguments(table="short.parquet"), "short.parquet"),
    (fit_arguments(table="nowhere.parquet"), "nowhere.parquet"),
    (fit_arguments("--bag", "city"), "city"),
    (fit_arguments("--label", "size"), "size"),
    (fit_arguments("--label", "note"), "note"),
    (fit_arguments("--label", "x"), "x"),
    (fit_arguments("--label", "town"), "town"),
    (fit_arguments("--features", "x,height"), "height"),
    (fit_arguments("--features", "x,y"), "y"),
    (fit_arguments("--features", ""), "no column ''"),
    (fit_arguments("--features", "x,x"), "x"),
    (fit_arguments("--weight", "mass"), "mass"),
    (fit_arguments("--weight", "note"), "note"),
    (fit_arguments("--weight", "x"), "x"),
    (fit_arguments("--model", "ols"), "ols"),
    (fit_arguments("--landmarks", "0"), "--landmarks"),
    (fit_arguments("--landmarks", "many"), "--landmarks"),
    (fit_arguments("--bandwidth", "wide"), "--bandwidth"),
    (fit_arguments("--bandwidth", "-1"), "bandwidth"),
    (fit_arguments("--bandwidth", "nan"), "bandwidth"),
    (fit_arguments("--bandwidth-scale", "0"), "bandwidth_scale"),
    (fit_arguments("--bandwidth-scale", "a"), "--bandwidth-scale"),
    (fit_arguments("--label-noise", "wide"), "--label-noise"),
    (fit_arguments("--model", "bdr-classifier", "--label-noise", "size"), "--label-noise"),
    (fit_arguments("--model", "blr-classifier", "--label-sd", "people"), "--label-sd"),
    (fit_arguments("--label-sd", "error"), "error"),
    (fit_arguments("--label-sd", "y"), "y"),
    (fit_arguments("--label-sd", "note"), "label_sd"),
    (fit_arguments("--method", "mcmc"), "--method"),
    (fit_arguments("--model", "bdr", "--method", "exact"), "exact"),
    (fit_arguments("--chains", "0"), "--chains"),
    (fit_arguments("--warmup", "-1"), "--warmup"),
    (fit_arguments("--warmup", "0"), "warmup"),
    (fit_arguments("--draws", "0"), "--draws"),
    (fit_arguments("--draws", "1e3"), "--draws"),
    (fit_arguments("--adapt-delta", "2"), "--adapt-delta"),
    (fit_arguments("--method", "exact", "--adapt-delta", "0.9"), "--adapt-delta"),
    (fit_arguments("--max-treedepth", "0"), "--max-treedepth"),
    (fit_arguments("--seed", "-1"), "--seed"),
    (fit_arguments("--seed", "5000000000"), "seed"),
    (fit_arguments("--stan-file", "mine.stan"), "mine.stan"),
    (fit_arguments("--method", "exact", "--stan-file", "taken.stan"), "stan_file"),
    (fit_arguments("-o", "fit.nc"), "fit.nc"),
    (fit_arguments("-o", "folder"), "folder"),
    (fit_arguments("-o", "nowhere/new.nc"), "nowhere"),
    (fit_arguments("-o", "table.csv/new.nc"), "table.csv"),
    (fit_arguments("-o", "table.csv", "--force"), "table.csv"),
    (fit_arguments("--colour"), "--colour"),
    (fit_arguments("--model", "bdr-classifier"), "classes"),
    (fit_arguments("--model", "inverse-bdr-classifier"), "has its own class"),
    (fit_arguments("--model", "inverse-bdr", "--covariates", "people"), "--covariates"),
    (fit_arguments("--model", "inverse-bdr", "--method", "exact"), "exact"),
    (fit_arguments("--link", "exp"), "--link"),
    (fit_arguments("--likelihood", "gauss"), "--likelihood"),
    (fit_arguments("--trials", "people"), "--trials"),
    (fit_arguments("--bag-effects"), "--bag-effects"),
    (fit_arguments("--thin", "0"), "--thin"),
    (fit_arguments("--model", "aggregate", "--bandwidth", "2"), "--bandwidth"),
    (
        fit_arguments("--model", "aggregate", "--likelihood", "normal", "--label-sd", "note"),
        "label_sd",
    ),
    (fit_arguments("--model", "aggregate", "--link", "logit"), "logit"),
    (fit_arguments("--model", "aggregate", "--likelihood", "binomial"), "counts"),
    (fit_arguments("--model", "aggregate"), "counts"),
    (["report"], "FIT"),
    (["report", "fit.nc"], "--output"),
    (["report", "no.nc", "-o", "new.html"], "no.nc"),
    (["report", "ridge.nc", "-o", "new.html"], "ridge.nc"),
    (["report", "fit.nc", "-o", "new.txt"], "new.txt"),
    (["report", "fit.nc", "-o", "folder"], "folder"),
    (["report", "fit.nc", "-o", "nowhere/new.html"], "nowhere"),
    (["report", "fit.nc", "nowhere.csv", "--bag", "town", "-o", "new.html"], "nowhere.csv"),
    (["report", "fit.nc", "table.csv", "-o", "new.html"], "--bag"),
    (["predict"], "FIT"),
    (["predict", "fit.nc"], "NEW"),
    (["predict", "fit.nc", "table.csv"], "--output"),
    (predict_arguments(fit="no.nc"), "no.nc"),
    (predict_arguments(fit="short.nc"), "short.nc"),
    (predict_arguments(fit="lacking.nc"), "lacking.nc"),
    (predict_arguments(fit="ridge.nc"), "ridge.nc"),
    (predict_arguments(table="nowhere.csv"), "nowhere.csv"),
    (predict_arguments(table="table.txt"), "table.txt"),
    (predict_arguments(table="renamed.csv"), "'z'"),
    (predict_arguments("--bag", "city"), "city"),
    (predict_arguments("--weight", "mass"), "mass"),
    (predict_arguments("--level", "1"), "--level"),
    (predict_arguments("--level", "wide"), "--level"),
    (predict_arguments("-o", "new.txt"), "new.txt"),
    (predict_arguments("-o", "table.csv"), "table.csv"),
    (predict_arguments("-o", "nowhere/new.csv"), "nowhere"),
    (predict_arguments("-o", "fit.nc/new.csv"), "fit.nc"),
    (["predict", "fit.nc", "table.csv", "-o", "new.csv"], "--bag"),
    (["summary"], "FIT"),
    (["summary", "no.nc"], "no.nc"),
    (["summary", "text.nc"], "text.nc"),
    (["summary", "garbled.nc"], "garbled.nc"),
    (["summary", "ridge.nc"], "ridge.nc"),
    (["summary", "folder"], "folder"),
    (["eject"], "NAME"),
    (["eject", "bdr"], "TARGET"),
    (["eject", "bdx", "new.stan"], "bdx"),
    (["eject", "bdr", "taken.stan"], "taken.stan"),
    (["eject", "bdr", "table.csv/new.stan"], "table.csv"),
    (["compile"], "NAME_OR_PATH"),
    (["compile", "bdx"], "bdx"),
    (["compile", "nowhere.stan"], "nowhere.stan"),
    (["setup", "--from", "conda"], "--from"),
    (["setup", "now"], "now"),
    (["demo", "--output", "table.csv"], "table.csv"),
    (["demo", "--output", "table.csv/demo"], "table.csv"),
    (["demo", "--slow"], "--slow"),
    (["doctor", "--now"], "--now"),
    (["frobnicate"], "frobnicate"),
]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [pytest.param(arguments, words, id=" ".join(arguments)) for arguments, words in COMMANDS],
)
def test_command_line(arguments, words):
    result = CliRunner().invoke(cli.main, arguments)
    assert result.exit_code in (1, 2), result.output
    usage, _, sentence = result.stderr.rpartition("Error: ")
    assert usage == "" or (result.exit_code == 2 and usage.startswith("Usage: ")), result.stderr
    check_sentence(sentence.removesuffix("\n"), words)
