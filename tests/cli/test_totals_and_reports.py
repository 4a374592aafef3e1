"""Totals and reports from the shell."""

import pandas as pd
import pytest
from builders.shell import TOTALS, fails, points, run

import bdr_stan


def test_totals_are_fitted_predicted_and_told_of(pixels, tmp_path):
    fit, output, page = (tmp_path / name for name in ("fit.nc", "pred.csv", "fit.html"))
    given = ["--label", "cases", "--weight", "people", "--link", "exp", "--thin", 3]
    given += ["--likelihood", "negative binomial"]  # or negative_binomial
    quick = ["--method", "laplace", "--draws", 50, "--seed", 1]
    done = run("fit", pixels, *TOTALS, *given, *quick, "-o", fit)
    assert done.exit_code == 0, done.output
    assert "AggregateRegressor (laplace): 20 bags" in done.stdout
    model = bdr_stan.load(fit)
    assert (model.link, model.thin, model.likelihood) == ("exp", 3, "negative_binomial")
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
