"""JointRegressor: totals and surveys that share one function."""

import warnings

import numpy as np
import pandas as pd
import pytest

from bdr_stan import RBF, AggregateRegressor, Bags, JointRegressor, Matern32, load
from bdr_stan.kernels import HilbertSpace

N_PLACES = 40


def log_rate(points):
    return 0.5 * points[:, 0] + np.sin(2 * points[:, 1])


RNG = np.random.default_rng(3)
POINTS = RNG.uniform(-2, 2, (1200, 2))
LOG_RATE = log_rate(POINTS)
DISTRICTS = Bags.from_points(
    POINTS, bag=(4 + np.floor(POINTS[:, 0] * 2)).astype(int), features=["x", "z"]
)
CASES = RNG.poisson(DISTRICTS.sums(np.exp(log_rate(DISTRICTS.points))))
AT = RNG.choice(1200, N_PLACES, replace=False)
PLACES = Bags.from_points(
    POINTS[AT],
    sizes=np.ones(N_PLACES, int),
    features=["x", "z"],
    ids=[f"p{i:02}" for i in range(N_PLACES)],
    metadata=pd.DataFrame({"examined": np.full(N_PLACES, 200)}),
)
POSITIVES = RNG.binomial(200, 1 / (1 + np.exp(1.5 - 0.9 * LOG_RATE[AT])))
SURVEYS = {"surveys": PLACES, "positives": POSITIVES, "examined": "examined"}
NEW = RNG.uniform(-1.8, 1.8, (200, 2))
TRUE = log_rate(NEW)
SETTINGS = {"n_landmarks": 25, "kernel": RBF(0.8), "learn_kernel": False, "random_state": 1}


