"""influence: band and line of numbers, dots of categories, read back from the artists."""

import numpy as np
import pandas as pd
import pytest

from bdr_stan import BLR, AggregateRegressor, Bags, BLRClassifier, plots


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(2)
    town = np.repeat(np.arange(40), 12)
    return pd.DataFrame({
        "town": town,
        "age": rng.normal(40 + 5 * rng.normal(size=40)[town], 10),
        "job": np.array(["farm", "office"])[rng.integers(0, 2, 480)],
        "owner": rng.random(480) < 0.4,
    })  # fmt: skip


@pytest.fixture(scope="module")
def bags(people):
    return Bags.from_dataframe(people, "town")


@pytest.fixture(scope="module")
def model(people, bags):
    label = people["age"].groupby(people["town"]).mean() / 20
    label += (people["job"] == "farm").groupby(people["town"]).mean()
    return BLR(10, method="exact").fit(bags, label.to_numpy(), seed=1)


def test_numbers_have_a_line_in_a_band(model, bags):
    ax = plots.influence(model, "age", bags, level=0.8, n_points=50)
    values, along = model.influence_along("age", bags, n_points=50)
    _, line = ax.lines
    np.testing.assert_array_equal(line.get_xydata(), np.c_[values, along.mean])
    band = ax.collections[0].get_paths()[0].vertices
    for ends in along.interval(0.8):
        assert set(zip(values, ends)) <= {tuple(point) for point in band}
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("age", "added to the label")
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["80% of the posterior", "posterior mean"]


@pytest.mark.parametrize("column, names", [("job", ["farm", "office"]), ("owner", ["0", "1"])])
def test_few_values_have_dots(model, bags, column, names):
    import matplotlib.pyplot as plt

    _, given = plt.subplots()
    ax = plots.influence(model, column, bags, ax=given)
    assert ax is given
    _, along = model.influence_along(column, bags)
    dots = ax.lines[1]
    assert dots.get_linestyle() == "None"
    np.testing.assert_array_equal(dots.get_ydata(), along.mean)
    assert [text.get_text() for text in ax.get_xticklabels()] == names
    ends = np.array([segment[:, 1] for segment in ax.collections[0].get_segments()])
    np.testing.assert_allclose(ends.T, along.interval(0.9))


def test_classes_have_a_latent_function(people, bags):
    label = people["age"].groupby(people["town"]).mean().to_numpy()
    y = np.where(label > np.median(label), "old", "young")
    model = BLRClassifier(6, method="optimize").fit(bags, y, seed=1)
    ax = plots.influence(model, "age")
    assert ax.get_ylabel() == "added to the latent function"


def test_columns_without_names_go_by_number(rng):
    points = [rng.normal(c, 1, size=(8, 2)) for c in np.linspace(0, 2, 15)]
    model = BLR(4, method="exact").fit(points, np.linspace(0, 2, 15), seed=1)
    assert plots.influence(model, 1, points).get_xlabel() == "column 1"


def test_rates_along_a_column_are_averages_of_points_that_have_the_value(people, bags):
    counts = np.random.default_rng(1).poisson(bags.sizes)
    model = AggregateRegressor(n_landmarks=6, method="laplace").fit(bags, counts, draws=40, seed=1)
    ax = plots.influence(model, "age", bags, level=0.8, n_points=30, n_draws=40)
    (line,) = ax.lines
    sample = bags.sample_points(30, np.random.default_rng(0))
    band = ax.collections[0].get_paths()[0].vertices
    for k in (0, 30, 59):
        value, drawn = line.get_xydata()[k]
        sample[:, 0] = value
        rates = model.predict_points(sample, n_draws=40).draws(np.arange(30)).mean(axis=1)
        assert drawn == pytest.approx(rates.mean())
        ends = band[band[:, 0] == value, 1]
        for end in np.quantile(rates, [0.1, 0.9]):
            assert np.abs(ends - end).min() < 1e-12
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("age", "average rate")
    dots = plots.influence(model, "job", bags)
    assert [text.get_text() for text in dots.get_xticklabels()] == ["farm", "office"]
    with pytest.raises(ValueError, match="no column 'height'"):
        plots.influence(model, "height", bags)


def test_the_rate_along_a_column_needs_points():
    with pytest.raises(
        ValueError, match="the rate of AggregateRegressor is averaged over points: pass"
    ):
        plots.influence(AggregateRegressor(), "age")
