"""Ordered categories: their labels, probabilities, predictions and what works around a fit."""

import warnings

import numpy as np
import pandas as pd
import pytest
from builders.families import log_share_between
from builders.reference import elpd
from scipy.special import logsumexp
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.model_selection import cross_val_score

from bdr_stan import (
    BDR,
    BLR,
    Bags,
    Shrinkage,
    ShrinkageClassifier,
    StackedClassifier,
    load,
    tune,
)
from bdr_stan.families import Ordinal, label_densities
from bdr_stan.labels import Labels
from bdr_stan.predictive import OrdinalPredictive

N = 45
NAMES = ["poor", "fair", "good", "great"]
RNG = np.random.default_rng(4)
CENTRES = RNG.normal(size=N)
SIZES = RNG.integers(2, 30, N)
IDS = [f"b{k:02}" for k in range(N)]
CODES = np.searchsorted([0, 1, 3], 1 + 2.5 * CENTRES + RNG.logistic(size=N))
HEALTH = pd.Series(pd.Categorical.from_codes(CODES, NAMES, ordered=True), IDS, name="health")
BAGS = Bags.from_list(
    [RNG.normal(m, 1, (n, 1)) for m, n in zip(CENTRES, SIZES)],
    ids=IDS,
    metadata=pd.DataFrame({"health": HEALTH, "stars": CODES + 1}),
)
QUICK = {"seed": 1, "progress": False}


