"""The inverse models as a user meets them: numbers, bounds, bends, classes."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from builders import curves
from builders.problems import labels_for, location_bags, quiet_fit
from sklearn.metrics import r2_score
from sklearn.model_selection import train_test_split

import bdr_stan
from bdr_stan import BDR, Bags, BDRClassifier, InverseBDR, InverseBDRClassifier, Stacked, tune
from bdr_stan.cmdstan.programs import program_path
from bdr_stan.datasets import county_table
from bdr_stan.predictive import Blend, ClassPredictive, GridPredictive, MulticlassPredictive

# Laplace's approximation is rough where bags are few, and says so.
pytestmark = pytest.mark.filterwarnings("ignore:Pareto k-hat")


def quick(**options):
    return InverseBDR(**{"n_landmarks": 10, "method": "optimize", **options})


@pytest.fixture(scope="module")
def problem():
    """Bags of a location family and their labels."""
    bags, centres = location_bags(n=120, seed=8)
    return bags, 3 + centres


@pytest.fixture(scope="module")
def fitted(problem):
    return quick().fit(*problem, seed=1)


# ---------------------------------------------------------------- numbers


def with_many_zeros(seed, n):
    """Bags of 3 to 10 points, and labels of which a third are 0."""
    rng = np.random.default_rng(seed)
    centres, sizes = rng.normal(0, 1, n), rng.integers(3, 11, n)
    bags = [rng.normal(c, 1, (m, 1)) for c, m in zip(centres, sizes)]
    return bags, np.maximum(0, 0.5 + centres + 0.5 * rng.normal(size=n))


def test_intervals_of_repeated_labels_cover():
    """On average over eight data sets; of zeros, too."""
    covered, of_zeros = [], []
    for seed in range(8):
        model = quick().fit(*with_many_zeros(seed, 150), seed=1)
        bags, y = with_many_zeros(100 + seed, 1000)
        lower, upper = model.predictive(bags).interval(0.95)
        inside = (lower <= y) & (y <= upper)
        covered.append(inside.mean())
        of_zeros.append(inside[y == 0].mean())
    error = np.std(covered) / np.sqrt(7)
    assert 0.92 - 4 * error < np.mean(covered) < 0.98 + 4 * error
    assert np.mean(of_zeros) > 0.95


def test_repeated_labels_are_reported_and_kept(tmp_path):
    bags, y = with_many_zeros(1, 100)
    model = quick().fit(bags, y, seed=1)
    (width,) = model.coordinates_.repeated.resolution
    said = f"{np.mean(y == 0):.0%} are 0 (width {width:.2g})"
    assert f"Labels with probabilities, which log densities spread over a width: {said}" in (
        model.report()
    )
    model.save(tmp_path / "fit.nc")
    again, new = InverseBDR.load(tmp_path / "fit.nc"), with_many_zeros(2, 20)
    found, expected = (each.predictive(new[0]) for each in (again, model))
    np.testing.assert_array_equal(found.quantile([0.1, 0.5]), expected.quantile([0.1, 0.5]))
    np.testing.assert_array_equal(found.log_prob(new[1]), expected.log_prob(new[1]))
    assert "Labels with probabilities" not in quick().fit(bags, y + np.arange(100), seed=1).report()


def test_predictions_are_near_the_labels_and_calibrated(problem):
    bags, y = problem
    model = quick().fit(bags[:80], y[:80], seed=1)
    predictive = model.predictive(bags[80:])
    assert isinstance(predictive, GridPredictive)
    assert r2_score(y[80:], model.predict(bags[80:])) > 0.8
    lower, upper = predictive.interval(0.9)
    assert np.mean((lower <= y[80:]) & (y[80:] <= upper)) > 0.75
    mean, sd = model.predict(bags[80:], return_std=True)
    np.testing.assert_array_equal(mean, predictive.mean)
    np.testing.assert_array_equal(sd, predictive.sd)


def as_if_of_sizes(model, bag, sizes):
    """The prediction from the embedding of a bag, had it other numbers of points."""
    embedding = model.embed([bag])
    sizes = np.asarray(sizes, float)
    mean = np.repeat(embedding.mean, len(sizes), axis=0)
    return model.predictive_features(replace(embedding, mean=mean, sizes=sizes))


def test_small_bags_are_predicted_with_less_certainty(fitted, problem):
    _, y = problem
    bag = np.random.default_rng(4).normal(1.5, 1.0, (300, 2))
    predictive = as_if_of_sizes(fitted, bag, (0.01, 1, 5, 25, 300))
    assert np.all(np.diff(predictive.sd) < 0)
    assert predictive.sd[0] == pytest.approx(y.std(), rel=0.3)
    assert np.all(np.diff(predictive.mean) > 0)  # from the middle of the labels
    assert predictive.mean[-1] == pytest.approx(4.5, abs=0.4)


def test_labels_stay_within_their_bounds(problem):
    bags, y = problem
    bounds = y.min(), y.max() + 0.1
    predictive = quick(bounds=bounds).fit(bags, y, seed=1).predictive(bags)
    assert predictive.grid[0] == bounds[0] and predictive.grid[-1] == bounds[1]
    lower, upper = predictive.interval(0.9999)
    assert np.all((lower >= bounds[0]) & (upper <= bounds[1]))
    labels = predictive.sample(50, seed=1)
    assert labels.min() >= bounds[0] and labels.max() <= bounds[1]
    beyond = np.full(len(bags), bounds[1] + 0.01)
    assert np.all(predictive.log_prob(beyond) == -np.inf)
    open_below = quick(bounds=(None, bounds[1])).fit(bags, y, seed=1).predictive(bags)
    assert open_below.grid[0] < bounds[0] and open_below.grid[-1] == bounds[1]


def test_two_labels_that_look_alike_are_both_predicted():
    """Points lie around the square of the label: its sign cannot be told."""
    rng = np.random.default_rng(5)
    y = rng.uniform(-1, 1, 200)
    bags = [rng.normal(label**2, 0.2, (60, 1)) for label in y]
    predictive = quick().fit(bags, y, seed=1).predictive([rng.normal(0.64, 0.2, (200, 1))])
    at = {label: predictive.log_prob([label])[0] for label in (-0.8, 0.0, 0.8)}
    assert min(at[-0.8], at[0.8]) > at[0.0] + 3
    assert abs(predictive.mean[0]) < 0.3 and predictive.sd[0] > 0.6


@pytest.mark.parametrize("seed", range(4))
def test_a_label_that_the_points_do_not_know_is_predicted_as_before(seed):
    rng = np.random.default_rng(seed)
    y, sizes = rng.uniform(0, 1, 40), rng.integers(1, 31, 40)
    bags = [rng.normal(size=(size, 5)) for size in sizes]
    y = y + 0.05 * rng.normal(size=40)
    new = [rng.normal(size=(size, 5)) for size in sizes]
    predictive = InverseBDR(30, method="optimize").fit(bags, y, seed=1).predictive(new)
    np.testing.assert_allclose(predictive.mean, y.mean(), atol=y.std())
    np.testing.assert_allclose(predictive.sd, y.std(), rtol=0.4)


def bags_of_their_own_scale(rng, n):
    """Points with heavy tails, whose scale and middle differ between bags of equal labels."""
    y, sizes = rng.uniform(size=n), rng.integers(1, 31, n)
    middle = 2 * y[:, None] + 0.5 * rng.standard_t(3, (n, 5))
    scale = np.exp(0.6 * rng.normal(size=n))
    bags = [m + s * rng.standard_t(4, (k, 5)) for m, s, k in zip(middle, scale, sizes)]
    return bags, y + 0.05 * rng.normal(size=n)


@pytest.mark.slow
def test_intervals_hold_what_they_say_where_the_model_is_wrong(monkeypatch):
    """By the power that is learned; that of Bayes' rule is too sure with fewer coordinates too."""

    def held():
        shares = []
        for seed in range(3):
            bags, y = bags_of_their_own_scale(np.random.default_rng(seed), 555)
            model = InverseBDR(30, method="laplace")
            model.fit(bags[:155], y[:155], seed=1, draws=200)
            lower, upper = model.predictive(bags[155:]).interval(0.95)
            shares.append(np.mean((lower <= y[155:]) & (y[155:] <= upper)))
        return np.mean(shares)

    learned = held()
    curves.give_power(monkeypatch, 1.0)
    assert learned > 0.92 and held() < learned - 0.03


