"""From bags and totals to landmarks, a kernel and rows."""

import numpy as np
import pytest
from builders import totals

from bdr_stan.aggregate import training
from bdr_stan.aggregate.likelihoods import LIKELIHOODS
from bdr_stan.aggregate.links import LINKS
from bdr_stan.aggregate.rows import mean_points
from bdr_stan.aggregate.training import training_features
from bdr_stan.bags import Bags
from bdr_stan.kernels import RBF, FieldFeatures, Matern32
from bdr_stan.models.aggregate import aggregate_model
from bdr_stan.posterior.latent_gaussian import most_probable_scales
from bdr_stan.posterior.priors import log_prior_of_scales

EVERY = pytest.mark.parametrize("likelihood, link", totals.MODELS)
TRIALS = np.full(12, 50.0)


# Five landmarks; tests/estimators/test_aggregate_fields.py asserts it.
pytestmark = pytest.mark.filterwarnings("ignore:the features of .* leave out:UserWarning")


@pytest.fixture
def bags(rng):
    sizes = rng.integers(1, 9, 12)
    points = rng.normal(size=(sizes.sum(), 2)) * [1.0, 10.0]
    return Bags.from_points(
        points, sizes=sizes, weights=rng.gamma(2, 1, len(points)), ids=[f"b{i}" for i in range(12)]
    )


def labels(bags, likelihood):
    rate = 1.5 + np.sin(bags.points[:, 0])
    mean = bags.sums(bags.weights * rate)
    if likelihood == "binomial":
        return np.round(TRIALS * mean / bags.totals / 3)
    return np.round(mean) + 1.0


def labelled(bags, likelihood, link, added=0.0):
    trials = TRIALS if LIKELIHOODS[likelihood].has_trials else None
    return totals.labelled(labels(bags, likelihood) + added, likelihood, link, trials)


def features(bags, likelihood, link, *, learn=False, added=0.0, **options):
    given = {"kernel": RBF(1.0), "n_landmarks": 5, "landmarks": "kmeans", "seed": 1}
    of_bags = labelled(bags, likelihood, link, added)
    return training_features(bags, of_bags, learn=learn, **{**given, **options})


@EVERY
def test_rows_are_those_of_the_link(bags, likelihood, link):
    found = features(bags, likelihood, link)
    expected = LINKS[link].rows(bags, found.feature_map)
    np.testing.assert_array_equal(found.rows.rows, expected.rows)
    assert found.feature_map.landmarks.shape == (5, 2)
    np.testing.assert_array_equal(found.record.index, bags.ids)
    np.testing.assert_array_equal(found.mean_points, mean_points(bags).points)


@EVERY
def test_kernels_are_learned_where_they_may_be(bags, likelihood, link):
    assert features(bags, likelihood, link).feature_map.kernel.bandwidth == 1.0
    learned = features(bags, likelihood, link, learn=True).feature_map.kernel
    assert learned.bandwidth != 1.0
    again = features(bags, likelihood, link, learn=True).feature_map.kernel
    assert learned.bandwidth == again.bandwidth


def test_a_kernel_by_name_learns_a_length_per_column(bags):
    given, learned = (
        features(bags, "poisson", "square", kernel="rbf", learn=learn).feature_map.kernel.bandwidth
        for learn in (False, True)
    )
    assert np.shape(given) == () and np.shape(learned) == (2,)


WITH_EFFECTS = [m for m in totals.MODELS if LIKELIHOODS[m[0]].bag_effects_error is None]


@pytest.mark.parametrize("likelihood, link", WITH_EFFECTS)
def test_a_kernel_is_learned_with_effects_and_their_priors(bags, likelihood, link):
    def length(**options):
        found = features(bags, likelihood, link, learn=True, **options)
        return found.feature_map.kernel.bandwidth

    name = "effect_sd_scale" if link == "identity" else "tau_scale"
    lengths = length(), *(length(bag_effects=True, prior={name: scale}) for scale in (0.1, 1.0))
    assert len(set(lengths)) == 3


@pytest.mark.parametrize("likelihood, link", [m for m in WITH_EFFECTS if m[1] != "identity"])
def test_the_evidence_of_a_kernel_is_that_of_the_model_with_effects(bags, likelihood, link):
    """Higher, with the prior of the length, than at lengths nearby."""
    of_bags = labelled(bags, likelihood, link)
    found = features(bags, likelihood, link, learn=True, bag_effects=True).feature_map

    def model_at(length, prior=None):
        rows = LINKS[link].rows(bags, FieldFeatures(RBF(length), found.landmarks))
        return aggregate_model(rows, of_bags, prior=prior, bag_effects=True)

    priors = model_at(1.0).priors  # those of the start

    def score(log_length):
        scales, mode, _ = most_probable_scales(model_at(np.exp(log_length), priors))
        prior = log_prior_of_scales(priors)(**scales)
        return mode.log_evidence + prior - 0.5 * (log_length / 1.5) ** 2

    best = float(np.log(found.kernel.bandwidth))
    assert score(best) > max(score(best - 0.3), score(best + 0.3))


def test_a_kernel_is_learned_whatever_the_zero_of_rates(bags):
    near, far = (
        features(bags, "normal", "identity", learn=True, added=rate * bags.totals)
        for rate in (0.0, 1e7)
    )
    found, expected = (each.feature_map.kernel.bandwidth for each in (far, near))
    assert found == pytest.approx(expected, rel=1e-4)


def test_landmarks_are_of_standardised_columns(bags):
    """The wide column does not drown the other: as if both had the same unit."""
    one = features(bags, "poisson", "square").feature_map.landmarks
    equal = Bags(bags.points / [1.0, 10.0], bags.offsets, weights=bags.weights)
    other = features(equal, "poisson", "square").feature_map.landmarks
    np.testing.assert_allclose(one, other * [1.0, 10.0])


def test_landmarks_and_names_that_are_given(bags):
    named = Bags(bags.points, bags.offsets, weights=bags.weights, features=["x", "z"])
    given, kernel = bags.points[:4], RBF([1.0, 2.0]) + Matern32(columns=["z"])
    found = features(named, "poisson", "exp", landmarks=given, kernel=kernel, n_landmarks=60)
    np.testing.assert_array_equal(found.feature_map.landmarks, given)
    assert found.feature_map.kernel.second.columns == (1,)
    assert found.record.features == ["x", "z"] and list(found.record.index) == list(range(12))


def test_points_are_thinned_for_the_fit(bags):
    found = features(bags, "poisson", "exp", thin=2)
    assert found.rows.length.max() == 2


@pytest.mark.parametrize("likelihood, link", [("poisson", "square"), ("normal", "identity")])
def test_many_points_are_thinned_for_learning(bags, likelihood, link, monkeypatch):
    """But weighted sums, which need no points, learn from all."""
    whole = features(bags, likelihood, link, learn=True).feature_map.kernel.bandwidth
    monkeypatch.setattr(training, "LEARNING_POINTS", 24)
    monkeypatch.setattr(training, "LEARNING_POINTS_PER_BAG", 1)
    few = features(bags, likelihood, link, learn=True).feature_map.kernel.bandwidth
    assert (few == whole) == LINKS[link].is_linear
