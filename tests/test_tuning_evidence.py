"""Tuning by evidence: its value from dense matrices, its maximum, and what has none."""

import numpy as np
import pytest
from builders import reference
from builders.kernels import PROFILES, at_distance
from builders.training import dense_problem, empirical, labelled_bags
from scipy import stats

from bdr_stan import BDR, BLR, BDRClassifier, BLRClassifier, InverseBDR, RBFNetwork, Shrinkage, tune
from bdr_stan.cmdstan.programs import program_path

LENGTHS = np.array([0.7, 1.1, 2.5])
ONE = {"n_landmarks": (5,), "bandwidth_scale": (1.0,)}


@pytest.fixture
def problem(rng):
    """Bags, labels, landmarks, and the same from the definition of the kernel."""
    bags, y = labelled_bags(rng, n=40)
    u = rng.normal(size=(5, 3))
    kernel = at_distance(PROFILES["rbf"], LENGTHS)
    return bags, y, u, dense_problem(bags, y, kernel, u, empirical)


def of_prior(priors, scales):
    """Log prior density of the scales' logarithms, without its constant."""
    value = np.log(scales["sigma"]) - 0.5 * (scales["sigma"] / priors["sigma_scale"]) ** 2
    for name in scales.keys() - {"sigma"}:
        z = np.log(scales[name] / priors[f"{name}_median"]) / priors[f"{name}_log_sd"]
        value -= 0.5 * z**2
    return value


def dense_blr_evidence(p, sigma, rho):
    return stats.multivariate_normal.logpdf(p.y, *reference.blr_marginal(p, sigma, rho))


def dense_bdr_evidence(p, sigma, rho, eta):
    """Laplace's approximation at the mode of alpha and intercept, by Fisher's scoring."""
    d, location, spread = len(p.K), p.priors["intercept_location"], p.priors["intercept_scale"]
    precision = np.zeros((d + 1, d + 1))
    precision[:d, :d], precision[d, d] = p.K / rho**2, spread**-2
    centre = np.r_[np.zeros(d), location]
    moments = [
        reference.embedding_posterior(mu, N, p.m0, p.Sigma, p.R, eta)
        for mu, N in zip(p.mu, p.sizes)
    ]
    theta = centre
    for _ in range(300):
        slope, H = -precision @ (theta - centre), precision.copy()
        for (mean, C), y in zip(moments, p.y):
            x, by_variance = np.r_[mean - p.m0, 1.0], np.r_[2 * C @ theta[:d], 0.0]
            nu, e = theta[:d] @ C @ theta[:d] + sigma**2, y - x @ theta
            slope += e / nu * x + 0.5 * (e**2 / nu**2 - 1 / nu) * by_variance
            H += np.outer(x, x) / nu + np.outer(by_variance, by_variance) / (2 * nu**2)
        theta = theta + np.linalg.solve(H, slope)
    assert np.abs(slope).max() < 1e-9
    value = reference.bdr_log_likelihood(p, theta[:d], theta[d], sigma, eta)
    away = theta - centre
    log_dets = np.linalg.slogdet(precision)[1] - np.linalg.slogdet(H)[1]
    return value - 0.5 * away @ precision @ away + 0.5 * log_dets


@pytest.mark.parametrize(
    ("model", "dense", "scales"),
    [
        (BLR(method="exact"), dense_blr_evidence, {"sigma": 0.8, "rho": 1.7}),
        (Shrinkage(kernel="rbf"), dense_bdr_evidence, {"sigma": 0.8, "rho": 1.7, "eta": 0.6}),
    ],
)
def test_evidence_is_that_of_dense_matrices(problem, model, dense, scales):
    bags, y, u, p = problem
    numbers = {
        name: v for name, v in p.priors.items() if name.partition("_")[0] in {"intercept", *scales}
    }
    model.set_params(bandwidth=LENGTHS, landmarks=u, prior=numbers)
    training = model.training_features(bags, seed=0)
    for at in (scales, None):
        found, used = model.log_evidence(training, y, scales=at)
        expected = dense(p, **used) + of_prior(p.priors, used)
        assert found == pytest.approx(expected, rel=1e-8)
    # The table has the evidence at the most probable scales, which is higher.
    assert found > model.log_evidence(training, y, scales=scales)[0]
    table = tune(bags, y, models=[model], score="evidence", **ONE).table
    assert table["evidence"][0] == pytest.approx(found, rel=1e-9)
    assert table[["nll", "mse"]].isna().all(axis=None)


