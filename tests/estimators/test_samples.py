"""Fits to bags with several samples, of which some bags lack one."""

import pickle

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from builders.reference import elpd
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import KFold, cross_val_score

from bdr_stan import BDR, BLR, Bags, InverseBDR, Samples, Shrinkage, Stacked, load, plots, tune

N = 60
IDS = np.array([f"{k:02}" for k in range(N)])
QUICK = {"n_landmarks": 8, "kernel": "rbf"}


def table(rng, towns, column, centre, spread):
    """Points of the towns in random order: about `centre`, by town, with sd `spread`."""
    size = rng.integers(5, 25, len(towns))
    return pd.DataFrame(
        {
            "town": np.repeat(towns, size),
            column: np.repeat(centre, size) + spread * rng.normal(size=size.sum()),
        }
    ).sample(frac=1, random_state=1)


class Country:
    """Residents by age and houses by rooms; towns 00 to 02 lack residents, 55 to 59 houses."""

    def __init__(self):
        rng = np.random.default_rng(2)
        age, rooms = rng.normal(size=(2, N))
        self.people = table(rng, IDS[3:], "age", 45 + 6 * age[3:], 10)
        self.people["women"] = rng.integers(0, 2, len(self.people))
        self.houses = table(rng, IDS[:55], "rooms", 4 + 0.8 * rooms[:55], 1.5)
        self.houses["old"] = rng.normal(size=len(self.houses))
        state = pd.Series(np.where(np.arange(N) % 2, "N", "S"), IDS)
        pop = pd.Series(rng.integers(50, 200, N), IDS)
        for points in (self.people, self.houses):
            points["state"], points["pop"] = points.town.map(state), points.town.map(pop)
        mean = 45 + 5 * age + 4 * rooms
        labels = {"normal": mean + rng.normal(size=N), "poisson": rng.poisson(pop * mean / 400)}
        self.y = {
            name: pd.Series(values, IDS, name="label").sample(frac=1, random_state=2)
            for name, values in labels.items()
        }
        columns = ["state", "pop"]
        self.bags = {
            "people": Bags.from_dataframe(self.people, "town", metadata=columns),
            "houses": Bags.from_dataframe(self.houses, "town", metadata=columns),
        }
        self.samples = Samples(self.bags)


@pytest.fixture(scope="module")
def country():
    return Country()


@pytest.fixture(scope="module")
def model(country):
    return Shrinkage(**QUICK, groups=["state"]).fit(country.bags, country.y["normal"], seed=1)


@pytest.mark.parametrize("estimator", [Shrinkage, BLR])
@pytest.mark.parametrize("family", ["normal", "lognormal", "poisson", "student_t"])
def test_one_sample_is_the_fit_of_bags(country, family, estimator):
    """By another program than that of normal labels, and by weights of each sample."""
    bags, y = country.bags["people"], country.y["poisson" if family == "poisson" else "normal"]
    y = y[y.index.isin(bags.ids)]
    options = {"exposure": "pop"} if family == "poisson" else {}
    plain = estimator(8, family=family, method="optimize")
    several = clone(plain).fit({"people": bags}, y, seed=1, **options)
    plain.fit(bags, y, seed=1, **options)
    expected, found = plain.predictive(bags), several.predictive({"people": bags})
    assert_allclose(found.mean, expected.mean, rtol=0, atol=1e-4 * expected.mean.std())
    assert_allclose(found.sd, expected.sd, rtol=1e-4)


def test_one_sample_has_the_answers_of_the_fit_of_bags(country):
    bags, y = country.bags["people"], country.y["normal"]
    y = y[y.index.isin(bags.ids)]
    plain = Shrinkage(8, groups=["state"])
    several = clone(plain).fit({"people": bags}, y, seed=1)
    plain.fit(bags, y, seed=1)
    close = {"rtol": 1e-4, "atol": 1e-4 * y.std()}
    for part in (bags, bags[:9]):  # with a prior of their own, and not shrunk
        expected = plain.population(part, by="state")
        found = several.population({"people": part}, by="state")
        assert_allclose(found.mean, expected.mean, **close)
        assert_allclose(found.sd, expected.sd, **close)
    old = bags.where(age=lambda age: age > 30)
    every = bags[np.isin(bags.ids, old.ids)]
    expected = plain.contrast(old, every)
    found = several.contrast({"people": old}, {"people": every})
    assert np.abs(expected.mean).max() > 1
    assert_allclose(found.mean, expected.mean, **close)
    expected, found = plain.predict_terms(bags), several.predict_terms({"people": bags})
    assert_allclose(found["people"], expected["embedding"], **close)
    assert_allclose(found["state"], expected["state"], **close)
    expected, found = plain.influence(bags), several.influence(bags, sample="people")
    assert_allclose(found.mean, expected.mean, **close)


