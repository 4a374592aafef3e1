"""Inverse models that run a program of the user's own: an unedited one is the stock model."""

import re

import arviz as az
import numpy as np
import pandas as pd
import pytest
from builders.problems import location_bags

import bdr_stan
from bdr_stan import Bags, InverseBDR, InverseBDRClassifier, Stacked
from bdr_stan.cmdstan.programs import eject, program_path
from bdr_stan.models.bayes_rule import inverse_predictive
from bdr_stan.posterior.declarations import declared
from bdr_stan.posterior.stanli import constrained, load
from bdr_stan.predictive import ClassPredictive, MulticlassPredictive, ProgramPredictive

PLAIN = program_path("inverse", fast=False)
TRAIN, NEW = slice(0, 40), slice(40, 50)
KINDS = {
    "numbers": {},
    "numbers of which many are equal": {},
    "numbers with errors": {"label_noise": "size"},
    "two classes": {},
    "three classes": {},
}
# Short chains, whose diagnostics may be poor.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def is_of_classes(kind):
    return kind.endswith("classes")


def problem_of(kind):
    """Bags of one column, and labels of a kind."""
    bags, centres = location_bags(50, seed=8)
    noise = np.random.default_rng(9).normal(size=50)
    y = 3 + centres + 0.3 * noise
    labels = {
        "numbers with errors": 3 + centres + noise / np.sqrt(bags.sizes),
        "numbers of which many are equal": np.maximum(y, 2.5),
        "two classes": np.where(y > 3, "high", "low"),
        "three classes": np.array(["low", "middle", "top"])[np.digitize(y, [2.5, 3.5])],
    }
    return bags, labels.get(kind, y)


def fit_of(kind, stan_file=PLAIN, **arguments):
    bags, y = problem_of(kind)
    estimator = InverseBDRClassifier if is_of_classes(kind) else InverseBDR
    model = estimator(4, engine="stanli", stan_file=stan_file, **KINDS[kind])
    if kind == "numbers with errors":
        arguments["label_sd"] = np.full(40, 0.1)
    sampling = {"chains": 2, "warmup": 100, "draws": 100, "seed": 1, **arguments}
    return model.fit(bags[TRAIN], y[TRAIN], **sampling)


@pytest.fixture(scope="module", params=KINDS)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def own(kind):
    return fit_of(kind)


@pytest.fixture(scope="module")
def bayes_rule(kind, own):
    """Labels of the new bags at the program's draws, by the formulas of the stock model."""
    return predictive_by_formulas(kind, own)


def predictive_by_formulas(kind, model):
    draws = {name: model.result_.draws(name) for name in ("tau", "curve")}
    classes = model.classes_ if is_of_classes(kind) else None
    new = model.embed(problem_of(kind)[0][NEW])
    return inverse_predictive(model.coordinates_, new, **draws, classes=classes)


def test_log_densities_are_those_of_bayes_rule(kind, own, bayes_rule):
    bags, y = problem_of(kind)
    found = own.predictive(bags[NEW])
    assert kind != "numbers with errors" or own.sigma_point_ > 0
    several = MulticlassPredictive if kind == "three classes" else ClassPredictive
    assert type(found) is (several if is_of_classes(kind) else ProgramPredictive)
    np.testing.assert_allclose(found.log_prob(y[NEW]), bayes_rule.log_prob(y[NEW]), rtol=1e-6)
    np.testing.assert_array_equal(own.predict(bags[NEW]), predictions(own, found))


def predictions(model, found):
    if isinstance(found, ProgramPredictive):
        return found.mean
    return model.classes_[found.probabilities.argmax(axis=1)]


def test_moments_are_those_of_bayes_rule(kind, own, bayes_rule):
    """Of numbers within four standard errors: the program draws a label of each bag and draw."""
    found = own.predictive(problem_of(kind)[0][NEW])
    if is_of_classes(kind):
        np.testing.assert_allclose(found.mean, bayes_rule.mean, rtol=1e-6)
        np.testing.assert_allclose(found.sd, bayes_rule.sd, rtol=1e-6)
        return
    error = bayes_rule.sd / np.sqrt(found.n_draws)
    assert np.all(np.abs(found.mean - bayes_rule.mean) < 4 * error)
    for level in (0.1, 0.5, 0.9):  # a label of the grid has those within half a step of it
        at = found.quantile(level)
        share = [bayes_rule.cdf(at + step) for step in (-0.1, 0.1)]
        error = 4 * np.sqrt(level * (1 - level) / found.n_draws)
        assert np.all((share[0] - error < level) & (level < share[1] + error))


@pytest.mark.parametrize("kind", ["numbers", "three classes"])
def test_a_fit_is_that_of_the_stock_program(kind):
    """Expected labels, or probabilities, under each draw agree on average, within four errors."""
    long = {"warmup": 300, "draws": 300}
    stock, program = (
        predictive_by_formulas(kind, fit_of(kind, path, **long)) for path in (None, PLAIN)
    )
    every = np.arange(len(stock))
    means, errors = [], []
    for each in (stock, program):
        if is_of_classes(kind):
            values = np.exp(each.components(every))
        else:
            values = each.expected(every)
        values = np.reshape(values, (2, 300, -1))
        means.append(values.mean(axis=(0, 1)))
        errors.append([float(az.mcse(values[..., k])) for k in range(values.shape[-1])])
    assert np.all(np.abs(means[0] - means[1]) < 4 * np.hypot(*errors) + 1e-9)


