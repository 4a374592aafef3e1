"""A table as a user has it, through Python and the shell."""

import numpy as np
import pandas as pd
import pytest
from builders.counties import standardised_by_hand
from click.testing import CliRunner
from sklearn.metrics import r2_score
from sklearn.model_selection import train_test_split

from bdr_stan import BDR, Bags, cli, load, tune
from bdr_stan.datasets import county_table


def split(people):
    bags = Bags.from_dataframe(people, bag="county", metadata=["vote"])
    y = bags.metadata["vote"].to_numpy()
    return train_test_split(bags, y, test_size=0.25, random_state=1)


@pytest.fixture(scope="module")
def people():
    return county_table()


@pytest.fixture(scope="module")
def by_hand(people):
    """R^2 on counties held out of a fit to columns standardised by hand."""
    train, test, y_train, y_test = split(standardised_by_hand(people))
    model = BDR(bandwidth="median", method="optimize").fit(train, y_train, seed=1)
    return r2_score(y_test, model.predict(test))


def test_raw_columns_do_as_well_as_those_standardised_by_hand(people, by_hand):
    train, test, y_train, y_test = split(people)
    model = BDR(method="optimize").fit(train, y_train, seed=1)
    assert r2_score(y_test, model.predict(test)) > by_hand - 0.02
    first, *summands = model.report().partition("Kernel: ")[2].splitlines()
    assert first.startswith("linear in age, income, scores of income, region=country, ... (")
    assert summands[0] == "  + quadratic in age, scores of income"
    assert summands[2].startswith("    x RBF, lengths age 2") and len(summands) == 4
    unscaled = BDR(bandwidth="median", method="optimize").fit(train, y_train, seed=1)
    assert r2_score(y_test, unscaled.predict(test)) < by_hand - 0.2  # dollars alone count


@pytest.mark.slow
def test_tuned_settings_and_intervals_that_hold(people, by_hand):
    train, test, y_train, y_test = split(people)
    grid = {"n_landmarks": (30,), "bandwidth_scale": (0.5, 1.0)}
    best = tune(train, y_train, models=[BDR()], cv=3, **grid).best
    model = best.fit(train, y_train, chains=2, warmup=400, draws=400, seed=1)
    mean, sd = model.predict(test, return_std=True)
    assert r2_score(y_test, mean) > by_hand - 0.02
    lower, upper = model.predictive(test).interval(0.95)
    assert 0.88 < np.mean((lower <= y_test) & (y_test <= upper)) <= 1
    np.testing.assert_allclose(model.predictive(test).sd, sd)


def test_the_shell(people, by_hand, tmp_path):
    train, test, _, y_test = split(people)
    people[people.county.isin(train.ids)].to_csv(tmp_path / "people.csv", index=False)
    held = people[people.county.isin(test.ids)]
    held.drop(columns="vote").to_csv(tmp_path / "new.csv", index=False)

    def run(*arguments):
        done = CliRunner().invoke(cli.main, [str(a) for a in arguments])
        assert done.exit_code == 0, done.output
        return done.stdout

    fit, output = tmp_path / "fit.nc", tmp_path / "pred.csv"
    model = ("--model", "shrinkage", "--seed", 1, "-o", fit)
    said = run("fit", tmp_path / "people.csv", "--bag", "county", "--label", "vote", *model)
    assert "Columns of a point: age, income, region=country, region=town" in said
    assert "sd of each column" in said
    run("predict", fit, tmp_path / "new.csv", "-o", output)
    found = pd.read_csv(output, index_col="county")["mean"]
    assert r2_score(y_test, found[test.ids]) > by_hand - 0.02
    np.testing.assert_allclose(load(fit).predict(held), found, rtol=1e-6)
