"""The classifiers as a user meets them. Runs under either ArviZ major version."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import sklearn
from builders import reference
from scipy.special import expit, ndtr
from sklearn.base import clone
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.multiclass import OneVsRestClassifier

from bdr_stan import Bags, BDRClassifier, BLRClassifier, ShrinkageClassifier
from bdr_stan.embedding.prior import landmark_matrices

SHORT = {"chains": 2, "warmup": 200, "draws": 150, "seed": 1}


def classifiers():
    return [
        BLRClassifier(5),
        BLRClassifier(5, method="laplace"),
        BLRClassifier(5, method="optimize"),
        ShrinkageClassifier(5),
        BDRClassifier(5),
        BDRClassifier(5, method="laplace"),
    ]


def short_fit(model, bags, y, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # short chains mix badly, and say so
        return model.fit(bags, y, **{**SHORT, **options})


def location_bags(rng, n):
    """Bags of a location family, sizes from 1 to 40; their locations."""
    sizes = rng.permutation(np.r_[np.ones(n // 5, int), rng.integers(2, 41, n - n // 5)])
    centres = rng.normal(size=n)
    return [c + rng.normal(size=(m, 2)) for c, m in zip(centres, sizes, strict=True)], centres


@pytest.fixture(scope="module")
def problem():
    """Bags whose class is that of their noisy location."""
    rng = np.random.default_rng(5)
    bags, centres = location_bags(rng, 80)
    return bags, np.where(centres + rng.normal(0, 0.5, 80) > 0.3, "up", "down")


@pytest.fixture(
    scope="module", params=classifiers(), ids=lambda m: f"{type(m).__name__}-{m.method}"
)
def fitted(request, problem):
    return short_fit(clone(request.param), *problem)


# ------------------------------------------------------------ the battery


def test_predictions_agree(fitted, problem):
    bags, y = problem
    p, predictive = fitted.predict_proba(bags), fitted.predictive(bags)
    assert p.shape == (80, 2) and np.all(p > 0)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    np.testing.assert_array_equal(p[:, 1], predictive.mean)
    np.testing.assert_array_equal(fitted.classes_, ["down", "up"])
    np.testing.assert_array_equal(fitted.predict(bags), fitted.classes_[p.argmax(axis=1)])
    np.testing.assert_allclose(-predictive.log_prob(y).mean(), log_loss(y, p), rtol=1e-10)
    assert fitted.score(bags, y) > 0.75
    assert set(predictive.sample(4, seed=0).ravel()) == {"down", "up"}


def test_idata_groups_and_names(fitted, problem):
    bags, y = problem
    idata, posterior = fitted.idata, fitted.idata["posterior"]
    assert "sigma" not in posterior and "t" not in posterior
    assert ("eta" in posterior) != isinstance(fitted, BLRClassifier)
    assert posterior["beta"].dims == ("chain", "draw", "landmark")
    np.testing.assert_array_equal(idata["observed_data"]["y"], y == "up")
    one_draw = posterior["intercept"].size == 1
    assert ("log_likelihood" in idata) != one_draw
    if not one_draw:
        log_likelihood = idata["log_likelihood"]["y"].values.reshape(-1, 80)
        np.testing.assert_allclose(log_likelihood, fitted.predictive(bags).log_likelihood(y))
    assert set(np.unique(idata["posterior_predictive"]["y"])) == {0, 1}


def test_convergence_is_reported_for_nuts_alone(fitted):
    table = fitted.summary(["intercept", "rho"])
    assert list(table.index) == ["intercept", "rho"]
    assert ("r_hat" in table) == (fitted.method == "nuts")


# ------------------------------------------------------------ labels


@pytest.mark.parametrize(
    "labels",
    [["no", "yes"], [False, True], [0, 1], [1, 2], [-1.0, 1.0], np.array(["a", "b"], object)],
    ids=str,
)
def test_any_two_labels(labels, problem, tmp_path):
    bags, y = problem
    y = np.array(labels)[(y == "up").astype(int)]
    model = ShrinkageClassifier(4).fit(bags, y, seed=1)
    model.save(tmp_path / "fit.nc")
    for of in (model, ShrinkageClassifier.load(tmp_path / "fit.nc")):
        assert list(of.classes_) == list(labels)
        assert of.classes_.dtype.kind == np.array(list(labels)).dtype.kind
        assert set(of.predict(bags)) == set(labels)
        assert of.score(bags, y) > 0.75


def test_a_list_of_labels(problem):
    bags, y = problem
    model = ShrinkageClassifier(4)
    straight = model.fit(bags, y, seed=1).predict_proba(bags)
    np.testing.assert_array_equal(model.fit(bags, y.tolist(), seed=1).predict_proba(bags), straight)


@pytest.mark.parametrize("model", [BLRClassifier(4, method="optimize"), ShrinkageClassifier(4)])
def test_which_class_comes_second_does_not_matter(model, problem):
    bags, y = problem
    p = model.fit(bags, y, seed=1).predict_proba(bags)
    q = model.fit(bags, np.where(y == "up", "a", "b"), seed=1).predict_proba(bags)
    np.testing.assert_allclose(p, q[:, ::-1], atol=2e-3)  # as far as the optimiser goes


@pytest.mark.parametrize(
    "wrong, kind, message",
    [
        (
            lambda y: np.full(80, "up"),
            ValueError,
            r"y has 1 class \('up'\), but a classifier needs two",
        ),
        (lambda y: np.append(y[:-1], "flat"), ValueError,
         r"y has 3 classes \('down', 'flat', 'up'\).*sklearn.multiclass.OneVsRestClassifier"),
        (lambda y: y[1:], ValueError, "y has 79 labels, but there are 80 bags"),
        (lambda y: [None, *y[1:]], ValueError, "the label of bag 0 is missing"),
        (lambda y: y.astype("S"), TypeError,
         "labels y must all be numbers, all strings or all true or false"),
    ],
    ids=["one class", "three classes", "too few", "missing", "bytes"],
)  # fmt: skip
def test_labels_of_no_use(wrong, kind, message, problem):
    bags, y = problem
    for model in (BLRClassifier(4), BDRClassifier(4)):
        with pytest.raises(kind, match=message):
            model.fit(bags, wrong(y))


def test_strange_labels_cannot_be_scored(problem):
    predictive = ShrinkageClassifier(4).fit(*problem, seed=1).predictive(problem[0])
    with pytest.raises(ValueError, match="label of bag 0 is .*left.*, but the classes are .*down"):
        predictive.log_prob(np.full(80, "left"))


# ------------------------------------------------------------ scikit-learn


@pytest.mark.parametrize("as_class", [list, Bags.from_list], ids=["list", "Bags"])
def test_three_classes_one_against_the_rest(as_class):
    rng = np.random.default_rng(8)
    bags, centres = location_bags(rng, 90)
    y = np.array(["low", "middle", "high"])[np.digitize(centres, [-0.5, 0.5])]
    model = OneVsRestClassifier(ShrinkageClassifier(6, random_state=1)).fit(as_class(bags), y)
    p = model.predict_proba(as_class(bags))
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert list(model.classes_) == ["high", "low", "middle"]
    assert model.score(as_class(bags), y) > 0.75


def test_options_of_the_fit_pass_through_one_against_the_rest():
    rng = np.random.default_rng(8)
    bags, centres = location_bags(rng, 60)
    y = np.digitize(centres, [-0.5, 0.5])
    with sklearn.config_context(enable_metadata_routing=True):
        each = ShrinkageClassifier(4).set_fit_request(seed=True)
        model = OneVsRestClassifier(each).fit(bags, y, seed=7)
    alone = ShrinkageClassifier(4).fit(bags, (y == 2).astype(int), seed=7)
    np.testing.assert_array_equal(
        model.estimators_[2].predict_proba(bags), alone.predict_proba(bags)
    )


def test_searches_and_folds(problem):
    bags, y = problem
    model = BLRClassifier(4, method="optimize", random_state=1)
    grid = {"n_landmarks": [3, 5]}
    search = GridSearchCV(model, grid, cv=2, scoring="neg_log_loss").fit(Bags.from_list(bags), y)
    assert -0.6 < search.best_score_ < 0
    p = cross_val_predict(model, bags, y, cv=3, method="predict_proba")
    assert p.shape == (80, 2) and log_loss(y, p) < 0.6


# ------------------------------------------------------------ what the probabilities mean


def test_probabilities_are_averages_over_embeddings_and_draws(problem):
    """Of BDR: true embeddings drawn in landmark coordinates, then Phi of the latent function."""
    bags, y = problem
    model = short_fit(BDRClassifier(5, kernel="rbf"), bags, y)
    test, _ = location_bags(np.random.default_rng(9), 10)
    features = model.training_features(bags, seed=1)
    _, R, Sigma = landmark_matrices(features)
    posterior, m0 = model.idata["posterior"], features.embedding.mean.mean(axis=0)
    eta, intercept = (posterior[name].values.ravel() for name in ("eta", "intercept"))
    beta = posterior["beta"].values.reshape(-1, 5)
    embedding = model.embed(test)
    rng = np.random.default_rng(4)
    expected, error = np.empty((2, 10))
    for i, (mu, size) in enumerate(zip(embedding.mean, embedding.sizes, strict=True)):
        each = np.empty((len(eta), 40))
        for s in range(len(eta)):
            M, C = reference.embedding_posterior(mu, size, m0, Sigma, R, eta[s])
            drawn = rng.multivariate_normal(M, C, 40, method="cholesky")
            each[s] = ndtr(intercept[s] + (drawn - m0) @ beta[s])
        expected[i] = each.mean()
        error[i] = np.sqrt(each.var(axis=1, ddof=1).sum() / 40) / len(eta)
    assert error.max() < 0.01
    assert np.all(np.abs(model.predict_proba(test)[:, 1] - expected) < 4.5 * error)


def test_probabilities_of_blr_are_averages_over_draws(problem):
    bags, y = problem
    model = short_fit(BLRClassifier(5), bags, y)
    posterior = model.idata["posterior"]
    embedding = model.embed(bags)
    away = embedding.mean - embedding.mean.mean(axis=0)  # the training bags' average
    beta, intercept = posterior["beta"].values.reshape(-1, 5), posterior["intercept"].values.ravel()
    expected = expit(intercept[:, None] + beta @ away.T).mean(axis=0)
    np.testing.assert_allclose(model.predict_proba(bags)[:, 1], expected, rtol=1e-8)


def probabilities_at(model, bags, size):
    """Probability of the second class were each bag's embedding that of `size` points."""
    embedding = model.embed(bags)
    return model.predictive_features(replace(embedding, sizes=np.full(len(bags), size))).mean


