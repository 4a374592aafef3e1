"""A network for the rates of points."""

import numpy as np
import pytest
from builders.counted_bags import counts_of_weighted_points, slices_of_a_roll
from builders.networks import NETWORKS, name_of
from sklearn.base import clone

from bdr_stan import Bags
from experiments.papers import AggregateNN, ConstantRate, aggregate_nn, network, rate_model
from experiments.papers.deviances import DEVIANCES

# The loss has many minima: rounding, multiplied step by step, can lead to another one.
FEW_STEPS = {"max_iter": 8}


@pytest.fixture(scope="module")
def problem():
    return counts_of_weighted_points()


@pytest.mark.parametrize("model", NETWORKS, ids=name_of)
def test_points_without_weight_change_nothing(problem, model):
    bags, without, y = problem
    model = clone(model).set_params(**FEW_STEPS)
    fitted = clone(model).fit(bags, y, seed=2)
    again = clone(model).fit(without, y, seed=2)
    np.testing.assert_allclose(again.predict(without), fitted.predict(bags), rtol=1e-6)
    points = np.random.default_rng(1).normal(size=(6, 2))
    np.testing.assert_allclose(
        again.predict_points(points), fitted.predict_points(points), rtol=1e-6
    )


@pytest.mark.parametrize("model", NETWORKS, ids=name_of)
def test_total_is_the_weighted_sum_of_rates(problem, model):
    bags, _, y = problem
    fitted = clone(model).fit(bags, y, seed=2)
    expected = [
        bags.weights[a:b] @ fitted.predict_points(bags.points[a:b])
        for a, b in zip(bags.offsets, bags.offsets[1:], strict=False)
    ]
    np.testing.assert_allclose(fitted.predict(bags), expected)


def test_units_of_weights_and_labels_do_not_matter(problem):
    bags, _, y = problem
    scaled = Bags(bags.points, bags.offsets, weights=1e6 * bags.weights)
    for likelihood, link in (("poisson", "exp"), ("normal", "identity")):
        model = AggregateNN(4, likelihood, link, n_restarts=1, **FEW_STEPS)
        plain = model.fit(bags, y, seed=1).predict_points(bags.points)
        per_head = clone(model).fit(scaled, y, seed=1).predict_points(bags.points)
        np.testing.assert_allclose(1e6 * per_head, plain, rtol=1e-3)


def test_network_beats_constant_rates_inside_the_bags():
    bags, y, rate = slices_of_a_roll(150, seed=1)
    new, _, new_rate = slices_of_a_roll(50, seed=2)
    constant = ConstantRate().fit(bags, y)
    within = np.mean((np.repeat(constant.training_rates_, bags.sizes) - rate) ** 2)
    for link in ("exp", "square"):
        model = AggregateNN(
            20, link=link, manifold=10.0, bandwidth=0.5, n_restarts=1, max_iter=100
        ).fit(bags, y, seed=1)
        assert np.mean((model.predict_points(bags.points) - rate) ** 2) < within / 2
        assert np.mean((model.predict_points(new.points) - new_rate) ** 2) < within / 2


@pytest.mark.parametrize("manifold", ["manifold", "bag_manifold"])
def test_manifold_penalties_smooth(manifold):
    bags, y, _ = slices_of_a_roll(40, seed=1, size=10)
    spread = [
        np.std(
            np.log(
                AggregateNN(8, n_restarts=1, n_frequencies=100, **{manifold: weight})
                .fit(bags, y, seed=1)
                .predict_points(bags.points)
            )
        )
        for weight in (0.0, 10.0, 1e4)
    ]
    assert spread[0] > spread[1] > spread[2]
    assert spread[2] < 0.2 * spread[0]


def test_normal_totals_and_their_noise():
    rng = np.random.default_rng(4)
    bags = Bags.from_list([rng.uniform(-2, 2, size=(m, 1)) for m in rng.integers(1, 6, 300)])
    y = np.add.reduceat(np.abs(bags.points[:, 0]) - 1, bags.offsets[:-1])
    y += 0.3 * np.sqrt(bags.sizes) * rng.normal(size=300)
    model = AggregateNN(10, "normal", "identity", l2=1e-4, n_restarts=1).fit(bags, y, seed=1)
    grid = np.linspace(-2, 2, 9)[:, None]
    np.testing.assert_allclose(model.predict_points(grid), np.abs(grid[:, 0]) - 1, atol=0.2)
    assert 0.27 < model.sigma_ < 0.33
    assert np.isnan(AggregateNN(2, max_iter=2).fit([np.ones((1, 1))] * 2, [1, 2]).sigma_)


def test_exponential_totals():
    rng = np.random.default_rng(5)
    bags = Bags.from_list([rng.uniform(-1, 1, size=(m, 1)) for m in rng.integers(1, 4, 2000)])
    y = rng.exponential(np.add.reduceat(np.exp(1.5 * bags.points[:, 0]), bags.offsets[:-1]))
    model = AggregateNN(6, "exponential", n_restarts=1, l2=1e-3).fit(bags, y, seed=1)
    grid = np.linspace(-0.8, 0.8, 5)[:, None]
    np.testing.assert_allclose(model.predict_points(grid), np.exp(1.5 * grid[:, 0]), rtol=0.25)


