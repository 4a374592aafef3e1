"""What `fit` and `predict` refuse, in the words of the shell."""

from pathlib import Path

import numpy as np
import pytest
from builders.shell import FIT, fails, points, run

import bdr_stan


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
    "model, instead", [("bdr", "bdr-classifier"), ("aggregate", "bdr-classifier")]
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
    fails("the folder /proc cannot be written to (", *fit, "/proc/fit.nc")
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
    fails(
        "bdr takes no --link: leave it out, or use --model aggregate", *arguments, "--link", "exp"
    )
    fails("blr takes no --bounds: leave it out, or use --model inverse-bdr",
          *arguments, "--model", "blr", "--bounds", "0,1")  # fmt: skip
    fails("found 'nonsense'", *inverse, "--kernel", "nonsense")


def test_predict_refuses(folder, tmp_path):
    output = tmp_path / "p.csv"
    data = folder / "points.csv"
    renamed = tmp_path / "renamed.csv"
    points().rename(columns={"income": "salary"}).to_csv(renamed, index=False)
    fails("no column 'income'", "predict", folder / "fit.nc", renamed, "-o", output)
    fails("there is no file", "predict", tmp_path / "no.nc", data, "-o", output)
    fails("is not a fit saved by bdr_stan", "predict", data, data, "-o", output)
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


def test_fits_to_samples_of_arrays_are_shown_but_predicted_in_python(tmp_path):
    rng = np.random.default_rng(0)
    bags = bdr_stan.Bags.from_list([rng.normal(size=(4, 2)) for _ in range(20)])
    model = bdr_stan.Shrinkage(5, kernel="rbf")
    model.fit({"people": bags, "houses": bags}, rng.normal(size=20), seed=1)
    model.save(tmp_path / "fit.nc")
    (tmp_path / "points.csv").write_text("town,a,b\nx,1,2\n")
    words = "fitted to points without column names: go on in Python"
    read = [tmp_path / "fit.nc", tmp_path / "points.csv", "--bag", "town"]
    fails(words, "predict", *read, "-o", tmp_path / "p.csv")
    fails(words, "report", *read, "-o", tmp_path / "r.html")
    shown = run("summary", tmp_path / "fit.nc").output
    assert "people of 2 features, 5 landmarks; houses of 2 features, 5 landmarks" in shown
    assert "rho[houses]" in shown
