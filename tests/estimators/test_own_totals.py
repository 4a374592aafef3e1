"""Totals by plain programs that users edit: predictions are the programs' own."""

import json
import warnings
from functools import cache, partial

import numpy as np
import pytest
from builders import programs, reference
from builders.rates import country, labels, sums, surface

from bdr_stan import AggregateRegressor, Bags, JointRegressor, load
from bdr_stan.cmdstan.programs import program_path
from bdr_stan.kernels import RBF
from bdr_stan.posterior import stanli
from bdr_stan.predictive import ProgramPredictive
from experiments.papers import BagPixel

FITS = {
    "totals_square": ("negative binomial", "square"),
    "totals_square_poisson": ("poisson", "square"),
    "totals_exp": ("negative binomial", "exp"),
    "totals_exp_poisson": ("poisson", "exp"),
    "totals_exp_effects": ("poisson", "exp"),
    "totals_identity": ("normal", "identity"),
}
EVERY = pytest.mark.parametrize("name", FITS)
BAGS, NEW = country(24), country(6, seed=9)
LONG = {"chains": 2, "warmup": 300, "draws": 400, "seed": 1, "progress": False}
SHORT = {**LONG, "draws": 100}


def path_of(name):
    return program_path(name, fast=False)


def model_of(name, **options):
    given = {"n_landmarks": 6, "kernel": RBF(1.0), "learn_kernel": False, "engine": "stanli"}
    given["bag_effects"] = name.endswith("effects")
    return AggregateRegressor(*FITS[name], **{**given, **options})