def test_groups_and_report(kind, own):
    groups = own.result_.groups
    assert "log_likelihood" not in groups and "explained" not in groups["posterior"]
    assert groups["posterior_predictive"]["y"].shape == (2, 100, 40)
    assert np.isnan(own.held_out_).all()
    assert "explains" not in own.report() and "Power of the likelihood" in own.report()
    assert len(own.predict_table(problem_of(kind)[0][NEW])) == 10


@pytest.mark.parametrize("kind", ["numbers", "three classes"])
def test_a_saved_fit_predicts_the_same(kind, tmp_path):
    bags, y = problem_of(kind)
    own = fit_of(kind, chains=1, warmup=50, draws=20)
    own.save(tmp_path / "own.nc")
    again = bdr_stan.load(tmp_path / "own.nc")
    with pytest.raises(ValueError, match="check that program"):
        again.predict(bags[NEW])
    again.set_params(stan_file=PLAIN)
    expected, found = own.predictive(bags[NEW]), again.predictive(bags[NEW])
    np.testing.assert_array_equal(found.mean, expected.mean)
    np.testing.assert_array_equal(found.log_prob(y[NEW]), expected.log_prob(y[NEW]))


@pytest.fixture
def edited(tmp_path):
    """Labels of urban bags are 100 higher, which the program alone knows."""
    program = tmp_path / "my_inverse.stan"
    eject("inverse", program)
    text = program.read_text()
    for old, new in {
        "  matrix[N, J] B; ": "  vector[N] urban;  vector[N_new] urban_new;\n  matrix[N, J] B; ",
        "label_sd_new[i] * normal": "100 * urban_new[i] + label_sd_new[i] * normal",
    }.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    program.write_text(text)
    return program


def test_predictions_follow_an_edit_with_own_data(edited):
    bags, y = problem_of("numbers")
    urban = np.arange(50) % 2
    bags = Bags.from_list(list(bags), metadata=pd.DataFrame({"town": urban}))
    model = InverseBDR(3, engine="stanli", stan_file=edited)
    model.fit(
        bags[TRAIN], y[TRAIN], seed=1, chains=1, warmup=50, draws=20, stan_data={"urban": "town"}
    )
    np.testing.assert_array_equal(model.predict(bags[NEW]) > 50, urban[NEW] == 1)
    assert model.columns_of_bags == ["town"]
    with pytest.raises(ValueError, match="data that every fit passes"):
        model.fit(bags[TRAIN], y[TRAIN], stan_data={"label": y[TRAIN]})


def test_what_an_edited_program_cannot_do(own, kind):
    bags, _ = problem_of(kind)
    what = "label_sd" if kind == "numbers with errors" else "densities of held-out labels"
    with pytest.raises(ValueError, match=what):
        own.conformal(bags[NEW])
    with pytest.raises(ValueError, match="need not hold for the program of the fit"):
        own.draws()


def test_stan_data_are_those_of_the_fit_with_the_training_bags_as_new_ones(kind, own):
    bags, y = problem_of(kind)
    errors = {"label_sd": np.full(40, 0.1)} if kind == "numbers with errors" else {}
    model = type(own)(4, random_state=1, **KINDS[kind])
    data = model.stan_data(bags[TRAIN], y[TRAIN], **errors)
    assert set(declared(PLAIN, "data")) == set(data)
    program = own.result_.settings["program"]["data"]
    for name in ("z", "B", "label", "log_prior", "correction", "power"):
        np.testing.assert_allclose(data[name], program[name], rtol=1e-9, atol=1e-12)
    assert data["N_new"] == 40 and data["y_at_given"].shape == (40, data["M"])
    if kind != "numbers with errors":  # where coordinates of the training bags are scaled
        np.testing.assert_array_equal(data["z_new"], data["z"])
    drawn, _ = constrained(load(PLAIN, data), np.zeros((1, 4 * (2 + data["J"]) + 1)))
    assert np.isfinite(drawn["log_lik"]).all()


@pytest.mark.parametrize("method", ["optimize", "laplace"])
def test_plain_programs_are_for_nuts(method):
    bags, y = problem_of("numbers")
    with pytest.raises(ValueError, match="use method='nuts' with .*inverse.stan"):
        InverseBDR(method=method, stan_file=PLAIN).fit(bags, y)


def test_errors_of_labels_need_a_program_that_reads_them(tmp_path):
    program = tmp_path / "mine.stan"
    without = re.sub(
        r"vector\[N_new\] label_sd_new;| \+ label_sd_new\[i\].*(?=;)", "", PLAIN.read_text()
    )
    assert without.count("label_sd_new") == 0
    program.write_text(without)
    bags, y = problem_of("numbers")
    with pytest.raises(ValueError, match="does not declare label_sd_new in its data"):
        InverseBDR(stan_file=program).fit(bags, y, label_sd=np.full(50, 0.1))


def test_a_stack_needs_densities_of_held_out_labels():
    bags, y = problem_of("numbers")
    models = [InverseBDR(), InverseBDR(stan_file=PLAIN)]
    with pytest.raises(ValueError, match="no densities of held-out labels"):
        Stacked(models).fit(bags, y)
