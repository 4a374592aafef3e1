"""Groups and smooth functions beside the embeddings: what every estimator does with them."""

import pickle
import warnings

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from builders.problems import SHORT
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import bdr_stan
from bdr_stan import (
    BDR,
    BLR,
    Bags,
    BDRClassifier,
    BLRClassifier,
    InverseBDR,
    Shrinkage,
    Stacked,
    tune,
)

COLUMNS = {"covariates": ["wealth"], "groups": ["state", "urban"], "smooths": ["year"]}
TERMS = ["embedding", "wealth", "year", "state", "urban"]
MODELS = {
    "BLR, nuts": BLR(5, **COLUMNS),
    "BDR, nuts": BDR(5, **COLUMNS),
    "Shrinkage": Shrinkage(5, **COLUMNS),
    "Shrinkage, poisson": Shrinkage(5, family="poisson", kernel="rbf", **COLUMNS),
    "BDR, laplace": BDR(5, method="laplace", **COLUMNS),
}
STATES = [f"s{k}" for k in range(8)]


def counties(n=120, seed=3):
    """Bags whose labels depend on their centre, a number, a year and a state."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=n)
    table = pd.DataFrame(
        {
            "wealth": rng.normal(size=n),
            "year": rng.uniform(1990, 2020, n),
            "state": rng.choice(STATES, n),
            "urban": rng.random(n) < 0.4,
        }
    )
    sizes = rng.choice([2, 5, 30], n)
    points = np.repeat(centres, sizes)[:, None] + rng.normal(size=(sizes.sum(), 2))
    y = 3 + 0.5 * centres + 0.4 * table["wealth"] + np.sin((table["year"] - 2005) / 6)
    y += table["state"].map(dict(zip(STATES, np.linspace(-1, 1, 8), strict=True)))
    y += 0.3 * table["urban"] + 0.2 * rng.normal(size=n)
    return Bags.from_points(points, sizes=sizes, metadata=table), y.to_numpy()


def labels_for(model, y):
    return np.round(np.exp(np.minimum(y, 6))) if model.family == "poisson" else y


def with_metadata(bags, **columns):
    return Bags(bags.points, bags.offsets, metadata=bags.metadata.assign(**columns))


def quiet_fit(model, bags, y, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return clone(model).fit(bags, y, **{"seed": 1, **SHORT, **options})


@pytest.fixture(scope="module")
def problem():
    return counties()


@pytest.fixture(scope="module", params=MODELS.values(), ids=MODELS)
def fitted(request, problem):
    bags, y = problem
    return quiet_fit(request.param, bags, labels_for(request.param, y))


@pytest.fixture(scope="module")
def plain(problem):
    return quiet_fit(MODELS["Shrinkage"], *problem)


@pytest.fixture(scope="module")
def sampled(problem):
    return quiet_fit(MODELS["BLR, nuts"], *problem, draws=1000)


# ---------------------------------------------------------------- posterior and terms


def test_effects_are_named(fitted):
    posterior = fitted.idata.posterior
    assert list(posterior["term"].values) == TERMS[2:]
    assert list(posterior["smooth_column"].values) == ["year"]
    names = list(posterior["effect"].values)
    assert names[0] == "year[1]"
    assert names[-10:] == [f"state={name}" for name in STATES] + ["urban=False", "urban=True"]
    of_states = posterior["term_effect"].mean(["chain", "draw"]).values[-10:-2]
    assert np.corrcoef(of_states, np.linspace(-1, 1, 8))[0, 1] > 0.9
    assert 0.3 < posterior["term_sd"].mean(["chain", "draw"]).values[1] < 1.5
    assert not {"v", "t_effect", "effect_sd", "found"} & set(posterior)


def test_terms_sum_to_the_predictor_less_its_intercept(fitted, problem):
    bags, _ = problem
    terms = fitted.predict_terms(bags)
    assert list(dict.fromkeys(terms.columns.get_level_values(0))) == TERMS
    assert terms.shape == (len(bags), 4 * len(TERMS))
    total = sum(terms[name]["mean"] for name in TERMS).to_numpy()
    intercept = float(fitted.idata.posterior["intercept"].mean())
    predictor = total + intercept
    if fitted.family == "normal":
        np.testing.assert_allclose(predictor, fitted.predict(bags), rtol=1e-8, atol=1e-8)
    else:  # given the only draw, E exp(h) with the variance of the embedding
        variance = terms["embedding"]["sd"].to_numpy() ** 2
        np.testing.assert_allclose(
            np.exp(predictor + variance / 2), fitted.predict(bags), rtol=1e-3
        )
    for name in TERMS:
        part = terms[name]
        assert np.all(part["lower"] <= part["mean"]) and np.all(part["mean"] <= part["upper"])
    assert np.abs(terms["year"]["mean"].mean()) < 1e-8
    assert np.abs(terms["wealth"]["mean"].mean()) < 1e-8
    expected = np.sin((bags.metadata["year"] - 2005) / 6)
    assert np.corrcoef(terms["year"]["mean"], expected)[0, 1] > 0.95


def test_intervals_of_terms_are_those_of_the_draws(sampled, problem):
    bags, _ = problem
    terms = sampled.predict_terms(bags, level=0.8)["state"]
    effects = sampled.idata.posterior["term_effect"].stack(sample=["chain", "draw"])
    for i in (0, 17):
        drawn = effects.sel(effect=f"state={bags.metadata['state'][i]}").values
        found = terms.iloc[i]
        np.testing.assert_allclose(found["mean"], drawn.mean(), rtol=1e-6)
        np.testing.assert_allclose(found["sd"], drawn.std(), rtol=1e-6)
        np.testing.assert_allclose(
            found[["lower", "upper"]].astype(float), np.quantile(drawn, [0.1, 0.9]), atol=1e-6
        )


def test_they_predict(fitted, problem):
    bags, y = problem
    new, truth = counties(seed=4)
    without = clone(fitted).set_params(groups=None, smooths=None)
    gain = fitted.score(new, labels_for(fitted, truth))
    gain -= quiet_fit(without, bags, labels_for(fitted, y)).score(new, labels_for(fitted, truth))
    assert gain > 0.2


def test_priors_show_them(plain):
    table, numbers = plain.priors(), plain.priors(as_table=False)
    assert table.loc["term_sd", "prior"] == f"half-normal(0, {numbers['term_sd_scale']:.4g})"
    assert table.loc["term_length", "prior"].startswith("lognormal(log 0.7")


def test_priors_can_be_given(problem):
    narrow = quiet_fit(
        Shrinkage(5, groups=["state"], prior={"term_sd_scale": 1e-3}), *problem
    ).idata.posterior
    assert float(narrow["term_sd"].max()) < 0.02
    assert np.abs(narrow["term_effect"]).max() < 0.05


def test_file_and_pickle_keep_them(fitted, tmp_path):
    new, _ = counties(20, seed=5)
    new = with_metadata(new, state=["Guam", "s1"] * 10)
    fitted.save(tmp_path / "fit.nc")
    for again in (bdr_stan.load(tmp_path / "fit.nc"), pickle.loads(pickle.dumps(fitted))):
        assert repr(again.get_params()) == repr(fitted.get_params())
        with pytest.warns(UserWarning, match="no training bag has, such as 'Guam'"):
            one = again.predict_terms(new)
        with pytest.warns(UserWarning, match="no training bag has, such as 'Guam'"):
            other = fitted.predict_terms(new)
        pd.testing.assert_frame_equal(one, other)
        assert list(again.idata.posterior["term"].values) == TERMS[2:]


# ---------------------------------------------------------------- metadata


def test_each_bag_is_predicted_by_itself(fitted, problem):
    bags, _ = problem
    whole = fitted.predict(bags)
    order = np.random.default_rng(0).permutation(len(bags))[:15]
    np.testing.assert_allclose(fitted.predict(bags[order]), whole[order], rtol=1e-10)


def test_rows_of_the_metadata_go_with_the_bags(problem, plain):
    bags, y = problem
    order = np.random.default_rng(1).permutation(len(bags))
    model = clone(plain).set_params(landmarks=bags.points[:5], bandwidth=1.5)
    one, other = quiet_fit(model, bags, y), quiet_fit(model, bags[order], y[order])
    np.testing.assert_allclose(one.predict(bags), other.predict(bags), atol=1e-3)


@pytest.mark.parametrize(
    "change",
    [
        lambda t: {"state": pd.Categorical(t["state"], categories=["x", *reversed(STATES)])},
        lambda t: {"state": t["state"].astype("string")},
        lambda t: {"state": t["state"].str[1:].astype(int)},
        lambda t: {"urban": t["urban"].astype("boolean")},
    ],
    ids=["categories", "string", "codes", "boolean"],
)
def test_only_the_levels_count_not_their_type(problem, plain, change):
    bags, y = problem
    other = with_metadata(bags, **change(bags.metadata))
    np.testing.assert_allclose(
        quiet_fit(plain, other, y).predict(other), plain.predict(bags), rtol=1e-8
    )


def test_units_of_a_smooth_do_not_matter(problem, plain):
    bags, y = problem
    other = with_metadata(bags, year=bags.metadata["year"] / 100 - 20)
    np.testing.assert_allclose(
        quiet_fit(plain, other, y).predict(other), plain.predict(bags), atol=1e-3
    )


def test_partitions_give_the_same_fit(problem):
    bags, y = problem
    rows = pd.DataFrame(bags.points, columns=["u", "v"])
    rows["county"] = np.repeat([f"c{i:03}" for i in range(len(bags))], bags.sizes)
    rows = rows.join(bags.metadata.loc[np.repeat(np.arange(len(bags)), bags.sizes)].reset_index())
    rows["y"] = np.repeat(y, bags.sizes)
    columns = {"metadata": ["wealth", "year", "state", "urban", "y"], "features": ["u", "v"]}
    landmarks = bags.points[:5]
    model = clone(MODELS["Shrinkage"]).set_params(landmarks=landmarks, bandwidth=1.5)
    parts = dd.from_pandas(rows.sample(frac=1, random_state=0), npartitions=4, sort=False)
    lazy = Bags.from_dask(parts, "county", **columns)
    memory = Bags.from_dataframe(rows, "county", **columns)
    one, other = (quiet_fit(model, each, "y") for each in (lazy, memory))
    np.testing.assert_allclose(one.predict(memory), other.predict(memory), atol=1e-3)
    np.testing.assert_allclose(one.predict(lazy), one.predict(memory), atol=1e-8)


# ---------------------------------------------------------------- new levels


def in_new_state(bags, *names):
    return with_metadata(bags, state=np.resize(names, len(bags)))


def test_marginal_sd_of_a_new_level_exactly(problem, plain):
    bags, _ = problem
    with pytest.warns(UserWarning, match="'state' has levels that no training bag has, such as"):
        found = plain.predictive(in_new_state(bags, "Guam"))
    effects = plain.predict_terms(bags)["state"]["mean"].to_numpy()
    term_sd = plain.idata.posterior["term_sd"].sel(term="state").item()
    known = plain.predictive(bags)
    np.testing.assert_allclose(found.mean, known.mean - effects, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(found.sd, np.hypot(known.sd, term_sd), rtol=1e-8)


@pytest.mark.parametrize("name", ["plain", "sampled"])
def test_effects_of_groups_can_be_left_out(problem, request, name):
    model, (bags, _) = request.getfixturevalue(name), problem
    terms = model.predict_terms(bags)
    effects = sum(terms[name]["mean"].to_numpy() for name in model.groups)
    found = model.predict(bags, groups=False)
    np.testing.assert_allclose(found, model.predict(bags) - effects, rtol=1e-8, atol=1e-8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no level is new, and none is drawn
        new = model.predictive(in_new_state(bags, "Guam"), groups=False)
    np.testing.assert_allclose(new.mean, found, rtol=1e-12)


def test_a_fit_without_groups_has_no_effects_to_leave_out(problem):
    bags, y = problem
    model = Shrinkage(5).fit(bags, y, seed=1)
    with pytest.raises(ValueError, match="groups=False leaves out effects of groups, but the fit"):
        model.predict(bags, groups=False)


def test_marginal_sd_of_a_new_level_over_draws(problem, sampled):
    """To the error of sampling: the effects of a level are one sequence of drawn numbers."""
    bags, _ = problem
    states = [f"new{k}" for k in range(40)]
    one = with_metadata(bags[np.zeros(40, int)], state=states)
    with pytest.warns(UserWarning, match="'new0', for 40 of 40 bags"):
        found = sampled.predictive(one)
    term = sampled.predict_terms(bags[:1])["state"]
    posterior = sampled.idata.posterior
    variance = float((posterior["term_sd"].sel(term="state") ** 2).mean())
    known = sampled.predictive(bags[:1])
    # Less the effect of the known state, which goes with the intercept under each draw.
    effects = posterior["term_effect"].sel(effect=f"state={bags.metadata['state'][0]}")
    expected = known.expected(np.array([0]))[:, 0] - effects.values.ravel()
    noise = float((posterior["sigma"] ** 2).mean())
    sd = np.sqrt(expected.var() + noise + variance)
    S = expected.size
    assert abs(found.mean.mean() - expected.mean()) < 4 * np.sqrt(variance / (40 * S))
    np.testing.assert_allclose(found.sd.mean(), sd, rtol=0.02)
    np.testing.assert_allclose(found.sd, sd, rtol=0.15)
    assert float(term["sd"].iloc[0]) < 0.5 * found.sd.min()


def test_a_new_level_is_the_same_in_two_calls(problem, sampled):
    bags, _ = problem
    new = in_new_state(bags, "Guam")
    with pytest.warns(UserWarning, match="Guam"):
        one, other = sampled.predict(new), sampled.predict(new[10:12])
    np.testing.assert_allclose(other, one[10:12], rtol=1e-10)


@pytest.mark.parametrize("name", ["plain", "sampled"])
def test_a_new_level_cancels_in_a_contrast(problem, request, name):
    model = request.getfixturevalue(name)
    bags, _ = problem
    shifted = Bags(bags.points + 0.5, bags.offsets, metadata=bags.metadata)
    known = model.contrast(shifted, bags)
    with pytest.warns(UserWarning, match="Guam"):
        new = model.contrast(in_new_state(shifted, "Guam"), in_new_state(bags, "Guam"))
    np.testing.assert_allclose(new.draws, known.draws, atol=1e-9)
    with pytest.warns(UserWarning, match="Guam"):
        mixed = model.contrast(in_new_state(bags, "Guam"), in_new_state(bags, "Rota"))
    if name == "sampled":
        variance = float((model.idata.posterior["term_sd"].sel(term="state") ** 2).mean())
        np.testing.assert_allclose(mixed.sd, np.sqrt(2 * variance), rtol=0.15)


@pytest.mark.parametrize("name", ["plain", "sampled"])
def test_bags_of_a_new_level_share_its_effect(problem, request, name):
    """The average over a state's bags is no more certain of the state than one bag is."""
    model = request.getfixturevalue(name)
    bags, _ = problem
    with pytest.warns(UserWarning, match="Guam"):
        found = model.population(in_new_state(bags, "Guam"))
    variance = float((model.idata.posterior["term_sd"].sel(term="state") ** 2).mean())
    assert found.sd[0] ** 2 > 0.85 * variance
    assert found.sd[0] ** 2 < 1.5 * variance