def quiet(model, y, bags=BAGS, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # short chains
        return model.fit(bags, y, **QUICK, **options)


@pytest.fixture(scope="module")
def fitted():
    return quiet(BDR(5, family="ordinal"), "health", chains=2, warmup=200, draws=200)


@pytest.fixture(scope="module")
def mode():
    return quiet(Shrinkage(5, family="ordinal"), "health")


# ---------------------------------------------------------------- densities


def test_terms_far_from_the_thresholds_and_in_narrow_categories():
    family = Ordinal(4)
    for gaps in ({"gap_2": 1.0, "gap_3": 2.0}, {"gap_2": 1e-12, "gap_3": 700.0}):
        for h in (-700.0, -3.0, 0.4, 700.0):
            found = family.terms(np.arange(4.0), np.full(4, h), **gaps)
            expected = [log_share_between(k, h, gaps.values()) for k in range(4)]
            if gaps["gap_2"] > 1e-6:  # else the reference has no digits
                np.testing.assert_allclose(found.value, expected, rtol=1e-12)
            assert np.isfinite(found.value).all() and np.all(np.abs(found.slope) <= 1)
            assert np.all(found.curvature >= 0)
    narrow = family.terms(np.array([1.0]), np.zeros(1), gap_2=1e-12, gap_3=1.0).value
    np.testing.assert_allclose(narrow, np.log(1e-12 / 4), rtol=1e-9)  # density times width


def test_densities_of_wide_categories_are_those_of_many_nodes():
    """Of some labels sums over all nodes and over every other one agree by chance, though few."""
    rng, n = np.random.default_rng(0), 4000
    y, mean = rng.integers(0, 4, n).astype(float), rng.normal(3, 4, n)
    variance = rng.gamma(1, 2, n)
    z = np.linspace(-9, 9, 1001)
    gaps = {"gap_2": 1.3, "gap_3": 15.0}
    value = (
        Ordinal(4).terms(y[:, None], mean[:, None] + np.sqrt(variance)[:, None] * z, **gaps).value
    )
    expected = logsumexp(value - 0.5 * z**2, axis=1) + np.log((z[1] - z[0]) / np.sqrt(2 * np.pi))
    found = label_densities(Ordinal(4), Labels(y), mean, variance, **gaps).value
    np.testing.assert_allclose(found, expected, atol=2e-6)


@pytest.mark.parametrize("variance", [0.0, 1e-8, 0.3, 1.0, 3.9, 20.0, 400.0])
def test_probabilities_are_those_of_quadrature(variance):
    rng = np.random.default_rng(0)
    mean = 8 * rng.normal(size=(2, 10))
    gaps = {"gap_2": np.array([0.4, 1.5]), "gap_3": np.array([3.0, 0.01])}
    found = Ordinal(4).log_probabilities(mean, np.full_like(mean, variance), **gaps)
    np.testing.assert_allclose(logsumexp(found, axis=-1), 0, atol=1e-8)
    for k in range(4):
        each = {name: np.repeat(gap, 10) for name, gap in gaps.items()}
        y, v = np.full(20, float(k)), np.full(20, variance)
        expected = label_densities(Ordinal(4), Labels(y), mean.ravel(), v, **each).value
        np.testing.assert_allclose(found[..., k].ravel(), expected, atol=1e-6)


def test_probabilities_of_wide_and_extreme_predictors_are_finite():
    mean = np.array([[-1e4, 0.0, 1e4, 5.0]])
    variance = np.array([[1.0, 1e8, 1e-3, 2.0]])
    found = Ordinal(3).log_probabilities(mean, variance, gap_2=np.ones(1))
    assert np.isfinite(found).all()
    np.testing.assert_allclose(np.exp(found).sum(axis=-1), 1, atol=1e-3)
    alone = Ordinal(3).log_probabilities(mean[:, 3:], variance[:, 3:], gap_2=np.ones(1))
    np.testing.assert_allclose(found[:, 3:], alone, rtol=1e-12)


def test_priors_are_of_the_shares():
    family, y = Ordinal(4), np.repeat([0.0, 1, 2, 3], [500, 250, 249, 1])
    level, _ = family.level_and_spread(Labels(y), np.zeros(1000))
    assert level == pytest.approx(0, abs=0.01)  # half of the labels lie at or below threshold 0
    shifted, _ = family.level_and_spread(Labels(y), np.linspace(0, 4, 1000))
    assert shifted == pytest.approx(level - 2)
    priors = family.default_priors(y, 1.0)
    assert priors["gap_2_scale"] == pytest.approx(2 * np.log(3), rel=0.01)
    assert priors["gap_3_scale"] > priors["gap_2_scale"]
    assert family.default_priors(np.repeat([0.0, 1, 2, 3], [500, 1, 1, 500]), 1.0) == {
        "gap_2_scale": 1.0,
        "gap_3_scale": 1.0,
    }


# ---------------------------------------------------------------- fits


def test_thresholds_are_recovered(fitted):
    draws = fitted.idata["posterior"]
    for name, true in {"gap_2": 1.0, "gap_3": 2.0}.items():
        assert draws[name].dims == ("chain", "draw")
        error = float(draws[name].mean()) - true
        assert abs(error) < 3 * float(draws[name].std())
    assert list(fitted.classes_) == NAMES
    np.testing.assert_array_equal(fitted.idata["observed_data"]["y"], CODES)
    assert {"gap_2", "gap_3"} <= set(fitted.priors().index)


def test_predictive_is_a_distribution_of_categories(fitted):
    predictive = fitted.predictive(BAGS)
    assert isinstance(predictive, OrdinalPredictive)
    p = predictive.probabilities
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-8)
    np.testing.assert_allclose(np.exp(predictive.log_prob(HEALTH)), p[np.arange(N), CODES])
    np.testing.assert_allclose(predictive.cdf(HEALTH), [p[i, : c + 1].sum() for i, c in
                                                        enumerate(CODES)], rtol=1e-6)  # fmt: skip
    assert np.all(predictive.cdf(["great"] * N) > 1 - 1e-8)
    draws = predictive.sample(20_000, seed=1)
    shares = np.stack([(draws == name).mean(axis=0) for name in NAMES], axis=1)
    np.testing.assert_allclose(shares, p, atol=0.02)
    for q in (0.1, 0.5, 0.9):
        value = predictive.quantile(q)
        below = np.array([p[i, : NAMES.index(v)].sum() for i, v in enumerate(value)])
        assert np.all(predictive.cdf(value) >= q) and np.all(below < q)
    lower, upper = predictive.interval(0.8)
    known = [NAMES.index(v) for v in lower], [NAMES.index(v) for v in upper]
    assert np.mean((known[0] <= CODES) & (known[1] >= CODES)) > 0.75
    with pytest.raises(ValueError, match="the classes are 'poor', 'fair', 'good' and 'great'"):
        predictive.log_prob(["bad"] * N)


def test_predictions_are_the_most_probable_categories(fitted):
    predicted = fitted.predict(BAGS)
    p = fitted.predictive(BAGS).probabilities
    np.testing.assert_array_equal(predicted, np.array(NAMES)[p.argmax(axis=1)])
    assert fitted.score(BAGS, HEALTH) == np.mean(predicted == HEALTH)
    assert fitted.score(BAGS, "health") > np.bincount(CODES).max() / N
    table = fitted.predict_table(BAGS)
    columns = ["n_points", "predicted", "probability", "lower", "upper", "familiarity"]
    assert list(table) == columns
    np.testing.assert_array_equal(table["predicted"], predicted)
    assert set(table["lower"]) | set(table["upper"]) <= set(NAMES)
    with pytest.raises(TypeError, match="standard deviation"):
        fitted.predict(BAGS, return_std=True)