def fitted(likelihood="poisson", method="laplace", surveys=SURVEYS, draws=400, fit=None, **options):
    model = JointRegressor(likelihood, method=method, **SETTINGS | options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return model.fit(DISTRICTS, CASES, **surveys, draws=draws, seed=1, **(fit or {}))


@pytest.fixture(scope="module")
def joint():
    return fitted()


def correlation(points):
    return np.corrcoef(np.log(points.quantile(0.5)), TRUE)[0, 1]


def test_both_sources_are_better_than_totals_alone(joint):
    """Districts are strips along z, which only the surveys tell apart."""
    alone = AggregateRegressor("poisson", "exp", method="laplace", **SETTINGS)
    alone.fit(DISTRICTS, CASES, draws=400, seed=1)
    assert correlation(joint.predict_points(NEW)) > 0.9
    assert correlation(joint.predict_points(NEW)) > correlation(alone.predict_points(NEW)) + 0.1


def test_truth_is_in_the_intervals(joint):
    slope, intercept = joint.result_.draws("survey_slope"), joint.result_.draws("survey_intercept")
    overall = joint.result_.constants["overall"]
    assert overall == pytest.approx(np.log(CASES.sum() / 1200))
    assert abs(slope.mean() - 0.9) < 3 * slope.std()
    assert abs(intercept.mean() - (-1.5 + 0.9 * overall)) < 3 * intercept.std()
    rates, prevalence = joint.predict_points(NEW), joint.predict_prevalence(NEW)
    for points, true in ((rates, np.exp(TRUE)), (prevalence, 1 / (1 + np.exp(1.5 - 0.9 * TRUE)))):
        low, high = points.interval(0.95)
        assert np.mean((low < true) & (true < high)) > 0.85


def test_prevalence_is_the_line_of_the_log_rate(joint):
    drawn = {name: joint.result_.draws(name) for name in ("survey_intercept", "survey_slope")}
    rho, some = joint.result_.draws("rho"), np.arange(5)
    f = joint.feature_map_(NEW[some]) @ joint.result_.draws("w").T + joint.result_.draws(
        "intercept"
    )
    h = drawn["survey_intercept"] + drawn["survey_slope"] * (f - joint.result_.constants["overall"])
    found = joint.predict_prevalence(NEW)
    assert np.all(rho > 0)
    np.testing.assert_allclose(found.mean_of(some), (1 / (1 + np.exp(-h))).mean(axis=1))


def test_surveys_without_weight_in_the_model_change_nothing():
    """With a slope of 0 surveys say nothing of the rates."""
    alone = AggregateRegressor("poisson", "exp", method="optimize", **SETTINGS)
    alone.fit(DISTRICTS, CASES, seed=1)
    prior = {"survey_slope_location": 0.0, "survey_slope_scale": 1e-6}
    model = fitted(method="optimize", prior=prior)
    found, expected = (each.predict_points(NEW).mean for each in (model, alone))
    np.testing.assert_allclose(found, expected, rtol=2e-3)


def test_totals_with_large_errors_count_for_less():
    """Every second district has three times its cases: the others and the surveys correct it."""
    wrong = np.arange(len(DISTRICTS)) % 2 == 1
    reported = np.where(wrong, 3 * CASES, CASES)
    sd = pd.Series(np.where(wrong, 2.0, 0.05) * reported, DISTRICTS.ids)
    model = JointRegressor(method="laplace", **SETTINGS)
    errors = []
    for known in (sd[::-1], None):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model.fit(DISTRICTS, reported, **SURVEYS, label_sd=known, draws=400, seed=1)
        errors.append(np.mean((np.log(model.predict_points(NEW).quantile(0.5)) - TRUE) ** 2))
    assert errors[0] < errors[1] / 2


def test_order_of_bags_and_places_does_not_matter():
    model = fitted(method="optimize")
    turned = {**SURVEYS, "surveys": PLACES[::-1], "positives": POSITIVES[::-1]}
    again = JointRegressor(
        "poisson", method="optimize", **SETTINGS | {"landmarks": model.landmarks_}
    )
    again.fit(DISTRICTS[::-1], CASES[::-1], **turned, seed=1)
    np.testing.assert_allclose(
        again.predict_points(NEW).mean, model.predict_points(NEW).mean, rtol=5e-3
    )
    np.testing.assert_allclose(again.agreement_.percentiles[::-1], model.agreement_.percentiles)


def test_series_are_matched_to_places():
    named = pd.Series(POSITIVES, index=PLACES.ids).sample(frac=1, random_state=1)
    found = fitted(method="optimize", surveys=SURVEYS | {"positives": named})
    expected = fitted(method="optimize")
    np.testing.assert_array_equal(found.predict_points(NEW).mean, expected.predict_points(NEW).mean)


def test_prevalence_at_the_places_of_the_survey(joint):
    low, high = joint.predict_prevalence(PLACES).interval(0.95)
    true = 1 / (1 + np.exp(1.5 - 0.9 * LOG_RATE[AT]))
    assert np.mean((low < true) & (true < high)) > 0.85


def test_agreement_is_reported(joint):
    assert not joint.agreement_.disagrees
    assert "surveys and totals agree" in joint.report()
    assert "as places drawn like the bags' points" in joint.report()
    assert {"survey_intercept", "survey_slope", "survey_dispersion"} <= set(joint.priors().index)
    assert "survey_slope" in joint.summary().index


def test_disagreement_warns():
    reverse = {**SURVEYS, "positives": 200 - POSITIVES}
    model = JointRegressor("poisson", method="laplace", **SETTINGS)
    with pytest.warns(UserWarning, match="surveys and totals disagree"):
        model.fit(DISTRICTS, CASES, **reverse, draws=400, seed=1)
    assert model.agreement_.disagrees
    assert "compare the map with that of AggregateRegressor" in model.report()


def test_places_of_high_rates_are_reported():
    high = np.random.default_rng(2).choice(np.argsort(LOG_RATE)[-240:], N_PLACES, replace=False)
    places = Bags.from_list([POINTS[[i]] for i in high], features=["x", "z"])
    positives = np.random.default_rng(1).binomial(200, 1 / (1 + np.exp(1.5 - 0.9 * LOG_RATE[high])))
    chosen = {"surveys": places, "positives": positives, "examined": np.full(N_PLACES, 200)}
    model = fitted(surveys=chosen)
    assert model.agreement_.percentiles.mean() > 0.65
    assert "surveyed where rates are high" in model.report()


def test_areas_of_several_points_are_places():
    areas = Bags.from_list(
        [DISTRICTS.points[i : i + 3] for i in range(0, 60, 3)], features=["x", "z"]
    )
    model = fitted(
        "negative binomial",
        surveys={"surveys": areas, "positives": [9] * 20, "examined": [50] * 20},
    )
    assert model.agreement_.percentiles.shape == (20,)
    assert model.predict_prevalence(areas).mean.shape == (60,)


def test_an_overdispersed_fit_is_compared_with_its_own_surveys():
    """Districts of three times as many cases as expected, or a third."""
    model = JointRegressor("poisson", method="laplace", **SETTINGS)
    scattered = np.round(CASES * np.where(np.arange(len(CASES)) % 2, 3.0, 1 / 3))
    with pytest.warns(UserWarning, match="scatter more"):
        model.fit(DISTRICTS, scattered, **SURVEYS, draws=100, seed=1)


# A second survey by a less sensitive test, at other places: half the slope, fewer positives.
OTHER = RNG.choice(1200, 30, replace=False)
SCHOOLS = Bags.from_points(POINTS[OTHER], sizes=np.ones(30, int), features=["x", "z"])
BIASED = RNG.binomial(150, 1 / (1 + np.exp(2.5 - 0.45 * LOG_RATE[OTHER])))
BOTH = {
    "surveys": {"clusters": PLACES, "schools": SCHOOLS},
    "positives": {"clusters": POSITIVES, "schools": BIASED},
    "examined": {"clusters": "examined", "schools": [150] * 30},
}
LINES = {"clusters": (-1.5, 0.9), "schools": (-2.5, 0.45)}  # at log rate 0


@pytest.fixture(scope="module")
def both():
    return fitted(surveys=BOTH)


def test_each_of_several_surveys_has_its_own_line(both, joint):
    overall = both.result_.constants["overall"]
    posterior = both.idata.posterior
    assert posterior["survey_slope"].dims[2:] == ("survey",)
    for name, (level, slope) in LINES.items():
        own = posterior.sel(survey=name)
        for parameter, true in ("slope", slope), ("intercept", level + slope * overall):
            drawn = own[f"survey_{parameter}"].to_numpy().ravel()
            assert abs(drawn.mean() - true) < 3 * drawn.std()
            assert drawn.std() < 0.25
    # The map is as good as with the first survey alone, where one line for both spoils it.
    one = Bags.concatenate([PLACES, SCHOOLS])
    pooled = {
        "surveys": one,
        "positives": [*POSITIVES, *BIASED],
        "examined": [200] * 40 + [150] * 30,
    }
    errors = {
        name: np.std(np.log(model.predict_points(NEW).quantile(0.5)) - TRUE)
        for name, model in (("one", joint), ("both", both), ("pooled", fitted(surveys=pooled)))
    }
    assert errors["both"] < 1.05 * errors["one"]
    assert errors["both"] < 0.9 * errors["pooled"]


def test_predictions_are_of_the_survey_that_is_named(both):
    for name, (level, slope) in LINES.items():
        low, high = both.predict_prevalence(NEW, survey=name).interval(0.95)
        true = 1 / (1 + np.exp(-level - slope * TRUE))
        assert np.mean((low < true) & (true < high)) > 0.85


def test_agreement_of_each_survey(both, tmp_path):
    assert list(both.agreement_) == ["clusters", "schools"]
    assert [len(found.percentiles) for found in both.agreement_.values()] == [40, 30]
    text = both.report()
    assert "Survey 'clusters': slope" in text
    assert "Survey 'schools': slope" in text
    assert {"survey_intercept[clusters]", "survey_slope"} <= set(both.priors().index)
    assert {"survey_slope[schools]", "survey_dispersion[clusters]"} <= set(both.summary().index)
    both.save(tmp_path / "fit.nc")
    again = load(tmp_path / "fit.nc")
    assert list(again.agreement_) == ["clusters", "schools"]
    np.testing.assert_array_equal(
        again.agreement_["schools"].percentiles, both.agreement_["schools"].percentiles
    )
    np.testing.assert_array_equal(
        again.predict_prevalence(NEW, survey="schools").mean,
        both.predict_prevalence(NEW, survey="schools").mean,
    )


def test_a_survey_that_disagrees_is_named():
    wrong = BOTH["positives"] | {"schools": 150 - BIASED}
    model = JointRegressor("poisson", method="laplace", **SETTINGS)
    with pytest.warns(UserWarning, match="Survey 'schools': slope .* totals disagree"):
        model.fit(DISTRICTS, CASES, **BOTH | {"positives": wrong}, draws=400, seed=1)
    assert not model.agreement_["clusters"].disagrees


def test_order_of_surveys_does_not_matter(both):
    turned = {key: dict(reversed(values.items())) for key, values in BOTH.items()}
    found = fitted(surveys=turned)
    assert list(found.agreement_) == ["schools", "clusters"]
    np.testing.assert_allclose(
        found.predict_points(NEW).quantile(0.5), both.predict_points(NEW).quantile(0.5), rtol=0.1
    )


def test_a_survey_must_be_known(both, joint):
    with pytest.raises(ValueError, match="surveys 'clusters', 'schools', each with its own line"):
        both.predict_prevalence(NEW)
    with pytest.raises(ValueError, match="no survey 'school'; did you mean 'schools'"):
        both.predict_prevalence(NEW, survey="school")
    with pytest.raises(ValueError, match="one survey, which has no name: leave survey='schools'"):
        joint.predict_prevalence(NEW, survey="schools")
    with pytest.raises(ValueError, match="no number called 'survey_intercept_scale'"):
        fitted(surveys=BOTH, prior={"survey_intercept_scale": 1.0})


def test_a_single_survey_may_have_a_name(joint):
    named = {key: {"clusters": value} for key, value in SURVEYS.items()}
    model = fitted(surveys=named, prior={"survey_intercept_location[clusters]": -1.0})
    assert list(model.agreement_) == ["clusters"]
    np.testing.assert_allclose(
        model.predict_prevalence(NEW).quantile(0.5),
        joint.predict_prevalence(NEW, survey=None).quantile(0.5),
        rtol=0.1,
    )


def test_surveys_of_some_months_in_space_and_time():
    """A survey in each of two months of one field: rates of other months are higher."""
    rng = np.random.default_rng(8)
    month, row, col = np.indices((8, 12, 12)).reshape(3, -1)
    points = np.column_stack([row, col, month]).astype(float)
    log_rates = np.sin(row / 3 + month / 2) + 0.2 * col * np.cos(month / 3) / 4 + 0.25 * month

    def places(of, n):
        at = rng.choice(np.flatnonzero(month == of), n, replace=False)
        return Bags.from_points(points[at], sizes=np.ones(n, int), features=["x", "y", "month"]), at

    districts = Bags.from_points(
        points, bag=100 * month + 10 * (row // 4) + col // 4, features=["x", "y", "month"]
    )
    rates = np.exp(log_rates)
    counts = rng.poisson(10 * np.bincount(100 * month + 10 * (row // 4) + col // 4, rates))
    counts = pd.Series(counts)[districts.index.tolist()]
    space = HilbertSpace(Matern32(5.0, columns=["x", "y"]), n_functions=25)
    time = HilbertSpace(Matern32(4.0, columns=["month"]), n_functions=8, horizon=1)
    model = JointRegressor("poisson", kernel=space * time, learn_kernel=False, method="laplace")
    surveys, positives = {}, {}
    for name, when, level, slope in (("first", 1, -2.0, 0.8), ("second", 5, -2.5, 0.5)):
        surveys[name], at = places(when, 40)
        odds = level + slope * log_rates[at]
        positives[name] = rng.binomial(100, 1 / (1 + np.exp(-odds)))
    examined = dict.fromkeys(surveys, [100] * 40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model.fit(
            districts, counts, surveys=surveys, positives=positives, examined=examined, seed=1,
            draws=400,
        )  # fmt: skip
    slope = model.result_.draws("survey_slope")
    assert np.all(np.abs(slope.mean(axis=0) - [0.8, 0.5]) < 3 * slope.std(axis=0))
    for now in (3, 5):
        found = np.log(model.predict_points(points[month == now]).quantile(0.5))
        assert np.corrcoef(found, log_rates[month == now])[0, 1] > 0.9
    # Each survey is of its month, whose rates are not those of the year.
    assert all(found.p_value > 0.01 for found in model.agreement_.values())
    low, high = model.predict_prevalence(points[month == 3], survey="second").interval(0.95)
    true = 1 / (1 + np.exp(2.5 - 0.5 * log_rates[month == 3]))
    assert np.mean((low < true) & (true < high)) > 0.85
    ahead = points[month == 7] + [0, 0, 1]
    sd = [np.mean(model.predict_points(at).sd / model.predict_points(at).mean)
          for at in (points[month == 7], ahead)]  # fmt: skip
    assert sd[1] > sd[0]


@pytest.mark.parametrize(
    "parameters, says",
    [
        ({"link": "square"}, "the surveys of JointRegressor read a log rate: use link='exp'"),
        ({"likelihood": "binomial"}, "the binomial likelihood takes the link 'logit'"),
        ({"method": "vb"}, "JointRegressor has no method 'vb'"),
        ({"prior": {"slope_scale": 1}}, "no number called 'slope_scale'.*survey_slope_scale"),
    ],
)
def test_unusable_parameters(parameters, says):
    model = JointRegressor(**SETTINGS | parameters)
    with pytest.raises(ValueError, match=says):
        model.fit(DISTRICTS, CASES, **SURVEYS)


def test_surveys_are_checked_before_work():
    model = JointRegressor(**SETTINGS)
    with pytest.raises(ValueError, match="it exceeds the number examined"):
        model.fit(DISTRICTS, CASES, **SURVEYS | {"positives": POSITIVES + 200})
    with pytest.raises(TypeError, match="surveys"):
        model.fit(DISTRICTS, CASES)
    assert not hasattr(model, "result_")


@pytest.mark.slow
def test_nuts_agrees_with_laplace():
    """With 64 districts, which identify rho, that Laplace's method holds fixed."""
    cell = np.floor(POINTS * 2 + 4).astype(int) @ [8, 1]
    bags = Bags.from_points(POINTS, bag=cell, features=["x", "z"])
    totals = np.random.default_rng(4).poisson(bags.sums(np.exp(log_rate(bags.points))))
    nuts, laplace = (
        JointRegressor("poisson", method=method, **SETTINGS).fit(
            bags, totals, **SURVEYS, draws=500, seed=1, **chains
        )
        for method, chains in (("nuts", {"chains": 2}), ("laplace", {}))
    )
    for name in ("survey_slope", "survey_intercept"):
        one, other = (each.result_.draws(name) for each in (nuts, laplace))
        assert abs(one.mean() - other.mean()) < 0.75 * one.std()
        assert 0.7 < other.std() / one.std() < 1.4
    found, expected = (np.log(each.predict_points(NEW).quantile(0.5)) for each in (nuts, laplace))
    assert np.abs(found - expected).max() < 0.3


@pytest.mark.slow
def test_effects_of_bags_with_nuts():
    model = fitted(method="nuts", surveys=BOTH, bag_effects=True, draws=200, fit={"chains": 2})
    slope = model.result_.draws("survey_slope")
    assert np.all(np.abs(slope.mean(axis=0) - [0.9, 0.45]) < 3 * slope.std(axis=0))
    assert model.result_.draws("effect").shape == (400, len(DISTRICTS))
    np.testing.assert_allclose(model.predict(DISTRICTS), CASES, rtol=0.2)