def test_bags_outside_of_a_smooth_are_told(problem, plain):
    bags, _ = problem
    far = with_metadata(bags, year=bags.metadata["year"].where(bags.metadata.index > 2, 2100.0))
    with pytest.warns(UserWarning, match="smooth 'year': 3 of 120 bags lie outside the range"):
        terms = plain.predict_terms(far)
    assert np.all(np.isfinite(terms))


def test_population_by_a_group(problem, sampled):
    bags, y = problem
    found = sampled.population(bags, by="state")
    average = pd.Series(y).groupby(bags.metadata["state"].to_numpy()).mean()
    assert list(found.to_dataframe().index) == list(average.index)
    assert np.abs(found.mean - average).max() < 0.25
    assert np.corrcoef(found.mean, average)[0, 1] > 0.97


# ---------------------------------------------------------------- other tools


def test_training_features_can_be_shared(problem, plain):
    bags, y = problem
    features = plain.training_features(bags, seed=1)
    fit = clone(plain).fit_features(features, y, seed=1)
    np.testing.assert_allclose(fit.predict(bags), plain.predict(bags))
    for columns, says in [
        ({"groups": None}, r"groups=\['state', 'urban'\]"),
        ({"groups": ["urban", "state"]}, r"groups=\['urban', 'state'\]"),
        ({"smooths": [["year", "wealth"]], "covariates": None}, "smooths"),
    ]:
        with pytest.raises(ValueError, match=f"{says}.*the model's own training_features"):
            clone(plain).set_params(**columns).fit_features(features, y)