def test_validation_bags_choose_the_fit():
    bags, y, _ = slices_of_a_roll(25, seed=3, size=10)
    held, held_y, _ = slices_of_a_roll(25, seed=4, size=10)
    model = AggregateNN(30, l2=0, n_restarts=2)

    def deviance(fitted):
        total = fitted.predict(held)
        return np.mean(DEVIANCES["poisson"](held_y, total, None)[0])

    stopped = clone(model).fit(bags, y, validation=(held, held_y), seed=1)
    assert stopped.validation_loss_ == pytest.approx(deviance(stopped))
    overfitted = clone(model).fit(bags, y, seed=1)
    assert np.isnan(overfitted.validation_loss_)
    assert overfitted.loss_ < stopped.loss_
    assert deviance(stopped) < 0.8 * deviance(overfitted)


def test_restarts_keep_the_best():
    bags, y, _ = slices_of_a_roll(20, seed=3, size=6)
    losses = [
        AggregateNN(3, n_restarts=k, max_iter=30).fit(bags, y, seed=1).loss_ for k in (1, 2, 5)
    ]
    assert losses[0] >= losses[1] >= losses[2]
    assert losses[0] > losses[2]


def test_memory_map_in_chunks(problem, tmp_path, monkeypatch):
    bags, _, y = problem
    np.save(tmp_path / "points.npy", bags.points)
    mapped = Bags(
        np.load(tmp_path / "points.npy", mmap_mode="r"), bags.offsets, weights=bags.weights
    )
    model = AggregateNN(
        4, n_restarts=1, manifold=1.0, bag_manifold=1.0, n_frequencies=20, **FEW_STEPS
    )
    plain = model.fit(bags, y, seed=1).predict(bags)
    for module in (network, rate_model):
        monkeypatch.setattr(module, "CHUNK_POINTS", 7)
    chunked = clone(model).fit(mapped, y, seed=1)
    np.testing.assert_allclose(chunked.predict(mapped), plain, rtol=1e-6)
    np.testing.assert_allclose(
        chunked.predict_points(mapped.points), chunked.predict_points(bags.points), rtol=1e-12
    )
    spoilt = bags.points.copy()
    spoilt[-1, 1] = np.nan
    np.save(tmp_path / "spoilt.npy", spoilt)
    spoilt = Bags(
        np.load(tmp_path / "spoilt.npy", mmap_mode="r"), bags.offsets, weights=bags.weights
    )
    for use in (model.predict, ConstantRate().fit(bags, y).predict, lambda b: model.fit(b, y)):
        with pytest.raises(ValueError, match="bag 11, point .*, column 1.*value is nan"):
            use(spoilt)


def test_sample_of_many_points(problem, monkeypatch):
    bags, without, y = problem
    monkeypatch.setattr(aggregate_nn, "SAMPLE_POINTS", 10)
    for some in (bags, Bags(without.points, without.offsets)):
        model = AggregateNN(3, manifold=1.0, n_restarts=1, max_iter=20).fit(some, y, seed=1)
        points = some.points if some.weights is None else some.points[some.weights > 0]
        assert np.all(np.isfinite(model.predict(some)))
        assert not np.allclose(model.scale_.centre, points.mean(axis=0))
        assert np.all(points.min(axis=0) < model.scale_.centre)
        assert np.all(model.scale_.centre < points.max(axis=0))


def test_constant_columns_are_of_no_use_and_no_harm():
    bags, y, _ = slices_of_a_roll(10, seed=1, size=6)
    padded = Bags(np.column_stack([bags.points, np.full(len(bags.points), 7.0)]), bags.offsets)
    model = AggregateNN(3, manifold=1.0, n_restarts=1, max_iter=20).fit(padded, y, seed=1)
    assert np.all(np.isfinite(model.predict(padded)))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (
            {"likelihood": "binomial"},
            "likelihood must be one of 'poisson', 'exponential', 'normal', found 'binomial'",
        ),
        ({"link": "log"}, "link must be one of 'exp', 'square', 'identity', found 'log'"),
        ({"link": "identity"}, "lets rates be negative, which the poisson likelihood cannot have"),
        ({"n_hidden": 0}, "n_hidden must be an integer >= 1, found 0"),
        ({"n_restarts": 1.5}, "n_restarts must be an integer >= 1, found 1.5"),
        ({"manifold": -1}, "manifold must be a number >= 0, found -1"),
        ({"bag_manifold": "much"}, "bag_manifold must be a number >= 0, found 'much'"),
        ({"l2": np.inf}, "l2 must be a number >= 0, found inf"),
        ({"bandwidth": "mean"}, "bandwidth must be 'median' or a positive number, found 'mean'"),
        ({"bandwidth": [1.0, 2.0]}, "bandwidth must be 'median' or a positive number"),
        ({"bandwidth": -1.0}, "bandwidth must be 'median' or a positive number, found -1.0"),
    ],
)
def test_parameters(problem, params, message):
    bags, _, y = problem
    with pytest.raises(ValueError, match=message):
        AggregateNN(**params).fit(bags, y)


def test_other_input_errors(problem):
    bags, _, y = problem
    with pytest.raises(ValueError, match="link='exp' has positive rates, but the labels sum to -"):
        AggregateNN(likelihood="normal").fit(bags, -y)
    with pytest.raises(
        ValueError, match="validation bags have 1 features per point, but the training bags have 2"
    ):
        AggregateNN().fit(bags, y, validation=([np.ones((2, 1))], [1]))
