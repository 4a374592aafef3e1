"""Fits of an edited Stan program: their data, and predictions that are the program's own."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from builders.programs import edited
from builders.reference import elpd

from bdr_stan import BDR, BLR, Bags, BDRClassifier, BLRClassifier, InverseBDR, Shrinkage, load
from bdr_stan.cmdstan.programs import eject, program_path
from bdr_stan.labels import Labels
from bdr_stan.models.plain import DATA, plain_model
from bdr_stan.posterior.declarations import declared, unread_parameters
from bdr_stan.posterior.stanli import load as load_program

N, N_TRAINING = 90, 60
QUICK = {"chains": 2, "draws": 500, "warmup": 300, "seed": 1, "progress": False}
FEW = {"draws": 250}
# Of means of 1,000 draws, or 500 of programs that take long, of which 150 or more are effective and
# whose sd is at most half that of a label, in sds of a label: 5 standard errors and more.
MONTE_CARLO = 0.3


def make_bags():
    rng = np.random.default_rng(0)
    centre = rng.normal(size=N)
    arrays = [rng.normal(c, 1, (m, 2)) for c, m in zip(centre, rng.integers(5, 40, N), strict=True)]
    ids = [f"county {k:02d}" for k in range(N)]
    columns = {
        "urban": rng.integers(0, 2, N),
        "trials": rng.integers(20, 60, N),
        "state": rng.choice(["north", "south"], N),
        "people": np.exp(rng.normal(10, 1, N)).round(),
    }
    return Bags.from_list(arrays, ids=ids, metadata=pd.DataFrame(columns, index=ids)), centre


BAGS, CENTRE = make_bags()
TRAINING, NEW = BAGS[:N_TRAINING], BAGS[N_TRAINING:]
RNG = np.random.default_rng(1)
P = 1 / (1 + np.exp(-CENTRE))
LABELS = {
    "normal": 5e4 + 1e3 * (CENTRE + RNG.normal(0, 0.3, N)),
    "lognormal": np.exp(CENTRE + RNG.normal(0, 0.3, N)),
    "poisson": RNG.poisson(5 * np.exp(0.5 * CENTRE)).astype(float),
    "binomial": RNG.binomial(BAGS.metadata["trials"], P).astype(float),
    "ordinal": np.digitize(CENTRE, [-1, 0, 1]),
    "classes": np.where(CENTRE + RNG.normal(0, 0.5, N) > 0, "well", "sick"),
}


def fitted(cls=BDR, label="normal", *, bags=TRAINING, options=None, **parameters):
    model = cls(**{"n_landmarks": 6, "kernel": "rbf", "engine": "stanli", **parameters})
    return model.fit(bags, LABELS[label][: len(bags)], **{**QUICK, **(options or {})})


NOISE_BY_COLUMN = [
    ("  vector[D] lambda; ", "  vector[N] urban;  vector[N_new] urban_new;\n  vector[D] lambda; "),
    ("real<lower=0> sigma, rho, eta;", "real<lower=0> sigma, rho, eta;\n  real log_ratio;"),
    ("  rho ~", "  log_ratio ~ std_normal();\n  rho ~"),
    ("sqrt(sigma ^ 2 + label_sd ^ 2", "sqrt(sigma ^ 2 * exp(2 * log_ratio * urban) + label_sd ^ 2"),
    (
        "sqrt(sigma ^ 2 + label_sd_new ^ 2",
        "sqrt(sigma ^ 2 * exp(2 * log_ratio * urban_new) + label_sd_new ^ 2",
    ),
]


@pytest.fixture(scope="module")
def own():
    return fitted(stan_file=program_path("bdr", fast=False))


@pytest.fixture(scope="module")
def by_column(tmp_path_factory):
    program = edited(tmp_path_factory.mktemp("own"), *NOISE_BY_COLUMN)
    return fitted(stan_file=program, options={"stan_data": {"urban": "urban"}})


# ---------------------------------------------------------------- unedited programs


@pytest.mark.parametrize(
    "cls, program, label, options, parameters",
    [
        (BDR, "bdr", "normal", {}, {"covariates": ["urban"]}),
        (BDR, "bdr", "lognormal", {}, {"family": "lognormal"}),
        (BDR, "bdr_poisson", "poisson", FEW, {"family": "poisson"}),
        (
            BDR,
            "bdr_binomial",
            "binomial",
            {"trials": "trials", **FEW},
            {"family": "binomial", "n_landmarks": 3},
        ),
        (BLR, "bdr_ordinal", "ordinal", FEW, {"family": "ordinal", "n_landmarks": 3}),
        (BLR, "blr", "normal", {}, {"groups": ["state"]}),
        (BLR, "bdr_poisson", "poisson", FEW, {"family": "poisson"}),
        (BDRClassifier, "bdr_probit", "classes", {}, {}),
        (BLRClassifier, "blr_logit", "classes", {}, {}),
    ],
)
def test_an_unedited_program_predicts_as_the_stock_one(cls, program, label, options, parameters):
    new, y = NEW[:8], LABELS[label][N_TRAINING : N_TRAINING + 8]
    training = {"bags": TRAINING[:24], "options": options, **parameters}
    stock = fitted(cls, label, **training).predictive(new)
    model = fitted(cls, label, stan_file=program_path(program, fast=False), **training)
    predictive = model.predictive(new)
    spread = np.sqrt(np.mean((stock.mean - stock.mean.mean(axis=0)) ** 2) + np.mean(stock.sd**2))
    assert np.max(np.abs(predictive.mean - stock.mean)) < MONTE_CARLO * spread
    log_density = stock.log_prob(y)
    likely = log_density > log_density.max() - 2.5  # other densities depend on a few draws
    np.testing.assert_allclose(predictive.log_prob(y)[likely], log_density[likely], atol=0.5)
    assert likely.sum() >= 4, log_density
    assert {"posterior_predictive", "log_likelihood"} <= set(model.result_.groups)


def test_optimisation_draws_labels_many_times():
    model = fitted(Shrinkage, stan_file=program_path("bdr", fast=False))
    stock = fitted(Shrinkage).predictive(NEW)
    predictive = model.predictive(NEW)
    assert predictive.n_draws == 1000
    error = stock.sd / np.sqrt(1000)
    assert np.all(np.abs(predictive.mean - stock.mean) < 5 * error + 0.02 * stock.sd)
    np.testing.assert_allclose(predictive.sd, stock.sd, rtol=0.15)


def test_everything_that_predicts_runs_the_program(own, tmp_path):
    predictive = own.predictive(NEW)
    lower, upper = predictive.interval(0.9)
    assert np.all(lower < predictive.mean) and np.all(predictive.mean < upper)
    np.testing.assert_array_equal(own.predict(NEW), predictive.mean)
    table = own.predict_table(NEW, level=0.9)
    np.testing.assert_array_equal(table["lower"], lower)
    assert table.index.tolist() == list(NEW.ids)
    np.testing.assert_array_equal(predictive.sample(seed=1), predictive.components(np.arange(30)))
    below = predictive.cdf(predictive.quantile(0.25))
    np.testing.assert_allclose(below, 0.25, atol=0.01)
    stock = fitted()
    regions, of_stock = own.conformal(NEW[:6], 0.8), stock.conformal(NEW[:6], 0.8)
    width = of_stock.upper - of_stock.lower
    assert np.all(np.abs(regions.lower - of_stock.lower) < 0.5 * width)
    assert abs(elpd(own.idata) - elpd(stock.idata)) < 2
    own.report_html(tmp_path / "report.html", TRAINING)
    assert "user-supplied" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    "call",
    [
        lambda model: model.population(NEW),
        lambda model: model.contrast(NEW, NEW),
        lambda model: model.sensitivity(NEW),
        lambda model: model.predict_terms(NEW),
    ],
)
def test_formulas_of_the_stock_program_are_refused(own, call):
    with pytest.raises(ValueError, match="need not hold for"):
        call(own)


# ---------------------------------------------------------------- edits


def test_predictions_follow_an_edit(tmp_path, own):
    program = edited(tmp_path, ("y_new = normal_rng(mean", "y_new = normal_rng(1e6 + mean"))
    shifted = fitted(stan_file=program).predict(NEW)
    np.testing.assert_allclose(shifted, 1e6 + own.predict(NEW), atol=1e-6 * 1e6 * 0.01)


def test_noise_by_a_column_of_the_metadata(by_column):
    stock = fitted()
    y = LABELS["normal"].copy()
    assert "log_ratio" in by_column.result_.groups["posterior"]
    predictive = by_column.predictive(NEW)
    ratio = np.exp(by_column.result_.draws("log_ratio")).mean()
    urban = NEW.metadata["urban"].to_numpy() == 1
    assert predictive.sd[urban].mean() / predictive.sd[~urban].mean() < max(ratio, 1) * 2
    assert np.corrcoef(predictive.mean, stock.predict(NEW))[0, 1] > 0.99
    assert len(y) == N


def test_own_data_are_matched_by_ids_and_taken_again(by_column):
    data = by_column.result_.settings["program"]["data"]
    np.testing.assert_array_equal(data["urban"], TRAINING.metadata["urban"])
    assert data["urban"].dtype.kind == "i"
    shuffled = TRAINING.metadata["urban"].sample(frac=1, random_state=0)
    again = fitted(stan_file=by_column.stan_file, options={"stan_data": {"urban": shuffled}})
    np.testing.assert_array_equal(again.result_.settings["program"]["data"]["urban"], data["urban"])
    given = NEW.metadata["urban"].sample(frac=1, random_state=1)
    found = again.predictive(NEW, stan_data={"urban": given})
    np.testing.assert_array_equal(found.mean, by_column.predict(NEW))
    with pytest.raises(ValueError, match="the fit got urban as an array"):
        again.predict(NEW)


def test_a_constant_of_ones_own(tmp_path):
    program = edited(
        tmp_path,
        ("  vector[D] lambda; ", "  real shift;\n  vector[D] lambda; "),
        ("y_new = normal_rng(mean", "y_new = normal_rng(shift + mean"),
    )
    first = fitted(stan_file=program, options={"stan_data": {"shift": 0.0}}).predict(NEW)
    second = fitted(stan_file=program, options={"stan_data": {"shift": 1e6}}).predict(NEW)
    np.testing.assert_allclose(second, first + 1e6, rtol=1e-9)


def test_a_saved_fit_predicts_the_same_once_the_program_is_confirmed(by_column, tmp_path):
    path = tmp_path / "fit.nc"
    by_column.save(path)
    model = load(path)
    with pytest.raises(ValueError, match=re.escape(f"which was loaded from {path}")):
        model.predict(NEW)
    other = tmp_path / "other.stan"
    eject("bdr", other)
    with pytest.raises(ValueError, match="is not the Stan program of the fit any more"):
        model.set_params(stan_file=other).predict(NEW)
    other.write_text(model.result_.settings["program"]["code"])
    np.testing.assert_array_equal(model.predict(NEW), by_column.predict(NEW))
    assert "urban" in model.columns_of_bags


@pytest.mark.slow
def test_both_engines_predict_alike(by_column):
    on_cmdstan = BDR(6, kernel="rbf", engine="cmdstan", stan_file=by_column.stan_file)
    on_cmdstan.fit(TRAINING, LABELS["normal"][:N_TRAINING], **QUICK, stan_data={"urban": "urban"})
    ours, theirs = by_column.predictive(NEW), on_cmdstan.predictive(NEW)
    assert np.max(np.abs(ours.mean - theirs.mean) / theirs.sd) < MONTE_CARLO
    np.testing.assert_allclose(
        ours.log_prob(LABELS["normal"][N_TRAINING:]),
        theirs.log_prob(LABELS["normal"][N_TRAINING:]),
        atol=0.3,
    )


def test_a_parameter_that_nothing_reads_is_named(tmp_path):
    program = edited(tmp_path, ("sigma, rho, eta;", "sigma, rho, eta;\n  real idle;"))
    assert unread_parameters(program) == ["idle"]
    with pytest.warns(UserWarning, match="declares the parameter idle"):
        fitted(stan_file=program)


def test_programs_that_predict_nothing(tmp_path):
    without = edited(tmp_path, ("y_new, log_lik", "log_lik"), ("y_new = normal_rng(mean, sd);", ""))
    model = fitted(stan_file=without)
    with pytest.raises(ValueError, match="has no y_new in its generated quantities"):
        model.predict(NEW)
    fast = tmp_path / "fast.stan"
    eject("bdr", fast, fast=True)
    model = Shrinkage(6, kernel="rbf", engine="stanli", stan_file=fast)
    model.fit(TRAINING, LABELS["normal"][:N_TRAINING], **QUICK)
    with pytest.raises(ValueError, match="is a variant of an accelerated program"):
        model.predict(NEW)


def test_a_program_without_log_lik(tmp_path):
    text = program_path("bdr", fast=False).read_text()
    loop = text[
        text.index("    for (i in 1 : N_new)") : text.index("  }\n}\n", text.index("log_lik[i]"))
    ]
    without = edited(tmp_path, ("y_new, log_lik", "y_new"), (loop, ""))
    with pytest.warns(UserWarning, match="has no log_lik"):
        model = fitted(stan_file=without)
    assert "log_likelihood" not in model.result_.groups
    model.predictive(NEW).interval()
    with pytest.raises(ValueError, match="has no log_lik in its generated quantities"):
        model.predictive(NEW).log_prob(LABELS["normal"][N_TRAINING:])


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    "stan_data, says",
    [
        ({"rural": "urban"}, "declares no data 'rural'"),
        ({"z": "urban"}, "is data that every fit passes"),
        (None, "declares the data urban, which are none of every fit"),
        ({"urban": "town"}, "is not a column of the bags' metadata"),
        ({"urban": "state"}, "the column 'state'|not a number"),
        ({"urban": np.ones(5)}, "has 5 values, but there are 60 bags"),
        ({"urban": np.full(N_TRAINING, np.nan)}, "is not a finite number"),
        ([1], "stan_data must be a dict"),
    ],
)
def test_data_that_do_not_fit_the_program(by_column, stan_data, says):
    with pytest.raises((ValueError, TypeError), match=says):
        fitted(stan_file=by_column.stan_file, options={"stan_data": stan_data})


def test_new_bags_without_the_column(by_column):
    arrays = [BAGS[k : k + 1].points for k in range(2)]
    with pytest.raises(ValueError, match="'urban' is not a column"):
        by_column.predict(arrays)


def test_data_without_a_program():
    with pytest.raises(TypeError, match="also pass stan_file"):
        fitted(options={"stan_data": {"urban": "urban"}})


def test_what_a_program_must_declare(tmp_path):
    program = edited(
        tmp_path,
        ("  matrix[N, Q] x;  matrix[N_new, Q] x_new;             // covariates\n", ""),
        (" + x * gamma", ""),
        (" + x_new * gamma", ""),
    )
    with pytest.raises(ValueError, match=r"does not declare x in its data, .* covariates"):
        fitted(stan_file=program, covariates=["urban"])
    with pytest.raises(ValueError, match="does not declare sigma_point_scale"):
        fitted(stan_file=program, label_noise="size")


def test_labels_that_are_not_numbers(tmp_path):
    nothing = "y_new = rep_array(not_a_number(), N_new);"
    program = edited(tmp_path, ("y_new = normal_rng(mean, sd);", nothing))
    with pytest.raises(RuntimeError, match="y_new of my_program.stan is not a number"):
        fitted(stan_file=program)


# ---------------------------------------------------------------- data, priors


def test_data_of_a_program_can_be_had(tmp_path):
    model = BDR(6, kernel="rbf", covariates=["urban"], random_state=1)
    data = model.stan_data(TRAINING, LABELS["normal"][:N_TRAINING])
    assert data["z"].shape == (N_TRAINING, 6) and data["x"].shape == (N_TRAINING, 1)
    assert {name.removesuffix("_new") for name in data} <= set(DATA)
    np.testing.assert_array_equal(data["y_at"], LABELS["normal"][:N_TRAINING])
    np.testing.assert_array_equal(data["z_new"], data["z"])
    path = tmp_path / "my project (copy).json"
    data.write_json(path)
    assert set(json.loads(path.read_text())) == set(data)
    program = load_program(program_path("bdr", fast=False), data)
    value, slope = program.log_prob_grad(np.zeros(program.n_unconstrained))
    assert np.isfinite(value) and np.all(np.isfinite(slope))


def test_data_of_ordered_categories_before_a_fit():
    model = BDR(6, kernel="rbf", family="ordinal", random_state=1)
    data = model.stan_data(TRAINING, LABELS["ordinal"][:N_TRAINING])
    assert data["K"] == 4 and data["gap_scale"].shape == (2,)
    assert set(data["y"]) == {1, 2, 3, 4}
    assert "classes_" not in vars(model)


def test_names_of_data_are_reserved():
    model = BDR(3, kernel="rbf", random_state=1)
    training = model.training_features(TRAINING)
    labels = Labels(LABELS["normal"][:N_TRAINING])
    plain = plain_model(model._model(training, labels), training.embedding, labels)
    assert {name.removesuffix("_new") for name in plain.data} <= set(DATA)


def test_declarations_are_read(tmp_path):
    path = tmp_path / "p.stan"
    path.write_text(
        "/* data { int no; } */\ndata { int<lower=0, upper=max({3, 4})> N; // int M;\n"
        "  array[N] vector<offset=1>[2] a, b; }\nparameters { real<lower=0> s; matrix[2, 2] m; }\n"
        "generated  quantities { real y_new = s; { real local = 1; } }\n"
    )
    assert declared(path, "data") == ["N", "a", "b"]
    assert declared(path, "parameters") == ["s", "m"]
    assert declared(path, "generated quantities") == ["y_new"]
    assert declared(path, "model") == []
    assert unread_parameters(path) == ["m"]


def test_draws_of_the_prior_have_its_moments():
    y = LABELS["normal"][:N_TRAINING]
    prior = {"sigma_scale": 2.0, "rho_median": 0.5, "rho_log_sd": 0.3}
    model = BDR(6, kernel="rbf", prior=prior, engine="stanli")
    drawn = model.prior_predictive(TRAINING, y, draws=4000, seed=1)["prior"]
    sigma, log_rho = drawn["sigma"].values.ravel(), np.log(drawn["rho"].values.ravel())
    error = 4 / np.sqrt(4000)
    assert abs(np.mean(sigma**2) - 4) < 4 * np.sqrt(2) * error
    assert abs(log_rho.mean() - np.log(0.5)) < 0.3 * error
    assert abs(np.std(log_rho) - 0.3) < 0.3 * error


def test_a_fit_has_the_groups_of_the_prior():
    with pytest.raises(ValueError, match="give y, or fit the model first"):
        BDR(6).prior_predictive(TRAINING)
    stock = fitted(groups=["state"], covariates=["urban"])
    found = stock.prior_predictive(NEW, draws=100, seed=1)
    assert found["prior_predictive"]["y"].shape == (1, 100, len(NEW))
    posterior, prior = stock.result_.groups["posterior"], stock.result_.groups["prior"]
    assert {n: v.shape[2:] for n, v in prior.items()} == {
        n: v.shape[2:] for n, v in posterior.items()
    }
    assert "prior" in set(stock.idata.groups() if callable(stock.idata.groups) else stock.idata)


def test_the_prior_of_an_edited_program_is_left_to_the_user(own):
    with pytest.raises(ValueError, match="a formula of the stock program, which need not hold"):
        own.prior_predictive(NEW)


def test_inverse_models_have_no_prior_predictive():
    assert not hasattr(InverseBDR(), "prior_predictive")


def test_a_parameter_of_another_size_starts_anywhere(tmp_path):
    program = edited(
        tmp_path,
        ("real<lower=0> sigma, rho, eta;", "real<lower=0> rho, eta;\n  vector<lower=0>[2] sigma;"),
        ("sigma ^ 2 + label_sd ^ 2", "sigma[1] ^ 2 + sigma[2] ^ 2 + label_sd ^ 2"),
        ("sigma ^ 2 + label_sd_new ^ 2", "sigma[1] ^ 2 + sigma[2] ^ 2 + label_sd_new ^ 2"),
    )
    assert fitted(stan_file=program).result_.draws("sigma").shape == (1000, 2)
