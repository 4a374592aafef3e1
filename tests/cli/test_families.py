"""Families of labels on the command line: fit, predict and report with trials or exposure."""

import numpy as np
import pandas as pd
import pytest
from builders.shell import FIT, fails, points, run

import bdr_stan

QUICK = ["--model", "shrinkage", *FIT, "--features", "income"]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A table of points with the votes of each town, the numbers for something, and its people."""
    rng = np.random.default_rng(0)
    table = points().drop(columns=["people", "age"])
    towns = table.groupby("town")["y"].first()
    votes = pd.Series(rng.integers(20, 300, len(towns)), index=towns.index)
    chosen = pd.Series(rng.binomial(votes, 1 / (1 + np.exp(-towns))), index=towns.index)
    cases = pd.Series(rng.poisson(votes / 20 * np.exp(0.5 * towns)), index=towns.index)
    table = table.assign(
        votes=table.town.map(votes), chosen=table.town.map(chosen), cases=table.town.map(cases)
    ).drop(columns="y")
    path = tmp_path_factory.mktemp("families") / "votes.csv"
    table.to_csv(path, index=False)
    return path


def arguments(label, *more):
    given = [label if each == "y" else each for each in QUICK]
    return [*given, *more]


def test_fit_predict_and_report_of_votes(table, tmp_path):
    fit, output = tmp_path / "fit.nc", tmp_path / "pred.csv"
    given = arguments("chosen", "--family", "binomial", "--trials", "votes")
    done = run("fit", table, *given, "-o", fit)
    assert done.exit_code == 0, done.output
    model = bdr_stan.load(fit)
    assert model.family == "binomial" and model.columns_of_bags == ["votes"]
    done = run("predict", fit, table, "-o", output)
    assert done.exit_code == 0, done.output
    predicted = pd.read_csv(output, dtype={"town": str}).set_index("town")
    truth = pd.read_csv(table, dtype={"town": str}).groupby("town").first()
    assert (
        np.corrcoef(predicted["mean"] / truth["votes"], truth["chosen"] / truth["votes"])[0, 1]
        > 0.6
    )
    assert (predicted["upper"] <= truth["votes"]).all() and (predicted["lower"] % 1 == 0).all()
    done = run("report", fit, table, "-o", tmp_path / "fit.html")
    assert done.exit_code == 0, done.output
    assert "chosen / votes" in (tmp_path / "fit.html").read_text()
    assert "linear predictor" in run("summary", fit).output


def test_fit_of_counts(table, tmp_path):
    fit = tmp_path / "fit.nc"
    done = run("fit", table, *arguments("cases", "--family", "poisson", "--exposure", "votes"),
               "-o", fit)  # fmt: skip
    assert done.exit_code == 0, done.output
    assert bdr_stan.load(fit).family == "poisson"


def test_fit_and_predictions_of_censored_times(table, tmp_path):
    """With events and entries, which new bags need not have."""
    points = pd.read_csv(table, dtype={"town": str})
    times = points.assign(years=points["cases"] + 1.0, died=points["votes"] % 2, start=0.5)
    times.to_csv(tmp_path / "times.csv", index=False)
    times.drop(columns=["years", "died", "start"]).to_csv(tmp_path / "new.csv", index=False)
    given = arguments("years", "--family", "weibull", "--event", "died", "--entry", "start")
    done = run("fit", tmp_path / "times.csv", *given, "-o", tmp_path / "fit.nc")
    assert done.exit_code == 0, done.output
    constants = bdr_stan.load(tmp_path / "fit.nc").result_.constants
    died = points.groupby("town", sort=False)["votes"].first() % 2
    np.testing.assert_array_equal(sorted(constants["event"]), sorted(died))
    assert np.all(constants["entry"] == 0.5)
    done = run("predict", tmp_path / "fit.nc", tmp_path / "new.csv", "-o", tmp_path / "pred.csv")
    assert done.exit_code == 0, done.output
    assert (pd.read_csv(tmp_path / "pred.csv")["mean"] > 0).all()
    done = run("report", tmp_path / "fit.nc", "-o", tmp_path / "report.html")
    assert done.exit_code == 0, done.output


def test_refusals(table, tmp_path):
    out = ["-o", tmp_path / "no.nc"]
    fails("needs --trials", "fit", table, *arguments("chosen", "--family", "binomial"), *out)
    fails("takes no --trials", "fit", table, *arguments("cases", "--trials", "votes"), *out)
    fails("takes no --event", "fit", table, *arguments("cases", "--event", "votes"), *out)
    fails("takes no --exposure", "fit", table, *arguments("cases", "--exposure", "votes"), *out)
    fails(
        "is both", "fit", table,
        *arguments("chosen", "--family", "binomial", "--trials", "chosen"), *out,
    )  # fmt: skip
    few = arguments("votes", "--family", "binomial", "--trials", "chosen")
    fails("above its", "fit", table, *few, *out)
    fails(
        "'poison' is not one of",
        "fit",
        table,
        *arguments("cases", "--family", "poison"),
        *out,
        code=2,
    )
    classes = ["--model", "bdr-classifier", *FIT, "--family", "poisson"]
    fails("takes no --family", "fit", table, *classes, *out)
    assert not (tmp_path / "no.nc").exists()


def test_fit_and_predict_of_ordered_categories(table, tmp_path):
    grades = tmp_path / "grades.csv"
    points = pd.read_csv(table, dtype={"town": str})
    points.assign(grade=np.digitize(points.chosen / points.votes, [0.3, 0.5, 0.7])).to_csv(
        grades, index=False
    )
    fit, output = tmp_path / "fit.nc", tmp_path / "pred.csv"
    done = run("fit", grades, *arguments("grade", "--family", "ordinal"), "-o", fit)
    assert done.exit_code == 0, done.output
    assert "gap_2" in done.output
    done = run("predict", fit, grades, "-o", output)
    assert done.exit_code == 0, done.output
    predicted = pd.read_csv(output)
    assert {"predicted", "probability", "lower", "upper"} < set(predicted)
    assert (predicted["lower"] <= predicted["predicted"]).all()
    assert (predicted["predicted"] <= predicted["upper"]).all()
