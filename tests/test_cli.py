"""The command line, in process and as a program; one small fit is shared."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from builders.partitions import parquet_folder
from click.testing import CliRunner

import bdr_stan
from bdr_stan import cli
from bdr_stan.cmdstan import Finding
from bdr_stan.posterior.settings import WARMUP, WARMUP_OF_VARIANTS

PROGRAM = Path(sys.executable).with_name("bdr-stan")
FIT = ["--bag", "town", "--label", "y", "--landmarks", "5", "--seed", "1"]


def points(n_bags=40, seed=3):
    """A row a point: bags of 1 to 6 points around their label in the first of two features."""
    rng = np.random.default_rng(seed)
    rows = [
        (f"0{i}", label, x, rng.normal(), 1.0 + rng.uniform())
        for i, label in enumerate(rng.normal(size=n_bags))
        for x in rng.normal(label, 0.5, rng.integers(1, 7))
    ]
    return pd.DataFrame(rows, columns=["town", "y", "income", "age", "people"])


def run(*arguments, **options):
    return CliRunner().invoke(cli.main, [str(a) for a in arguments], **options)


def fails(text, *arguments, code=1):
    """The command ends with `code` and one message that has `text`, without a traceback."""
    result = run(*arguments)
    assert result.exit_code == code, result.output
    assert text in result.stderr
    assert "Traceback" not in result.output
    assert result.stderr.count("\n") == 1 or code == 2
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with points.csv, points.parquet and fit.nc, a fit of BDR to them by NUTS."""
    folder = tmp_path_factory.mktemp("cli")
    points().to_csv(folder / "points.csv", index=False)
    points().to_parquet(folder / "points.parquet", index=False)
    # fewer draws than diagnostics ask for: the warnings are part of the test
    small = ["--chains", 2, "--warmup", 200, "--draws", 100, "--features", "income, age"]
    result = run(
        "fit", folder / "points.csv", *FIT, "--model", "bdr", *small, "-o", folder / "fit.nc"
    )
    assert result.exit_code == 0, result.output
    (folder / "said.txt").write_text(result.stdout)
    (folder / "warned.txt").write_text(result.stderr)
    return folder


# ------------------------------------------------------------------ fit, predict, summary


def test_fit_reports_parameters_diagnostics_and_file(folder):
    said = (folder / "said.txt").read_text()
    # effects of income alone: age is alike in all bags
    assert "BDR (nuts): 40 bags, points of 2 features, 4 landmarks\n" in said
    assert "Kernel: linear in income + quadratic in income + RBF, lengths " in said
    for name in ("intercept", "sigma", "rho", "eta", "ess_bulk", "r_hat"):
        assert name in said
    assert "\nNUTS: 2 chains x 100 draws, " in said and "\n  divergences  0 " in said
    assert said.endswith(f"Wrote {folder / 'fit.nc'}\n")
    warned = (folder / "warned.txt").read_text()
    assert "Warning: 2 chains of 100 draws are too few to assess convergence" in warned
    assert "UserWarning" not in warned


def test_predictions_are_those_of_the_model(folder):
    output = folder / "predictions.csv"
    # columns in another order, and one more: they are found by name
    new = points(12, seed=5)[["age", "people", "town", "income"]]
    new.to_parquet(folder / "new.parquet", index=False)
    result = run("predict", folder / "fit.nc", folder / "new.parquet", "--level", 0.8, "-o", output)
    assert result.exit_code == 0, result.output
    assert result.output == f"Wrote {output}: 12 bags, intervals of 0.8 probability\n"

    table = pd.read_csv(output, dtype={"town": str})
    assert list(table) == ["town", "n_points", "mean", "sd", "lower", "upper"]
    model = bdr_stan.load(folder / "fit.nc")
    bags = bdr_stan.Bags.from_dataframe(new, "town", ["income", "age"])
    expected = model.predictive(bags)
    assert table["town"].tolist() == list(bags.ids)
    assert table["n_points"].tolist() == bags.sizes.tolist()
    np.testing.assert_allclose(table["mean"], expected.mean)
    np.testing.assert_allclose(table["sd"], expected.sd)
    np.testing.assert_allclose(table[["lower", "upper"]].T, expected.interval(0.8))


def test_ids_of_a_csv_stay_as_written(folder):
    output = folder / "ids.csv"
    result = run("predict", folder / "fit.nc", folder / "points.csv", "-o", output)
    assert result.exit_code == 0, result.output
    assert output.read_text().splitlines()[1].startswith("00,")