def test_both_samples_and_their_influence_are_found(country, model):
    y, samples = country.y["normal"], country.samples
    two = model.score(samples, y.loc[samples.ids])
    complete = samples[samples.has("people") & samples.has("houses")]
    assert model.score(complete, y.loc[complete.ids]) > 0.75
    people = Shrinkage(**QUICK).fit(
        country.bags["people"], y.loc[country.bags["people"].ids], seed=1
    )
    assert two > people.score(country.bags["people"], y.loc[country.bags["people"].ids]) + 0.1
    for sample, column, steps in (("people", "age", 5 / 6), ("houses", "rooms", 4 / 0.8)):
        values, along = model.influence_along(column, samples, sample=sample)
        slope = np.polyfit(values, along.mean, 1)[0]
        assert 0.6 * steps < slope < 1.4 * steps, column
    ax = plots.influence(model, "rooms", country.bags, sample="houses")
    assert ax.get_xlabel() == "rooms"


def test_a_bag_that_lacks_a_sample_has_a_wider_interval(country, model):
    samples = country.samples
    sd = model.predictive(samples).sd
    has = samples.has("people") & samples.has("houses")
    assert sd[~has].min() > np.median(sd[has])
    terms = model.predict_terms(samples)
    lacking = ~samples.has("houses")
    own = terms["houses"]["mean"]
    assert np.all(own[lacking] == 0) and np.all(own[~lacking] != 0)
    parts = terms.xs("mean", axis=1, level=1).sum(axis=1)
    assert_allclose(model.predict(samples) - parts, model.result_.draws("intercept")[0])


def test_ways_to_pass_the_same_bags(country, model, tmp_path):
    samples, expected = country.samples, model.predict(country.bags)
    tables = {"people": country.people[country.people.columns[::-1]], "houses": country.houses}
    assert_array_equal(model.predict(tables), expected)
    assert_array_equal(model.predict(samples), expected)
    table = model.predict_table(dict(reversed(country.bags.items())))
    assert_allclose(table.loc[samples.ids, "mean"], expected)
    assert_array_equal(table.loc[samples.ids, "n_points[houses]"], samples.sizes_of("houses"))
    parts = dd.from_pandas(country.people.sort_values("town"), npartitions=3)
    parts = Bags.from_dask(parts, "town", metadata=["state", "pop"])
    in_parts = {"people": parts, "houses": country.bags["houses"]}
    assert_allclose(model.predict(in_parts), expected, rtol=1e-10)
    model.save(tmp_path / "fit.nc")
    for again in (load(tmp_path / "fit.nc"), pickle.loads(pickle.dumps(model))):
        assert_array_equal(again.predict(tables), expected)


def test_features_made_beforehand_give_the_same_fit(country, model):
    again = clone(model)
    training = again.training_features(country.bags, seed=1)
    again.fit_features(training, country.y["normal"], seed=1)
    assert_array_equal(again.predict(country.samples), model.predict(country.samples))
    last = training.take(np.arange(N)[::-1][:12])
    assert_array_equal(last.record.has("people"), [False] * 3 + [True] * 9)
    assert_array_equal(last.record.has("houses"), [True] * 3 + [False] * 5 + [True] * 4)
    for m, (name, features) in enumerate(last.samples.items()):
        expected = last.embedding.mean[last.record.has(name), 8 * m : 8 * (m + 1)]
        assert_array_equal(features.embedding.mean, expected)


def test_cross_validation(country):
    samples, y = country.samples, country.y["normal"]
    scores = cross_val_score(Shrinkage(**QUICK), samples, y.loc[samples.ids], cv=3)
    assert scores.min() > 0.3


def test_tune_holds_out_bags_with_all_their_samples(country):
    shuffled, samples = country.y["normal"], country.samples
    y = shuffled.loc[samples.ids].to_numpy()
    model, folds = Shrinkage(method="optimize", kernel="rbf"), KFold(3)
    options = {"bandwidth_scale": [0.75, 1.5], "method": "optimize"}
    tuned = tune(samples, shuffled, models=[model], cv=folds, n_landmarks=[3, 8], **options)
    row = tuned.table.query("n_landmarks == 8 and bandwidth_scale == 0.75").iloc[0]
    assert set(row["bandwidth"]) == {"people", "houses"}
    model.set_params(n_landmarks=8, bandwidth_scale=0.75, random_state=0)
    training = model.training_features(samples)
    nll = [
        -model.fit_features(training.take(train), y[train])
        .predictive_features(training.embedding.take(test))
        .log_prob(y[test])
        .mean()
        for train, test in folds.split(y)
    ]
    assert row["nll"] == pytest.approx(np.mean(nll))
    best = tuned.table.iloc[0][["n_landmarks", "bandwidth_scale"]].to_dict()
    assert {name: getattr(tuned.best, name) for name in best} == best


def test_fits_are_stacked(country, tmp_path):
    models = [Shrinkage(**QUICK, method="laplace"), BDR(3, kernel="rbf", method="laplace")]
    stacked = Stacked(models).fit(country.bags, country.y["normal"], seed=1)
    assert stacked.weights_.sum() == pytest.approx(1)
    new = country.samples[:10]
    each = [model.predictive(new).mean for model in stacked.models_]
    assert_allclose(stacked.predict(new), stacked.weights_ @ each)
    assert "n_points[houses]" in stacked.predict_table(new)
    stacked.save(tmp_path / "stacked.bdr")
    assert_array_equal(load(tmp_path / "stacked.bdr").predict(new), stacked.predict(new))


