"""The commands `fit`, `predict` and `summary`; one small fit is shared."""

import numpy as np
import pandas as pd
import pytest
from builders.partitions import parquet_folder
from builders.shell import FIT, fails, points, run

import bdr_stan


def test_fit_reports_parameters_diagnostics_and_file(folder):
    said = (folder / "said.txt").read_text()
    # effects of income alone: age is alike in all bags
    assert "BDR (nuts): 40 bags, points of 2 features, 4 landmarks\n" in said
    assert "Kernel: linear and quadratic in income\n  + RBF, lengths " in said
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
    assert list(table) == ["town", "n_points", "mean", "sd", "lower", "upper", "familiarity"]
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
    assert (f"Warning: the id {first!r} (1 in total) begins like a" in result.stderr) is warned
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


def test_clusters_of_the_fit_are_used_in_predictions(folder):
    table = points().assign(home=lambda t: t.groupby("town").cumcount() // 2, area=1)
    table.to_csv(folder / "homes.csv", index=False)
    fitted, output = folder / "homes.nc", folder / "homes_predicted.csv"
    columns = ["--features", "income, age", "--cluster", "home", "--strata", "area"]
    model = ["--model", "shrinkage", "--kernel", "rbf"]
    result = run("fit", folder / "homes.csv", *FIT, *columns, *model, "-o", fitted)
    assert result.exit_code == 0, result.output
    result = run("predict", fitted, folder / "homes.csv", "-o", output)
    assert result.exit_code == 0, result.output
    bags = bdr_stan.Bags.from_dataframe(
        table, "town", ["income", "age"], cluster="home", strata="area"
    )
    expected = bdr_stan.load(fitted).predictive(bags)
    np.testing.assert_allclose(pd.read_csv(output)["sd"], expected.sd)
    fails("no column 'home'", "predict", fitted, folder / "points.csv", "-o", output, "--force")


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
    fails("fitted with trials", "predict", tmp_path / "fit.nc", new, "-o", tmp_path / "no.csv")


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
        "town", "n_points", "predicted", "probability", "lower", "upper", "familiarity"
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
    assert model.method == "nuts"
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


def test_groups_and_smooths_enter_from_the_shell(tmp_path):
    table = points(60)
    place = table.groupby("town").ngroup()
    table = table.assign(coast=np.where(place % 3, "no", "yes"), lon=place % 7, lat=place % 5)
    table.to_csv(tmp_path / "points.csv", index=False)
    fit = tmp_path / "fit.nc"
    given = ("--features", "income", "--groups", "coast", "--smooths", "lon+lat")
    done = run(
        "fit", tmp_path / "points.csv", *FIT, "--model", "shrinkage", *given, "-o", fit
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    model = bdr_stan.load(fit)
    assert (model.groups, model.smooths) == (["coast"], [["lon", "lat"]])
    done = run("predict", fit, tmp_path / "points.csv", "-o", tmp_path / "found.csv")
    assert done.exit_code == 0, done.output
    fails(
        "column 'coast' is both covariates and groups",
        "fit", tmp_path / "points.csv", *FIT, *given, "--covariates", "coast", "-o", fit, "--force",
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


def test_separators_decimals_and_encodings_of_tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = points().replace("00", "Übersee")
    table.to_csv("german.csv", sep=";", decimal=",", encoding="latin-1", index=False)
    given = ["--sep", ";", "--decimal", ",", "--encoding", "latin-1"]
    fit = ["german.csv", *FIT, "--features", "income,age", "--model", "blr", "--method", "exact"]
    fails("pass --sep ';', and --decimal , for", "fit", *fit, *given[4:], "-o", "fit.nc")
    fails("pass --encoding latin-1", "fit", *fit, *given[:4], "-o", "fit.nc")
    assert run("fit", *fit, *given, "-o", "fit.nc").exit_code == 0
    made = run("predict", "fit.nc", "german.csv", *given, "-o", "new.csv")
    assert made.exit_code == 0, made.output
    assert "Übersee" in pd.read_csv("new.csv")["town"].to_list()


def test_labels_that_are_no_numbers_are_named_with_their_bag(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = points()
    table.assign(y=table["y"].round(3).astype(str).where(table["town"] != "03", "<5")).to_csv(
        "low.csv", index=False
    )
    text = "(id '03') is '<5', not a number (1 in total): give such bags"
    result = run("fit", "low.csv", *FIT, "-o", "fit.nc")
    assert result.exit_code == 1 and text in result.stderr