@pytest.mark.parametrize("first, warned", [("=1+1", True), ("@x", True), ("-3", False)])
def test_ids_that_spreadsheets_run_are_reported(folder, first, warned):
    new, output = points(12, seed=5), folder / "predictions.csv"
    new["town"] = new["town"].replace({new["town"].iloc[0]: first})
    new.to_parquet(folder / "new.parquet", index=False)
    result = run("predict", folder / "fit.nc", folder / "new.parquet", "-o", output, "--force")
    assert result.exit_code == 0, result.output
    assert (f"Warning: the id {first!r} (1 in all) begins like a" in result.stderr) is warned
    assert first in list(pd.read_csv(output, dtype=str).iloc[:, 0])


def test_weights_of_the_fit_are_used_in_predictions(folder):
    weighted, output = folder / "weighted.nc", folder / "weighted.csv"
    result = run(
        "fit",
        folder / "points.parquet",
        *FIT,
        "--model",
        "blr",
        "--method",
        "exact",
        "--weight",
        "people",
        "-o",
        weighted,
    )
    assert result.exit_code == 0, result.output
    assert "Independent draws from the exact posterior of the weights" in result.output
    result = run("predict", weighted, folder / "points.parquet", "-o", output)
    assert result.exit_code == 0, result.output
    model = bdr_stan.load(weighted)
    bags = bdr_stan.Bags.from_dataframe(points(), "town", ["income", "age"], "people")
    np.testing.assert_allclose(pd.read_csv(output)["mean"], model.predict(bags))

    points().drop(columns="people").to_csv(folder / "unweighted.csv", index=False)
    fails(
        "no column 'people'",
        "predict",
        weighted,
        folder / "unweighted.csv",
        "-o",
        output,
        "--force",
    )


def test_summary_shows_scalars_priors_and_with_all_every_weight(folder):
    result = run("summary", folder / "fit.nc")
    assert result.exit_code == 0, result.output
    assert "half-normal(0, " in result.output
    assert "\n  draws        100 per chain" in result.stdout
    assert "Use at least draws=200" in result.stdout
    assert "w[0]" not in result.output
    every = run("summary", folder / "fit.nc", "--all").output
    assert "w[0]" in every and "beta[3]" in every


@pytest.mark.parametrize("pattern", [False, True])
def test_a_folder_of_parquet_files_is_read_part_by_part(folder, tmp_path, monkeypatch, pattern):
    parts = parquet_folder(points(), tmp_path / "my points (copy)", 3, 20)
    data = parts / "*.parquet" if pattern else parts
    seen = []
    monkeypatch.setattr(
        bdr_stan.BDR, "fit", lambda self, bags, y, **options: seen.append((bags, y)) or stop()
    )
    fails("far enough", "fit", data, *FIT, "--model", "bdr", "-o", tmp_path / "never.nc")
    ((bags, y),) = seen
    assert isinstance(bags, bdr_stan.bags.PartitionedBags) and len(bags) == len(y) == 40
    output = tmp_path / "p.csv"
    assert run("predict", folder / "fit.nc", data, "-o", output).exit_code == 0
    one = run("predict", folder / "fit.nc", folder / "points.parquet", "-o", tmp_path / "one.csv")
    assert one.exit_code == 0
    pd.testing.assert_frame_equal(
        pd.read_csv(output, dtype={"town": str}),
        pd.read_csv(tmp_path / "one.csv", dtype={"town": str}),
        rtol=1e-8,
    )


def stop():
    raise ValueError("far enough")


def test_covariates_of_the_fit_are_read_for_predictions(folder, tmp_path):
    table = pd.read_parquet(folder / "points.parquet")
    table["region"] = np.where(table["town"].str.endswith(("1", "2")), "north", "south")
    table.to_csv(tmp_path / "points.csv", index=False)
    names = {"features": ["income", "age"], "metadata": ["y", "region"]}
    bags = bdr_stan.Bags.from_dataframe(table, "town", **names)
    model = bdr_stan.Shrinkage(5, covariates=["region"]).fit(bags, bags.metadata["y"], seed=1)
    model.save(tmp_path / "fit.nc")
    output = tmp_path / "predictions.csv"
    result = run("predict", tmp_path / "fit.nc", tmp_path / "points.csv", "-o", output)
    assert result.exit_code == 0, result.output
    np.testing.assert_allclose(pd.read_csv(output)["mean"], model.predict(bags))


def test_trials_of_the_fit_are_read_for_predictions(tmp_path):
    table = points(12).assign(asked=20)
    names = ["income", "age"]
    bags = bdr_stan.Bags.from_dataframe(table, "town", names, weight="people", metadata=["asked"])
    model = bdr_stan.AggregateRegressor("binomial", n_landmarks=3, method="optimize")
    said, new, output = np.arange(12), tmp_path / "new.csv", tmp_path / "predictions.csv"
    model.fit(bags, said, trials="asked", seed=1).save(tmp_path / "fit.nc")
    table.to_csv(new, index=False)
    result = run("predict", tmp_path / "fit.nc", new, "-o", output)
    assert result.exit_code == 0, result.output
    np.testing.assert_allclose(pd.read_csv(output)["mean"], model.predict(bags, trials=20))
    model.fit(bags, said, trials=np.full(12, 20), seed=1).save(tmp_path / "fit.nc")
    fails("counts out of trials", "predict", tmp_path / "fit.nc", new, "-o", tmp_path / "no.csv")


