"""Stacking: weights, the mixture, and the estimators' contract. Runs under either ArviZ version."""

import warnings

import numpy as np
import pytest
from scipy import optimize, stats
from scipy.special import expit
from sklearn.base import clone
from sklearn.metrics import r2_score

from bdr_stan import (
    BDR,
    BLR,
    BLRClassifier,
    RBFNetwork,
    Shrinkage,
    ShrinkageClassifier,
    Stacked,
    StackedClassifier,
)
from bdr_stan.metrics import concordance
from bdr_stan.predictive import Predictive, mix
from bdr_stan.results.leave_one_out import stack

SHORT = {"draws": 300, "seed": 1}


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(8)
    centres = rng.normal(size=60)
    sizes = rng.integers(1, 30, 60)
    bags = [c + rng.normal(size=(m, 2)) for c, m in zip(centres, sizes, strict=True)]
    return bags, 3 + centres


def quiet_fit(model, bags, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # Pareto k-hat of Laplace
        return model.fit(bags, y, **SHORT)


@pytest.fixture(scope="module")
def fitted(problem):
    members = [
        BDR(5, method="laplace"),
        BLR(5, method="exact"),
        BLR(3, bandwidth_scale=0.02, method="exact"),
    ]
    return quiet_fit(Stacked(members), *problem)


@pytest.fixture(scope="module")
def fitted_classifier(problem):
    bags, y = problem
    members = [ShrinkageClassifier(5, method="laplace"), BLRClassifier(5, method="laplace")]
    return quiet_fit(StackedClassifier(members), bags, np.where(y > 3, "high", "low"))


def both(fitted, fitted_classifier):
    return (fitted, fitted_classifier)


# ---------------------------------------------------------------- weights


def test_weights_maximise_the_leave_one_out_density_of_the_mixture(fitted):
    """With the weak prior, against a search of our own over the leave-one-out densities."""
    import arviz as az

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loo = [az.loo(m.idata, pointwise=True) for m in fitted.models_]
    elpd = np.array([np.asarray(one.loo_i if hasattr(one, "loo_i") else one.elpd_i) for one in loo])
    density = np.exp(elpd - elpd.max(axis=0))

    def lack(weights):
        return -np.log(weights @ density).sum() - np.log(weights).sum() / 3

    def lack_of(x):
        return lack(np.exp(x - np.logaddexp.reduce(x)))

    best = optimize.minimize(lack_of, np.zeros(3), method="Nelder-Mead", options={"fatol": 1e-10})
    assert lack(fitted.weights_) == pytest.approx(best.fun, abs=1e-3)
    assert fitted.weights_.sum() == pytest.approx(1)
    np.testing.assert_allclose(fitted.comparison_["elpd"], elpd.sum(axis=1), rtol=1e-6)


def test_a_useless_model_gets_no_weight(fitted):
    assert list(fitted.comparison_.index) == ["0 BDR", "1 BLR", "2 BLR"]
    assert fitted.weights_[2] < 0.05
    assert fitted.comparison_["elpd"].idxmin() == "2 BLR"


def test_a_stack_says_whose_posteriors_there_are(fitted):
    with pytest.raises(AttributeError, match=r"no posterior of its own: see models_\[0\].idata"):
        fitted.idata  # noqa: B018
    assert "posterior" in fitted.models_[0].idata


def test_a_stack_prints_its_bags(fitted):
    assert "\nFitted to 60 bags of " in str(fitted)


def test_stack_of_one_fit_twice(fitted):
    idata = fitted.models_[0].idata
    table = stack({"a": idata, "b": idata})
    assert table["weight"].sum() == pytest.approx(1)
    assert table.loc["a", "elpd"] == table.loc["b", "elpd"]


# ---------------------------------------------------------------- mixture


def test_mixture_is_the_weighted_average_of_densities(fitted, problem):
    bags, y = problem
    mixture = fitted.predictive(bags)
    parts = [model.predictive(bags) for model in fitted.models_]
    w = fitted.weights_
    np.testing.assert_allclose(mixture.mean, w @ [p.mean for p in parts], rtol=1e-10)
    second = w @ [p.sd**2 + p.mean**2 for p in parts]
    np.testing.assert_allclose(mixture.sd, np.sqrt(second - mixture.mean**2), rtol=1e-6)
    density = w @ np.exp([p.log_prob(y) for p in parts])
    np.testing.assert_allclose(np.exp(mixture.log_prob(y)), density, rtol=1e-9)


def test_quantiles_and_samples_of_a_mixture():
    one = Predictive(lambda i: (np.full((1, len(i)), -2.0), np.full((1, len(i)), 0.5)), 1, 1)
    two = Predictive(lambda i: (np.array([[1.0], [2.0]]), np.ones((2, len(i)))), 1, 2)
    mixture = mix([one, two], np.array([0.3, 0.7]))

    def cdf(x):
        norm = stats.norm.cdf
        return 0.3 * norm(x, -2, 0.5) + 0.35 * norm(x, 1, 1) + 0.35 * norm(x, 2, 1)

    for q in (0.02, 0.3, 0.5, 0.9):
        assert cdf(mixture.quantile(q)[0]) == pytest.approx(q, abs=1e-8)
    sample = mixture.sample(20_000, seed=3)[:, 0]
    assert stats.kstest(sample, cdf).pvalue > 1e-4
    again = mix([mixture, one], np.array([0.5, 0.5]))
    assert again.mean[0] == pytest.approx(0.5 * mixture.mean[0] + 0.5 * -2)


def test_probabilities_of_classes_are_averaged(fitted_classifier, problem):
    bags, y = problem
    model = fitted_classifier
    labels = np.where(y > 3, "high", "low")
    mixture = model.predictive(bags)
    parts = [member.predictive(bags) for member in model.models_]
    expected = model.weights_ @ [p.mean for p in parts]
    np.testing.assert_allclose(model.predict_proba(bags)[:, 1], expected, rtol=1e-10)
    assert set(model.predict(bags)) == {"high", "low"}
    assert model.score(bags, labels) > 0.8
    picked = np.where(labels == model.classes_[1], mixture.mean, 1 - mixture.mean)
    np.testing.assert_allclose(np.exp(mixture.log_prob(labels)), picked, rtol=1e-9)
    lower, upper = mixture.interval(0.9)
    assert np.all((lower <= upper) & (lower >= 0) & (upper <= 1))
    assert set(np.unique(mixture.sample(5, seed=0))) <= {"high", "low"}


# ---------------------------------------------------------------- contract


@pytest.mark.slow
def test_the_default_models_pick_by_the_labels(problem):
    """With labels on two values BDR, whose errors are normal, has almost no weight."""
    bags, y = problem
    normal, two_valued = (quiet_fit(Stacked(), bags, labels) for labels in (y, np.sign(y - 3)))
    kinds = [type(model).__name__ for model in normal.models_]
    assert kinds == ["BDR", "InverseBDR", "InverseBDR"]
    assert normal.models_[2].kernel == "additive" and normal.covariates == []
    assert normal.weights_[0] > two_valued.weights_[0] and two_valued.weights_[0] < 0.1
    assert clone(normal).models is None
    classes = quiet_fit(StackedClassifier(), bags, y > 3)
    assert classes.predict_proba(bags).shape == (60, 2) and len(classes.weights_) == 3


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (Stacked([BLR()]), ValueError, "Stacked needs a list of at least two models"),
        (Stacked(BLR()), ValueError, "Stacked needs a list of at least two models"),
        (
            Stacked([BLR(), RBFNetwork()]),
            TypeError,
            "Stacked cannot stack RBFNetwork: .*regressors",
        ),
        (Stacked(["BDR", "BLR"]), TypeError, "cannot stack BDR: .*, such as BDR\\(\\)$"),
        (Stacked([BLR(), BLRClassifier()]), TypeError, "cannot stack BLRClassifier"),
        (StackedClassifier([BLR(), BLR()]), TypeError, "cannot stack BLR: .*classifiers"),
        (
            Stacked([BLR(), Shrinkage()]),
            ValueError,
            r"Shrinkage\(method='optimize'\) has no posterior",
        ),
        (Stacked([BLR(), BDR(embedding_prior="x")]), ValueError, "embedding_prior must be"),
    ],
    ids=str,
)
def test_models_that_cannot_be_stacked(model, error, message, problem):
    with pytest.raises(error, match=message):
        model.fit(*problem)
    assert not hasattr(model, "models_")


