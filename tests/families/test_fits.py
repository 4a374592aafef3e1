"""Fits of each family: recovered parameters, predictive distributions, files, trials, exposures."""

import warnings

import numpy as np
import pandas as pd
import pytest
from builders.families import EXAMPLES, scipy_log_density
from builders.reference import elpd
from scipy.special import expit, logit
from sklearn.model_selection import cross_val_predict

from bdr_stan import BDR, BLR, AggregateRegressor, Bags, Shrinkage, Stacked, load, tune
from bdr_stan.families import FAMILIES
from bdr_stan.predictive import Blend, LognormalPredictive, OutcomePredictive, mix

N = 40
RNG = np.random.default_rng(4)
CENTRES = RNG.normal(size=N)
SIZES = RNG.integers(2, 40, N)
IDS = [f"b{k:02}" for k in range(N)]
META = pd.DataFrame(
    {"votes": RNG.integers(5, 300, N), "people": RNG.uniform(0.5, 20, N)}, index=IDS
).assign(height=RNG.normal(size=N))
BAGS = Bags.from_list(
    [RNG.normal(m, 1, (n, 1)) for m, n in zip(CENTRES, SIZES)], ids=IDS, metadata=META
)
H = 0.5 + 0.7 * CENTRES


def columns_of(family):
    """Arguments that go with labels of a family: names of columns."""
    columns = {"trials": "votes", "exposure": "people"}
    return {what: column for what, column in columns.items() if what in family.takes}


TAKES = {name: columns_of(family) for name, family in FAMILIES.items()}


def labels_of(rng, name, h):
    """Labels of a family with linear predictors h, exposures not included."""
    if "exposure" in TAKES[name]:
        h = h + np.log(META["people"].to_numpy())
    return EXAMPLES[name].draw(rng, h, META["votes"].to_numpy(), **EXAMPLES[name].scales)


LABELS = {name: labels_of(RNG, name, H) for name in FAMILIES if name != "ordinal"}
LABELS["lognormal"] = np.exp(H + 0.3 * RNG.normal(size=N))  # log labels are normal: no family
QUICK = {"seed": 1, "progress": False}
# The default kernel has a variance of linear effects, for each of four of which modes are sought.
FEW_MODES = {"kernel": "rbf"}
SHORT = {**QUICK, "chains": 2, "warmup": 150, "draws": 100}
REPORTED = ("poisson", "binomial", "gamma")  # of counts, of counts out of trials, of other numbers