def test_bags_of_equal_labels_may_be_equal():
    """No spread is left about the curve."""
    y = np.arange(40) % 4
    bags = [np.linspace(0, 1, 5)[:, None] + label for label in y]
    np.testing.assert_allclose(quick(n_landmarks=5).fit(bags, y, seed=1).predict(bags), y, atol=0.3)
    model = InverseBDRClassifier(5, method="optimize").fit(bags, y, seed=1)
    assert model.score(bags, y) == 1


def test_a_label_far_from_all_others(problem, recwarn):
    bags, y = problem
    y = np.append(y[1:], 1e6)
    predictive = quick().fit(bags, y, seed=1).predictive(bags)
    assert np.isfinite(predictive.mean).all() and np.isfinite(predictive.log_prob(y)).all()
    assert not [w for w in recwarn if issubclass(w.category, RuntimeWarning)]


def test_report_priors_and_variables(fitted):
    said = fitted.report()
    assert "The label explains more than half of " in said and "of 10 coordinates" in said
    assert f"Power of the likelihood: {fitted.power_:.2f}" in said
    assert {"level", "tau", "amplitude", "curvature"} <= set(fitted.priors().index)
    posterior = fitted.idata.posterior
    assert posterior["curve"].dims[2:] == ("component", "function")
    assert posterior["explained"].dims[2:] == ("component",)
    assert float(posterior["explained"].max()) > 0.8
    assert {"tau", "amplitude", "curvature", "curve"} <= set(posterior)