def quiet_fit(model, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # few draws, and counts that scatter more
        return model.fit(*args, **options)


@cache
def fitted(name, own=True, long=False):
    model = model_of(name, stan_file=path_of(name) if own else None)
    return quiet_fit(model, BAGS, labels(BAGS, *FITS[name]), **(LONG if long else SHORT))


edited = partial(programs.edited, name="totals_exp_poisson")
REPORTING = [
    ("vector[P] weight;", "vector[N] reporting;  vector[N_new] reporting_new;  vector[P] weight;"),
    ("lambda = sums(weight .* rate,", "lambda = reporting .* sums(weight .* rate,"),
    ("lambda = sums(weight_new .* rate,", "lambda = reporting_new .* sums(weight_new .* rate,"),
]


# ---------------------------------------------------------------- unedited programs


def assert_same_on_average(draws):
    """Two samples of draws, each (chains, draws, k), have means within their standard errors.

    Errors of 20 batches, t distributed at best, of which tests take the largest of dozens: of six
    seeds it was 5.3 for one.
    """
    (a, of_a), (b, of_b) = (reference.monte_carlo(each) for each in draws)
    score = np.abs(a - b) / np.hypot(of_a, of_b)
    assert np.max(score) < 8, score.round(1)


@EVERY
def test_predictions_of_the_unedited_program_are_those_of_the_stock_fit(name):
    stock, own = (fitted(name, each, long=True) for each in (False, True))
    shape = (2, 400, -1)
    predicted = [m.predictive(NEW, district=False) for m in (stock, own)]
    assert isinstance(predicted[1], ProgramPredictive)
    drawn = [p.sample(800, seed=2).reshape(shape) for p in predicted]
    middle = np.median(drawn[0], axis=(0, 1))
    for of_label in (lambda y: y > middle, lambda y: np.log1p(np.abs(y)), lambda y: y > 2 * middle):
        assert_same_on_average([of_label(y).astype(float) + 1e-9 * y for y in drawn])
    # In the tails a mean of densities rests on few draws.
    y = np.quantile(drawn[0], 0.5, axis=(0, 1), method="higher")
    if not name.endswith("effects"):  # of which each draw of the stock fit draws a new one
        # The largest of six was .01 to .14 for five seeds, .06 in the root of the mean square.
        np.testing.assert_allclose(*(p.log_prob(y) for p in predicted), atol=0.3)
    rates = [m.predict_points(NEW, n_draws=800, district=False) for m in (stock, own)]
    every = np.arange(0, len(rates[0]), 4)
    drawn = [rate.draws(every).reshape(shape) for rate in rates]
    middle = np.median(drawn[0], axis=(0, 1))
    assert_same_on_average([(rate > middle).astype(float) for rate in drawn])
    assert_same_on_average([(rate > 1.3 * middle).astype(float) for rate in drawn])


@EVERY
def test_a_fit_keeps_predictions_and_likelihoods_of_the_training_bags(name):
    own = fitted(name)
    y = own.idata["posterior_predictive"]["y"].values.reshape(-1, len(BAGS))
    log_lik = own.idata["log_likelihood"]["y"].values.reshape(-1, len(BAGS))
    predictive = own.predictive(BAGS)
    np.testing.assert_array_equal(predictive.sample(seed=1), y)
    labels_of = labels(BAGS, *FITS[name])
    np.testing.assert_allclose(predictive.log_likelihood(labels_of), log_lik, rtol=1e-12)
    if name == "totals_exp":
        stock = fitted(name, False).idata["log_likelihood"]["y"].values
        assert log_lik.mean() == pytest.approx(stock.mean(), abs=0.1)


def test_draws_are_those_of_the_program_by_its_names():
    own = fitted("totals_exp_effects")
    assert set(own.idata["posterior"]) == {"intercept", "w", "u", "rho", "tau"}
    assert own.result_.draws("u").shape == (200, len(BAGS))
    assert "Likelihood: that of " in own.report()


def test_a_table_of_predictions_and_points_in_no_bags():
    own = fitted("totals_exp")
    table = own.predict_table(NEW)
    np.testing.assert_array_equal(table["mean"], own.predict(NEW))
    np.testing.assert_array_equal(table["sd"], own.predict(NEW, return_std=True)[1])
    rate, in_bags = own.predict_points(NEW.points), own.predict_points(NEW)
    ratio = rate.quantile(0.5) / in_bags.quantile(0.5)  # what features omit is drawn anew
    assert abs(np.log(ratio).mean()) < 0.03
    assert repr(rate) == (
        f"PointPredictive({len(NEW.points)} points, 200 draws, of a Stan program; mean, sd, "
        "quantile(q), interval(level), exceedance(threshold), cdf(rate), draws(rows))"
    )
    drawn = rate.draws(np.arange(5))
    np.testing.assert_allclose(rate.exceedance(7.0)[:5], np.mean(drawn > 7, axis=0))
    np.testing.assert_allclose(rate.sd[:5], drawn.std(axis=0))
    assert len(own.predict_points(NEW, n_draws=10).draws([0])) == 10


@pytest.mark.parametrize("method", ["laplace", "optimize"])
def test_other_methods(method):
    own = model_of("totals_exp", stan_file=path_of("totals_exp"), method=method)
    own = quiet_fit(own, BAGS, labels(BAGS, *FITS["totals_exp"]), draws=300, seed=1)
    stock = fitted("totals_exp", False)
    np.testing.assert_allclose(own.predict(NEW), stock.predict(NEW), rtol=0.25)
    expected = stock.predict_points(NEW).quantile(0.5)
    np.testing.assert_allclose(own.predict_points(NEW).quantile(0.5), expected, rtol=0.25)


def test_known_errors_of_totals():
    y = labels(BAGS, "normal", "identity")
    given = {"label_sd": np.full(len(BAGS), 3.0), **SHORT}
    own = model_of("totals_identity", stan_file=path_of("totals_identity"))
    with_errors, stock = (
        quiet_fit(m, BAGS, y, **given) for m in (own, model_of("totals_identity"))
    )
    for group in ("log_likelihood", "posterior_predictive"):
        a, b = (m.idata[group]["y"].values.mean() for m in (with_errors, stock))
        assert a == pytest.approx(b, rel=0.1)
    np.testing.assert_allclose(*(m.predict(NEW) for m in (with_errors, stock)), rtol=0.1)


@EVERY
def test_data_of_a_program_without_a_fit(name, tmp_path):
    """Those of a fit, with the training bags as new ones."""
    y = labels(BAGS, *FITS[name])
    data = model_of(name, random_state=1).stan_data(BAGS, y)
    ran = fitted(name).result_.settings["program"]["data"]
    for each, values in ran.items():
        if not each.endswith("_new") and each != "y_at":
            np.testing.assert_allclose(data[each], values, rtol=1e-12)
    np.testing.assert_array_equal(data["phi_new"], data["phi"])
    np.testing.assert_array_equal(data["y_at"], data["y"])
    assert data["N_new"] == len(BAGS)
    data.write_json(tmp_path / "data.json")
    again = stanli.load(path_of(name), json.loads((tmp_path / "data.json").read_text()))
    assert np.isfinite(again.log_prob_grad(np.zeros(again.n_unconstrained))[0])


def test_bags_taken_for_points():
    name = "totals_exp"
    y = labels(BAGS, *FITS[name])
    given = {"n_landmarks": 6, "kernel": RBF(1.0), "learn_kernel": False, "engine": "stanli"}
    own = BagPixel(*FITS[name], stan_file=path_of(name), random_state=1, **given)
    data = own.stan_data(BAGS, y)
    assert data["phi"].shape == (len(BAGS), 6) and set(data["length"]) == {1}
    quiet_fit(own, BAGS, y, **SHORT)
    ran = own.result_.settings["program"]["data"]
    np.testing.assert_allclose(ran["phi"], data["phi"], rtol=1e-12)
    stock = quiet_fit(BagPixel(*FITS[name], **given), BAGS, y, **SHORT)
    np.testing.assert_allclose(own.predict(NEW), stock.predict(NEW), rtol=0.25)


# ---------------------------------------------------------------- an edit


def reported(seed=3, n=60):
    """Districts of which each reports a known share of its cases, and these."""
    rng = np.random.default_rng(seed)
    bags = country(n, seed=seed)
    reporting = rng.choice([0.15, 0.5, 0.95], n)
    bags = Bags(bags.points, bags.offsets, weights=bags.weights, metadata={"share": reporting})
    mean = sums(bags, np.exp(surface(bags.points)))
    return bags, rng.poisson(reporting * mean), reporting, mean


def test_a_reporting_probability_by_district_recovers_the_truth(tmp_path):
    bags, cases, *_ = reported()
    path = edited(tmp_path, *REPORTING)
    own = model_of("totals_exp_poisson", stan_file=path, n_landmarks=12)
    stock = model_of("totals_exp_poisson", method="laplace", n_landmarks=12)
    run = {**LONG, "warmup": 200, "draws": 200}
    quiet_fit(own, bags, cases, stan_data={"reporting": "share"}, **run)
    quiet_fit(stock, bags, cases, draws=400, seed=1)

    truth = np.exp(surface(bags.points))
    rates = [m.predict_points(bags.points, n_draws=400) for m in (own, stock)]
    error = [np.abs(np.log(rate.quantile(0.5) / truth)).mean() for rate in rates]
    assert error[0] < 0.1 < 0.4 < error[1]
    lower, upper = rates[0].interval(0.95)
    assert np.mean((lower <= truth) & (truth <= upper)) > 0.92

    new, new_cases, new_reporting, _ = reported(seed=4)
    predictive = own.predictive(new)
    lower, upper = predictive.interval(0.95)
    assert 0.9 <= np.mean((lower <= new_cases) & (new_cases <= upper)) <= 1
    lower, upper = stock.predictive(new).interval(0.95)
    assert np.mean((lower <= new_cases) & (new_cases <= upper)) < 0.6
    given = own.predictive(new, stan_data={"reporting": new_reporting})
    np.testing.assert_array_equal(given.mean, predictive.mean)
    all_reported = own.predictive(new, stan_data={"reporting": np.ones(len(new))})
    np.testing.assert_allclose(
        all_reported.mean * new_reporting, predictive.mean, rtol=0.03, atol=0.3
    )


def test_a_saved_fit_predicts_the_same_once_its_program_is_confirmed(tmp_path):
    bags, cases, *_ = reported(n=20)
    path = edited(tmp_path, *REPORTING)
    own = model_of("totals_exp_poisson", stan_file=path)
    own = quiet_fit(own, bags, cases, stan_data={"reporting": "share"}, **SHORT)
    own.save(tmp_path / "fit.nc")
    again = load(tmp_path / "fit.nc")
    for predict in (again.predict, again.predict_points):
        with pytest.raises(ValueError, match="predictions run the Stan program of the fit"):
            predict(bags)
    again.set_params(stan_file=path)
    np.testing.assert_array_equal(again.predict(bags), own.predict(bags))
    rates = [m.predict_points(bags[:3]).draws([0, 4]) for m in (own, again)]
    np.testing.assert_array_equal(*rates)
    log_prob = [m.predictive(bags).log_prob(cases) for m in (own, again)]
    np.testing.assert_array_equal(*log_prob)
    path.write_text(path.read_text() + "\n")
    with pytest.raises(ValueError, match="is not the Stan program of the fit any more"):
        again.predict(bags)


def test_data_of_new_bags_that_are_missing(tmp_path):
    bags, cases, reporting, _ = reported(n=20)
    own = model_of("totals_exp_poisson", stan_file=edited(tmp_path, *REPORTING))
    own = quiet_fit(own, bags, cases, stan_data={"reporting": reporting}, **SHORT)
    with pytest.raises(ValueError, match="reads reporting_new, and the fit got reporting as an"):
        own.predict(bags)
    with pytest.raises(ValueError, match="declares no data 'urban', which stan_data gives"):
        own.predictive(bags, stan_data={"urban": reporting})
    assert own.predictive(bags, stan_data={"reporting": reporting}).mean.shape == (20,)
    assert own.predict_points(bags.points).mean.shape == (len(bags.points),)
    with pytest.raises(ValueError, match="stan_data are of bags, but the points are in none"):
        own.predict_points(bags.points, stan_data={"reporting": reporting})


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda m: m.contrast(BAGS, BAGS), "formula of the stock program"),
        (lambda m: m.predict_fields(BAGS), "formula of the stock program"),
        (lambda m: m.ranking(BAGS), "formula of the stock program"),
        (lambda m: m.check_context(), "formula of the stock program"),
        (lambda m: m.bounds(BAGS, labels(BAGS, *FITS["totals_exp"]), BAGS), "formula of the stock"),
        (lambda m: m.predictive(NEW, district=["0"] * 6), "formula of the stock program"),
        (lambda m: m.predict_points(NEW, totals=np.ones(6)), "formula of the stock program"),
    ],
)
def test_formulas_of_the_stock_program_are_refused(use, message):
    with pytest.raises(ValueError, match=f"this is a {message}"):
        use(fitted("totals_exp"))