@pytest.mark.parametrize("model", [BLR(), BDR(kernel="rbf"), BDR(kernel="matern32")])
@pytest.mark.parametrize("refine", ["bandwidth", "ard"])
def test_search_ends_where_the_evidence_is_highest(rng, model, refine):
    bags, y = labelled_bags(rng, n=60)
    grid = {"n_landmarks": (8,), "bandwidth_scale": (1.0, 2.0)}
    tuned = tune(bags, y, models=[model], score="evidence", refine=refine, **grid)
    best = tuned.table["evidence"][0]
    assert tuned.table["refined"].tolist() == [True, False, False]
    lengths = tuned.best.bandwidth
    for factor in 1 + 0.1 * np.vstack([np.eye(3), -np.eye(3)]):
        near = factor if refine == "ard" else factor.max() if factor.max() > 1 else factor.min()
        model = tuned.best.set_params(bandwidth=lengths * near)
        found = tune(bags, y, models=[model], score="evidence", **ONE).table["evidence"][0]
        assert found < best + 1e-3


@pytest.mark.slow
def test_lengths_of_columns_without_effect_become_long():
    """The label is a nonlinear function of the first column's mean."""
    rng = np.random.default_rng(2)
    centres = rng.normal(size=(150, 2))
    bags = [rng.normal(centre, 0.3, (40, 2)) for centre in centres]
    y = np.sin(2 * centres[:, 0]) + 0.05 * rng.normal(size=150)
    models = [BLR(bandwidth="median", method="exact"), BDR(bandwidth="median", method="laplace")]
    held_out = bags[100:], y[100:]
    options = {"score": "evidence", "n_landmarks": (15,), "validation": held_out, "method": None}
    tuned = tune(bags[:100], y[:100], models=models, refine="ard", **options)
    for name, model in tuned.best_of.items():
        assert model.bandwidth[1] > 4 * model.bandwidth[0]
        rows = tuned.table[tuned.table["model"] == name].set_index("refined")
        assert rows["evidence"][True] > rows["evidence"][False].max()
        assert rows["nll"][True] < rows["nll"][False].min()


def test_evidence_is_of_all_labels_and_other_scores_of_those_held_out(rng):
    bags, y = labelled_bags(rng)
    model = BLR(method="exact", landmarks=rng.normal(size=(4, 3)), bandwidth=1.0)
    by_evidence = tune(bags, y, models=[model], score="evidence", cv=3, **ONE).table
    by_nll = tune(bags, y, models=[model], cv=3, **ONE).table
    assert by_evidence[["nll", "mse"]].equals(by_nll[["nll", "mse"]])
    training = model.training_features(bags, seed=0)
    assert by_evidence["evidence"][0] == model.log_evidence(training, y)[0]


@pytest.mark.parametrize(
    "model", [BLRClassifier(), BDRClassifier(kernel="rbf"), BDR(family="gamma")]
)
def test_classes_and_families_have_evidence(rng, model):
    bags, y = labelled_bags(rng)
    labels = np.exp(y / 5) if hasattr(model, "family") else np.where(y > np.median(y), "b", "a")
    tuned = tune(bags, labels, models=[model], score="evidence", n_landmarks=(4, 6))
    assert tuned.table["evidence"].is_monotonic_decreasing
    assert np.isfinite(tuned.table["evidence"]).all()


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (RBFNetwork(), "RBFNetwork has no evidence: leave it out"),
        (InverseBDR(), "InverseBDR has no evidence: leave it out"),
        (BLR(stan_file=str(program_path("blr"))), "BLR has no evidence by a program of your own"),
    ],
)
def test_models_without_evidence_are_refused(rng, model, message):
    bags, y = labelled_bags(rng)
    with pytest.raises(ValueError, match=message):
        tune(bags, y, models=[model], score="evidence", **ONE)