def test_classes_are_fitted_and_predicted(tmp_path):
    table = points()
    table["party"] = np.where(table.pop("y") > 0, "left", "right")
    table.to_csv(tmp_path / "points.csv", index=False)
    fit = ["--bag", "town", "--label", "party", "--landmarks", 5, "--seed", 1]
    result = run(
        "fit",
        tmp_path / "points.csv",
        *fit,
        "--model",
        "shrinkage-classifier",
        "--features",
        "income,age",
        "-o",
        tmp_path / "fit.nc",
    )
    assert result.exit_code == 0, result.output
    assert "ShrinkageClassifier (optimize): 40 bags" in result.stdout
    assert (
        run(
            "predict", tmp_path / "fit.nc", tmp_path / "points.csv", "-o", tmp_path / "p.csv"
        ).exit_code
        == 0
    )
    predicted = pd.read_csv(tmp_path / "p.csv", dtype={"town": str})
    truth = table.groupby("town")["party"].first()[predicted["town"]]
    assert np.mean(predicted["predicted"].to_numpy() == truth.to_numpy()) > 0.85
    assert list(predicted.columns) == [
        "town", "n_points", "predicted", "probability", "lower", "upper"
    ]  # fmt: skip
    assert (predicted["probability"] >= 0.5).all()
    assert predicted["probability"].between(predicted["lower"], predicted["upper"]).all()


def test_three_classes_are_fitted_and_predicted(tmp_path):
    table = points()
    table["y"] = np.array(["left", "middle", "right"])[np.digitize(table["y"], [-0.5, 0.5])]
    table.to_csv(tmp_path / "points.csv", index=False)
    fit = ["--model", "inverse-bdr-classifier", "--method", "optimize", "--features", "income,age"]
    result = run("fit", tmp_path / "points.csv", *FIT, *fit, "-o", tmp_path / "fit.nc")
    assert result.exit_code == 0, result.output
    assert "InverseBDRClassifier (optimize): 40 bags" in result.stdout
    output = tmp_path / "p.csv"
    result = run("predict", tmp_path / "fit.nc", tmp_path / "points.csv", "-o", output)
    assert result.exit_code == 0, result.output
    predicted = pd.read_csv(output, dtype={"town": str})
    truth = table.groupby("town")["y"].first()[predicted["town"]]
    assert np.mean(predicted["predicted"].to_numpy() == truth.to_numpy()) > 0.7
    assert (predicted["probability"] > 1 / 3).all()


def test_inverse_bdr_is_fitted_and_predicted(folder, tmp_path):
    fit = ["--model", "inverse-bdr", "--method", "optimize", "--features", "income,age"]
    result = run("fit", folder / "points.csv", *FIT, *fit, "-o", tmp_path / "fit.nc")
    assert result.exit_code == 0, result.output
    assert "InverseBDR (optimize): 40 bags" in result.stdout
    assert run("summary", tmp_path / "fit.nc").exit_code == 0
    output = tmp_path / "p.csv"
    result = run("predict", tmp_path / "fit.nc", folder / "points.csv", "-o", output)
    assert result.exit_code == 0, result.output
    predicted = pd.read_csv(output, dtype={"town": str})
    labels = points().groupby("town")["y"].first()[predicted["town"]].to_numpy()
    assert np.corrcoef(predicted["mean"], labels)[0, 1] > 0.8
    assert (predicted["lower"] < predicted["upper"]).all()


def test_a_fit_without_a_posterior_is_for_python(tmp_path):
    bags = [np.array([[0.0], [1.0]]), np.array([[2.0]]), np.array([[3.0], [5.0]])]
    bdr_stan.RBFNetwork(2).fit(bags, [0.0, 1.0, 2.0]).save(tmp_path / "fit.nc")
    points().to_csv(tmp_path / "points.csv", index=False)
    text = "holds a fit of RBFNetwork, which has no posterior of its own"
    fails(text, "summary", tmp_path / "fit.nc")
    fails(text, "predict", tmp_path / "fit.nc", tmp_path / "points.csv", "-o", tmp_path / "p.csv")


def test_force_replaces_and_leaves_nothing_beside(folder, tmp_path):
    output = tmp_path / "p.csv"
    output.write_text("old")
    arguments = ("predict", folder / "fit.nc", folder / "points.csv", "-o", output)
    fails("p.csv exists: pass --force to replace it", *arguments)
    assert output.read_text() == "old"
    assert run(*arguments, "--force").exit_code == 0
    assert output.read_text().startswith("town,")
    assert [path.name for path in tmp_path.iterdir()] == ["p.csv"]


