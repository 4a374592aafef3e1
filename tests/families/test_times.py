"""Times to events: densities of censored and truncated times, fits, survival, what is refused."""

import numpy as np
import pandas as pd
import pytest
from builders.families import EXAMPLES, log_density_of_time
from scipy import integrate

from bdr_stan import BLR, Bags, Shrinkage, load, plots, tune
from bdr_stan.families import TIMES, label_densities
from bdr_stan.labels import Labels
from bdr_stan.metrics import calibration, concordance, crps
from bdr_stan.predictive import LognormalPredictive
from bdr_stan.predictive.times import TimesPredictive

# A time, its event, its entry and sigma.
CASES = [
    *[
        (1.7, event, entry, sigma)
        for event in (1, 0)
        for entry in (0, 0.4, 1.6)
        for sigma in (0.6,)
    ],
    *[(0.01, 1, 0.0, 2.0), (3e4, 0, 1e4, 0.3), (1.0, 1, 0.999, 0.2)],
]
QUICK = {"seed": 1, "progress": False, "draws": 200}
N = 60


def terms(name, y, h, event, entry, sigma):
    return TIMES[name].terms(np.float64(y), h, sigma=sigma, event=float(event), entry=float(entry))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", TIMES)
def test_terms_are_the_log_density_and_its_derivatives(name, case):
    y, event, entry, sigma = case
    h = np.log(y) + sigma * np.array([-4.0, -1, -0.2, 0.5, 2, 6])
    value, slope, curvature = terms(name, y, h, event, entry, sigma)
    expected = [log_density_of_time(name, y, x, event, entry, sigma=sigma) for x in h]
    np.testing.assert_allclose(value, expected, rtol=1e-9, atol=1e-9)
    step = 1e-3 * sigma
    sides = [terms(name, y, h + sign * step, event, entry, sigma) for sign in (-1, 1)]
    scale = 1 + np.abs(slope).max()
    by_value = (sides[1].value - sides[0].value) / (2 * step)
    np.testing.assert_allclose(slope, by_value, rtol=1e-5, atol=1e-5 * scale)
    by_slope = (sides[0].slope - sides[1].slope) / (2 * step)
    np.testing.assert_allclose(curvature, by_slope, rtol=1e-5, atol=1e-5 * scale / sigma)


@pytest.mark.parametrize("entry", [0.0, 0.7])
@pytest.mark.parametrize("name", TIMES)
def test_density_of_later_times_is_1_and_their_tail_its_integral(name, entry):
    """By quadrature over log times after the entry."""

    def density(log_y):
        return np.exp(terms(name, np.exp(log_y), 0.3, 1, entry, 0.6).value + log_y)

    low = np.log(entry) if entry else -12.0
    total = integrate.quad(density, low, 0.5, epsabs=1e-12)[0]
    rest = integrate.quad(density, 0.5, 6.0, epsabs=1e-12)[0]
    np.testing.assert_allclose(total + rest, 1, rtol=1e-8)
    tail = np.exp(terms(name, np.exp(0.5), 0.3, 0, entry, 0.6).value)
    np.testing.assert_allclose(rest, tail, rtol=1e-8)


@pytest.mark.parametrize("variance", [1e-4, 0.3, 4.0])
@pytest.mark.parametrize("name", TIMES)
def test_integrated_densities_are_those_of_quadrature(name, variance):
    for k, (y, event, entry, sigma) in enumerate(CASES):
        sd = np.sqrt(variance)
        mean = np.log(y) + (-1.0, 0.3, 1.5)[k % 3] * (sigma + sd)
        labels = Labels(np.array([y]), event=np.array([event]), entry=np.array([entry]))
        found = label_densities(
            TIMES[name], labels, np.array([mean]), np.array([variance]), sigma=sigma
        )

        def log_integrand(h, y=y, of_label=(event, entry), s=sigma, mean=mean):
            prior = -0.5 * (h - mean) ** 2 / variance - 0.5 * np.log(2 * np.pi * variance)
            return terms(name, y, h, *of_label, s).value + prior

        with np.errstate(over="ignore"):
            grid = mean + sd * np.linspace(-14, 14, 4001)
            values = log_integrand(grid)
            best = values.max()
            inside = grid[values > best - 40]
            total = integrate.quad(
                lambda h, f=log_integrand, best=best: np.exp(f(h) - best),
                inside[0] - sd / 100, inside[-1] + sd / 100,
                points=[grid[values.argmax()]], epsabs=0, epsrel=1e-11, limit=400,
            )[0]  # fmt: skip
        np.testing.assert_allclose(found.value[0], best + np.log(total), atol=1e-7, rtol=1e-8)


