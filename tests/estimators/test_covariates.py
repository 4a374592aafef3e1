"""Covariates of the bags beside their embeddings: what every estimator does with them."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from builders.problems import SHORT, predictions
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GridSearchCV

import bdr_stan
from bdr_stan import (
    BDR,
    BLR,
    Bags,
    BDRClassifier,
    BLRClassifier,
    RBFNetwork,
    Shrinkage,
    ShrinkageClassifier,
    Stacked,
    tune,
)

COVARIATES = ["population", "region"]
NAMES = ["population", "region=north", "region=south"]
TRUE = {"population": 2e-4, "region=north": 0.6, "region=south": -0.6}
MODELS = {
    "BLR, exact": BLR(5, method="exact", covariates=COVARIATES),
    "BLR, nuts": BLR(5, covariates=COVARIATES),
    "Shrinkage": Shrinkage(5, covariates=COVARIATES),
    "BDR, nuts": BDR(5, covariates=COVARIATES),
    "BDR, laplace": BDR(5, method="laplace", covariates=COVARIATES),
    "BLRClassifier": BLRClassifier(5, covariates=COVARIATES),
    "ShrinkageClassifier": ShrinkageClassifier(5, covariates=COVARIATES),
    "BDRClassifier": BDRClassifier(5, covariates=COVARIATES),
}
each_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


def counties(n=120, seed=3):
    """Bags whose labels depend on their centre, a number and a level."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=n)
    table = pd.DataFrame(
        {
            "population": rng.normal(30_000, 5_000, n),
            "region": rng.choice(["north", "south"], n),
        }
    )
    sizes = rng.choice([2, 5, 30], n)
    points = np.repeat(centres, sizes)[:, None] + rng.normal(size=(sizes.sum(), 2))
    y = 3 + centres + TRUE["population"] * (table["population"] - 30_000)
    y += table["region"].map({"north": 0.6, "south": -0.6}) + 0.2 * rng.normal(size=n)
    return Bags.from_points(points, sizes=sizes, metadata=table), y.to_numpy()


def labels_for(model, y):
    return np.where(y > 3, "rich", "poor") if is_classifier(model) else y


def with_metadata(bags, **columns):
    return Bags(bags.points, bags.offsets, metadata=bags.metadata.assign(**columns))


def without_metadata(bags):
    return Bags(bags.points, bags.offsets)


