"""Conformal regions of labels against refits in closed form, and their coverage."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from scipy.stats import norm

from bdr_stan.bags import Bags
from bdr_stan.families import FAMILIES
from bdr_stan.labels import Labels
from bdr_stan.predictive import ClassPredictive, OutcomePredictive, Predictive
from bdr_stan.questions.conformal import ConformalClasses, ConformalIntervals
from bdr_stan.questions.conformal_bayes import (
    POSITIVE,
    REAL,
    Compared,
    LabelScale,
    Ranks,
    SizeClasses,
    TrainingLabels,
    _last_count,
    _pieces,
    _root,
    kept_classes,
    kept_pieces,
)

SIGMA = 0.5


def bags_of_sizes(sizes):
    return Bags.from_list([np.zeros((size, 1)) for size in sizes])


def compared(n, m, level, n_classes=1, sizes=None, new_sizes=None):
    sizes = np.ones(n) if sizes is None else sizes
    new_sizes = np.ones(m) if new_sizes is None else new_sizes
    return Compared(SizeClasses(sizes, level, n_classes), new_sizes, bags_of_sizes([1] * m))


def conformal_intervals(predictive, training, like, labels):
    pieces, pareto_k = kept_pieces(predictive, training, like, labels)
    return ConformalIntervals(**like.described, pareto_k=pareto_k, pieces=pieces)


def conformal_classes(predictive, training, like):
    is_in, pareto_k = kept_classes(predictive, training, like)
    return ConformalClasses(
        **like.described, pareto_k=pareto_k, classes=predictive.classes, is_in=is_in
    )


class Regression:
    """y = x' beta + noise of known sd, beta ~ N(0, I): its posterior is known for any labels."""

    def __init__(self, seed, n=30, d=3, n_draws=10_000):
        rng = np.random.default_rng(seed)
        self.x, beta = rng.normal(size=(n + 1, d)), rng.normal(size=d)
        self.y = self.x @ beta + SIGMA * rng.normal(size=n + 1)
        self.x, self.new_x, self.y, self.new_y = self.x[:-1], self.x[-1:], self.y[:-1], self.y[-1]
        mean, covariance = self.posterior(self.x, self.y)
        self.draws = rng.multivariate_normal(mean, covariance, size=n_draws)

    @staticmethod
    def posterior(x, y):
        covariance = np.linalg.inv(x.T @ x / SIGMA**2 + np.eye(x.shape[1]))
        return covariance @ x.T @ y / SIGMA**2, covariance

    def refitted_p(self, label):
        """Share of labels, the new one included, that are as improbable as it after a refit."""
        x, y = np.vstack([self.x, self.new_x]), np.append(self.y, label)
        mean, covariance = self.posterior(x, y)
        variance = np.einsum("ij,jk,ik->i", x, covariance, x) + SIGMA**2
        density = norm.logpdf(y, x @ mean, np.sqrt(variance))
        return np.mean(density <= density[-1])

    def regions(self, level):
        def components(i):
            mean = self.draws @ self.new_x[i].T
            return mean, np.full(mean.shape, SIGMA)

        predictive = Predictive(components, 1, len(self.draws))
        means = self.draws @ self.x.T
        # Spreads are equal, as the refit compares densities themselves.
        quantiles = predictive.quantile([0.01, 1 / 6, 5 / 6, 0.99])
        drawn = np.repeat(quantiles, [1, 100, 100, 1], axis=0).repeat(len(self.y), axis=1)
        training = TrainingLabels(norm.logpdf(self.y, means, SIGMA), drawn, np.ones(len(self.y)))
        return conformal_intervals(predictive, training, compared(len(self.y), 1, level), REAL)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("level", [0.5, 0.8, 0.9])
def test_regions_are_those_of_refits_with_each_candidate(seed, level):
    problem = Regression(seed)
    regions = problem.regions(level)
    labels = np.linspace(problem.new_y - 4, problem.new_y + 4, 801)
    kept = labels[[problem.refitted_p(label) > 1 - level + 1e-9 for label in labels]]
    assert len(regions.pieces[0]) == 1 + np.sum(np.diff(kept) > 0.0101)
    assert_allclose([regions.lower[0], regions.upper[0]], [kept[0], kept[-1]], atol=0.02)
    assert regions.pareto_k[0] < 0.7