def test_options_reach_the_model(folder, monkeypatch):
    seen = {}

    def fit(self, bags, y, **options):
        seen.update(model=self, bags=bags, y=y, options=options)
        raise ValueError("far enough")

    monkeypatch.setattr(bdr_stan.BDR, "fit", fit)
    fails(
        "far enough",
        "fit",
        folder / "points.csv",
        *FIT,
        "--model",
        "bdr",
        "--bandwidth",
        "1.5",
        "--bandwidth-scale",
        2,
        "--covariance",
        "pooled",
        "--method",
        "nuts",
        "--chains",
        3,
        "--warmup",
        4,
        "--draws",
        5,
        "--adapt-delta",
        0.9,
        "-o",
        folder / "never.nc",
    )
    model = seen["model"]
    assert (model.n_landmarks, model.bandwidth, model.bandwidth_scale) == (5, 1.5, 2)
    assert (model.covariance, model.method) == ("pooled", "nuts")
    assert seen["bags"].features == ["income", "age", "people"]
    assert seen["options"] == {
        "chains": 3,
        "warmup": 4,
        "draws": 5,
        "seed": 1,
        "progress": True,
        "adapt_delta": 0.9,
    }
    assert not (folder / "never.nc").exists()


# ------------------------------------------------------------------ totals, reports, searches


@pytest.fixture(scope="module")
def pixels(tmp_path_factory):
    """A table with a row a pixel: cases, people asked and of these ill in each of 20 districts."""
    rng = np.random.default_rng(2)
    table = pd.DataFrame({"district": np.repeat(np.arange(20), 5)}).assign(
        lon=lambda t: t.district % 5 + rng.uniform(size=100),
        lat=lambda t: t.district // 5 + rng.uniform(size=100),
        people=rng.uniform(1, 9, 100),
        asked=30,
    )
    rate = np.exp(0.5 * table["lon"])
    table["cases"] = rng.poisson((rate * table.people).groupby(table.district).transform("sum"))
    table["cases"] = table.groupby("district")["cases"].transform("first")
    table["ill"] = table["district"] % 9 + 1
    path = tmp_path_factory.mktemp("totals") / "pixels.csv"
    table.to_csv(path, index=False)
    return path


TOTALS = ["--bag", "district", "--features", "lon,lat", "--model", "aggregate", "--landmarks", "5"]


def test_totals_are_fitted_predicted_and_told_of(pixels, tmp_path):
    fit, output, page = (tmp_path / name for name in ("fit.nc", "pred.csv", "fit.html"))
    given = ["--label", "cases", "--weight", "people", "--link", "exp", "--thin", 3]
    quick = ["--method", "laplace", "--draws", 50, "--seed", 1]
    done = run("fit", pixels, *TOTALS, *given, *quick, "-o", fit)
    assert done.exit_code == 0, done.output
    assert "AggregateRegressor (laplace): 20 bags" in done.stdout
    model = bdr_stan.load(fit)
    assert (model.link, model.thin, model.likelihood) == ("exp", 3, "negative binomial")
    done = run("predict", fit, pixels, "-o", output)
    assert done.exit_code == 0, done.output
    assert (pd.read_csv(output)["lower"] <= pd.read_csv(output)["upper"]).all()

    done = run("report", fit, pixels, "-o", page)
    assert done.exit_code == 0, done.output
    assert done.stdout == f"Wrote {page}\n"
    said = page.read_text()
    assert "<h1>Report of a fit: cases</h1>" in said and 'aria-label="Map of the' in said
    fails("exists: pass --force", "report", fit, pixels, "-o", page)
    done = run("report", fit, "--label", "cases a year", "-o", page, "--force")
    assert done.exit_code == 0, done.output
    assert "<h1>Report of a fit: cases a year</h1>" in page.read_text()
    assert "Map of the" not in page.read_text()


@pytest.mark.parametrize("link", ["square", "exp"])
def test_positive_totals_from_the_shell(pixels, link, tmp_path):
    fit, output, page = (tmp_path / name for name in ("fit.nc", "pred.csv", "fit.html"))
    table = pd.read_csv(pixels)
    table.assign(cost=table["cases"] + 0.5, none=0).to_csv(tmp_path / "costs.csv", index=False)
    given = ["--label", "cost", "--likelihood", "gamma", "--link", link, "--fix-kernel"]
    given += ["--weight", "people", "--method", "optimize", "-o", fit]
    done = run("fit", tmp_path / "costs.csv", *TOTALS, *given)
    assert done.exit_code == 0, done.output
    assert bdr_stan.load(fit).likelihood == "gamma"
    for command in (["predict", fit, pixels, "-o", output], ["report", fit, "-o", page]):
        done = run(*command)
        assert done.exit_code == 0, done.output
    assert (pd.read_csv(output)["lower"] > 0).all()
    assert f"gamma, link {link}; dispersion" in page.read_text()
    zeros = [*TOTALS, *given, "--label", "none", "--force"]
    fails("needs labels > 0", "fit", tmp_path / "costs.csv", *zeros)