def test_far_tails_keep_their_digits():
    for name in TIMES:
        h = np.array([-30.0, 30.0])
        found = terms(name, 1.0, h, 0, 0.5, 0.8)
        assert np.isfinite(np.concatenate(found)).all()
        assert found.value[1] == pytest.approx(0, abs=1e-12)


def test_level_and_spread_see_beyond_the_end_of_a_study():
    """Most times are censored at 1: their logarithms alone would have next to no spread."""
    rng = np.random.default_rng(0)
    for name, family in TIMES.items():
        true = EXAMPLES[name].draw(rng, np.full(4000, 1.0), None, sigma=0.8)
        y, event = np.minimum(true, 1.2), (true <= 1.2).astype(float)
        level, spread = family.level_and_spread(Labels(y, event=event), np.zeros(4000))
        assert level == pytest.approx(1, abs=0.15) and spread == pytest.approx(0.8, abs=0.12)
    y = np.exp(rng.normal(2, 0.7, 500))
    level, spread = TIMES["lognormal"].level_and_spread(Labels(y), np.zeros(500))
    np.testing.assert_allclose([level, spread], [np.log(y).mean(), np.log(y).std()], atol=1e-3)


# ---------------------------------------------------------------- fits


def survey(rng, n=N, name="weibull", sigma=0.4):
    """Bags whose log times increase with their means, times of which some are censored, events."""
    centres, sizes = rng.normal(size=n), rng.integers(3, 30, n)
    points = rng.normal(np.repeat(centres, sizes), 1)[:, None]
    time = EXAMPLES[name].draw(rng, 0.5 + 0.8 * centres, None, sigma=sigma)
    end = np.quantile(time, 0.6) * rng.uniform(0.5, 1.5, n)
    table = pd.DataFrame({"died": (time <= end), "start": 0.3 * np.minimum(time, end)})
    ids = [f"p{k:02}" for k in range(n)]
    table.index = ids
    bags = Bags.from_points(points, sizes=sizes, ids=ids, metadata=table)
    return bags, pd.Series(np.minimum(time, end), ids, name="years")


BAGS, YEARS = survey(np.random.default_rng(3))
DIED, START = BAGS.metadata["died"], BAGS.metadata["start"]


def fit(model, bags=BAGS, y=YEARS, **given):
    return model.fit(bags, y, **{**QUICK, **given})


@pytest.fixture(scope="module", params=TIMES)
def fitted(request):
    model = Shrinkage(4, kernel="rbf", family=request.param, method="laplace", engine="stanli")
    return fit(model, event="died", entry="start")