def test_wrong_labels(problem):
    with pytest.raises(ValueError, match="59 labels, but there are 60 bags"):
        Stacked([BLR(), BDR()]).fit(problem[0], problem[1][1:])


def stacked_by_laplace(problem, family, y, **label_data):
    models = [BLR(n, kernel="rbf", family=family, method="laplace") for n in (4, 6)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # Pareto k-hat of Laplace
        return Stacked(models).fit(problem[0], y, **label_data, **SHORT)


def test_trials_of_new_bags_are_given_as_to_the_models(problem, rng):
    bags, y = problem
    trials = rng.integers(5, 60, len(y))
    votes = rng.binomial(trials, expit(y - 3))
    stacked = stacked_by_laplace(problem, "binomial", votes, trials=trials)
    mixture = stacked.predictive(bags[:9], trials=trials[:9])
    parts = [model.predictive(bags[:9], trials=trials[:9]).mean for model in stacked.models_]
    np.testing.assert_allclose(mixture.mean, stacked.weights_ @ parts)
    mean, sd = stacked.predict(bags[:9], return_std=True, trials=trials[:9])
    np.testing.assert_array_equal([mean, sd], [mixture.mean, mixture.sd])
    of_all = stacked.predict(bags, trials=trials)
    assert stacked.score(bags, votes, trials=trials) == pytest.approx(r2_score(votes, of_all))
    with pytest.raises(ValueError, match="needs trials of these bags"):
        stacked.predict(bags)


def test_censored_times_are_scored_by_their_concordance(problem, rng):
    bags, y = problem
    times = np.exp(y - 3) * rng.weibull(3, len(y))
    event = rng.uniform(size=len(y)) < 0.7
    stacked = stacked_by_laplace(problem, "weibull", times, event=event)
    expected = concordance(times, event, -stacked.predict(bags))
    assert stacked.score(bags, times, event=event) == pytest.approx(expected)
    with pytest.raises(TypeError, match="the score of censored times needs event="):
        stacked.score(bags, times)
    known = [model.predictive(bags, event=event).log_prob(times) for model in stacked.models_]
    density = stacked.predictive(bags, event=event).log_prob(times)
    np.testing.assert_allclose(density, np.log(stacked.weights_ @ np.exp(known)))