def test_what_is_for_bags_with_one_sample_says_so(country):
    samples, y = country.samples, country.y["normal"]
    with pytest.raises(TypeError, match=r"with several samples per bag give cv="):
        tune(samples, y, validation=(samples, y))
    with pytest.raises(ValueError, match="refine is for bags with one sample of points"):
        tune(samples, y, cv=3, refine="ard")
    with pytest.raises(TypeError, match="are for BDR, BLR and Shrinkage"):
        tune(samples, y, models=[BDR(), InverseBDR()], cv=3)
    with pytest.raises(TypeError, match=r"the default models are for bags with one sample: give"):
        Stacked().fit(samples, y)


def test_parameters_of_each_sample(country):
    model = Shrinkage(
        kernel={"people": "linear + rbf", "houses": "matern32"},
        n_landmarks={"people": 12, "houses": 5},
        prior={"rho_median[houses]": 1e-4, "rho_log_sd": 0.1},
    ).fit(country.bags, country.y["normal"], seed=1)
    assert model.landmarks_["houses"].shape == (5, 2)
    assert type(model.kernel_["houses"]).__name__ == "Matern32"
    assert model.priors(as_table=False)["rho_median[houses]"] == 1e-4
    assert "rho[houses]" in model.priors().index
    assert np.abs(model.predict_terms(country.samples)["houses"]["mean"]).max() < 0.1
    assert "Kernel of houses: Matern32" in model.report()


def test_population_of_bags_without_a_sample(country, model):
    """Few bags are not shrunk, but where they lack a sample its prior is that of the fit."""
    lacking = ~country.samples.has("houses")
    few, each = country.samples[lacking], model.predictive(country.samples)
    assert len(few) == 5
    with pytest.warns(UserWarning, match="no bag has points of 'houses'"):
        found = model.population(few)
    gap = found.mean[0] - each.mean[lacking].mean()
    assert abs(gap) < 3 * found.sd[0] < 3 * each.sd[lacking].max()
    regions = model.population(country.samples, by="state", weights="pop")
    assert_allclose(regions.mean, country.y["normal"].mean(), rtol=0.1)


def test_contrast_of_a_subgroup_of_one_sample(country, model):
    people, houses = country.bags["people"], country.bags["houses"]
    ages = {limit: people.where(age=lambda age, limit=limit: age < limit) for limit in (50, 60)}
    every = [Samples({"people": own, "houses": houses}) for own in ages.values()]
    young, old = (each[np.isin(each.ids, ages[50].ids)] for each in every)
    assert model.contrast(old, young).mean.mean() > 0
    lacking = Samples({"people": people[1:], "houses": houses})
    with pytest.raises(ValueError, match="has 'people' in only one of the two versions"):
        model.contrast(country.bags, lacking)


@pytest.mark.parametrize("family, has_bags", [("normal", False), ("poisson", True)])
def test_reports(country, family, has_bags, tmp_path):
    pytest.importorskip("jinja2")
    options = {"exposure": "pop"} if family == "poisson" else {}
    model = Shrinkage(**QUICK, family=family).fit(
        country.bags, country.y[family], seed=1, **options
    )
    model.report_html(tmp_path / "report.html", country.bags if has_bags else None)
    page = (tmp_path / "report.html").read_text()
    assert "Along rooms of houses" in page
    assert "kernel of people" in page
    assert "rho[houses]" in page
    others = {**country.bags, "houses": country.bags["houses"][::-1].take(np.arange(54))}
    with pytest.raises(ValueError, match="the report is of a fit to"):
        model.report_html(tmp_path / "report.html", others)


def test_exact_embeddings_need_all_samples(country):
    samples, y = country.samples, country.y["normal"]
    complete = samples[samples.has("people") & samples.has("houses")]
    model = BLR(**QUICK, method="optimize").fit(complete, y.loc[complete.ids], seed=1)
    assert model.score(complete, y.loc[complete.ids]) > 0.7
    with pytest.raises(ValueError, match="but BLR takes embeddings as exact"):
        model.predict(samples)
    with pytest.raises(ValueError, match="but BLR takes embeddings as exact"):
        BLR(**QUICK).fit(samples, y)


def test_nuts(country):
    """Draws have the samples as a dimension, and the mode's predictions."""
    y, samples = country.y["normal"], country.samples
    model = BDR(**QUICK).fit(country.bags, y, chains=2, draws=300, seed=1)
    posterior = model.idata.posterior
    assert posterior["rho"].sizes["sample"] == posterior["eta"].sizes["sample"] == 2
    assert posterior["rho"]["sample"].values.tolist() == ["people", "houses"]
    assert posterior["w"].sizes["component"] == 16
    assert model.diagnostics()["max_r_hat"] < 1.1
    mode = Shrinkage(**QUICK).fit(country.bags, y, seed=1)
    gap = model.predict(samples) - mode.predict(samples)
    assert np.abs(gap).max() < 0.5 * y.std()
    assert -4 < elpd(model.idata, var_name="y") / N < -2