def quiet(model, y, bags=BAGS, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # short chains
        return model.fit(bags, y, **options)


def knowns(name):
    """Trials or exposure of the labels as numbers."""
    return {what: META[column].to_numpy(float) for what, column in TAKES.get(name, {}).items()}


@pytest.fixture(scope="module", params=LABELS)
def family(request):
    return request.param


@pytest.fixture(scope="module")
def fitted(family):
    """A fit by NUTS with a column of trials or exposures, where the family has such."""
    model = BDR(5, family=family, covariates=["height"])
    return quiet(model, LABELS[family], **SHORT, **TAKES.get(family, {}))


@pytest.mark.parametrize("name", ["negative_binomial", "negative binomial"])
def test_words_of_a_name_are_joined_by_either_sign(name):
    y = LABELS["negative_binomial"]
    totals = AggregateRegressor(name, n_landmarks=4, method="optimize").fit(BAGS, y, **QUICK)
    assert "Likelihood: negative binomial" in totals.report()
    model = Shrinkage(4, family=name, method="optimize", **FEW_MODES).fit(BAGS, y, **QUICK)
    assert model.predictive(BAGS).is_count


def test_predictions_follow_the_labels(family, fitted):
    y = LABELS[family]
    predictive = fitted.predictive(BAGS)
    kind = LognormalPredictive if family == "lognormal" else OutcomePredictive
    assert isinstance(predictive, kind) and len(predictive) == N
    known = next(iter(knowns(family).values()), 1.0)
    assert np.corrcoef(predictive.mean / known, y / known)[0, 1] > 0.6
    mean, sd = fitted.predict(BAGS, return_std=True)
    np.testing.assert_allclose(mean, predictive.mean)
    np.testing.assert_allclose(sd, predictive.sd)
    lower, upper = predictive.interval(0.9)
    assert np.mean((lower <= y) & (y <= upper)) > 0.75
    assert fitted.score(BAGS, y) == pytest.approx(
        1 - np.mean((y - mean) ** 2) / np.var(y), rel=1e-9
    )
    table = fitted.predict_table(BAGS)
    columns = ["n_points", "mean", "sd", "lower", "upper", "familiarity"]
    assert list(table.index) == IDS and list(table) == columns
    np.testing.assert_allclose(table["mean"], mean)


def test_distribution_agrees_with_its_samples(family, fitted):
    y, predictive = LABELS[family], fitted.predictive(BAGS[:8])
    draws = predictive.sample(40_000, seed=0)
    np.testing.assert_allclose(draws.mean(axis=0), predictive.mean, rtol=0.05, atol=0.03)
    np.testing.assert_allclose((draws <= y[:8]).mean(axis=0), predictive.cdf(y[:8]), atol=0.015)
    for q in (0.1, 0.5, 0.9):
        value = predictive.quantile(q)
        assert np.all(predictive.cdf(value) >= q - 0.01)
        if family not in FAMILIES or not FAMILIES[family].likelihood.is_count:
            np.testing.assert_allclose(predictive.cdf(value), q, atol=0.01)
        else:
            assert np.all(predictive.cdf(value - 1) < q + 0.01)


def test_probabilities_of_counts_add_up(family, fitted):
    predictive = fitted.predictive(BAGS[:3])
    if family not in FAMILIES or not FAMILIES[family].likelihood.is_count:
        if family in FAMILIES:
            with pytest.raises(TypeError, match="log_prob"):
                predictive.pmf(LABELS[family][:3])
        return
    assert predictive.sample(5, seed=1).dtype.kind == "i"
    top = int(predictive.quantile(0.5).max()) + 1
    total = np.cumsum([predictive.pmf(np.full(3, float(k))) for k in range(top)], axis=0)
    at = predictive.cdf(np.full(3, top - 1.0))
    # cdf is right to a thousandth, of components drawn at random to two
    np.testing.assert_allclose(total[-1], at, atol=0.006 if FAMILIES[family].is_mixture else 0.003)


def test_labels_that_a_family_cannot_have_are_impossible(family, fitted):
    """Their density or probability is 0, and nothing is no number."""
    predictive = fitted.predictive(BAGS[:5])
    impossible = EXAMPLES["gamma" if family == "lognormal" else family].impossible
    if not impossible:
        return
    labels = np.array([*impossible, LABELS[family][4]])
    if "trials" in TAKES.get(family, {}):
        labels[0] = META["votes"].iloc[0] + 1.0
    log_probabilities = predictive.log_prob(labels)
    assert np.all(log_probabilities[:4] == -np.inf) and np.isfinite(log_probabilities[4])
    assert not np.isnan(predictive.cdf(labels)).any()


def test_likelihood_is_the_family_s_at_the_mode():
    """log_prob of a single draw with little uncertainty is near SciPy's density."""
    for name in FAMILIES.keys() & LABELS.keys():  # categories: see test_ordinal.py
        model = Shrinkage(6, family=name, **FEW_MODES)
        quiet(model, LABELS[name], **QUICK, **TAKES.get(name, {}))
        predictive, known = model.predictive(BAGS), knowns(name)
        mean, variance = predictive.components(np.arange(N))
        largest = int(np.argmin(variance[0]))
        scales = {k: float(v[0]) for k, v in predictive.scales.items()}
        trials = known["trials"][largest] if "trials" in known else None
        nodes, weights = np.polynomial.hermite_e.hermegauss(61)
        h = mean[0, largest] + np.sqrt(variance[0, largest]) * nodes
        densities = [
            scipy_log_density(name, LABELS[name][largest], each, trials, scales) for each in h
        ]
        expected = np.log(weights @ np.exp(densities) / weights.sum())
        found = predictive.log_prob(LABELS[name].astype(float))[largest]
        assert found == pytest.approx(expected, abs=2e-4), name


def test_methods_agree(family, fitted):
    """Laplace's method, and so its mode, predicts what NUTS does."""
    model = BDR(5, family=family, method="laplace", covariates=["height"])
    quiet(model, LABELS[family], draws=300, **QUICK, **TAKES.get(family, {}))
    expected, found = fitted.predict(BAGS), model.predict(BAGS)
    assert np.sqrt(np.mean((found - expected) ** 2)) < 0.15 * np.std(expected)


def test_idata_has_named_dimensions_and_loo(family, fitted):
    groups = fitted.result_.groups
    posterior = groups["posterior"]
    assert posterior["w"].dims == ("chain", "draw", "component")
    assert posterior["gamma"].dims == ("chain", "draw", "covariate")
    scales = ["sigma"] if family == "lognormal" else FAMILIES[family].likelihood.scales
    for name in ("intercept", "rho", "eta", *scales):
        assert posterior[name].dims == ("chain", "draw")
    assert groups["log_likelihood"]["y"].dims == ("chain", "draw", "bag")
    assert list(groups["observed_data"]["bag"].values) == IDS
    for what, values in knowns(family).items():
        np.testing.assert_array_equal(groups["constant_data"][what], values)
    log_lik = groups["log_likelihood"]["y"].values.reshape(-1, N)
    y = LABELS[family].astype(float)
    np.testing.assert_allclose(log_lik, fitted.predictive(BAGS).log_likelihood(y), rtol=1e-9)
    assert np.isfinite(elpd(fitted.idata))


def test_saved_fits_predict_alike(family, fitted, tmp_path):
    fitted.save(tmp_path / "fit.nc")
    again = load(tmp_path / "fit.nc")
    assert again.family == family
    np.testing.assert_allclose(again.predict(BAGS), fitted.predict(BAGS))
    assert again.columns_of_bags == fitted.columns_of_bags


def test_text_of_a_fit(family, fitted):
    assert f"family='{family}'" in str(fitted)
    priors = fitted.priors()
    assert {"intercept", "rho", "eta", "gamma"} <= set(priors.index)
    if family in FAMILIES:
        assert set(FAMILIES[family].likelihood.scales) <= set(priors.index)
        assert priors.loc["rho", "unit"] == "linear predictor"
    assert "normal errors" not in fitted.report()


def test_report(family, fitted, tmp_path):
    if family not in REPORTED:
        return
    fitted.report_html(tmp_path / "report.html", BAGS, label="cases")
    text = (tmp_path / "report.html").read_text()
    assert family in text
    per = next(iter(TAKES.get(family, {}).values()), None)
    assert (f"cases / {per}" in text) == (per is not None)
    counts = FAMILIES[family].likelihood.is_count
    assert ("Hanging rootogram" in text) == (counts and "trials" not in TAKES[family])
    assert "Probability integral transform" in text


# ---------------------------------------------------------------- thinned draws


def test_predictions_of_many_draws_use_some():
    model = BDR(4, family="poisson", covariates=["height"], method="laplace")
    quiet(model, LABELS["poisson"], draws=2500, **QUICK)
    assert model.predictive(BAGS).n_draws == 834  # every third
    found = model.result_.groups["log_likelihood"]
    assert found.sizes["draw"] == 834
    np.testing.assert_array_equal(found["draw"], np.arange(0, 2500, 3))


def test_predictions_do_not_depend_on_the_bags_around():
    for name in ("beta_binomial", "gamma"):
        model = quiet(Shrinkage(4, family=name, **FEW_MODES), LABELS[name], **QUICK, **TAKES[name])
        together, alone = model.predictive(BAGS).interval(), model.predictive(BAGS[7:8]).interval()
        np.testing.assert_allclose([end[7] for end in together], [end[0] for end in alone])


# ---------------------------------------------------------------- trials and exposure


@pytest.mark.parametrize("name", ["binomial", "poisson"])
def test_trials_and_exposures_by_column_array_and_series_agree(name):
    (what, column), y = next(iter(TAKES[name].items())), LABELS[name]
    values = META[column]
    mixed = values.sample(frac=1, random_state=0)
    assert list(mixed.index) != IDS
    fits = [
        quiet(Shrinkage(5, family=name, **FEW_MODES), y, **QUICK, **{what: given})
        for given in (column, values.to_numpy(), mixed)
    ]
    expected = fits[0].predict(BAGS)
    for model in fits[1:]:
        np.testing.assert_allclose(model.predict(BAGS, **{what: mixed}), expected, rtol=1e-6)
        np.testing.assert_allclose(model.predict(BAGS, **{what: column}), expected, rtol=1e-6)
        assert model.score(BAGS, y, **{what: values}) == pytest.approx(fits[0].score(BAGS, y))
        refusal = pytest.raises(ValueError, match=f"needs {what} of these bags")
        with refusal:
            model.predict(BAGS)
        with refusal:
            model.predict_table(BAGS)
        with refusal:
            model.contrast(BAGS, BAGS)
        contrast = model.contrast(BAGS, BAGS, **{what: values})
        np.testing.assert_allclose(contrast.mean, 0, atol=1e-9)
    double = fits[0].predict(BAGS, **{what: 2 * values})
    np.testing.assert_allclose(double, 2 * expected, rtol=1e-6)
    with pytest.raises(ValueError, match="needs"):
        fits[1].predictive_features(fits[1].embed(BAGS))


def test_columns_of_trials_are_read_from_tables():
    table = pd.DataFrame(
        {"x": np.concatenate([bag[:, 0] for bag in BAGS]), "bag": np.repeat(IDS, SIZES)}
    ).assign(votes=lambda t: t.bag.map(META["votes"]))
    bags = Bags.from_dataframe(table, "bag", ["x"], metadata=["votes"])
    model = quiet(
        Shrinkage(5, family="binomial"), LABELS["binomial"], bags, trials="votes", **QUICK
    )
    np.testing.assert_allclose(model.predict(table), model.predict(bags))


def test_exposure_alone_is_a_rate():
    """Counts whose exposures differ a hundredfold have a rate that does not."""
    rng = np.random.default_rng(0)
    exposure = 10 ** rng.uniform(0, 2, N)
    model = quiet(
        BLR(4, family="poisson", method="laplace"), rng.poisson(3 * exposure), exposure=exposure,
        **QUICK,
    )  # fmt: skip
    rate = model.predict(BAGS, exposure=np.ones(N))
    assert np.all(np.abs(rate - 3) < 0.5)


# ---------------------------------------------------------------- offsets


@pytest.mark.parametrize("name", ["poisson", "gamma"])
def test_an_offset_is_the_logarithm_of_an_exposure(name):
    y, people = LABELS[name], META["people"]
    model = BLR(4, family=name, method="laplace", **FEW_MODES)
    by_exposure = quiet(model, y, **QUICK, exposure="people").predict(BAGS)
    half = np.log(people) / 2
    shared = quiet(model, y, **QUICK, exposure=np.exp(half), offset=half)
    np.testing.assert_allclose(
        shared.predict(BAGS, exposure=np.exp(half), offset=half), by_exposure, rtol=1e-6
    )
    offset = quiet(model, y, **QUICK, offset=np.log(people).sample(frac=1, random_state=3))
    np.testing.assert_allclose(offset.predict(BAGS, offset=np.log(people)), by_exposure, rtol=1e-6)


@pytest.mark.parametrize("name", [name for name in FAMILIES if "exposure" not in TAKES[name]])
def test_offsets_are_part_of_the_predictor(name):
    """Labels of an offset as large as their effects: with it the influence is the true one."""
    rng = np.random.default_rng(5)
    offset = rng.normal(0, 2, N)
    h = H + offset
    y = labels_of(rng, name, h)
    if name == "ordinal":
        y = np.digitize(h + rng.logistic(size=N), [-1.0, 1.0])
    trials = TAKES[name]
    bags = with_column(offset)
    model = BDR(5, family=name, method="optimize", **FEW_MODES)
    fitted = quiet(model, y, bags, **QUICK, offset="before", **trials)
    at_zero = fitted.predictive(bags, offset=np.zeros(N))
    moved = fitted.predictive(bags)
    if name == "ordinal":
        level, shift = at_zero.probabilities[:, 0], moved.probabilities[:, 0]
        assert np.all((shift < level) == (offset > 0))
        assert np.corrcoef(logit(level), H)[0, 1] < -0.6
        return
    out_of = META["votes"].to_numpy() if trials else 1.0
    link = {"identity": np.asarray, "log": np.log, "logit": logit}[FAMILIES[name].link]
    assert np.corrcoef(link(at_zero.mean / out_of), H)[0, 1] > 0.8
    change = link(moved.mean / out_of) - link(at_zero.mean / out_of)
    np.testing.assert_allclose(change, offset, atol=0.1, rtol=0.1)
    terms = fitted.predict_terms(bags)  # of what was estimated alone
    assert terms.equals(fitted.predict_terms(with_column(0.0)))
    without = quiet(model, y, bags, **QUICK, **trials)
    assert np.corrcoef(link(without.predict(bags) / out_of), h)[0, 1] < 0.8


def with_column(before):
    """The bags with one more column of metadata."""
    return Bags.from_list(list(BAGS), ids=IDS, metadata=META.assign(before=before))


def test_offsets_are_asked_for_and_kept(tmp_path):
    bags = with_column(H / 2)
    model = Shrinkage(5, family="poisson", **FEW_MODES)
    given = quiet(model, LABELS["poisson"], bags, **QUICK, exposure="people", offset=H / 2)
    with pytest.raises(ValueError, match="needs offset of these bags"):
        given.predict(bags)
    named = quiet(model, LABELS["poisson"], bags, **QUICK, exposure="people", offset="before")
    named.save(tmp_path / "fit")
    loaded = load(tmp_path / "fit")
    np.testing.assert_array_equal(loaded.predict(bags), named.predict(bags))
    np.testing.assert_allclose(given.predict(bags, offset=H / 2), named.predict(bags), rtol=1e-6)


# ---------------------------------------------------------------- other ways to a fit


def test_features_searches_and_folds():
    y = LABELS["binomial"]
    model = Shrinkage(5, family="binomial", **FEW_MODES, random_state=1)
    direct = quiet(model, y, trials="votes", **QUICK).predict(BAGS)
    features = model.training_features(BAGS, seed=1)
    by_features = Shrinkage(5, family="binomial", **FEW_MODES).fit_features(
        features, y, trials=META["votes"].sample(frac=1, random_state=2), **QUICK
    )
    np.testing.assert_allclose(by_features.predict(BAGS, trials="votes"), direct, rtol=1e-6)
    found = cross_val_predict(model, BAGS, y, cv=4, params={"trials": "votes", **QUICK})
    assert np.corrcoef(found / META["votes"], y / META["votes"])[0, 1] > 0.5


@pytest.mark.slow
def test_tune_compares_families():
    y = LABELS["beta_binomial"]
    models = {
        "one": Shrinkage(family="binomial", **FEW_MODES),
        "wide": Shrinkage(family="beta_binomial", **FEW_MODES),
    }
    grid = {"n_landmarks": [4], "bandwidth_scale": [1.0], "method": "optimize", "progress": False}
    tuned = tune(BAGS, y, models=models, trials="votes", cv=3, **grid)
    assert list(tuned.table["model"]) == ["wide", "one"]
    halves = {"validation": (BAGS[20:], y[20:])}
    again = tune(BAGS[:20], y[:20], models=models, trials="votes", **halves, **grid)
    assert np.isfinite(again.table["nll"]).all()


def test_stacks_of_families_blend():
    y = LABELS["negative_binomial"]
    models = [BLR(5, family=name, method="laplace") for name in ("negative_binomial", "poisson")]
    stack = Stacked(models).fit(BAGS, y, exposure="people", draws=200, **QUICK)
    assert stack.weights_[0] > stack.weights_[1]
    assert stack.columns_of_bags == ["people"]
    assert stack.predict(BAGS).shape == (N,)
    parts = [model.predictive(BAGS[:10]) for model in stack.models_]
    blend = mix(parts, [0.5, 0.5])
    assert isinstance(blend, Blend)
    level = blend.quantile(0.3)
    np.testing.assert_array_equal(level, np.round(level))
    assert np.all(blend.cdf(level) >= 0.3) and np.all(blend.cdf(level - 1) < 0.3)
    same = mix([parts[0], parts[0]], [0.3, 0.7])
    assert isinstance(same, OutcomePredictive)
    np.testing.assert_allclose(same.mean, parts[0].mean)
    np.testing.assert_allclose(same.log_prob(y[:10]), parts[0].log_prob(y[:10]))


def test_lognormal_is_normal_of_logarithms():
    """The same fit as of log labels, in the units of the labels."""
    y = LABELS["lognormal"]
    log = quiet(Shrinkage(5), np.log(y), **QUICK).predictive(BAGS)
    found = quiet(Shrinkage(5, family="lognormal"), y, **QUICK).predictive(BAGS)
    np.testing.assert_allclose(found.quantile(0.2), np.exp(log.quantile(0.2)), rtol=1e-9)
    np.testing.assert_allclose(found.log_prob(y), log.log_prob(np.log(y)) - np.log(y), rtol=1e-9)
    np.testing.assert_allclose(found.cdf(y), log.cdf(np.log(y)), rtol=1e-9)
    np.testing.assert_allclose(found.mean, np.exp(log.mean + log.sd**2 / 2), rtol=1e-9)


def test_advice_on_labels():
    said = quiet(Shrinkage(5), LABELS["binomial"] // 20, **QUICK).report()
    assert "BDR(family='negative_binomial')" in said
    scattered = quiet(
        BLR(5, family="poisson", method="laplace"), LABELS["negative_binomial"], **QUICK,
        exposure="people",
    )  # fmt: skip
    assert "family='negative_binomial'" in scattered.report()


def test_priors_may_be_changed():
    y = LABELS["negative_binomial"]
    tight = {"dispersion_scale": 1e-3}
    model = quiet(Shrinkage(5, family="negative_binomial", prior=tight), y, **QUICK)
    assert model.result_.draws("dispersion").max() < 0.02
    assert model.priors(as_table=False)["dispersion_scale"] == 1e-3


@pytest.mark.parametrize("name", ["beta", "beta_binomial"])
def test_labels_are_drawn_where_probabilities_are_0_or_1_to_rounding(name):
    given = FAMILIES[name].likelihood.distribution(
        expit(np.array([-800.0, 40.0, 800.0])), trials=np.full(3, 5), dispersion=0.1
    )
    drawn = given.rvs(size=(50, 3), random_state=np.random.default_rng(0))
    most = 5 if name == "beta_binomial" else 1
    np.testing.assert_allclose(drawn, np.broadcast_to([0, most, most], (50, 3)), atol=1e-12)