def test_counts_out_of_trials_from_the_shell(pixels, tmp_path):
    fit = tmp_path / "fit.nc"
    given = ["--label", "ill", "--likelihood", "binomial", "--trials", "asked", "--fix-kernel"]
    done = run("fit", pixels, *TOTALS, *given, "--method", "optimize", "-o", fit)
    assert done.exit_code == 0, done.output
    model = bdr_stan.load(fit)
    assert model.likelihood == "binomial" and model.learn_kernel is False
    assert model.columns_of_bags == ["asked"]
    done = run("predict", fit, pixels, "-o", tmp_path / "pred.csv")
    assert done.exit_code == 0, done.output
    without = [each for each in given if each not in ("--trials", "asked")]
    fails("trials", "fit", pixels, *TOTALS, *without, "-o", tmp_path / "no.nc")


def test_the_report_is_of_the_table_of_the_fit(folder, tmp_path):
    few = tmp_path / "few.csv"
    points(12).to_csv(few, index=False)
    page = tmp_path / "fit.html"
    fails("to 40 bags, but there are 12", "report", folder / "fit.nc", few, "-o", page)
    fails("fit.txt must end in .html", "report", folder / "fit.nc", "-o", tmp_path / "fit.txt")
    data = folder / "points.csv"
    fails("is the input", "report", folder / "fit.nc", data, "-o", data, "--force")
    assert not page.exists()
    assert run("report", folder / "fit.nc", data, "-o", page).exit_code == 0
    assert ">Shrinkage</h2>" in page.read_text()


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
        ("bdr takes no --n-curved: leave it out, or use --model nonlinear", ["--n-curved", "2"]),
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


# ------------------------------------------------------------------ wrong input


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("there is no file nothing.csv", ["nothing.csv", "--bag", "town", "--label", "y"]),
        ("no column 'twon': did you mean 'town'?", ["points.csv", "--bag", "twon", "--label", "y"]),
        (
            "no column 'rent': it has 'town', 'y', 'income', 'age', 'people'",
            ["points.csv", "--bag", "town", "--label", "rent"],
        ),
        (
            "no column 'incom': did you mean 'income'?",
            ["points.csv", "--bag", "town", "--label", "y", "--features", "incom,age"],
        ),
        ("'age' is not constant in bag 0", ["points.csv", "--bag", "town", "--label", "age"]),
        (
            "column 'y' is both label and features",
            ["points.csv", "--bag", "town", "--label", "y", "--features", "age,y"],
        ),
        ("column 'town' is both bag and label", ["points.csv", "--bag", "town", "--label", "town"]),
        (
            "label column 'word' holds text, not numbers",
            ["words.csv", "--bag", "town", "--label", "word"],
        ),
        ("points.txt is neither .parquet nor .csv", ["points.txt", "--bag", "b", "--label", "y"]),
        ("broken.csv is not a CSV table", ["broken.csv", "--bag", "a", "--label", "b"]),
        ("empty.csv is not a CSV table", ["empty.csv", "--bag", "a", "--label", "b"]),
        ("broken.parquet", ["broken.parquet", "--bag", "a", "--label", "b"]),
        (
            "--bandwidth must be scaled, ard, median or a number, found 'wide'",
            ["points.csv", "--bag", "town", "--label", "y", "--bandwidth", "wide"],
        ),
        (
            "there is no file my.stan",
            ["points.csv", "--bag", "town", "--label", "y", "--stan-file", "my.stan"],
        ),
        (
            "are for --method nuts",
            [
                "points.csv",
                "--bag",
                "town",
                "--label",
                "y",
                "--method",
                "laplace",
                "--adapt-delta",
                "0.9",
            ],
        ),
        (
            "has no method 'exact'; there are: nuts, optimize",
            ["points.csv", "--bag", "town", "--label", "y", "--method", "exact"],
        ),
    ],
)
def test_fit_refuses(folder, monkeypatch, text, arguments):
    monkeypatch.chdir(folder)
    Path("broken.csv").write_text('a,b\n1,2\n3,4,5,6\n"')
    Path("points.txt").write_text("b")
    Path("empty.csv").write_text("")
    Path("words.csv").write_text("town,word,income\n1,high,3\n2,low,4\n")
    Path("broken.parquet").write_text("PAR?")
    fails(text, "fit", *arguments, "--model", "bdr", "-o", "never.nc")
    assert not Path("never.nc").exists()