def test_small_bags_are_nearer_the_base_rate(problem):
    bags, y = problem
    model = ShrinkageClassifier(5).fit(bags, y, seed=1)
    nothing = probabilities_at(model, bags, 1e-9)
    assert np.ptp(nothing) < 1e-6  # no points, no difference between bags
    away = [np.abs(probabilities_at(model, bags, n) - nothing[0]).mean() for n in (0.3, 1, 5, 50)]
    assert np.all(np.diff(away) > 0.01)
    far = probabilities_at(model, bags, 1e9)
    assert np.mean(np.abs(far - 0.5)) > np.mean(np.abs(model.predictive(bags).mean - 0.5))
    blr = BLRClassifier(5, method="optimize").fit(bags, y, seed=1)
    np.testing.assert_array_equal(probabilities_at(blr, bags, 1), probabilities_at(blr, bags, 50))


def test_classes_that_do_not_overlap():
    rng = np.random.default_rng(2)
    bags = [rng.normal(10 * (i % 2), 1, (20, 1)) for i in range(30)]
    y = np.arange(30) % 2
    for model in (BLRClassifier(4), BDRClassifier(4), ShrinkageClassifier(4)):
        predictive = short_fit(model, bags, y).predictive(bags)
        assert model.score(bags, y) == 1
        assert np.all(np.isfinite(predictive.log_likelihood(1 - y)))  # of the wrong classes