class Wrong:
    """Labels with heavy tails and a trend in their spread, and a model that has neither."""

    def __init__(self, rng, n=199, m=200):
        self.sizes = rng.integers(1, 100, size=n + m).astype(float)
        self.centre = rng.normal(size=n + m)
        spread = 0.2 + 3 / np.sqrt(self.sizes)
        self.y = 2 * self.centre + spread * rng.standard_t(3, size=n + m)
        self.n, self.m = n, m
        error = (self.y - self.centre)[:n]  # of which the model learns the mean
        shift = rng.normal(error.mean(), 0.4 / np.sqrt(n), size=(20, 1))
        self.mean = self.centre + shift  # of labels, under each draw

    def regions(self, level, n_classes):
        train, test = slice(None, self.n), slice(self.n, None)

        def components(i):
            return self.mean[:, test][:, i], np.full((20, len(i)), 0.4)

        predictive = Predictive(components, self.m, 20)
        training = TrainingLabels(
            norm.logpdf(self.y[train], self.mean[:, train], 0.4),
            norm.rvs(np.tile(self.mean[:, train], (100, 1)), 0.4, random_state=1),
            self.sizes[train],
        )
        of_sizes = self.sizes[train], self.sizes[test]
        return conformal_intervals(
            predictive, training, compared(self.n, self.m, level, n_classes, *of_sizes), REAL
        ), self.y[test]


@pytest.mark.parametrize("level", [0.8, 0.9])
def test_coverage_in_each_size_class_of_a_wrong_model(level):
    shares, by_class = [], {1: [], 2: [], 3: []}
    for seed in range(30):
        regions, y = Wrong(np.random.default_rng(seed)).regions(level, 3)
        within = regions.contains(y)
        shares.append(within.mean())
        for number, found in by_class.items():
            found.append(within[regions.size_class == number].mean())
    for found in (shares, *by_class.values()):
        error = np.std(found, ddof=1) / np.sqrt(len(found))
        # Labels have a density: coverage is at least the level, and at most 1 / 67 above it.
        assert level - 3 * error < np.mean(found) < level + 1 / 67 + 3 * error


def two_modes(labels):
    """A bag whose label is near -3 under one draw and near 3 under the other; training labels."""
    mean = np.array([[-3.0], [3.0]])
    predictive = Predictive(lambda i: (mean[:, i], np.full((2, len(i)), 0.5)), 1, 2)
    centres = np.sign(labels) * mean
    training = TrainingLabels(
        norm.logpdf(labels, np.abs(centres) * np.sign(labels), 0.5),
        np.random.default_rng(0).normal(centres, 0.5),
        np.ones(len(labels)),
    )
    return predictive, training


def test_union_of_intervals():
    labels = np.random.default_rng(0).choice([-3.0, 3.0], 99) + norm.rvs(
        0, 0.5, size=99, random_state=1
    )
    predictive, training = two_modes(labels)
    found = conformal_intervals(predictive, training, compared(99, 1, 0.8), REAL)
    (pieces,) = found.pieces
    assert_allclose(pieces, [[-3.6, -2.4], [2.4, 3.6]], atol=0.25)
    assert found.lower[0] == pieces[0, 0]
    assert found.upper[0] == pieces[1, 1]
    assert found.contains([0.0]).tolist() == [False]
    assert found.contains([-3.0]).tolist() == [True]
    assert found.to_dataframe()["pieces"].tolist() == [2]


def test_regions_reach_labels_far_from_what_the_model_predicts():
    labels = np.random.default_rng(0).normal(0, 50, 99)
    predictive = Predictive(lambda i: (np.zeros((1, len(i))), np.ones((1, len(i)))), 1, 1)
    training = TrainingLabels(norm.logpdf(labels)[None], norm.rvs(size=(99, 99)), np.ones(99))
    found = conformal_intervals(predictive, training, compared(99, 1, 0.9), REAL)
    assert_allclose([-found.lower[0], found.upper[0]], np.sort(np.abs(labels))[90], rtol=0.2)
    assert np.isnan(found.pareto_k[0])  # one draw has no weights


def test_an_empty_region_is_returned():
    predictive = Predictive(lambda i: (np.zeros((2, len(i))), np.ones((2, len(i)))), 1, 2)
    always = np.full((2, 49), 100.0)  # training labels that the model predicts to the digit
    training = TrainingLabels(always, norm.rvs(size=(99, 49)), np.ones(49))
    found = conformal_intervals(predictive, training, compared(49, 1, 0.9), REAL)
    assert found.pieces[0].shape == (0, 2)
    assert np.isnan(found.lower[0])
    assert found.contains([0.0]).tolist() == [False]
    assert found.to_dataframe()["pieces"].tolist() == [0]