def test_tune_tells_models_with_and_without_them_apart(problem):
    models = {
        "with": Shrinkage(groups=["state"], smooths=["year"]),
        "groups": Shrinkage(groups=["state"]),
        "smooths": Shrinkage(smooths=["year"]),
        "without": Shrinkage(),
    }
    options = {"n_landmarks": [5], "bandwidth_scale": [1.0], "seed": 1}
    table = tune(*problem, models=models, validation=counties(60, seed=5), **options).table
    nll = table.set_index("model")["nll"]
    assert nll["with"] < min(nll["groups"], nll["smooths"]) - 0.1
    assert max(nll["groups"], nll["smooths"]) < nll["without"] - 0.1


def test_tune_learns_levels_of_each_fold(problem):
    models = {"groups": Shrinkage(groups=["state"]), "without": Shrinkage()}
    table = tune(*problem, models=models, n_landmarks=[5], bandwidth_scale=[1.0], cv=3, seed=1)
    nll = table.table.set_index("model")["nll"]
    assert nll["groups"] < nll["without"] - 0.1


def test_scikit_learn_searches_over_them(problem):
    grid = {"groups": [None, ["state"], ["state", "urban"]]}
    search = GridSearchCV(Shrinkage(5), grid, cv=3, error_score="raise")
    assert "state" in search.fit(*problem).best_params_["groups"]