@pytest.mark.parametrize(
    ("name", "change", "options", "fit", "message"),
    [
        ("totals_exp", None, {"thin": 3}, {}, "takes all points of a bag: leave thin out"),
        (
            "totals_identity",
            None,
            {"bag_effects": True},
            {},
            "bag_effects of the normal likelihood belong to the stock program",
        ),
        (
            "totals_exp_effects",
            None,
            {"bag_effects": False},
            {},
            "reads tau_scale in its data, which this fit has not: fit with bag_effects=True",
        ),
        (
            "totals_exp_poisson",
            None,
            {"bag_effects": True},
            {},
            "does not declare tau_scale in its data, by which it would read bag_effects",
        ),
        (
            "totals_exp",
            None,
            {},
            {"label_sd": np.ones(len(BAGS))},
            "does not declare relative_label_sd in its data, by which it would read label_sd",
        ),
        (
            "totals_exp",
            None,
            {},
            {"stan_data": {"weight": np.ones(3)}},
            "stan_data has 'weight', which is data that every fit passes",
        ),
        ("totals_exp", REPORTING, {}, {}, "declares the data reporting, which are none of every"),
    ],
)
def test_a_program_that_does_not_go_with_the_fit_is_refused(
    tmp_path, name, change, options, fit, message
):
    path = edited(tmp_path, *change, name=name) if change else path_of(name)
    model = model_of(name, stan_file=path, **options)
    with pytest.raises(ValueError, match=message):
        model.fit(BAGS, labels(BAGS, *FITS[name]), **SHORT, **fit)