def counted(name, rng, means, trials=None, n_draws=60, n=60):
    """Training labels and a predictive distribution of new bags of some means, of one family."""
    family = FAMILIES[name]
    predictors = np.concatenate([rng.choice(means, size=n), means])
    draws = predictors + rng.normal(0, 0.1, size=(n_draws, 1))
    trials_of_all = None if trials is None else np.full(n + len(means), trials)
    scales = {s: np.full(n_draws, 0.5) for s in family.likelihood.scales}

    def predictive_of(bags):
        return OutcomePredictive(
            lambda i: (draws[:, bags][:, i], np.full((n_draws, len(i)), 0.01)),
            len(bags),
            n_draws,
            family,
            scales,
            Labels(trials=None if trials is None else trials_of_all[bags]),
        )

    train = predictive_of(np.arange(n))
    y = train.sample(1, seed=1)[0]
    training = TrainingLabels(train.log_likelihood(y), train.sample(seed=2), np.ones(n))
    return predictive_of(np.arange(n, n + len(means))), training


def scanned(predictive, training, bag, candidates, rank):
    """Candidates that are kept by the definition."""
    spread = np.sqrt(training.draws.std(axis=0) ** 2 + 1 / 12)
    own_spread = np.sqrt(predictive.sd[bag] ** 2 + 1 / 12)
    log_w = predictive.log_density_function(np.full(len(candidates), bag))(candidates)
    own = np.log(own_spread) + logsumexp(2 * log_w, axis=0) - logsumexp(log_w, axis=0)
    weighted = np.array([logsumexp(training.log_likelihood.T + w, axis=1) for w in log_w.T])
    scores = weighted - logsumexp(log_w, axis=0)[:, None] + np.log(spread)
    return candidates[own >= np.sort(scores, axis=1)[:, rank - 1] - 1e-9]


@pytest.mark.parametrize(
    ("name", "means", "trials"),
    [
        ("poisson", [-4.0, 0.0, 2.0, 5.0], None),
        ("negative_binomial", [-3.0, 1.0, 4.0], None),
        ("binomial", [-4.0, 0.0, 5.0], 30),
    ],
)
def test_regions_of_counts_are_those_of_every_integer(name, means, trials, rng):
    predictive, training = counted(name, rng, np.array(means), trials)
    labels = LabelScale(is_count=True, trials=predictive.labels.trials)
    found = conformal_intervals(predictive, training, compared(60, len(means), 0.9), labels)
    most = 800 if trials is None else trials
    for bag in range(len(means)):
        kept = scanned(predictive, training, bag, np.arange(most + 1.0), rank=6)
        assert len(kept)
        starts = kept[np.append(True, np.diff(kept) > 1)]
        stops = kept[np.append(np.diff(kept) > 1, True)]
        assert_allclose(found.pieces[bag], np.column_stack([starts, stops]))


def test_positive_labels(rng):
    predictive, training = counted("gamma", rng, np.array([-3.0, 0.0, 8.0]))
    found = conformal_intervals(predictive, training, compared(60, 3, 0.9), POSITIVE)
    assert (found.lower > 0).all()
    # Spreads are in proportion to means: so are regions.
    assert_allclose(found.upper / np.exp([-3.0, 0.0, 8.0]), found.upper[1], rtol=0.02)


def test_excess_is_over_the_score_of_the_rank(rng):
    log_likelihood = rng.normal(size=(1, 50))
    for rank, score in enumerate(np.sort(log_likelihood[0]), 1):
        ranks = Ranks(log_likelihood, np.zeros(50), rank)
        assert_allclose(ranks.excess(np.zeros((1, 1)), np.zeros(1)), -score, atol=1e-8)


@pytest.mark.filterwarnings("error")
def test_density_that_is_infinite_at_an_end(rng):
    shape = FAMILIES["gamma"].likelihood.distribution(1.0, dispersion=2.0)  # density y^-0.75 at 0
    y, drawn = shape.rvs(99, random_state=1), shape.rvs((200, 99), random_state=2)
    zeros, ones = np.zeros((30, 1)), np.ones(30)
    new = OutcomePredictive(
        lambda i: (zeros[:, i], zeros[:, i]), 1, 30, FAMILIES["gamma"], {"dispersion": 2 * ones}
    )
    training = TrainingLabels(np.tile(shape.logpdf(y), (30, 1)), drawn, np.ones(99))
    found = conformal_intervals(new, training, compared(99, 1, 0.9), POSITIVE)
    assert 0 <= found.lower[0] < 1e-100
    assert_allclose(found.upper[0], np.sort(y)[89], rtol=0.3)