def quiet_fit(model, bags, y, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return clone(model).fit(bags, labels_for(model, y), **{"seed": 1, **SHORT, **options})


@pytest.fixture(scope="module")
def problem():
    return counties()


@pytest.fixture(scope="module", params=MODELS.values(), ids=MODELS)
def fitted(request, problem):
    return quiet_fit(request.param, *problem)


def test_their_weights_are_named_and_in_the_units_of_the_covariates(fitted, problem):
    gamma = fitted.idata.posterior["gamma"]
    assert list(gamma["covariate"].values) == NAMES
    assert gamma.dims == ("chain", "draw", "covariate")
    mean = dict(zip(NAMES, gamma.mean(["chain", "draw"]).values))
    assert mean["population"] > (2e-4 if is_classifier(fitted) else 1e-4)
    assert mean["population"] < (2e-3 if is_classifier(fitted) else 3e-4)
    assert mean["region=north"] > 0.2 > -0.2 > mean["region=south"]
    # A level is told against the average bag, which the labels know well.
    shares = problem[0].metadata["region"].value_counts(normalize=True)
    average = sum(gamma.sel(covariate=f"region={level}") * share for level, share in shares.items())
    np.testing.assert_allclose(average, np.zeros(average.shape), atol=1e-9)
    if not is_classifier(fitted):
        assert gamma.std(["chain", "draw"]).max() < 0.1


def test_they_predict(fitted, problem):
    model = clone(fitted).set_params(covariates=None)
    new, y = counties(seed=4)
    gain = fitted.score(new, labels_for(fitted, y))
    gain -= quiet_fit(model, *problem).score(new, labels_for(fitted, y))
    assert gain > (0.05 if is_classifier(fitted) else 0.3)


def test_the_intercept_is_the_label_at_their_average(fitted, problem):
    """Of a bag at the average embedding and covariates the latent function is the intercept."""
    bags, _ = problem
    embedding = fitted.training_features(bags, seed=1).embedding
    np.testing.assert_allclose(embedding.x.mean(axis=0), np.zeros(3), atol=1e-12)


def test_priors_show_them(fitted):
    scale = fitted.priors(as_table=False)["gamma_scale"]
    assert fitted.priors().loc["gamma", "prior"] == f"normal(0, {scale:.4g})"
    plain = clone(fitted).set_params(covariates=None, method="optimize")
    bags, y = counties(30)
    assert "gamma" not in quiet_fit(plain, bags, y).priors().index


def test_file_and_pickle_keep_them(fitted, problem, tmp_path):
    new, _ = counties(20, seed=5)
    fitted.save(tmp_path / "fit.nc")
    for again in (bdr_stan.load(tmp_path / "fit.nc"), pickle.loads(pickle.dumps(fitted))):
        assert repr(again.get_params()) == repr(fitted.get_params())
        np.testing.assert_array_equal(predictions(again, new), predictions(fitted, new))
        assert list(again.idata.posterior["covariate"].values) == NAMES


def test_each_bag_is_predicted_by_itself(fitted):
    new, _ = counties(20, seed=5)
    whole = predictions(fitted, new)
    np.testing.assert_allclose(predictions(fitted, new[3:7]), whole[3:7], rtol=1e-10)
    categories = pd.Categorical(new.metadata["region"], categories=["south", "x", "north"])
    again = with_metadata(new, region=categories)
    np.testing.assert_array_equal(predictions(fitted, again), whole)


def test_new_bags_must_have_them(fitted):
    new, _ = counties(20, seed=5)
    with pytest.raises(ValueError, match="'population' is a column of the bags' metadata, but"):
        fitted.predict(without_metadata(new))
    with pytest.raises(ValueError, match="'region' of bag 0 is 'east', which no training bag has"):
        fitted.predict(with_metadata(new, region="east"))


@each_model
def test_training_bags_must_have_them(model, problem):
    bags, y = problem
    with pytest.raises(ValueError, match="these bags have none: pass metadata"):
        quiet_fit(model, without_metadata(bags), y)
    for names, error, says in [
        ("region", TypeError, "covariates must be a list of names"),
        (["region", "region"], ValueError, "covariates names 'region' twice"),
        (["religion"], ValueError, "no column 'religion': did you mean 'region'"),
    ]:
        with pytest.raises(error, match=says):
            quiet_fit(clone(model).set_params(covariates=names), bags, y)


@pytest.mark.parametrize("name", ["BLR, exact", "Shrinkage", "ShrinkageClassifier"])
def test_units_of_a_covariate_do_not_matter(problem, name):
    bags, y = problem
    moved = with_metadata(bags, population=bags.metadata["population"] / 1000 - 50)
    one, other = (quiet_fit(MODELS[name], each, y) for each in (bags, moved))
    straight = predictions(one, bags)
    near = 1e-6 if name == "BLR, exact" else 5e-3  # as far as the optimiser goes
    size = np.abs(straight).max()
    np.testing.assert_allclose(predictions(other, moved), straight, atol=near * size)
    ratio = other.result_.draws("gamma")[:, 0] / one.result_.draws("gamma")[:, 0]
    np.testing.assert_allclose(ratio, 1000.0, rtol=near)


def test_no_names_are_no_covariates(problem):
    bags, y = problem
    none, empty = (quiet_fit(Shrinkage(5, covariates=names), bags, y) for names in (None, []))
    np.testing.assert_array_equal(empty.predict(bags), none.predict(bags))
    assert not none.result_.has_draws("gamma") and "covariates" not in none.result_.settings


def test_training_features_can_be_shared(problem):
    bags, y = problem
    model = Shrinkage(5, covariates=COVARIATES)
    features = model.training_features(bags, seed=1)
    fit = clone(model).fit_features(features, y, seed=1)
    np.testing.assert_allclose(fit.predict(bags), quiet_fit(model, bags, y).predict(bags))
    new, _ = counties(20, seed=5)
    np.testing.assert_array_equal(
        fit.predictive_features(model.embed(new, features)).mean, fit.predict(new)
    )
    part = features.take(np.arange(40))
    assert clone(model).fit_features(part, y[:40]).predict(bags).shape == (120,)
    with pytest.raises(ValueError, match=r"has no such columns, but .* have covariates=\['pop"):
        Shrinkage(5).fit_features(features, y)


def test_tune_tells_models_with_and_without_them_apart(problem):
    models = {
        "with": BLR(method="exact", covariates=COVARIATES),
        "without": BLR(method="exact"),
        "fellow": Shrinkage(),
        "network": RBFNetwork(),
    }
    new = counties(60, seed=5)
    for how in ({"validation": new}, {"cv": 3}):
        table = tune(
            *problem, models=models, n_landmarks=[5], bandwidth_scale=[1.0], seed=1, **how
        ).table.set_index("model")
        nll = table["nll"]
        assert nll["with"] < nll["without"] - 0.3
        assert nll["without"] == pytest.approx(nll["fellow"], abs=0.3)


def test_scikit_learn_searches_over_them(problem):
    grid = {"covariates": [None, ["population"], COVARIATES]}
    search = GridSearchCV(BLR(5, method="exact"), grid, cv=3, error_score="raise")
    assert search.fit(*problem).best_params_ == {"covariates": COVARIATES}


def test_stacks_take_them(problem):
    bags, y = problem
    models = [BLR(5, method="exact", covariates=names) for names in (COVARIATES, None)]
    stack = quiet_fit(Stacked(models), bags, y)
    assert stack.weights_[0] > 0.9
    new, truth = counties(60, seed=5)
    assert stack.score(new, truth) > 0.6
    assert stack.covariates == COVARIATES


@pytest.mark.parametrize(
    "model",
    [
        BLR(5, method="exact", covariates=COVARIATES),
        Stacked([BLR(5, method="exact", covariates=[name]) for name in COVARIATES]),
    ],
    ids=["BLR", "Stacked"],
)
def test_a_table_with_them_is_predicted(model, problem):
    bags, y = problem
    table = pd.DataFrame(bags.points, columns=["u", "v"])
    table["county"] = np.repeat(np.arange(len(bags)), bags.sizes)
    table = table.join(bags.metadata, on="county")
    read = Bags.from_dataframe(table, "county", features=["u", "v"], metadata=COVARIATES)
    fit = quiet_fit(model, read, y)
    np.testing.assert_allclose(fit.predict(table), fit.predict(read))
    with pytest.raises(ValueError, match="no column 'region'"):
        fit.predict(table.drop(columns="region"))


@pytest.mark.slow
def test_they_are_recovered():
    bags, y = counties(400)
    model = BDR(20, covariates=COVARIATES).fit(bags, y, seed=1)
    gamma = model.idata.posterior["gamma"].stack(sample=["chain", "draw"])
    contrast = gamma.values[1] - gamma.values[2]  # what the levels share, the intercept has too
    for found, true in [(gamma.values[0], TRUE["population"]), (contrast, 1.2)]:
        assert abs(found.mean() - true) < 3.5 * found.std()  # chance: 5e-4 each
        assert 3.5 * found.std() < true


@pytest.mark.slow
def test_the_closed_form_is_what_nuts_samples():
    bags, y = counties(400)
    exact, nuts = (
        quiet_fit(BLR(10, method=method, covariates=COVARIATES), bags, y, draws=2000)
        for method in ("exact", "nuts")
    )
    one, other = (model.result_.draws("gamma") for model in (exact, nuts))
    assert np.all(np.abs(one.mean(axis=0) - other.mean(axis=0)) < 0.15 * one.std(axis=0))
    np.testing.assert_allclose(one.std(axis=0), other.std(axis=0), rtol=0.1)
