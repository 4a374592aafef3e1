"""What has a name or an id is matched by it, or refused: every estimator, `tune` and `Stacked`."""

import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest
from builders.estimators import ESTIMATORS, QUICK_TOTALS
from builders.papers import PAPERS
from builders.problems import NAMES, beside, labels_for, location_bags, predictions, quick
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_outlier_detector
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from bdr_stan import (
    BLR,
    AggregateRegressor,
    Bags,
    BLRClassifier,
    InverseBDR,
    RBFNetwork,
    Samples,
    metrics,
    plots,
    tune,
)

EVERY = [*ESTIMATORS, *PAPERS]
LABELLED = [model for model in EVERY if not is_outlier_detector(model)]


def each_of(models):
    return pytest.mark.parametrize("model", models, ids=lambda model: type(model).__name__)


def fitted(model, *data, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return clone(model).fit(*data, **(beside(model, data[0]) | quick(model) | options))


@pytest.fixture(scope="module")
def people():
    """A table of people in shuffled rows: town, x, z, weight; and the centre of each town."""
    bags, centres = location_bags(40)
    towns = np.array([f"town {k:02}" for k in range(40)])
    table = pd.DataFrame(bags.points, columns=NAMES)
    table.insert(0, "town", np.repeat(towns, bags.sizes))
    table["weight"] = np.random.default_rng(0).uniform(50, 150, len(table))
    return table.sample(frac=1, random_state=1), centres


def read(table, **options):
    return Bags.from_dataframe(table, "town", NAMES, **options)


@pytest.fixture(scope="module")
def shuffled():
    return np.random.default_rng(2).permutation(40)


def series(bags, values, order):
    return pd.Series(values, index=pd.Index(bags.ids, name="town"), name="vote").iloc[order]


# ------------------------------------------------------------------ labels


@pytest.fixture(scope="module")
def fit_in_order(people):
    """Fits of estimators to labels in the order of the bags, each made once."""
    table, centres = people
    bags = read(table)
    return cache(lambda model: fitted(model, bags, labels_for(model, bags, centres)))


@each_of(LABELLED)
def test_labels_are_matched_by_their_index(model, people, shuffled, fit_in_order):
    table, centres = people
    bags = read(table)
    y = labels_for(model, bags, centres)
    expected = fit_in_order(model)
    by_index = fitted(model, bags, series(bags, y, shuffled))
    assert_array_equal(predictions(by_index, bags), predictions(expected, bags))
    assert by_index.score(bags, series(bags, y, shuffled)) == expected.score(bags, y)
    weights = np.arange(1.0, 41)
    assert expected.score(bags, y, series(bags, weights, shuffled)) == expected.score(
        bags, y, weights
    )
    with pytest.raises(ValueError, match=r"the index of y, 'other', .* lacks the id 'town 00'"):
        fitted(model, bags, series(bags, y, shuffled).rename({"town 00": "other"}).sort_index())
    with pytest.raises(ValueError, match="the index of y"):
        expected.score(bags, pd.Series(y, index=np.arange(100, 140)[::-1]))


@each_of(LABELLED)
def test_labels_by_the_name_of_a_metadata_column(model, people, fit_in_order):
    table, centres = people
    y = labels_for(model, read(table), centres)
    votes = dict(zip(read(table).ids, y))
    bags = read(table.assign(vote=table["town"].map(votes)), metadata=["vote"])
    by_name = fitted(model, bags, "vote")
    assert_array_equal(predictions(by_name, bags), predictions(fit_in_order(model), bags))
    assert by_name.score(bags, "vote") == by_name.score(bags, y)
    with pytest.raises(ValueError, match=r"y='votes' is not a column .* 'vote'"):
        fitted(model, bags, "votes")


@each_of(LABELLED)
def test_labels_with_row_numbers_are_in_the_order_of_the_bags(model, people, fit_in_order):
    table, centres = people
    bags = read(table)
    y = labels_for(model, bags, centres)
    found = fitted(model, bags, pd.Series(y))
    assert_array_equal(predictions(found, bags), predictions(fit_in_order(model), bags))
    as_list = fitted(model, list(bags), series(bags, y, range(40)))
    # Points that lie in memory in another order change the last digits of a fit. Bags without ids
    # are new ones, without effects of their own.
    new = list(bags)
    assert_allclose(predictions(as_list, new), predictions(found, new), rtol=1e-5)


@pytest.mark.parametrize("part", [slice(20, 40), slice(10, 30), slice(None, None, -1)])
def test_row_numbers_of_other_rows_are_no_position(people, part):
    table, centres = people
    bags = read(table)[: len(centres[part])]
    model = BLR(5, method="exact")
    y = pd.Series(centres)[part]
    given = bags, centres[: len(bags)]
    numbers = pd.Series(np.arange(1.0, 41))[part]
    for name, call in {
        "y": lambda: model.fit(bags, y),
        "label_sd": lambda: model.fit(*given, label_sd=numbers),
        "trials": lambda: BLR(family="binomial").fit(bags, bags.sizes, trials=numbers),
        "exposure": lambda: BLR(family="poisson").fit(bags, bags.sizes, exposure=numbers),
        "sample_weight": lambda: model.fit(*given, seed=1).score(*given, numbers),
        "metadata": lambda: Bags.from_list(list(bags), bags.ids, metadata=numbers.to_frame()),
        "the mask": lambda: bags[numbers > 20],
    }.items():
        with pytest.raises(ValueError, match=f"^the index of {name}, .* lacks the id 'town 00'"):
            call()


def test_bags_without_labels_can_be_left_out(people):
    table, centres = people
    bags = read(table)
    y = series(bags, centres, range(30))
    with pytest.raises(ValueError, match=r"or use bags\[np.isin\(bags.ids, y.index\)\]$"):
        BLR(5, method="exact").fit(bags, y)
    labelled = bags[np.isin(bags.ids, y.index)]
    assert len(BLR(5, method="exact").fit(labelled, y, seed=1).predict(labelled)) == 30


def test_labels_in_a_dict_are_refused(people):
    table, centres = people
    bags = read(table)
    with pytest.raises(TypeError, match=r"^y is a dict: pass pd.Series\(y\)"):
        BLR(5, method="exact").fit(bags, dict(zip(bags.ids, centres)))


def test_ids_that_are_row_numbers_in_another_order_are_no_position():
    bags = Bags([[0.0], [1.0], [2.0]], [0, 1, 2, 3], ids=[2, 0, 1])
    model = BLR(2, method="exact")
    with pytest.raises(
        ValueError, match="default index 0, 1, ..., and the ids of the bags are the"
    ):
        model.fit(bags, pd.Series([1.0, 2.0, 3.0]))
    texts = Bags(np.arange(12.0)[:, None], np.arange(13), ids=sorted(map(str, range(12))))
    with pytest.raises(
        ValueError, match="default index 0, 1, ..., and the ids of the bags are the"
    ):
        model.fit(texts, pd.Series(np.arange(12.0)))
    assert model.fit(texts[:2], pd.Series([1.0, 2.0])).predict(texts[:2]).shape == (2,)
    with pytest.raises(ValueError, match=r"has 4 rows, but there are 3 bags: pass y.loc"):
        model.fit(bags, pd.Series([1.0, 2.0, 3.0, 4.0], index=[3, 2, 1, 0]))
    with pytest.raises(ValueError, match="has 0 more than once"):
        model.fit(bags, pd.Series([1.0, 2.0, 3.0, 4.0], index=[0, 2, 1, 0]))


def test_known_errors_and_trials_are_matched(people, shuffled):
    table, centres = people
    bags = read(table)
    sd = np.linspace(0.1, 2, 40)
    model = BLR(5, method="exact")
    expected = fitted(model, bags, centres, label_sd=sd).predict(bags)
    found = fitted(model, bags, centres, label_sd=series(bags, sd, shuffled)).predict(bags)
    assert_array_equal(found, expected)
    trials = np.arange(100, 140)
    y = (trials / (1 + np.exp(-centres))).round()
    model = AggregateRegressor("binomial", n_landmarks=5, method="laplace", learn_kernel=False)
    expected = fitted(model, bags, y, trials=trials)
    found = fitted(model, bags, series(bags, y, shuffled), trials=series(bags, trials, shuffled))
    assert_array_equal(
        found.predict(bags, trials=series(bags, trials, shuffled)),
        expected.predict(bags, trials=trials),
    )


def test_training_features_keep_the_ids(people, shuffled):
    table, centres = people
    bags = read(table)
    model = BLR(5, method="exact")
    training = model.training_features(bags, seed=1)
    expected = clone(model).fit_features(training, centres, seed=1).predict(bags)
    by_index = clone(model).fit_features(training, series(bags, centres, shuffled), seed=1)
    assert_array_equal(by_index.predict(bags), expected)


def test_tune_matches_labels(people, shuffled):
    table, centres = people
    bags = read(table)
    settings = {"n_landmarks": [5], "bandwidth_scale": [1.0], "progress": False}
    for models, more in (
        ([RBFNetwork()], {}),
        ([AggregateRegressor(**QUICK_TOTALS)], {"method": "vb"}),
    ):
        y = labels_for(models[0], bags, centres)
        options = settings | more
        expected = tune(bags, y, models=models, cv=3, **options).table
        found = tune(bags, series(bags, y, shuffled), models=models, cv=3, **options).table
        pd.testing.assert_frame_equal(found, expected)
        validation = (bags, series(bags, y, shuffled))
        found = tune(bags, y, models=models, validation=validation, **options).table
        expected = tune(bags, y, models=models, validation=(bags, y), **options).table
        pd.testing.assert_frame_equal(found, expected)


def test_predictive_distributions_match_labels(people, shuffled, tmp_path):
    table, centres = people
    bags = read(table)
    other = series(bags, centres, shuffled)
    for model in (BLR(5, method="exact"), InverseBDR(5, method="optimize")):
        predictive = fitted(model, bags, centres).predictive(bags)
        for each in (predictive.log_prob, predictive.cdf):
            assert_array_equal(each(other), each(centres))
        scored = [metrics.table_by_size(y, predictive, bags.sizes) for y in (other, centres)]
        pd.testing.assert_frame_equal(*scored)
        scored = [metrics.calibration(y, predictive, sizes=bags.sizes) for y in (other, centres)]
        pd.testing.assert_frame_equal(*scored)
        with pytest.raises(ValueError, match="the index of y"):
            predictive.log_prob(other.rename({"town 00": "other"}))
    drawn = [plots.prediction(y, predictive).axes[0].get_xlim() for y in (other, centres)]
    assert drawn[0] == drawn[1]
    y = np.where(centres > 0, "high", "low")
    predictive = fitted(BLRClassifier(5), bags, y).predictive(bags)
    assert_array_equal(predictive.log_prob(series(bags, y, shuffled)), predictive.log_prob(y))
    scored = [metrics.reliability(v, predictive) for v in (series(bags, y, shuffled), y)]
    pd.testing.assert_frame_equal(*scored)


def test_the_name_of_the_label_reaches_the_file_and_heads_no_table(people, tmp_path):
    table, centres = people
    bags = read(table)
    model = fitted(BLR(5, method="exact"), bags, series(bags, centres, range(40)))
    model.save(tmp_path / "fit.nc")
    for each in (model, BLR.load(tmp_path / "fit.nc")):
        assert each.predict_table(bags).columns.name is None
    model.report_html(tmp_path / "fit.html", bags)
    assert "Report of a fit: vote" in (tmp_path / "fit.html").read_text()


# ------------------------------------------------------------------ tables of bags


def test_metadata_are_matched_by_their_index(people, shuffled):
    table, centres = people
    points, ids = read(table), read(table).ids
    about = pd.DataFrame({"centre": centres}, index=ids)
    for given in (about, about.iloc[shuffled], about.reset_index(drop=True)):
        bags = Bags(points.points, points.offsets, ids=ids, metadata=given)
        later = [read(table), Samples({"people": read(table)})]
        for each in later:
            each.metadata = given
        for each in (bags, *later):
            assert_array_equal(each.metadata["centre"], centres)
            assert each.metadata.index.equals(pd.Index(ids))
        assert_array_equal(later[0][::-1].metadata["centre"], centres[::-1])
    wrong = about.rename({"town 00": "a"})
    with pytest.raises(ValueError, match=r"the index of metadata, 'a', .* lacks the id 'town 00'"):
        Bags(points.points, points.offsets, ids=ids, metadata=wrong)
    with pytest.raises(ValueError, match=r"the index of metadata, 'a', .* lacks the id 'town 00'"):
        points.metadata = wrong
    with pytest.raises(ValueError, match=r"metadata has 3 rows, but there are"):
        points.metadata = about.reset_index(drop=True).iloc[:3]


def test_masks_are_matched_by_their_index(people, shuffled):
    table, centres = people
    bags = read(table)
    mask = series(bags, centres > 0, shuffled)
    assert_array_equal(bags[mask].ids, bags.ids[centres > 0])
    with pytest.raises(ValueError, match="the index of the mask"):
        bags[mask.rename({"town 00": "other"})]


# ------------------------------------------------------------------ columns of points


@each_of(EVERY)
def test_columns_of_data_frames_keep_their_names(model, people):
    table, centres = people
    bags = read(table)
    y = () if is_outlier_detector(model) else (labels_for(model, bags, centres),)
    frames = [group[NAMES] for _, group in table.groupby("town")]
    swapped = [frame[NAMES[::-1]] for frame in frames]
    found = fitted(model, frames, *y)
    assert list(found.feature_names_in_) == NAMES
    with pytest.raises(ValueError, match="column 0 of the bags is 'z', but the model"):
        found.predict(swapped)
    points = table[NAMES[::-1]]
    with pytest.raises(ValueError, match="column 0 of the bags is 'z'"):
        found.predict(Bags.from_points(points, bag=table["town"]))


def test_names_of_columns_that_are_given_and_those_of_a_table(people):
    frame = people[0][NAMES]
    assert Bags.from_list([frame.to_numpy()], features=["a", "b"]).features == ["a", "b"]
    assert Bags.from_list([frame], features=["a", "b"]).features == ["a", "b"]
    with pytest.raises(ValueError, match="features names the columns z, x, but the table has x, z"):
        Bags.from_list([frame], features=["z", "x"])
    assert Bags.from_list([pd.DataFrame(frame.to_numpy())]).features is None


def test_points_bags_and_weights_of_other_rows_are_refused(people):
    table = people[0]
    for name in ("bag", "weights"):
        parts = {"bag": table["town"], "weights": table["weight"]}
        parts[name] = parts[name].sort_index()
        with pytest.raises(
            ValueError, match=f"the index of {name} differs from the index of points"
        ):
            Bags.from_points(table[NAMES], **parts)
    with pytest.raises(ValueError, match="the index of the weights of bag 0 differs"):
        Bags.from_list([table[NAMES]], weights=[table["weight"].sort_index()])


# ------------------------------------------------------------------ transformers


def scaled(table, **options):
    return read(table, transformer=StandardScaler(), **options)


@each_of(ESTIMATORS)
def test_transformers_are_not_forgotten(model, people):
    table, centres = people
    raw, made = read(table), scaled(table)
    y = (labels_for(model, raw, centres),)
    of_raw, of_made = fitted(model, raw, *y), fitted(model, made, *y)
    few = table[table["x"] > 0]
    words = "made by another transformer"
    for fit, bags in ((of_made, raw), (of_raw, made), (of_made, scaled(few))):
        with pytest.raises(ValueError, match=words):
            fit.predict(bags)
    with pytest.raises(ValueError, match=words):  # columns of the same names, without a record
        of_made.predict([group[NAMES] for _, group in table.groupby("town")])
    like = Bags.from_dataframe(few, "town", like=of_made)
    assert len(of_made.predict(like)) == len(like)
    assert len(of_made.predict(few)) == len(like)
    assert_array_equal(of_made.predict(scaled(table)), of_made.predict(made))


def test_transformers_of_validation_bags_and_of_parts(people):
    table, centres = people
    raw, made = read(table), scaled(table)
    settings = {"models": [RBFNetwork()], "n_landmarks": [5], "bandwidth_scale": [1.0]}
    with pytest.raises(ValueError, match="the validation bags were made by another transformer"):
        tune(made, centres, validation=(raw, centres), **settings)
    with pytest.raises(ValueError, match="the bags at position 1 were made by another transformer"):
        Bags.concatenate([made, raw])


def test_a_transformer_that_cannot_be_pickled_equals_itself_alone(people):
    table, centres = people
    read_own = [
        read(table, transformer=FunctionTransformer(lambda x: x, feature_names_out="one-to-one"))
        for _ in range(2)
    ]
    model = fitted(RBFNetwork(5), read_own[0], centres)
    assert len(model.predict(read_own[0])) == 40
    with pytest.raises(ValueError, match="made by another transformer"):
        model.predict(read_own[1])


@each_of(ESTIMATORS)
def test_missing_values_are_filled_as_in_the_training_table(model, people):
    table, centres = people
    gaps = table.assign(x=table["x"].where(np.random.default_rng(3).random(len(table)) > 0.1))
    bags = read(gaps, missing="indicator")
    y = (labels_for(model, bags, centres),)
    found = fitted(model, bags, *y)
    few = gaps[gaps["town"] < "town 20"].assign(x=lambda rows: rows["x"] + 1)
    by_itself = read(few, missing="indicator")
    expected = found.predict(Bags.from_dataframe(few, "town", like=found))
    assert_array_equal(found.predict(by_itself), expected)


# ------------------------------------------------------------------ weights


@each_of(EVERY)
def test_weights_are_not_forgotten(model, people):
    table, centres = people
    weighted, plain = read(table, weight="weight"), read(table)
    y = () if is_outlier_detector(model) else (labels_for(model, plain, centres),)
    found = fitted(model, weighted, *y)
    with pytest.raises(ValueError, match="the bags have no weights, but the training bags had"):
        found.predict(plain)
    assert len(found.predict(weighted)) == 40
    for call in ("predict_points", "influence"):  # of points, which have no weight in a bag
        if hasattr(found, call):
            getattr(found, call)(table[NAMES].iloc[:5])
    assert len(fitted(model, plain, *y).predict(weighted)) == 40


# ------------------------------------------------------------------ versions of bags


@each_of([model for model in EVERY if hasattr(model, "contrast")])
def test_contrasts_are_between_the_same_bags(model, people, shuffled):
    table, centres = people
    first, second = read(table), read(table.assign(x=table["x"] + 0.5))
    found = fitted(model, first, labels_for(model, first, centres))
    expected = found.contrast(second, first).mean
    assert_array_equal(found.contrast(second, first[shuffled]).mean, expected)
    renamed = read(table.assign(town=table["town"].str.upper()))
    with pytest.raises(ValueError, match="the index of bags_b"):
        found.contrast(second, renamed)


def test_mixtures_are_of_the_same_bags(people, shuffled):
    from bdr_stan.predictive import mix

    table, centres = people
    bags = read(table)
    model = fitted(BLR(5, method="exact"), bags, centres)
    predictives = [model.predictive(bags), model.predictive(bags[shuffled])]
    with pytest.raises(ValueError, match="of bags with different ids"):
        mix(predictives, [0.5, 0.5])


def test_reports_are_of_the_bags_of_the_fit(people, tmp_path):
    table, centres = people
    bags = read(table)
    model = fitted(BLR(5, method="exact"), bags, centres)
    with pytest.raises(ValueError, match=r"points, but .* in the fit"):
        model.report_html(tmp_path / "fit.html", read(table.drop_duplicates("town")))
    with pytest.raises(ValueError, match="ids of training bags, but other points"):
        model.report_html(tmp_path / "fit.html", read(table.assign(x=table["x"] + 1)))
    totals = fitted(AggregateRegressor(**QUICK_TOTALS), bags, np.arange(40))
    with pytest.raises(ValueError, match="ids of training bags, but other points"):
        totals.report_html(tmp_path / "fit.html", read(table.assign(x=table["x"] + 1)))
    assert not (tmp_path / "fit.html").exists()


# ------------------------------------------------------------------ bags in partitions, the shell


def test_bags_in_partitions_match_too(people, shuffled):
    import dask.dataframe as dd

    table, centres = people
    gaps = table.assign(x=table["x"].where(np.random.default_rng(3).random(len(table)) > 0.1))
    like = {"bag": "town", "features": NAMES, "missing": "indicator"}

    def lazily(table, **options):
        return Bags.from_dask(dd.from_pandas(table, npartitions=2), **like, **options)

    bags = lazily(gaps)
    model = fitted(BLR(5, method="exact"), bags, series(bags, centres, shuffled))
    expected = fitted(BLR(5, method="exact"), bags, centres)
    assert_array_equal(model.predict(bags), expected.predict(bags))
    few = gaps[gaps["town"] < "town 20"].assign(x=lambda rows: rows["x"] + 1)
    np.testing.assert_allclose(
        model.predict(lazily(few)), model.predict(Bags.from_dataframe(few, "town", like=model))
    )
    weighted = fitted(BLR(5, method="exact"), lazily(gaps, weight="weight"), centres)
    with pytest.raises(ValueError, match="the bags have no weights, but the training bags had"):
        weighted.predict(bags)


def test_saved_fits_and_their_copies_remember(people, tmp_path):
    import pickle

    table, centres = people
    weighted = fitted(BLR(5, method="exact"), read(table, weight="weight"), centres)
    weighted.save(tmp_path / "fit.nc")
    with pytest.raises(ValueError, match="the bags have no weights"):
        BLR.load(tmp_path / "fit.nc").predict(read(table))
    made = scaled(table)
    model = fitted(BLR(5, method="exact"), made, centres)
    copy = pickle.loads(pickle.dumps(model))
    assert_array_equal(copy.predict(made), model.predict(made))
    with pytest.raises(ValueError, match="made by another transformer"):
        copy.predict(read(table))