def test_data_without_a_program():
    stock = fitted("totals_exp", False)
    given = {"stan_data": {"reporting": np.ones(6)}}
    for use in (stock.predictive, stock.predict_points):
        with pytest.raises(TypeError, match="also pass stan_file"):
            use(NEW, **given)
    with pytest.raises(TypeError, match="also pass stan_file"):
        model_of("totals_exp").fit(BAGS, labels(BAGS, *FITS["totals_exp"]), **given)


@pytest.mark.parametrize(
    ("missing", "use", "purpose"),
    [
        ("y_new", lambda m: m.predict(NEW), "predictions"),
        ("rate_new", lambda m: m.predict_points(NEW), "rates of points"),
        ("log_lik", lambda m: m.predictive(NEW).log_prob(np.ones(6)), "densities"),
    ],
)
def test_a_program_that_generates_too_little_says_so_where_it_matters(
    tmp_path, missing, use, purpose
):
    name = "totals_exp_poisson"
    path = edited(tmp_path, (missing, f"other_{missing}"), name=name)
    own = quiet_fit(model_of(name, stan_file=path), BAGS, labels(BAGS, *FITS[name]), **SHORT)
    assert ("log_likelihood" in own.idata) == (missing == "rate_new")
    with pytest.raises(
        ValueError, match=f"no {missing} in its generated quantities, and {purpose}"
    ):
        use(own)