def test_predictions_are_sharper_under_a_higher_power(problem, monkeypatch):
    sds = []
    for power in (0.4, 0.8):
        curves.give_power(monkeypatch, power)
        model = quick().fit(*problem, seed=1)
        assert model.power_ == power
        sds.append(model.predictive(problem[0]).sd.mean())
    assert sds[0] > sds[1]


def test_predictions_take_a_hundred_of_the_draws(problem):
    model = quick(method="laplace").fit(*problem, seed=1, draws=950)
    assert model.idata.posterior.sizes["draw"] == 950
    assert model.predictive(problem[0]).n_draws == 95
    assert model.idata.posterior_predictive["y"].shape == (1, 95, 120)


def test_there_is_no_likelihood_of_labels_but_their_held_out_density(problem):
    bags, y = problem
    model = quick(method="laplace").fit(bags[:90], y[:90], seed=1)
    assert not hasattr(model.idata, "log_likelihood")
    new = model.predictive(bags[90:]).log_prob(y[90:]).mean()
    assert model.held_out_.mean() == pytest.approx(new, abs=0.4)


def test_additive_kernels(problem):
    bags, y = problem
    model = quick(kernel="additive").fit(bags[:80], y[:80], seed=1)
    assert r2_score(y[80:], model.predict(bags[80:])) > 0.8


def test_a_program_of_ones_own(problem):
    """Which draws the curves itself, also where it is optimised."""
    own = quick(stan_file=program_path("inverse")).fit(*problem, seed=1)
    again = quick().fit(*problem, seed=1)
    tau = [model.result_.draws("tau")[0] for model in (own, again)]
    np.testing.assert_allclose(*tau, rtol=1e-3)
    assert not np.allclose(own.result_.draws("curve"), again.result_.draws("curve"))


def test_raw_tables():
    people = county_table(160)
    bags = Bags.from_dataframe(people, bag="county", metadata=["vote"])
    train, test, y, y_test = train_test_split(
        bags, bags.metadata["vote"].to_numpy(), test_size=0.25, random_state=1
    )
    found, expected = (
        r2_score(y_test, model.fit(train, y, seed=1).predict(test))
        for model in (InverseBDR(method="optimize"), BDR(method="optimize"))
    )
    assert found > expected - 0.1


# ---------------------------------------------------------------- with others


def test_a_stack_with_bdr_is_a_blend(problem):
    bags, y = problem
    parts = [BDR(10, method="laplace"), quick(method="laplace")]
    model = Stacked(parts).fit(bags[:80], y[:80], seed=1)
    predictive = model.predictive(bags[80:])
    if np.all(model.weights_ > 0):
        assert isinstance(predictive, Blend)
    np.testing.assert_allclose(
        predictive.mean, model.weights_ @ [m.predict(bags[80:]) for m in model.models_]
    )
    assert r2_score(y[80:], model.predict(bags[80:])) > 0.8