@pytest.mark.parametrize("category", ["fair", ["good", "great"]])
def test_contrasts_and_populations_are_of_the_probability_of_categories(fitted, category):
    chosen = np.isin(NAMES, category)
    moved = Bags.from_list([points + 0.5 for points in BAGS], ids=IDS, metadata=BAGS.metadata)
    contrast = fitted.contrast(moved, BAGS, category=category)
    opposite = fitted.contrast(moved, BAGS, category=[c for c in NAMES if c not in category])
    np.testing.assert_allclose(contrast.mean, -opposite.mean, rtol=1e-9, atol=1e-12)
    assert contrast.sd.min() > 0
    draws = fitted.predictive(BAGS).components(np.arange(N))  # of log probabilities
    share = np.exp(draws)[:, :, chosen].sum(axis=2)
    every = fitted.population(BAGS, category=category)
    np.testing.assert_allclose(every.mean, share.mean(), atol=0.02)  # their own prior
    each = fitted.population(BAGS, "stars", category=category)
    weights = pd.Series(CODES).value_counts(sort=False).sort_index()
    np.testing.assert_allclose(weights @ each.mean / N, every.mean, rtol=1e-9)
    none = fitted.population(BAGS, minus=BAGS, category=category)
    np.testing.assert_allclose(none.mean, 0, atol=1e-12)


def test_shares_of_all_categories_add_up(fitted):
    shares = [fitted.population(BAGS, category=name).mean[0] for name in NAMES]
    assert sum(shares) == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize("category", ["god", ["good", "god"], [], NAMES, 2])
def test_categories_that_are_none(fitted, category):
    for refused in (
        lambda **c: fitted.contrast(BAGS, BAGS, **c),
        lambda **c: fitted.population(BAGS, **c),
    ):
        with pytest.raises(
            ValueError, match="category must be one or several, but not all, of 'poo"
        ):
            refused(category=category)
        with pytest.raises(TypeError, match="give category=, one or several of the classes 'poor'"):
            refused()


def test_small_bags_are_less_certain(fitted):
    few, many = fitted.predictive([np.full((1, 1), 2.0), np.full((200, 1), 2.0)]).probabilities
    assert few[3] < many[3]


def test_idata_has_loo_and_methods_agree(fitted, mode):
    assert np.isfinite(elpd(fitted.idata))
    expected = fitted.predictive(BAGS).probabilities
    np.testing.assert_allclose(mode.predictive(BAGS).probabilities, expected, atol=0.15)


def test_saved_fits_predict_alike(fitted, tmp_path):
    fitted.save(tmp_path / "fit.nc")
    again = load(tmp_path / "fit.nc")
    np.testing.assert_array_equal(again.classes_, NAMES)
    expected = fitted.predictive(BAGS).probabilities
    np.testing.assert_allclose(again.predictive(BAGS).probabilities, expected)


def test_report(fitted, tmp_path):
    fitted.report_html(tmp_path / "report.html", BAGS)
    text = (tmp_path / "report.html").read_text()
    assert "Confusion matrix" in text and "high categories" in text
    counts = [f"{name} ({np.sum(name == HEALTH)} bags)" for name in NAMES]
    assert f"health, classes: {', '.join(counts)}" in text
    assert "linear predictor" in str(fitted.priors()) and "normal errors" not in fitted.report()


# ---------------------------------------------------------------- labels

EXACT = BLR(5, family="ordinal", method="optimize")  # embeddings are exact: many times quicker


@pytest.fixture(scope="module")
def exact():
    return quiet(clone(EXACT), "health")


def test_numbers_are_ordered_by_size(exact):
    model = quiet(clone(EXACT), "stars")
    assert model.classes_.tolist() == [1, 2, 3, 4] and model.classes_.dtype.kind == "i"
    np.testing.assert_array_equal(np.array(NAMES)[model.predict(BAGS) - 1], exact.predict(BAGS))
    shuffled = quiet(clone(EXACT), HEALTH.sample(frac=1, random_state=0))
    np.testing.assert_array_equal(shuffled.predict(BAGS), exact.predict(BAGS))


