"""What models say of points, of columns, and of changed bags."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import log_expit
from sklearn.base import clone, is_classifier

import bdr_stan
from bdr_stan import (
    BDR,
    BLR,
    RBF,
    AggregateRegressor,
    Bags,
    BDRClassifier,
    BLRClassifier,
    InverseBDR,
    InverseBDRClassifier,
    Matern32,
    Shrinkage,
    ShrinkageClassifier,
    Stacked,
    StackedClassifier,
)
from bdr_stan.predictive import mix
from data_gen.dirichlet import dirichlet_bags, influence
from experiments.papers import BagPixel

pytestmark = pytest.mark.filterwarnings("ignore:Pareto k-hat")
MODELS = {
    "BLR, exact": BLR(8, method="exact"),
    "BLR, additive": BLR(8, "additive", method="exact"),
    "BLR, covariates": BLR(8, method="exact", covariates=["region"]),
    "BDR": BDR(8, method="laplace"),
    "BDR, additive": BDR(8, "additive", method="laplace"),
    "BDR, sum": BDR(8, RBF(columns=["age"]) + Matern32(columns=["income"]), method="laplace"),
    "Shrinkage": Shrinkage(8),
    "BLRClassifier": BLRClassifier(8, method="laplace"),
    "BDRClassifier": BDRClassifier(8, "additive", method="laplace"),
    "ShrinkageClassifier": ShrinkageClassifier(8),
}
STACKS = {
    "Stacked": Stacked([MODELS["BLR, exact"], MODELS["BDR"]]),
    "StackedClassifier": StackedClassifier([MODELS["BLRClassifier"], MODELS["BDRClassifier"]]),
}
BENT = {
    "InverseBDR": InverseBDR(8, method="laplace"),
    "InverseBDRClassifier": InverseBDRClassifier(8, method="laplace"),
}
LINEAR = ["BLR, exact", "BLR, additive", "BLR, covariates", "BLRClassifier"]


def town_table(n=60):
    """People of towns: two numbers and a category each, in the order of the towns."""
    rng = np.random.default_rng(3)
    sizes = rng.integers(1, 30, n)
    town = np.repeat(np.arange(n), sizes)
    jobs = np.array(["farm", "office", "shop"])
    return pd.DataFrame({
        "town": [f"t{i:02}" for i in town],
        "age": rng.normal(45 + 8 * rng.normal(size=n)[town], 12),
        "job": jobs[rng.integers(0, 3, len(town))],
        "income": np.exp(10 + 0.4 * rng.normal(size=len(town))),
        "region": np.where(town % 2, "north", "south"),
    })  # fmt: skip


TABLE = town_table()
POINTS = ["age", "job", "income"]
BAGS = Bags.from_dataframe(TABLE, "town", POINTS, metadata=["region"])
Y = (
    np.sin(TABLE["age"] / 12).groupby(TABLE["town"]).mean()
    + (TABLE["job"] == "farm").groupby(TABLE["town"]).mean()
).to_numpy()


def fit(model):
    y = np.where(np.median(Y) < Y, "yes", "no") if is_classifier(model) else Y
    return clone(model).fit(BAGS, y, seed=1, draws=150)


@pytest.fixture(scope="module", params=MODELS)
def fitted(request):
    return fit(MODELS[request.param])


@pytest.fixture(scope="module")
def linear():
    return {name: fit(MODELS[name]) for name in LINEAR}


def all_draws(predictive):
    return predictive.draws(np.arange(len(predictive)))


def averages(model, bags):
    """Average influence of the points of each bag under each draw."""
    return bags.sums(all_draws(model.influence(bags)).T).T / bags.sizes


CHANGED = TABLE.assign(job="farm", age=TABLE["age"] + 5)

# ---------------------------------------------------------------- influence


@pytest.mark.parametrize("name", ["BLR, exact", "BLR, additive"])
def test_influence_averages_to_the_linear_predictor_of_each_bag(linear, name):
    model = linear[name]
    w, intercept = (model.result_.draws(name) for name in ("w", "intercept"))
    z = model.coordinates_.transform(model.embed(BAGS).mean)
    np.testing.assert_allclose(averages(model, BAGS), w @ z.T, rtol=1e-8, atol=1e-10)
    # On average over the training bags it is 0.
    np.testing.assert_allclose(averages(model, BAGS).mean(axis=1), 0, atol=1e-10)
    mean = (averages(model, BAGS) + intercept[:, None]).mean(axis=0)
    assert np.abs(mean - model.predict(BAGS)).max() < 6 * model.predictive(BAGS).sd.max() / 12


def test_influence_of_classes_is_on_the_scale_of_log_odds(linear):
    model = linear["BLRClassifier"]
    log_odds = averages(model, BAGS) + model.result_.draws("intercept")[:, None]
    _, log_p = model.predictive(BAGS).components(np.arange(60))
    np.testing.assert_allclose(log_expit(log_odds), log_p, rtol=1e-8, atol=1e-10)


def test_influence_is_that_of_the_points_however_they_come(fitted):
    expected = fitted.influence(BAGS)
    assert len(expected) == len(TABLE) and np.ptp(expected.mean) > 0
    shuffled = TABLE[["region", "income", "job", "age"]]
    for points in (BAGS.points, shuffled, pd.DataFrame(shuffled).convert_dtypes()):
        found = fitted.influence(points)
        np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(found.interval(0.8), expected.interval(0.8), rtol=1e-10)
    few = fitted.influence(BAGS, n_draws=7)
    assert all_draws(few).shape == (min(7, len(all_draws(expected))), len(TABLE))


def test_files_keep_influence_and_contrast(fitted, tmp_path):
    fitted.save(tmp_path / "fit.nc")
    again = bdr_stan.load(tmp_path / "fit.nc")
    np.testing.assert_array_equal(again.influence(BAGS).mean, fitted.influence(BAGS).mean)
    (_, one), (_, other) = (m.influence_along("age", BAGS) for m in (again, fitted))
    np.testing.assert_array_equal(one.mean, other.mean)
    contrasts = [m.contrast(CHANGED, BAGS) for m in (again, fitted)]
    np.testing.assert_array_equal(contrasts[0].draws, contrasts[1].draws)


# ---------------------------------------------------------------- along a column


@pytest.mark.parametrize("column, first", [("age", 0), ("job", 1), ("income", 4)])
def test_influence_along_a_column_is_the_average_over_the_other_columns(fitted, column, first):
    values, along = fitted.influence_along(column, BAGS, n_points=40)
    sample = BAGS.sample_points(40, np.random.default_rng(0))
    if column == "job":
        assert values.tolist() == ["farm", "office", "shop"]
    else:
        ends = np.quantile(sample[:, first], [0.01, 0.99])
        np.testing.assert_allclose(values, np.linspace(*ends, 60))
    for k in (0, len(values) // 2, len(values) - 1):
        points = sample.copy()
        if column == "job":
            points[:, 1:4] = np.eye(3)[k]
        else:
            points[:, first] = values[k]
        expected = all_draws(fitted.influence(points)).mean(axis=1)
        np.testing.assert_allclose(along.draws([k])[:, 0], expected, rtol=1e-8, atol=1e-10)
    assert along.sd.shape == values.shape


def test_without_bags_the_landmarks_stand_for_them(linear):
    model = linear["BLR, exact"]
    along = model.influence_along("job")[1]
    points = model.landmarks_.copy()
    points[:, 1:4] = [0, 1, 0]
    expected = all_draws(model.influence(points)).mean(axis=1)
    np.testing.assert_allclose(along.draws([1])[:, 0], expected, rtol=1e-8)
    additive = linear["BLR, additive"]
    (_, of_landmarks), (_, of_points) = (
        additive.influence_along("job", bags) for bags in (None, BAGS)
    )
    # Summands of other columns add the same to every value.
    shift = of_landmarks.mean - of_points.mean
    np.testing.assert_allclose(shift, shift[0], rtol=1e-8, atol=1e-10)


def test_columns_of_arrays_go_by_number_and_few_values_stay(linear):
    points = [np.column_stack([rows[:, 0], np.round(rows[:, 0]) % 2]) for rows in BAGS]
    model = BLR(8, method="exact").fit(points, Y, seed=1)
    values, along = model.influence_along(1, points)
    assert values.tolist() == [0.0, 1.0] and len(along) == 2
    with pytest.raises(ValueError, match="the points have no column 'age': there are 0, 1"):
        model.influence_along("age", points)


def test_indicators_of_missing_values_stay_off(rng):
    table = TABLE.assign(age=TABLE["age"].where(rng.random(len(TABLE)) < 0.9))
    bags = Bags.from_dataframe(table, "town", POINTS, missing="indicator")
    model = BLR(8, method="exact").fit(bags, Y, seed=1)
    values, along = model.influence_along("age", bags, n_points=30)
    points = bags.sample_points(30, np.random.default_rng(0))
    points[:, :2] = [values[7], 0.0]
    expected = all_draws(model.influence(points)).mean(axis=1)
    np.testing.assert_allclose(along.draws([7])[:, 0], expected, rtol=1e-8)


def test_the_table_has_the_spread_of_each_column(fitted):
    table = fitted.influence_table(BAGS, n_points=40, level=0.8)
    assert set(table.index) == {"age", "job", "income"}
    assert table["mean"].is_monotonic_decreasing
    above, below = table["mean"] - table["lower"], table["upper"] - table["mean"]
    assert np.all(np.minimum(above, below) > -1e-12)  # 0 up to rounding for "job" in a sum
    sample = BAGS.sample_points(40, np.random.default_rng(0))
    _, along = fitted.influence_along("job", BAGS, n_points=40)
    curves, shares = all_draws(along), sample[:, 1:4].mean(axis=0)
    variance = curves**2 @ shares - (curves @ shares) ** 2
    np.testing.assert_allclose(
        table.loc["job", "mean"], np.sqrt(np.maximum(variance, 0)).mean(), atol=1e-6
    )


def test_the_table_of_arrays_has_numbers_of_columns(rng):
    bags = [rng.normal(mean, size=(50, 2)) for mean in rng.normal(size=(60, 2))]
    model = Shrinkage().fit(bags, [bag[:, 1].mean() for bag in bags], seed=1)
    assert model.influence_table(bags).index.tolist() == [1, 0]


# ---------------------------------------------------------------- contrast


def test_contrast_of_identical_bags_is_0(fitted):
    for other in (BAGS, TABLE):
        contrast = fitted.contrast(BAGS, other)
        assert np.all(contrast.draws == 0) and np.all(contrast.sd == 0)


@pytest.mark.parametrize("name", ["BLR, exact", "BLR, additive", "BLR, covariates"])
def test_contrast_of_a_linear_model_is_that_of_average_influences(linear, name):
    model = linear[name]
    changed = Bags.from_dataframe(CHANGED, "town", metadata=["region"], like=model)
    contrast = model.contrast(changed, BAGS)
    expected = averages(model, changed) - averages(model, BAGS)
    np.testing.assert_allclose(contrast.draws, expected, rtol=1e-8, atol=1e-10)


def test_contrast_is_the_average_movement_of_the_influence(fitted):
    """Of the linear predictor, whatever the size of the bag: nothing is shrunk."""
    changed = Bags.from_dataframe(CHANGED, "town", metadata=["region"], like=fitted)
    moved = averages(fitted, changed) - averages(fitted, BAGS)
    contrast = fitted.contrast(changed, BAGS)
    if is_classifier(fitted):
        certain = np.abs(contrast.mean) > contrast.sd
        signs = np.sign(moved.mean(axis=0))[certain]
        np.testing.assert_array_equal(np.sign(contrast.mean)[certain], signs)
    else:
        np.testing.assert_allclose(contrast.mean, moved.mean(axis=0), rtol=1e-8, atol=1e-10)
    assert np.abs(contrast.mean).min() > 0 and contrast.n_draws >= 150


@pytest.mark.parametrize("name", BENT)
def test_models_that_bend_have_no_contrast(name):
    model = fit(BENT[name])
    assert not hasattr(model, "contrast")
    with pytest.raises(AttributeError, match="has no contrast.*fit BDR"):
        model.contrast(CHANGED, BAGS)


@pytest.mark.parametrize("name", STACKS)
def test_contrasts_of_a_stack_are_mixed(name):
    stack = fit(STACKS[name])
    each = [model.contrast(CHANGED, BAGS) for model in stack.models_]
    contrast, means = mix(each, stack.weights_), [one.mean for one in each]
    np.testing.assert_allclose(contrast.mean, stack.weights_ @ means, rtol=1e-10, atol=1e-12)
    unchanged = mix([model.contrast(BAGS, BAGS) for model in stack.models_], stack.weights_)
    assert np.all(unchanged.draws == 0)


@pytest.mark.parametrize(
    "model, options",
    [
        (AggregateRegressor("poisson", n_landmarks=5, method="vb", learn_kernel=False), {}),
        (BagPixel("poisson", n_landmarks=5, method="vb", learn_kernel=False), {}),
        (AggregateRegressor("normal", n_landmarks=5, method="vb", learn_kernel=False), {}),
        (
            AggregateRegressor("binomial", n_landmarks=5, method="laplace", learn_kernel=False),
            {"trials": np.full(60, 20)},
        ),
    ],
    ids=["poisson", "bag-pixel", "normal", "binomial"],
)
def test_contrast_of_totals(model, options):
    counts = np.random.default_rng(1).binomial(20, 0.2 + 0.3 * (np.median(Y) < Y))
    model.fit(BAGS, counts, seed=1, draws=100, **options)
    changed = Bags.from_dataframe(CHANGED, "town", like=model)
    means = [model.predictive(bags, **options).mean for bags in (changed, BAGS)]
    contrast = model.contrast(changed, BAGS, **options)
    np.testing.assert_allclose(contrast.mean, means[0] - means[1], rtol=1e-8, atol=1e-10)
    assert np.all(model.contrast(BAGS, BAGS, **options).draws == 0)


def test_a_changed_version_of_a_training_bag_has_its_effect():
    counts = np.random.default_rng(1).negative_binomial(2, 0.1, 60)
    model = AggregateRegressor(n_landmarks=5, method="vb", learn_kernel=False)
    model.fit(BAGS, counts, seed=1, draws=100)
    changed = Bags.from_dataframe(CHANGED, "town", like=model)
    means = [model.predictive(bags, district=BAGS.ids).mean for bags in (changed, BAGS)]
    for first, second, sign in ((changed, BAGS, 1), (BAGS, changed, -1)):
        difference = model.contrast(first, second).mean
        np.testing.assert_allclose(difference, sign * (means[0] - means[1]), rtol=1e-6, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("model", [BDR(), BDRClassifier(20)], ids=["BDR", "BDRClassifier"])
def test_influence_of_bags_of_one_size_is_neither_attenuated_nor_steeper(model):
    """Whose labels do not identify eta; a log sd of 2 gives BDR's curve a slope of 1.7."""
    data = dirichlet_bags(12)
    y = np.where(data.y > np.median(data.y), "high", "low") if is_classifier(model) else data.y
    fit = clone(model).fit(data.bags, y, warmup=400, draws=400, seed=13, adapt_delta=0.95)
    log_eta = np.log(fit.result_.draws("eta"))
    assert abs(log_eta.mean()) < 0.15 and log_eta.std() < 0.25
    if not is_classifier(model):
        grid = np.linspace(0, 1, 101)
        slope = np.polyfit(influence(grid), fit.influence(grid[:, None]).mean, 1)[0]
        assert 0.7 < slope < 1.3