@pytest.mark.parametrize(
    "model, instead", [("bdr", "bdr-classifier"), ("nonlinear-bdr", "bdr-classifier")]
)
def test_labels_of_text_are_for_a_classifier_that_there_is(tmp_path, model, instead):
    (tmp_path / "words.csv").write_text("town,word,income\n1,high,3\n2,low,4\n")
    labelled = ["fit", tmp_path / "words.csv", "--bag", "town", "--label", "word"]
    fails(f"or use --model {instead}", *labelled, "--model", model, "-o", tmp_path / "never.nc")


def test_outputs_are_refused_before_any_work(folder, tmp_path):
    # there is no such input either: the output is what is looked at first
    fit = ["fit", tmp_path / "points.csv", *FIT, "--model", "bdr", "-o"]
    fails("exists: pass --force to replace it", *fit, folder / "fit.nc")
    fails("does not exist: create it first", *fit, tmp_path / "no" / "fit.nc")
    fails("is a folder: give a file name", *fit, tmp_path)
    data = folder / "points.csv"
    fails(
        "is the input: choose another output",
        "fit",
        data,
        *FIT,
        "--model",
        "bdr",
        "-o",
        data,
        "--force",
    )


def test_unknown_model_and_option_of_another_model(folder):
    arguments = ["fit", folder / "points.csv", *FIT, "-o", folder / "never.nc"]
    fails("'ridge' is not one of 'bdr', ", *arguments, "--model", "ridge", code=2)
    inverse = *arguments, "--model", "inverse-bdr"
    fails("inverse-bdr takes no --covariates: leave", *inverse, "--covariates", "income")
    fails("--bounds must be two numbers with a comma", *inverse, "--bounds", "0")
    fails("blr takes no --bounds", *arguments, "--model", "blr", "--bounds", "0,1")
    fails("found 'nonsense'", *inverse, "--kernel", "nonsense")
    fails("blr takes no --covariance", *arguments, "--model", "blr", "--covariance", "pooled")


def test_predict_refuses(folder, tmp_path):
    output = tmp_path / "p.csv"
    data = folder / "points.csv"
    renamed = tmp_path / "renamed.csv"
    points().rename(columns={"income": "salary"}).to_csv(renamed, index=False)
    fails("no column 'income'", "predict", folder / "fit.nc", renamed, "-o", output)
    fails("there is no file", "predict", tmp_path / "no.nc", data, "-o", output)
    fails("is no fit saved by bdr_stan", "predict", data, data, "-o", output)
    fails("p.xlsx must end in .csv", "predict", folder / "fit.nc", data, "-o", tmp_path / "p.xlsx")
    assert not output.exists()


def test_predict_needs_the_names_of_columns(folder, tmp_path):
    table = bdr_stan.Bags.from_dataframe(points(), "town", ["income", "age"], metadata=["y"])
    bags = bdr_stan.Bags(table.points, table.offsets, features=table.features)
    y = table.metadata["y"]
    model = bdr_stan.BLR(n_landmarks=4, method="exact").fit(bags, y, seed=1)
    model.save(tmp_path / "unnamed.nc")
    arguments = (tmp_path / "unnamed.nc", folder / "points.csv", "-o", tmp_path / "p.csv")
    fails("does not say which column names the bags: pass --bag", "predict", *arguments)
    assert run("predict", *arguments, "--bag", "town").exit_code == 0

    model.fit(table, y, seed=1).save(tmp_path / "table.nc")
    assert run("predict", tmp_path / "table.nc", *arguments[1:], "--force").exit_code == 0

    bags.features = None
    model.fit(bags, y, seed=1).save(tmp_path / "unnamed.nc")
    fails("points without column names", "predict", *arguments, "--bag", "town", "--force")


def test_covariates_enter_from_the_shell(tmp_path):
    table = points(60)
    people = table.groupby("town").y.transform("first") + 1
    table = table.assign(area=people, coast=np.where(people > 1, "yes", "no"))
    table.to_csv(tmp_path / "points.csv", index=False)
    fit = tmp_path / "fit.nc"
    given = ("--features", "income", "--covariates", "area, coast")
    done = run(
        "fit",
        tmp_path / "points.csv",
        *FIT,
        "--model",
        "blr",
        "--method",
        "exact",
        *given,
        "-o",
        fit,
    )
    assert done.exit_code == 0, done.output
    model = bdr_stan.load(fit)
    assert list(model.idata["posterior"]["covariate"].values) == ["area", "coast=no", "coast=yes"]
    table.drop(columns="y").to_csv(tmp_path / "new.csv", index=False)
    done = run("predict", fit, tmp_path / "new.csv", "-o", tmp_path / "found.csv")
    assert done.exit_code == 0, done.output
    found = pd.read_csv(tmp_path / "found.csv")["mean"]
    assert np.corrcoef(found, table.groupby("town").y.first())[0, 1] > 0.99
    lacking = tmp_path / "lacking.csv"
    table.drop(columns="area").to_csv(lacking, index=False)
    fails("no column 'area'", "predict", fit, lacking, "-o", tmp_path / "never.csv")
    fails(
        "column 'income' is both features and covariates",
        "fit", tmp_path / "points.csv", *FIT, "--model", "blr", *given[:3], "income", "-o", fit,
        "--force",
    )  # fmt: skip


