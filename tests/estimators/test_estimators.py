"""The estimators as a user meets them: one battery for all, then what each has of its own.

Runs under either ArviZ major version.
"""

import warnings
from pathlib import Path

import arviz as az
import numpy as np
import pytest
from builders.reference import elpd
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import bdr_stan
from bdr_stan import BDR, BLR, RBF, Bags, RBFNetwork, Shrinkage
from bdr_stan.cmdstan.programs import eject
from experiments.papers import FreqShrinkage

STAN = Path(__file__).parents[1] / "stan"
SHORT = {"chains": 2, "warmup": 150, "draws": 100, "seed": 1}


BAYESIAN = [
    BLR(5, method="exact"),
    BLR(5),
    Shrinkage(5),
    BDR(5, method="laplace"),
    BDR(5, kernel="rbf", method="laplace"),
    BDR(5),
]
RIDGE = [RBFNetwork(5), FreqShrinkage(5)]


def name_of(model):
    return f"{type(model).__name__}-{getattr(model, 'method', model.kernel)}"


# For tests of what the ridge estimators do not have: a predictive distribution, priors, draws.
bayesian = pytest.mark.parametrize("fitted", BAYESIAN, indirect=True, ids=name_of)


def short_fit(model, bags, y, **options):
    if not hasattr(model, "method"):  # no chains
        return model.fit(bags, y, seed=SHORT["seed"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # short chains mix badly, and say so
        return model.fit(bags, y, **{**SHORT, **options})


@pytest.fixture(scope="module")
def problem():
    """Bags of a location family; the label is the bag's location, sizes from 1 to 40."""
    rng = np.random.default_rng(5)
    sizes = rng.permutation(np.r_[np.ones(6, int), rng.integers(2, 41, 44)])
    centres = rng.normal(size=50)
    bags = [c + rng.normal(size=(m, 2)) for c, m in zip(centres, sizes, strict=True)]
    return bags, 3 + centres


@pytest.fixture(scope="module", params=BAYESIAN + RIDGE, ids=name_of)
def fitted(request, problem):
    return short_fit(clone(request.param), *problem)


# ------------------------------------------------------------ the battery


@bayesian
def test_prediction_shapes_and_agreement(fitted, problem):
    bags, y = problem
    mean, sd = fitted.predict(bags, return_std=True)
    predictive = fitted.predictive(bags)
    np.testing.assert_array_equal(mean, fitted.predict(bags))
    np.testing.assert_array_equal(mean, predictive.mean)
    np.testing.assert_array_equal(sd, predictive.sd)
    lower, upper = predictive.interval(0.9)
    assert np.all(lower < upper)
    assert np.mean((lower <= y) & (y <= upper)) >= 0.8
    assert predictive.log_prob(y).shape == mean.shape == (50,)
    assert predictive.sample(7, seed=0).shape == (7, 50)
    assert fitted.score(bags, y) > 0.5


@bayesian
def test_idata_groups_and_names(fitted, problem):
    idata = fitted.idata
    for group in ("posterior", "observed_data", "constant_data", "posterior_predictive"):
        assert group in idata
    posterior = idata["posterior"]
    assert posterior["w"].dims == ("chain", "draw", "component")
    assert posterior["beta"].dims == ("chain", "draw", "landmark")
    assert "t" not in posterior
    one_draw = posterior["intercept"].size == 1
    assert ("log_likelihood" in idata) != one_draw  # one draw says nothing of models' differences
    if not one_draw:
        assert idata["log_likelihood"]["y"].dims == ("chain", "draw", "bag")
    np.testing.assert_array_equal(idata["observed_data"]["y"], problem[1])
    w, basis = posterior["w"].values, idata["constant_data"]["basis"].values
    np.testing.assert_allclose(posterior["beta"].values, w @ basis.T, rtol=1e-10)


@bayesian
def test_arviz_runs_on_every_sample(fitted):
    import matplotlib

    matplotlib.use("Agg")
    idata = fitted.idata
    scalars = [name for name in ("intercept", "sigma", "eta") if name in idata["posterior"]]
    if fitted.method == "optimize":
        assert idata["posterior"].sizes["draw"] == 1
        return
    assert len(az.summary(idata, var_names=scalars)) == len(scalars)
    az.rhat(idata, var_names=scalars)
    az.ess(idata, var_names=scalars)
    az.plot_trace(idata, var_names=["intercept"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pareto k on few draws
        assert np.isfinite(elpd(idata))
    plot_ppc = getattr(az, "plot_ppc", None) or az.plot_ppc_dist
    plot_ppc(idata)
    matplotlib.pyplot.close("all")


@bayesian
def test_summary_has_convergence_for_nuts_alone(fitted):
    table = fitted.summary(["intercept", "sigma"])
    assert list(table.index) == ["intercept", "sigma"]
    assert ("r_hat" in table) == (fitted.method == "nuts")
    assert fitted.diagnostics()["method"] == fitted.method
    assert ("max_r_hat" in fitted.diagnostics()) == (fitted.method == "nuts")


@bayesian
def test_report_tells_what_was_measured(fitted):
    words = {
        "nuts": "divergences",
        "laplace": "Pareto k-hat",
        "optimize": "posterior mode",
        "exact": "exact posterior",
    }
    assert words[fitted.method] in fitted.report()


def test_notebooks_show_scikit_learns_page_and_after_a_fit_what_it_measured(fitted):
    shown = fitted._repr_mimebundle_()["text/html"]
    assert "sk-container-id" in shown and type(fitted).__name__ in shown
    measured = hasattr(fitted, "report")
    assert ("Fitted to 50 bags. " in shown) == measured
    if measured:
        assert "RBF, length" in shown.rpartition("<pre>")[2]
    assert "Fitted to" not in clone(fitted)._repr_html_()


# ------------------------------------------------------------ fitting


@pytest.mark.parametrize(
    "options",
    [
        {"embedding_prior": "kernel"},
        {"embedding_prior": RBF(3.0)},
        {"prior_mean": "zero"},
        {"prior_mean": [[0.0, 0.0], [1.0, 1.0]]},
        {"bandwidth": [1.5, 0.8]},
        {"landmarks": "random"},
        {"compress": False},
    ],
    ids=str,
)
def test_options_of_bdr_fit_and_predict(options, problem):
    bags, y = problem
    model = Shrinkage(5, **options).fit(bags, y, seed=1)
    assert model.score(bags, y) > 0.4


def test_uncompressed_rows_give_the_same_fit(problem):
    bags, y = problem
    whole, compressed = (
        Shrinkage(4, compress=c).fit(bags, y, seed=1).predictive(bags) for c in (False, True)
    )
    np.testing.assert_allclose(whole.mean, compressed.mean, rtol=1e-3)
    np.testing.assert_allclose(whole.sd, compressed.sd, rtol=1e-3)


def test_more_points_narrow_the_prediction(problem):
    bags, y = problem
    model = Shrinkage(5).fit(bags, y, seed=1)
    bag = bags[int(np.argmax([len(b) for b in bags]))]
    _, sd = model.predict([bag[:2], bag[:10], bag, np.tile(bag, (50, 1))], return_std=True)
    assert np.all(np.diff(sd) < 0)


def test_weighted_points_count_by_weight(problem):
    bags, y = problem
    doubled = [np.vstack([bag, bag]) for bag in bags]
    ones = Bags.from_list(doubled, weights=[np.ones(len(b)) for b in doubled])
    model = BLR(landmarks=np.concatenate(bags)[:5], bandwidth=1.0, method="exact").fit(bags, y)
    np.testing.assert_allclose(model.predict(ones), model.predict(bags), rtol=1e-10)


def test_priors_are_shown_and_replaced(problem):
    bags, y = problem
    model = Shrinkage(4, prior={"sigma_scale": 0.25}).fit(bags, y, seed=1)
    assert "half-normal(0, 0.25)" in model.priors().to_string()
    assert list(model.priors().index) == ["intercept", "sigma", "rho", "eta"]
    numbers = model.priors(as_table=False)
    assert numbers["sigma_scale"] == 0.25
    np.testing.assert_allclose(numbers["intercept_location"], y.mean())
    scaled = Shrinkage(4).fit(bags, 100 * y, seed=1).priors(as_table=False)
    plain = Shrinkage(4).fit(bags, y, seed=1).priors(as_table=False)
    for name in ("intercept_location", "intercept_scale", "sigma_scale", "rho_median"):
        np.testing.assert_allclose(scaled[name], 100 * plain[name])
    assert scaled["eta_median"] == plain["eta_median"]


def test_labels_in_other_units_give_the_same_predictions(problem):
    bags, y = problem
    model = BLR(5, method="exact")
    plain = clone(model).fit(bags, y, seed=1).predict(bags)
    scaled = clone(model).fit(bags, 1e4 * y - 7e5, seed=1).predict(bags)
    np.testing.assert_allclose((scaled + 7e5) / 1e4, plain, rtol=1e-4)


def test_trouble_of_the_sampler_is_told_with_advice(problem):
    with pytest.warns(UserWarning, match="2 chains of 30 draws are too few .* Use at least draws"):
        BDR(5).fit(*problem, chains=2, warmup=100, draws=30, seed=1)


# ------------------------------------------------------------ a user's program


def test_a_fit_by_a_program_of_ones_own_says_what_it_does_not_know(problem, tmp_path):
    bags, y = problem
    eject("blr", tmp_path)
    own = BLR(4, stan_file=tmp_path / "blr.stan", engine="stanli", method="optimize")
    own.fit(bags, y, seed=1)
    assert own.priors().index.tolist() == ["all parameters"]
    assert own.priors()["prior"].tolist() == [f"see {tmp_path / 'blr.stan'}"]
    assert own.priors(as_table=False) == BLR(4, method="exact").fit(bags, y, seed=1).priors(False)
    own.report_html(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "has priors of its own" in page and "half-normal" not in page


# On stanli, which compiles nothing.
def test_a_program_that_fails_says_why_and_leaves_no_fit(problem):
    model = BLR(4, method="exact").fit(*problem)
    own = STAN / "pointwise.stan"
    model.set_params(method="nuts", stan_file=own, compress=False, engine="stanli")
    with pytest.raises(
        RuntimeError, match="nuts of .*pointwise.stan failed: .*50 bags, I want fewer"
    ) as why:
        short_fit(model, *problem)
    assert "cmd" not in str(why.value)
    with pytest.raises(NotFittedError):
        model.predict(problem[0])


def test_program_without_the_needed_names(problem):
    model = BLR(4, compress=False, stan_file=STAN / "numbers.stan", engine="stanli")
    with pytest.raises(ValueError, match="has no variable .*need w, intercept, sigma, so keep"):
        short_fit(model, *problem)


# ------------------------------------------------------------ errors


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (BLR(method="mcmc"), "BLR has no method 'mcmc'; there are: nuts, exact"),
        (BDR(method="exact"), "BDR has no method 'exact'"),
        (BDR(kernel="matern"), "kernel must be a Kernel, 'auto' or one of 'rbf', .*found 'matern'"),
        (BDR(bandwidth="scott"), "bandwidth must be 'scaled', 'ard', 'median', a positive number"),
        (BDR(bandwidth=-1.0), "bandwidth must be a positive number, found -1.0"),
        (BDR(bandwidth_scale=0), "bandwidth_scale must be a positive number, found 0"),
        (
            BDR(embedding_prior="r"),
            "embedding_prior must be 'empirical', 'kernel' or a kernel, found 'r'",
        ),
        (BLR(method="exact", stan_file="x.stan"), "runs no Stan program: leave stan_file out"),
        (Shrinkage(4, prior={"sigma": 1}), "prior has no number called 'sigma'; this model has"),
        (
            Shrinkage(4, prior={"sigma_scale": 0}),
            r"prior\['sigma_scale'\] must be positive, found 0",
        ),
        (
            Shrinkage(4, prior={"eta_median": np.nan}),
            r"prior\['eta_median'\] must be a finite number",
        ),
    ],
    ids=str,
)
def test_wrong_parameters(model, message, problem):
    with pytest.raises(ValueError, match=message):
        model.fit(*problem)


@pytest.mark.parametrize("name", ["chains", "warmup", "draws"])
def test_wrong_counts(name, problem):
    with pytest.raises(ValueError, match=f"{name} must be an integer >= [01], found -1"):
        BDR().fit(*problem, **{name: -1})


def test_wrong_labels_and_bags(problem):
    bags, y = problem
    with pytest.raises(ValueError, match="49 labels, but there are 50 bags"):
        BDR().fit(bags, y[1:])
    with pytest.raises(ValueError, match="labels equal 1"):
        BDR().fit(bags, np.ones(50))
    with pytest.raises(ValueError, match="all bags have one point.*use BLR"):
        BDR(5).fit([bag[:1] for bag in bags], y)


def test_wrong_labels_of_a_score(problem):
    bags, y = problem
    model = BLR(4, method="exact").fit(bags, y)
    for value, error in (("<5", TypeError), (np.nan, ValueError)):
        with pytest.raises(error, match=f"the label of bag 2 is '?{value}"):
            model.score(bags, [*y[:2], value, *y[3:]])


def test_bags_of_other_points(problem):
    bags, y = problem
    model = BLR(4, method="exact").fit(bags, y)
    with pytest.raises(ValueError, match="3 features per point, but the model was fitted to 2"):
        model.predict([np.zeros((4, 3))])


def test_wrong_files(problem, tmp_path):
    bags, y = problem
    BLR(4, method="exact").fit(bags, y).save(tmp_path / "blr.nc")
    with pytest.raises(ValueError, match="holds a fit of BLR, not of BDR: use BLR.load"):
        BDR.load(tmp_path / "blr.nc")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        bdr_stan.load(tmp_path / "none.nc")
    model = BLR(4, method="exact").fit(bags, y)
    model.get_params = lambda deep: {"n_trees": 4}  # as another version might have
    model.save(tmp_path / "later.nc")
    with pytest.raises(
        ValueError, match="a fit of BLR by bdr_stan .* cannot read: .* use that version"
    ):
        bdr_stan.load(tmp_path / "later.nc")


def test_stan_says_why_it_failed(problem):
    with pytest.raises((RuntimeError, ValueError), match="adapt_delta|delta"):
        BDR(4).fit(*problem, adapt_delta=1.5)