def test_survival_is_one_minus_the_cdf_and_agrees_with_samples(fitted):
    predictive = fitted.predictive(BAGS[:6])
    assert isinstance(predictive, TimesPredictive) and "sd, quantile(q)" in repr(predictive)
    times = np.array([0.0, 0.5, 1.5, 4.0])
    survival = predictive.survival(times)
    assert survival.shape == (6, 4) and np.all(survival[:, 0] == 1)
    drawn = predictive.sample(40_000, seed=0)
    shares = (drawn[..., None] > times).mean(axis=0)
    np.testing.assert_allclose(survival, shares, atol=0.012)
    np.testing.assert_allclose(predictive.cdf(np.full(6, 1.5)), 1 - survival[:, 2], atol=1e-12)
    np.testing.assert_array_equal(predictive.survival(1.5), survival[:, 2])
    mean, lower, upper = predictive.survival(times[1:], level=0.9)
    np.testing.assert_array_equal(mean, survival[:, 1:])
    assert np.all((lower < mean) & (lower < upper))
    restricted = predictive.restricted_mean(2.0)
    np.testing.assert_allclose(restricted, np.minimum(drawn, 2).mean(axis=0), atol=0.02)
    assert np.all(predictive.restricted_mean(0.0) == 0)
    np.testing.assert_allclose(predictive.mean, drawn.mean(axis=0), rtol=0.1)


def test_censored_labels_are_scored_by_their_tails(fitted):
    known = fitted.predictive(BAGS, event="died")
    tails = fitted.predictive(BAGS, event=np.zeros(N)).log_prob(YEARS)
    np.testing.assert_allclose(np.exp(tails), 1 - known.cdf(YEARS), atol=2e-3)
    events = fitted.predictive(BAGS, event=1).log_prob(YEARS)
    np.testing.assert_allclose(known.log_prob(YEARS), np.where(DIED, events, tails))
    late = fitted.predictive(BAGS, event=0, entry="start")
    assert np.all(late.log_prob(YEARS) > tails)
    # Of training bags, which leave-one-out uses: with events and entries.
    both = fitted.predictive(BAGS, event="died", entry=START.sample(frac=1, random_state=0))
    kept = fitted.result_.draws("y", "log_likelihood")
    np.testing.assert_allclose(both.log_likelihood(YEARS), kept, rtol=1e-9, atol=1e-9)


def test_predictions_need_no_events_but_scores_do(fitted):
    new = Bags.from_list(list(BAGS[:5]))
    assert fitted.columns_of_bags == [] and np.all(fitted.predict(new) > 0)
    assert list(fitted.predict_table(new)) == [
        "n_points",
        "mean",
        "sd",
        "lower",
        "upper",
        "familiarity",
    ]
    predictive = fitted.predictive(BAGS)
    with pytest.raises(ValueError, match="pass event= to predictive"):
        predictive.log_prob(YEARS)
    for score in (calibration, crps, plots.pit):
        for each in (predictive, fitted.predictive(BAGS, event="died")):
            with pytest.raises(ValueError, match="censored or truncated"):
                score(YEARS, each)
    with pytest.raises(TypeError, match="needs event="):
        fitted.score(BAGS, YEARS)
    with pytest.raises(ValueError, match="horizon must be one number"):
        predictive.restricted_mean([1.0, 2.0])
    with pytest.raises(ValueError, match="times must be finite numbers >= 0"):
        predictive.survival([-1.0])
    score = fitted.score(BAGS, YEARS, event="died")
    assert score == concordance(YEARS, DIED, -fitted.predict(BAGS)) and score > 0.7
    with pytest.raises(ValueError, match="not censored or truncated"):
        fitted.conformal(BAGS)
    with pytest.raises(ValueError, match="a time is not above the entry"):
        fitted.predictive(BAGS, event=1, entry=YEARS).log_prob(YEARS)


def test_reports_say_what_there_is_instead(fitted, tmp_path):
    fitted.report_html(tmp_path / "report.html", BAGS)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "survival(times)" in page and "root mean squared error" not in page
    assert "contain the observed value" not in page
    assert "normal errors" not in fitted.report()
    assert {"sigma", "rho", "intercept"} <= set(fitted.priors().index)


def test_saved_fits_know_that_times_are_censored(fitted, tmp_path):
    fitted.save(tmp_path / "fit.nc")
    again = load(tmp_path / "fit.nc")
    np.testing.assert_array_equal(again.predict(BAGS), fitted.predict(BAGS))
    found = again.predictive(BAGS, event="died").log_prob(YEARS)
    np.testing.assert_array_equal(found, fitted.predictive(BAGS, event="died").log_prob(YEARS))