@pytest.mark.parametrize(("name", "method"), [("blr", "exact"), ("inverse-bdr", "optimize")])
def test_noise_of_labels_from_the_shell(tmp_path, name, method):
    table = points(60).assign(error=0.02)
    path, fit = tmp_path / "points.csv", tmp_path / "fit.nc"
    table.to_csv(path, index=False)
    noise = ("--label-noise", "size", "--label-sd", "error", "--features", "income")
    done = run("fit", path, *FIT, "--model", name, "--method", method, *noise, "-o", fit)
    assert done.exit_code == 0, done.output
    model = bdr_stan.load(fit)
    assert model.label_noise == "size" and "sigma_point" in model.priors().index
    assert np.all(model.result_.constants["label_sd"] == 0.02)
    table.drop(columns=["y", "error"]).to_csv(tmp_path / "new.csv", index=False)
    done = run("predict", fit, tmp_path / "new.csv", "-o", tmp_path / "found.csv")
    assert done.exit_code == 0, done.output


def test_the_traceback_is_shown_on_demand(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match="there is no file"):
        run("--debug", "summary", tmp_path / "no.nc", catch_exceptions=False)
    monkeypatch.setenv("BDR_STAN_DEBUG", "1")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        run("summary", tmp_path / "no.nc", catch_exceptions=False)


def test_an_unexpected_error_is_not_hidden(monkeypatch):
    monkeypatch.setattr("bdr_stan.cmdstan.doctor", lambda: {}["nothing"])
    assert isinstance(run("doctor").exception, KeyError)


# ------------------------------------------------------------------ Stan


def test_doctor_says_how_to_fix_it_and_exits_with_1(monkeypatch):
    good = Finding("make", True, "/usr/bin/make")
    bad = Finding("C++ compiler", False, "g++ not\nfound", "sudo apt-get install g++")
    monkeypatch.setattr("bdr_stan.cmdstan.doctor", lambda: [good])
    result = run("doctor")
    assert (result.exit_code, result.output) == (0, "ok     make: /usr/bin/make\n")
    monkeypatch.setattr("bdr_stan.cmdstan.doctor", lambda: [good, bad])
    result = run("doctor")
    assert result.exit_code == 1
    assert result.output.splitlines()[1:] == [
        "WRONG  C++ compiler: g++ not found",
        "       fix it with: sudo apt-get install g++",
    ]


def test_setup_passes_the_source_on(monkeypatch):
    seen = []

    def setup(source, programs):
        seen.append((source, programs))
        return Path("/home/of/stan")

    monkeypatch.setattr("bdr_stan.cmdstan.setup", setup)
    result = run("setup", "--from", "pypi")
    assert result.output == "Stan is ready: /home/of/stan, with blr and bdr compiled\n"
    assert seen == [("pypi", ("blr", "bdr"))]
    fails("'floppy' is not one of", "setup", "--from", "floppy", code=2)


def test_eject_writes_a_program_that_compile_takes(tmp_path):
    target = tmp_path / "mine.stan"
    result = run("eject", "blr", target)
    assert result.exit_code == 0, result.output
    assert "real labels_lpdf(" in target.read_text() and "log_lik" in target.read_text()
    assert (tmp_path / "functions" / "compressed_normal.stanfunctions").is_file()
    target.write_text(target.read_text() + "\n")
    fails("exists already", "eject", "blr", target)
    assert run("eject", "blr", target, "--force").exit_code == 0
    fails("no Stan program called 'ridge'; there are: ", "eject", "ridge", tmp_path)


def test_compile_names_the_executable():
    result = run("compile", "blr")
    assert result.exit_code == 0, result.output
    name, executable = result.stdout.strip().split(": ")
    assert name == "blr" and os.access(executable, os.X_OK)
    fails("no Stan program called 'ridge'", "compile", "ridge")
    fails("no Stan program", "compile", "/nowhere/my.stan")


# ------------------------------------------------------------------ as a program


def program(*arguments, **options):
    return subprocess.run(
        [PROGRAM, *map(str, arguments)], check=False, capture_output=True, text=True, **options
    )


def test_help_and_version_are_quick_and_import_nothing_heavy():
    assert program("--version").stdout == f"bdr-stan, version {bdr_stan.__version__}\n"
    begun = time.monotonic()
    said = program("--help").stdout
    assert time.monotonic() - begun < 2  # a tenth of a second on an idle machine
    for command in cli.main.commands:
        assert f"  {command} " in said
    code = "import bdr_stan.cli, sys, json; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(subprocess.check_output([sys.executable, "-c", code], text=True))
    assert not {"arviz", "cmdstanpy", "sklearn", "pandas", "matplotlib", "numpy"} & set(loaded)


