"""The commands with several samples of points per bag, each in a table of its own."""

import numpy as np
import pandas as pd
import pytest
from builders.shell import fails, run

import bdr_stan

N = 30
FIT = ["--bag", "town", "--label", "vote", "--landmarks", 4, "--method", "laplace", "--seed", 1]


def tables(seed, n=N):
    """People with a region and a vote, and houses; the last town has houses alone."""
    rng = np.random.default_rng(seed)
    level, built = rng.normal(size=(2, n))
    vote = level + 0.5 * built + rng.normal(0, 0.1, n)
    people, houses = rng.integers(3, 20, n - 1), rng.integers(2, 8, n)
    of_town = np.repeat(np.arange(n - 1), people)
    first = pd.DataFrame(
        {
            "town": [f"0{k}" for k in of_town],
            "income": 20_000 + 3000 * (level[of_town] + rng.normal(size=len(of_town))),
            "job": rng.choice(["farm", "shop"], len(of_town)),
            "region": np.where(of_town % 2, "east", "west"),
            "vote": vote[of_town],
        }
    )
    of_town = np.repeat(np.arange(n), houses)
    second = pd.DataFrame(
        {
            "town": [f"0{k}" for k in of_town],
            "year": 1970 + 10 * (built[of_town] + rng.normal(size=len(of_town))),
        }
    )
    return first.sample(frac=1, random_state=1), second.sample(frac=1, random_state=2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """People, houses and a fit to both, in a folder whose name has blanks."""
    folder = tmp_path_factory.mktemp("two samples (copy)")
    for name, table in zip(("people", "houses"), tables(1), strict=True):
        table.to_csv(folder / f"{name}.csv", index=False)
    for name, table in zip(("new people", "new houses"), tables(2), strict=True):
        table.to_csv(folder / f"{name}.csv", index=False)
    result = run(
        "fit", folder / "people.csv", "--sample", f"houses={folder / 'houses.csv'}", *FIT,
        "--features", "income,job", "--covariates", "region", "-o", folder / "fit.nc",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    (folder / "said.txt").write_text(result.stdout)
    return folder


def test_fit_is_that_of_the_dict(folder):
    said = (folder / "said.txt").read_text()
    assert "people of 3 features, 6 landmarks; houses of 1 features, 4 landmarks" in said
    assert f"1 bags have no label, being in no row of {folder / 'people.csv'}: left out" in said
    text = {"dtype": {"town": str}}
    people = bdr_stan.Bags.from_csv(
        folder / "people.csv", "town", ["income", "job"], metadata=["vote", "region"], **text
    )
    houses = bdr_stan.Bags.from_csv(folder / "houses.csv", "town", **text)
    samples = bdr_stan.Samples({"people": people, "houses": houses})[: N - 1]
    model = bdr_stan.BDR(4, method="laplace", covariates=["region"]).fit(samples, "vote", seed=1)
    loaded = bdr_stan.load(folder / "fit.nc")
    np.testing.assert_allclose(loaded.predict(samples), model.predict(samples), rtol=1e-6)


@pytest.mark.parametrize("both", [True, False])
def test_predictions_are_those_of_the_model(folder, both):
    output = folder / "predictions.csv"
    more = ["--sample", f"houses={folder / 'new houses.csv'}"] if both else []
    named = ["predict", folder / "fit.nc", folder / "new people.csv", *more, "-o", output]
    if both:  # the town without people has no region
        fails("region", *named)
        new = pd.read_csv(folder / "new houses.csv", dtype={"town": str})
        new[new["town"] != f"0{N - 1}"].to_csv(folder / "their houses.csv", index=False)
        named[4] = f"houses={folder / 'their houses.csv'}"
    result = run(*named, "--force")
    assert result.exit_code == 0, result.output
    table = pd.read_csv(output, dtype={"town": str})
    first, second = tables(2)
    people = bdr_stan.Bags.from_dataframe(first, "town", ["income", "job"], metadata=["region"])
    samples = {"people": people}
    if both:
        samples["houses"] = bdr_stan.Bags.from_dataframe(
            second[second["town"] != f"0{N - 1}"], "town"
        )
    expected = bdr_stan.load(folder / "fit.nc").predict_table(samples)
    assert table["town"].tolist() == expected.index.tolist()
    np.testing.assert_allclose(table["mean"], expected["mean"])
    np.testing.assert_allclose(table["sd"], expected["sd"])


def test_report(folder):
    output = folder / "fit.html"
    new = [folder / "people.csv", "--sample", f"houses={folder / 'houses.csv'}"]
    result = run("report", folder / "fit.nc", *new, "-o", output)
    assert result.exit_code == 0 and "houses" in output.read_text(), result.output


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (["houses"], "--sample must be NAME=TABLE, such as houses=houses.csv, not 'houses'"),
        (["houses=nowhere.csv"], "there is no file nowhere.csv"),
        (["people={houses}"], "two samples are called 'people': give --sample another name"),
        (["houses={houses}", "houses={houses}"], "two samples are called 'houses'"),
        (["houses={other}"], "town"),
    ],
)
def test_samples_that_cannot_be_read(folder, samples, message):
    pd.DataFrame({"county": ["00"], "year": [1.0]}).to_csv(folder / "other.csv", index=False)
    given = [s.format(houses=folder / "houses.csv", other=folder / "other.csv") for s in samples]
    options = [part for text in given for part in ("--sample", text)]
    fails(
        message,
        "fit",
        folder / "people.csv",
        *options,
        *FIT,
        "--features",
        "income",
        "-o",
        folder / "none.nc",
    )
    assert not (folder / "none.nc").exists()


def test_samples_that_the_fit_does_not_have(folder):
    cars = f"cars={folder / 'new houses.csv'}"
    new = [folder / "new people.csv", "-o", folder / "none.csv", "--sample", cars]
    fails("--sample cars is none of the other samples of", "predict", folder / "fit.nc", *new)
    alone = ["fit", folder / "people.csv", *FIT, "--features", "income", "-o", folder / "one.nc"]
    assert run(*alone).exit_code == 0
    fails("was fitted to one sample: leave --sample out", "predict", folder / "one.nc", *new)
    assert not (folder / "none.csv").exists()


def test_models_of_one_sample(folder):
    houses = ["--sample", f"houses={folder / 'houses.csv'}", "--model", "inverse-bdr"]
    fails(
        "bags with several samples, people, houses, are for BDR, BLR and",
        "fit", folder / "people.csv", *houses, *FIT, "--features", "income", "-o",
        folder / "none.nc",
    )  # fmt: skip