def test_stacks_take_them(problem):
    bags, y = problem
    models = [BDR(5, method="laplace", **columns) for columns in (COLUMNS, {})]
    stack = quiet_fit(Stacked(models), bags, y)
    assert stack.weights_[0] > 0.9
    new, truth = counties(60, seed=5)
    assert stack.score(new, truth) > 0.6


def test_a_table_with_them_is_predicted(problem):
    bags, y = problem
    table = pd.DataFrame(bags.points, columns=["u", "v"])
    table["county"] = np.repeat(np.arange(len(bags)), bags.sizes)
    table = table.join(bags.metadata, on="county")
    columns = ["wealth", "year", "state", "urban"]
    read = Bags.from_dataframe(table, "county", features=["u", "v"], metadata=columns)
    fit = quiet_fit(MODELS["Shrinkage"], read, y)
    np.testing.assert_allclose(fit.predict(table), fit.predict(read))
    with pytest.raises(ValueError, match="no column 'state'"):
        fit.predict(table.drop(columns="state"))


@pytest.mark.parametrize("n", [60, 300])
def test_the_search_ends_at_the_mode(n, monkeypatch):
    """Scales that are as good as fixed make it a long one."""
    bags, y = counties(n)
    model = Shrinkage(5, **COLUMNS)
    one = quiet_fit(model, bags, y)
    stricter = {"algorithm": "lbfgs", "tol_rel_grad": 1.0}
    monkeypatch.setattr("bdr_stan.posterior.sampling._MODE_OPTIONS", stricter)
    other = quiet_fit(model, bags, y, iter=50_000)
    lp = [fit.idata.sample_stats["lp"].item() for fit in (one, other)]
    assert lp[0] == pytest.approx(lp[1], abs=1e-3)
    np.testing.assert_allclose(one.predict(bags), other.predict(bags), atol=1e-3)