def test_a_variant_of_an_accelerated_program_gives_draws_alone():
    name = "totals_exp"
    own = model_of(name, stan_file=program_path("aggregate_exp"))
    own = quiet_fit(own, BAGS, labels(BAGS, *FITS[name]), **SHORT)
    assert {"w", "intercept", "rho", "dispersion"} <= set(own.idata["posterior"])
    for use in (own.predict, own.predict_points):
        with pytest.raises(ValueError, match="variant of an accelerated program"):
            use(NEW)


def test_joint_models_take_no_program():
    assert "stan_file" not in JointRegressor().get_params()
    assert not hasattr(JointRegressor(), "stan_data")
    with pytest.raises(TypeError, match="stan_file"):
        JointRegressor(stan_file="mine.stan")


# ---------------------------------------------------------------- CmdStan


@pytest.mark.slow
def test_both_engines_predict_the_same(tmp_path):
    bags, cases, _, _ = reported(n=30)
    path = edited(tmp_path, *REPORTING)
    given = {"stan_data": {"reporting": "share"}, **LONG, "draws": 300}
    fits = [
        quiet_fit(model_of("totals_exp_poisson", stan_file=path, engine=e), bags, cases, **given)
        for e in ("stanli", "cmdstan")
    ]
    new = reported(seed=5, n=10)[0]
    drawn = [m.predictive(new).sample(600, seed=2).reshape(2, 300, -1) for m in fits]
    assert_same_on_average(drawn)
    rates = [m.predict_points(new, n_draws=600).draws(np.arange(9)) for m in fits]
    assert_same_on_average([np.log(rate).reshape(2, 300, -1) for rate in rates])