def test_one_bag_of_a_class(problem):
    bags, _ = problem
    model = short_fit(BDRClassifier(4), bags, np.arange(80) == 3)
    assert 0.002 < model.predict_proba(bags)[:, 1].mean() < 0.1


def test_priors_are_shown_and_replaced(problem):
    bags, y = problem
    table = BDRClassifier(4, method="optimize").fit(bags, y, seed=1).priors()
    assert list(table.index) == ["intercept", "rho", "eta"] and set(table["unit"]) == {"none"}
    assert table.loc["intercept", "prior"] == "normal(0, 2.5)"
    assert table.loc["rho", "meaning"] == "scale of the latent function"
    model = BLRClassifier(4, method="optimize", prior={"rho_log_sd": 0.5}).fit(bags, y, seed=1)
    assert list(model.priors().index) == ["intercept", "rho"]
    assert model.priors(as_table=False)["rho_log_sd"] == 0.5
    with pytest.raises(
        ValueError, match="prior has no number called 'sigma_scale'; this model has"
    ):
        ShrinkageClassifier(4, prior={"sigma_scale": 1}).fit(bags, y)
    with pytest.raises(ValueError, match="BLRClassifier has no method 'exact'; there are: nuts"):
        BLRClassifier(4, method="exact").fit(bags, y)


@pytest.mark.parametrize(
    "model, spread",
    [(BLRClassifier(4, method="optimize"), 2.5), (ShrinkageClassifier(4, kernel="rbf"), 1.5)],
    ids=["logit", "probit"],
)
def test_prior_of_the_latent_function_has_its_spread(model, spread, problem):
    """Landmark weights drawn from the prior at the median of rho."""
    bags, y = problem
    model = model.fit(bags, y, seed=1)
    rng, at = np.random.default_rng(3), model.coordinates_
    rho = model.priors(as_table=False)["rho_median"]
    w = rho * np.linalg.solve(at.prior_factor, rng.normal(size=(4, 4000)))
    embedding = model.embed(bags)
    latent = (embedding.mean - at.m0) @ at.basis @ w
    assert np.sqrt(np.mean(latent**2)) == pytest.approx(spread, rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(
    "model", [BLRClassifier(8), BDRClassifier(8)], ids=lambda m: type(m).__name__
)
def test_approximations_are_near_nuts(model):
    rng = np.random.default_rng(6)
    bags, centres = location_bags(rng, 200)
    y = centres + rng.normal(0, 0.7, 200) > 0
    nuts = clone(model).fit(bags, y, chains=2, warmup=500, draws=500, seed=1)
    expected = nuts.predict_proba(bags)[:, 1]
    for method in ("laplace", "optimize"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # Pareto k-hat
            other = clone(model).set_params(method=method).fit(bags, y, seed=1)
        gap = np.abs(other.predict_proba(bags)[:, 1] - expected)
        assert gap.mean() < 0.03 and gap.max() < 0.12, (method, gap.mean(), gap.max())