@pytest.mark.parametrize("kind", ["pandas", "pyarrow", "polars"])
def test_order_of_a_column_of_a_table_is_kept(kind):
    module = pytest.importorskip(kind)
    text = np.repeat(IDS, 2), np.repeat(np.asarray(HEALTH), 2)
    frame = pd.DataFrame({"x": np.arange(2.0 * N), "town": text[0]})
    frame["health"] = pd.Categorical(text[1], NAMES, ordered=True)
    if kind == "pyarrow":
        frame = module.Table.from_pandas(frame)
    if kind == "polars":
        frame = module.from_pandas(frame).with_columns(
            module.col("health").cast(module.Enum(NAMES))
        )
    bags = Bags.from_dataframe(frame, "town", ["x"], metadata=["health"])
    kept = bags.metadata["health"]
    assert kept.cat.ordered and list(kept.cat.categories) == NAMES
    np.testing.assert_array_equal(kept, HEALTH)
    unordered = pd.DataFrame({"x": np.arange(2.0 * N), "town": text[0], "health": text[1]})
    unordered = Bags.from_dataframe(
        unordered.astype({"health": "category"}), "town", ["x"], metadata=["health"]
    )
    assert not unordered.metadata["health"].cat.ordered


def test_labels_of_polars_and_pyarrow_keep_their_order(exact):
    polars, pyarrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    text = HEALTH.astype(str).to_list()
    codes = pyarrow.DictionaryArray.from_arrays(HEALTH.cat.codes, NAMES, ordered=True)
    for y in (polars.Series(text, dtype=polars.Enum(NAMES)), pyarrow.chunked_array([codes])):
        model = quiet(clone(EXACT), y)
        assert list(model.classes_) == NAMES
        np.testing.assert_array_equal(model.predict(BAGS), exact.predict(BAGS))
    with pytest.raises(TypeError, match="needs the order of labels that are text"):
        quiet(clone(EXACT), polars.Series(text))


def test_reversed_categories_mirror_the_probabilities(exact):
    """The model does not depend on the direction of the order, up to its weak priors."""
    mirrored = HEALTH.cat.reorder_categories(NAMES[::-1], ordered=True)
    model = quiet(clone(EXACT), mirrored)
    assert list(model.classes_) == NAMES[::-1]
    expected = exact.predictive(BAGS).probabilities[:, ::-1]
    np.testing.assert_allclose(model.predictive(BAGS).probabilities, expected, atol=0.02)


def test_categories_without_a_bag_stay_with_a_warning():
    y = HEALTH.cat.set_categories(["none", "poor", "fair", "so-so", "good", "great", "best"])
    with pytest.warns(UserWarning, match="no bag has the label 'none'.*3 such categories"):
        model = clone(EXACT).fit(BAGS, y, **QUICK)
    p = model.predictive(BAGS).probabilities
    assert p.shape == (N, 7) and np.all(p[:, [0, 3, 6]].mean(axis=0) < 0.05) and np.all(p > 0)


def test_fits_to_embedded_bags_keep_the_order(exact):
    model = clone(EXACT).fit_features(EXACT.training_features(BAGS, seed=1), HEALTH, **QUICK)
    expected = exact.predictive(BAGS).probabilities
    np.testing.assert_allclose(model.predictive(BAGS).probabilities, expected, rtol=1e-9)
    two = HEALTH.where(HEALTH == "poor", "great")  # with categories that no bag has
    classes = ShrinkageClassifier(5)
    classes = classes.fit_features(classes.training_features(BAGS, seed=1), two, **QUICK)
    assert list(classes.classes_) == ["great", "poor"]


# ---------------------------------------------------------------- scikit-learn and searches


def test_it_is_a_classifier_for_scikit_learn():
    model = BLR(5, family="ordinal", method="optimize", random_state=1)
    assert is_classifier(model) and not is_regressor(model)
    assert is_regressor(Shrinkage(5)) and not is_classifier(Shrinkage(5))
    scores = cross_val_score(model, BAGS, HEALTH, cv=2)
    assert np.all((scores > 0.3) & (scores <= 1))


def test_tune_and_stack():
    models = {"four": BLR(4, family="ordinal"), "five": clone(EXACT).set_params(method="nuts")}
    found = tune(
        BAGS, "health", cv=2, models=models, n_landmarks=[4, 5], bandwidth_scale=[1.0],
        method="optimize", seed=1, progress=False,
    )  # fmt: skip
    assert np.all(np.isfinite(found.table[["nll", "mse"]])) and len(found.table) == 4
    models = [model.set_params(method="laplace") for model in models.values()]
    stacked = quiet(StackedClassifier(models), HEALTH, draws=200)
    assert isinstance(stacked.predictive(BAGS), OrdinalPredictive)
    assert list(stacked.classes_) == NAMES and set(stacked.predict(BAGS)) <= set(NAMES)
