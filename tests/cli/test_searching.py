"""The command `tune`."""

from pathlib import Path

import pandas as pd
import pytest
from builders.shell import FIT, TOTALS, fails, run

import bdr_stan


def test_settings_are_compared_and_the_best_is_kept(folder, tmp_path):
    search = [
        "tune",
        folder / "points.csv",
        "--bag",
        "town",
        "--label",
        "y",
        "--features",
        "income",
    ]
    grid = ["--model", "blr", "--model", "shrinkage", "--landmarks", "3,5", "--bandwidth-scale", 1]
    table, fit = tmp_path / "table.csv", tmp_path / "best.nc"
    by = ["--candidates", "optimize", "--method", "optimize", "--score", "mse", "--cv", 3]
    done = run(*search, *grid, *by, "--table", table, "-o", fit)
    assert done.exit_code == 0, done.output
    found = pd.read_csv(table)
    assert sorted(zip(found["model"], found["n_landmarks"])) == [
        ("blr", 3), ("blr", 5), ("shrinkage", 3), ("shrinkage", 5)
    ]  # fmt: skip
    assert found["mse"].is_monotonic_increasing
    best, model = found.iloc[0], bdr_stan.load(fit)
    assert type(model).__name__.lower() == best["model"] and len(model.idata["posterior"]) > 0
    assert len(model.landmarks_) == best["n_landmarks"] and model.notes_["label"] == "y"
    assert "rank" in done.stdout and f"Wrote {fit}" in done.stdout
    done = run(*search, *grid, *by, "--seed", 1)
    assert "The best: " in done.stdout and "pass -o to fit and keep it" in done.stdout


def test_totals_are_searched_by_their_evidence(pixels, tmp_path):
    done = run(
        "tune", pixels, *TOTALS[:-2], "--label", "cases", "--landmarks", "3,4", "--score",
        "evidence", "--candidates", "laplace", "--table", tmp_path / "table.csv",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    table = pd.read_csv(tmp_path / "table.csv")
    assert table["evidence"].is_monotonic_decreasing and len(table) == 2


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("--landmarks must be numbers with commas", ["--landmarks", "30,many"]),
        ("--bandwidth-scale must be numbers with commas", ["--bandwidth-scale", "1;2"]),
        ("bdr takes no --link: leave it out, or use --model aggregate", ["--link", "exp"]),
        ("bdr takes no --bounds: leave it out, or use --model inverse-bdr", ["--bounds", "0,1"]),
        ("bdr takes no --trials", ["--trials", "people"]),
        ("bdr has no method 'vb'", ["--candidates", "vb"]),
        ("score must be", ["--score", "bound"]),
        ("found 'gauss'", ["--kernel", "rbf,gauss"]),
        ("cannot be both the fit and the table", ["-o", "t.csv", "--table", "t.csv"]),
        ("t.txt must end in .csv", ["--table", "t.txt"]),
        ("does not exist: create it first", ["-o", "no/fit.nc"]),
        ("is the input", ["-o", "points.csv", "--force"]),
    ],
)
def test_tune_refuses(folder, monkeypatch, text, arguments):
    monkeypatch.chdir(folder)
    before = sorted(Path().iterdir())
    search = ["tune", "points.csv", "--bag", "town", "--label", "y", "--model", "bdr"]
    fails(text, *search, *arguments)
    assert sorted(Path().iterdir()) == before


def test_bdr_is_the_default_model(folder, tmp_path):
    table = tmp_path / "t.csv"
    search = ["tune", folder / "points.csv", *FIT, "--features", "income", "--landmarks", "3"]
    quick = ["--bandwidth-scale", "1", "--candidates", "optimize", "--cv", "2", "--table", table]
    done = run(*search, *quick)
    assert done.exit_code == 0, done.output
    assert pd.read_csv(table)["model"].tolist() == ["bdr"]
    for command in ("fit", "tune"):
        assert "default: bdr" in " ".join(run(command, "--help").output.split())