def test_help_of_fit_has_the_default_warmup():
    said = " ".join(program("fit", "--help").stdout.split())
    assert f"[default: {WARMUP}; {WARMUP_OF_VARIANTS} for bdr-classifier and with" in said


def test_away_from_a_terminal_there_are_no_escape_codes(folder):
    for environment in ({}, {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "TERM": "xterm-256color"}):
        done = program("summary", folder / "fit.nc", env=os.environ | environment)
        assert done.returncode == 0, done.stderr
        assert "\x1b" not in done.stdout + done.stderr
        assert "sigma" in done.stdout


def test_a_closed_pipe_is_no_error(folder):
    command = f"{PROGRAM} summary --all {folder / 'fit.nc'} | head -n 1"
    done = subprocess.run(
        [shutil.which("bash"), "-c", command], check=True, capture_output=True, text=True
    )
    assert done.stdout.startswith("BDR (nuts)")
    assert "Traceback" not in done.stderr and "Broken" not in done.stderr


def test_an_error_is_one_line_on_stderr(tmp_path):
    done = program("summary", tmp_path / "no.nc")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"Error: there is no file {tmp_path / 'no.nc'}\n"


@pytest.mark.parametrize("command", cli.main.commands)
def test_each_command_has_an_example(command):
    result = run(command, "--help")
    assert result.exit_code == 0
    assert "Usage:" in result.output and "Error" not in result.output
    assert f"\n  Example:\n    bdr-stan {command}" in result.output


def test_shells_complete_commands_and_options():
    assert "_BDR_STAN_COMPLETE=bash_source bdr-stan" in run("--help").output
    script = program(env=os.environ | {"_BDR_STAN_COMPLETE": "zsh_source"}).stdout
    assert "compdef" in script
    asked = {"_BDR_STAN_COMPLETE": "bash_complete", "COMP_WORDS": "bdr-stan re", "COMP_CWORD": "1"}
    assert program(env=os.environ | asked).stdout == "plain,report\n"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda t: t.reset_index(names=""), "has a column without a name"),
        (lambda t: t.assign(age=["old", *t["age"][1:]]), "'age' holds text such as 'old' among"),
        (
            lambda t: t.assign(age=t["age"].mask(t.index == 2)),
            "missing values in the columns 'age'",
        ),
    ],
)
def test_default_columns_are_not_guessed(tmp_path, change, text):
    change(points()).to_csv(tmp_path / "points.csv", index=False)
    fit = ["--bag", "town", "--label", "y", "--model", "blr", "-o", tmp_path / "fit.nc"]
    fails(text, "fit", tmp_path / "points.csv", *fit)
    assert not (tmp_path / "fit.nc").exists()


def test_bdr_is_the_default_model(folder, tmp_path):
    table = tmp_path / "t.csv"
    search = ["tune", folder / "points.csv", *FIT, "--features", "income", "--landmarks", "3"]
    quick = ["--bandwidth-scale", "1", "--candidates", "optimize", "--cv", "2", "--table", table]
    done = run(*search, *quick)
    assert done.exit_code == 0, done.output
    assert pd.read_csv(table)["model"].tolist() == ["bdr"]
    for command in ("fit", "tune"):
        assert "default: bdr" in " ".join(run(command, "--help").output.split())


@pytest.mark.parametrize("command", ["fit", "tune", "predict", "summary", "report"])
def test_a_missing_file_is_told_before_anything_is_imported(command, tmp_path):
    labelled = [*FIT, "-o", "never"] if command in ("fit", "tune") else []
    outputs = {"predict": ["new.csv", "-o", "p.csv"], "report": ["-o", "p.html"]}
    code = (
        "import atexit, sys\n"
        "from bdr_stan.cli import main\n"
        "atexit.register(lambda: print('sklearn' in sys.modules))\n"
        f"main({[command, 'no.file', *labelled, *outputs.get(command, [])]!r})"
    )
    asked = [sys.executable, "-c", code]
    done = subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "Error: there is no file no.file\n"
    assert done.stdout == "False\n"


def test_messages_name_options_of_the_shell(folder, tmp_path):
    table = pd.read_csv(folder / "points.csv")
    table.loc[3, "age"] = np.nan
    table.to_csv(tmp_path / "gaps.csv", index=False)
    fails("--missing drop", "fit", tmp_path / "gaps.csv", *FIT, "-o", tmp_path / "never.nc")
    short = ["--landmarks", "3", "--features", "income", "--chains", "2", "--warmup", "50"]
    data, output = folder / "points.csv", tmp_path / "short.nc"
    done = run("fit", data, *FIT, *short, "--draws", "20", "--seed", "1", "-o", output)
    assert done.exit_code == 0, done.output
    assert "Use at least --draws 200, better 1000" in done.stderr