def test_classes_against_the_definition(rng):
    p = rng.uniform(0.05, 0.95, size=(50, 41))
    y = rng.random(41) < p.mean(axis=0)
    log_p = np.log(np.where(y, p, 1 - p))[:, :39]
    new = ClassPredictive(
        lambda i: (np.log(1 - p[:, 39:][:, i]), np.log(p[:, 39:][:, i])),
        2,
        50,
        np.array(["n", "y"]),
    )
    training = TrainingLabels(log_p, None, np.ones(39))
    found = conformal_classes(new, training, compared(39, 2, 0.8))
    for bag in range(2):
        for code, w in enumerate((1 - p[:, 39 + bag], p[:, 39 + bag])):
            scores = w @ np.exp(log_p) / w.sum()
            p_value = (1 + np.sum(scores <= w @ w / w.sum())) / 40
            assert found.is_in[bag, code] == (p_value > 0.2 + 1e-9)
    assert [each.tolist() for each in found.labels] == found.to_dataframe()["labels"].tolist()
    assert found.contains(["n", "y"]).tolist() == [found.is_in[0, 0], found.is_in[1, 1]]


@pytest.mark.parametrize("inside, outside", [(0.0, 8.0), (0.0, -8.0)])
def test_ends_of_regions_are_found_at_roots_and_where_labels_become_impossible(inside, outside):
    """A straight line, a parabola, a step to -inf, and the counts up to them; on either side."""
    end = np.array([1.5, 3.25, 5.7])

    def excess(x):
        x = np.abs(x)
        step = np.where(x[2] < end[2], 1.0, -np.inf)
        return np.array([2 * (end[0] - x[0]), end[1] ** 2 - x[1] ** 2, step])

    a, b = np.full(3, inside), np.full(3, outside)
    assert_allclose(np.abs(_root(excess, a, b)), end, atol=0.01)
    assert_allclose(np.abs(_last_count(excess, a, b)), np.floor(end))


@pytest.mark.parametrize("is_count", [False, True])
def test_regions_have_all_their_pieces(is_count):
    """One piece, two, none, all labels, those below or above one far from the centre, 30,

    and two pieces that reach beyond the first candidates, which are from 24 to 36.
    """
    kept = [
        [(27.5, 32.5)], [(26.5, 28.8), (32.2, 34.1)], [],
        [(-np.inf, np.inf)], [(-np.inf, 36.3)], [(4.6, np.inf)], [(17.5, 24.3), (35.7, 42.5)],
    ]  # fmt: skip

    class New:
        def excess(self, i):
            def of_pieces(pieces, x):
                return max([min(x - low, high - x, 9.0) for low, high in pieces], default=-9.0)

            return lambda x: np.array([of_pieces(kept[k], at) for k, at in zip(i, x, strict=True)])

    labels = LabelScale(is_count=is_count)
    found = dict(_pieces(New(), np.arange(7), labels, np.full(7, 30.0), np.ones(7)))
    assert sorted(found) == [0, 1, 3, 4, 5, 6]
    for k, pieces in found.items():
        low, high = np.transpose(kept[k])
        if is_count:
            low, high = np.maximum(np.ceil(low), 0), np.floor(high)
        assert_allclose(pieces, np.column_stack([low, high]), atol=0.02)


def test_ends_of_pieces_are_in_the_region_and_what_lies_between_is_not():
    pieces = [np.array([[0.0, 0.0], [3.0, 5.0]])] * 5 + [np.empty((0, 2))]
    one = np.ones(6)
    found = ConformalIntervals(0.9, one, one, np.ones((6, 2)), one, None, "bag", pieces)
    assert found.contains([0, 3, 5, 2, 6, 3]).tolist() == [True, True, True, False, False, False]
    np.testing.assert_array_equal(found.lower, [0, 0, 0, 0, 0, np.nan])
    np.testing.assert_array_equal(found.upper, [5, 5, 5, 5, 5, np.nan])