def test_priors_before_a_fit_are_scaled_by_times_and_events():
    model = BLR(4, kernel="rbf", family="weibull", method="optimize", engine="stanli")
    given, draws = {"event": "died", "entry": "start"}, {"draws": 50, "seed": 1}
    before = model.prior_predictive(BAGS, YEARS, **given, **draws)
    after = fit(model, **given).prior_predictive(BAGS, **draws)
    for group, name in (("prior", "intercept"), ("prior_predictive", "y")):
        np.testing.assert_allclose(before[group][name], after[group][name], rtol=1e-6)


@pytest.mark.parametrize("given", [{}, {"entry": "start"}, {"event": "died", "entry": "start"}])
def test_columns_arrays_and_series_of_any_order_agree(given):
    model = Shrinkage(3, kernel="rbf", family="lognormal", method="optimize", engine="stanli")
    expected = fit(model, **given).predict(BAGS)
    arrays = {name: BAGS.metadata[column].to_numpy(float) for name, column in given.items()}
    np.testing.assert_allclose(fit(model, **arrays).predict(BAGS), expected, rtol=1e-6)
    mixed = {n: BAGS.metadata[c].sample(frac=1, random_state=2) for n, c in given.items()}
    found = fit(model, y=YEARS.sample(frac=1, random_state=1), **mixed).predict(BAGS)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_lognormal_labels_without_events_are_what_they_were():
    """Also after a fit with events, and nearly the same where all are observed."""
    model = BLR(4, kernel="rbf", family="lognormal", method="laplace", engine="stanli")
    fit(model, event="died")
    assert isinstance(model.predictive(BAGS), TimesPredictive)
    plain = fit(model).predictive(BAGS)
    assert isinstance(plain, LognormalPredictive)
    normal = fit(BLR(4, kernel="rbf", method="laplace", engine="stanli"), y=np.log(YEARS))
    expected = normal.predictive(BAGS).log_prob(np.log(YEARS)) - np.log(YEARS)
    np.testing.assert_allclose(plain.log_prob(YEARS), expected, rtol=1e-9, atol=1e-9)
    all_seen = fit(model, event=np.ones(N)).predictive(BAGS, event=1)
    np.testing.assert_allclose(np.log(all_seen.mean), np.log(plain.mean), atol=0.1)
    np.testing.assert_allclose(all_seen.log_prob(YEARS), plain.log_prob(YEARS), atol=0.2)


def test_ignoring_censoring_or_entries_is_another_answer():
    model = Shrinkage(4, kernel="rbf", family="weibull", method="optimize", engine="stanli")
    naive = fit(model).predict(BAGS).mean()
    assert fit(model, event="died").predict(BAGS).mean() > 1.2 * naive


def test_tuning_scores_censored_times_by_their_tails():
    options = {"n_landmarks": [3], "bandwidth_scale": [1.0], "progress": False, "cv": 2}
    models = {n[0]: BLR(family=n, engine="stanli") for n in TIMES}
    tuned = tune(BAGS, YEARS, models=models, event="died", method="optimize", **options)
    assert np.isfinite(tuned.table["nll"]).all()


def test_concordance():
    time, event, risk = np.random.default_rng(0).uniform(size=(3, 40))
    event, time = (event < 0.6).astype(int), np.round(time, 1)
    risk[:10] = 0.5
    better, pairs = 0.0, 0
    for i in range(40):
        for j in range(40):
            if event[i] and (time[i] < time[j] or (time[i] == time[j] and not event[j])):
                pairs += 1
                better += (risk[i] > risk[j]) + 0.5 * (risk[i] == risk[j])
    assert concordance(time, event == 1, risk) == pytest.approx(better / pairs)
    with pytest.raises(ValueError, match="no two times"):
        concordance([1, 2], [0, 1], [3, 4])
    with pytest.raises(ValueError, match="events must be 1"):
        concordance([1, 2], [2, 1], [3, 4])