def test_a_stack_of_one_draw_is_told(problem):
    parts = [BDR(10, method="laplace"), quick(method="laplace")]
    with pytest.raises(ValueError, match="one draw"):
        Stacked(parts).fit(*problem, seed=1, draws=1)


def test_tune(problem):
    bags, y = problem
    tuned = tune(
        bags, y, models=[quick(), BDR()], cv=2, n_landmarks=(5, 10), bandwidth_scale=(1.0,),
        method="optimize",
    )  # fmt: skip
    assert set(tuned.table["model"]) == {"InverseBDR", "BDR"}
    assert np.isfinite(tuned.table[["nll", "mse"]].to_numpy()).all()
    assert isinstance(tuned.best_of["InverseBDR"], InverseBDR)


# ---------------------------------------------------------------- classes


@pytest.fixture(scope="module")
def three(problem):
    """The bags, and whether their label is low, middling or high."""
    bags, y = problem
    return bags, np.array(["high", "low", "middle"])[np.digitize(y, [2.5, 3.5]) - 2]


@pytest.fixture(scope="module")
def of_three(three):
    return InverseBDRClassifier(10, method="laplace").fit(*three, seed=1)


def test_three_classes(of_three, three):
    bags, y = three
    p = of_three.predict_proba(bags)
    assert of_three.classes_.tolist() == ["high", "low", "middle"] and p.shape == (120, 3)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    np.testing.assert_array_equal(of_three.predict(bags), of_three.classes_[p.argmax(axis=1)])
    assert of_three.score(bags, y) > 0.75
    predictive = of_three.predictive(bags)
    assert isinstance(predictive, MulticlassPredictive)
    shares = [np.log(np.mean(y == label)) for label in y]
    assert predictive.log_prob(y).mean() > np.mean(shares) + 0.3
    assert "curvature" not in of_three.idata.posterior


def test_files_keep_three_classes(of_three, three, tmp_path):
    bags, _ = three
    of_three.save(tmp_path / "fit.nc")
    for again in (bdr_stan.load(tmp_path / "fit.nc"), pickle.loads(pickle.dumps(of_three))):
        np.testing.assert_array_equal(again.predict_proba(bags), of_three.predict_proba(bags))
        np.testing.assert_array_equal(again.predict(bags), of_three.predict(bags))


def test_small_bags_are_near_the_shares_of_the_classes(of_three, three):
    _, y = three
    shares = np.array([np.mean(y == label) for label in of_three.classes_])
    bag = np.random.default_rng(4).normal(1.5, 1.0, (300, 2))
    p = as_if_of_sizes(of_three, bag, (1e-4, 1, 10, 300)).probabilities
    np.testing.assert_allclose(p[0], shares, atol=0.01)
    assert np.all(np.diff(p[:, 0]) > 0) and p[-1, 0] > 0.8  # of "high"


def test_two_classes_are_about_those_of_bdr(problem):
    bags, y = problem
    labels = labels_for(BDRClassifier(), bags, y - 3)
    models = InverseBDRClassifier(10, method="laplace"), BDRClassifier(10, method="laplace")
    inverse, forward = (quiet_fit(model, bags, y - 3) for model in models)
    assert isinstance(inverse.predictive(bags), ClassPredictive)
    p, q = inverse.predict_proba(bags), forward.predict_proba(bags)
    assert np.mean(np.abs(p - q)) < 0.1
    assert inverse.score(bags, labels) > forward.score(bags, labels) - 0.05


def test_tune_of_three_classes(three):
    bags, y = three
    tuned = tune(
        bags, y, models=[InverseBDRClassifier()], cv=3, n_landmarks=(5, 10), bandwidth_scale=(1.0,),
        method="optimize",
    )  # fmt: skip
    assert np.isfinite(tuned.table["nll"]).all()
    assert (tuned.table["mse"] < 1).all()
    with pytest.raises(ValueError, match="y has 3 classes .* a classifier needs two"):
        tune(bags, y, models=[InverseBDRClassifier(), BDRClassifier()], cv=3)