def test_compression_does_not_change_a_fit(problem):
    bags, y = problem
    model = BLR(5, method="optimize", groups=["state"], smooths=["year"])
    one, other = (quiet_fit(model.set_params(compress=c), bags, y) for c in (True, False))
    np.testing.assert_allclose(one.predict(bags), other.predict(bags), atol=1e-3)


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    "columns, error, says",
    [
        ({"groups": "state"}, TypeError, r"groups must be a list of names, found 'state': use \["),
        ({"smooths": "year"}, TypeError, "smooths must be a list of names, found 'year'"),
        ({"smooths": [["a", "b", "c"]]}, TypeError, r"or of pairs such as \['lon', 'lat'\]"),
        ({"groups": ["sate"]}, ValueError, "no column 'sate': did you mean 'state'"),
        ({"smooths": ["yaer"]}, ValueError, "no column 'yaer': did you mean 'year'"),
        ({"groups": ["state"], "covariates": ["state"]}, ValueError, "covariates and groups both"),
        ({"groups": ["year"], "smooths": ["year"]}, ValueError, "groups and smooths both name"),
        ({"smooths": ["state"]}, TypeError, "smooth 'state' holds .*: give a column of numbers"),
        ({"smooths": ["urban"]}, TypeError, "smooth 'urban' holds bool"),
        ({"groups": ["gaps"]}, ValueError, r"group 'gaps' is missing for bag 1 \(60 in total\)"),
        ({"groups": ["same"]}, ValueError, "group 'same' is 'x' for all training bags"),
        ({"smooths": ["few"]}, ValueError, "smooth 'few' has 3 different values .*, too few"),
    ],
)
def test_columns_must_be_usable(problem, columns, error, says):
    bags, y = problem
    n = len(bags)
    bags = with_metadata(
        bags, gaps=np.resize(["a", None], n), same="x", few=np.resize([1, 2, 3], n)
    )
    with pytest.raises(error, match=says):
        quiet_fit(Shrinkage(5, **columns), bags, y)


def test_bags_without_metadata_are_refused(problem, plain):
    bags, y = problem
    bare = Bags(bags.points, bags.offsets)
    with pytest.raises(ValueError, match="these bags have none: pass metadata"):
        plain.predict(bare)
    with pytest.raises(ValueError, match="group 'state' is a column of the bags' metadata, but"):
        quiet_fit(Shrinkage(5, groups=["state"]), bare, y)


@pytest.mark.parametrize("columns", [{"groups": ["state"]}, {"smooths": ["year"]}])
def test_the_closed_form_has_none(problem, columns):
    with pytest.raises(ValueError, match="method='exact' is for normal labels, not for groups or"):
        quiet_fit(BLR(5, method="exact", **columns), *problem)


@pytest.mark.parametrize("kind", [BDRClassifier, BLRClassifier, InverseBDR])
@pytest.mark.parametrize("name", ["groups", "smooths"])
def test_other_estimators_take_none(kind, name):
    with pytest.raises(TypeError, match=name):
        kind(5, **{name: ["state"]})
