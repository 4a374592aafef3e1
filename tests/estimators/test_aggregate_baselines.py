"""Baselines for aggregate outputs."""

import pickle

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.stats import expon, norm, poisson
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_predict

import bdr_stan
from bdr_stan import AggregateNN, BagPixel, Bags, ConstantRate
from bdr_stan.kernels import draw_frequencies, fourier_basis, fourier_features
from bdr_stan.estimators import aggregate_baselines
from bdr_stan.estimators.aggregate import AggregateRegressor
from bdr_stan.estimators.aggregate_baselines import (
    DEVIANCES,
    LINKS,
    Loss,
    Network,
    Penalties,
    Rates,
    first_parameters,
    laplacian_penalty,
    mean_points,
)

NNS = [
    AggregateNN(4, n_restarts=1),
    AggregateNN(4, link="square", n_restarts=2, manifold=1.0, n_frequencies=20),
    AggregateNN(4, "normal", "identity", n_restarts=1, bag_manifold=1.0),
    AggregateNN(4, "exponential", n_restarts=1),
]
MODELS = [ConstantRate(), *NNS]
# The loss has many minima: rounding, multiplied step by step, can lead to another one.
FEW_STEPS = {"max_iter": 8}


def name_of(model):
    return f"{type(model).__name__}-{model.likelihood}"


def slices_of_a_roll(n, seed, size=40):
    """Bags that are slices of a rolled-up line, whose rate grows along it; rates of all points."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(size // 2, size + size // 2, n)
    t = 1.5 * np.pi * (1 + 2 * rng.random(sizes.sum()))
    points = np.column_stack([t * np.cos(t), t * np.sin(t)])
    order = np.argsort(points[:, 1])
    rate = 0.5 * t[order]
    bags = Bags.from_points(points[order], sizes=sizes)
    return bags, np.add.reduceat(rng.poisson(rate), bags.offsets[:-1]), rate


@pytest.fixture(scope="module")
def problem():
    """Twelve bags with weights, some of them zero, counts, and the same without those points."""
    rng = np.random.default_rng(3)
    points = [rng.normal(size=(m, 2)) * [1, 10] for m in rng.integers(2, 9, 12)]
    weights = [np.r_[rng.uniform(0.5, 3, len(x) - 1), 0.0] for x in points]
    y = [
        rng.poisson(w @ np.exp(1 + 0.5 * x[:, 0])) + 1 for x, w in zip(points, weights, strict=True)
    ]
    names = ["height", "depth"]
    with_zeros = Bags.from_list(points, weights=weights, features=names)
    without = Bags.from_list(
        [x[:-1] for x in points], weights=[w[:-1] for w in weights], features=names
    )
    return with_zeros, without, np.array(y)


# ------------------------------------------------------------ constant rates


def test_constant_rates(problem):
    bags, _, y = problem
    model = ConstantRate().fit(bags, y)
    totals = np.array([bags.weights[a:b].sum() for a, b in zip(bags.offsets, bags.offsets[1:])])
    np.testing.assert_allclose(model.training_rates_ * totals, y)
    np.testing.assert_allclose(model.predict(bags) / totals, y.sum() / totals.sum())
    np.testing.assert_allclose(model.predict_points(bags[0]), np.full(len(bags[0]), model.rate_))
    plain = ConstantRate("normal").fit([np.ones((2, 1)), np.ones((3, 1))], [-1, 11])
    np.testing.assert_allclose(plain.training_rates_, [-1 / 2, 11 / 3])
    assert plain.predict([np.zeros((4, 1))]) == pytest.approx(4 * 2)


# ------------------------------------------------------------ bags as pixels


def test_mean_points(problem):
    bags, without, _ = problem
    pixels = mean_points(bags)
    assert pixels.sizes.tolist() == [1] * 12
    for i in range(12):
        w = bags.weights[bags.offsets[i] : bags.offsets[i + 1]]
        np.testing.assert_allclose(pixels[i][0], np.average(bags[i], axis=0, weights=w))
        assert pixels.weights[i] == pytest.approx(w.sum())
    np.testing.assert_allclose(mean_points(without).points, pixels.points)
    assert pixels.features == ["height", "depth"]
    twice = mean_points(pixels)
    np.testing.assert_allclose(twice.points, pixels.points)
    plain = mean_points([np.array([[1.0], [2], [6]]), np.array([[4.0]])])
    np.testing.assert_allclose(plain.points, [[3], [4]])
    np.testing.assert_allclose(plain.weights, [3, 1])


def test_bag_pixel_is_the_regressor_on_mean_points(problem, tmp_path):
    bags, _, y = problem
    options = {"n_landmarks": 4, "method": "optimize", "learn_kernel": False}
    model = BagPixel(**options).fit(bags, y, seed=1)
    pixels = mean_points(bags)
    regressor = AggregateRegressor(**options).fit(pixels, y, seed=1)
    np.testing.assert_allclose(model.predict(bags), regressor.predict(pixels))
    totals = regressor.predict(bags)  # which sums over the points
    differs = np.abs(model.predict(bags) / totals - 1) > 1e-3
    np.testing.assert_array_equal(differs, bags.effective_sizes > 1.001)
    model.save(tmp_path / "fit.nc")
    again = BagPixel.load(tmp_path / "fit.nc")
    np.testing.assert_array_equal(again.predict(bags), model.predict(bags))
    assert clone(model).get_params() == BagPixel(**options).get_params()


# ------------------------------------------------------------ loss of the network


@pytest.mark.parametrize(
    ("likelihood", "density", "best"),
    [
        ("poisson", poisson.logpmf, lambda y: y),
        ("normal", lambda y, m: norm.logpdf(y, m, 0.7), lambda y: y),
        ("exponential", lambda y, m: expon.logpdf(y, scale=m), lambda y: y),
    ],
)
def test_deviance_is_the_log_density_lost(likelihood, density, best):
    y, total = np.array([1.0, 3.0, 8.0]), np.array([1.5, 2.0, 8.0])
    value, slope = DEVIANCES[likelihood](y, total, 0.49)
    np.testing.assert_allclose(value, density(y, best(y)) - density(y, total), atol=1e-12)
    step = 1e-6
    moved = DEVIANCES[likelihood](y, total + step, 0.49)[0]
    back = DEVIANCES[likelihood](y, total - step, 0.49)[0]
    np.testing.assert_allclose(slope, (moved - back) / (2 * step), atol=1e-8)


def test_no_count_is_a_count():
    np.testing.assert_allclose(DEVIANCES["poisson"](np.zeros(1), np.full(1, 2.5), 1)[0], 2.5)


def random_loss(likelihood, link, bags, y, rng):
    """A loss with all penalties on, and parameters somewhere."""
    rates = Rates(np.full(2, 0.1), np.array([1.0, 8.0]), -0.2 * (link == "identity"), 1.3, link)
    basis = fourier_basis(draw_frequencies(30, 2, seed=rng), 1.0)
    inputs = rng.normal(size=(9, 2))
    penalties = Penalties(
        l2=0.1,
        manifold=2.0,
        inputs=inputs,
        features=fourier_features(inputs, basis, np.empty((9, 60))),
        bag_manifold=3.0,
        bag_features=rng.uniform(size=(len(bags), 4)),
    )
    theta = first_parameters(2, 5, LINKS[link].start, rng)
    return Loss(bags, y, rates, likelihood, 1.7, penalties), theta + 0.3 * rng.normal(size=21)


@pytest.mark.parametrize("chunk", [1 << 14, 3])
@pytest.mark.parametrize(
    ("likelihood", "link"),
    [
        ("poisson", "exp"),
        ("poisson", "square"),
        ("exponential", "exp"),
        ("exponential", "square"),
        ("normal", "identity"),
        ("normal", "exp"),
    ],
)
def test_loss_and_gradient(problem, rng, monkeypatch, likelihood, link, chunk):
    monkeypatch.setattr(aggregate_baselines, "_CHUNK_POINTS", chunk)
    bags, _, y = problem
    loss, theta = random_loss(likelihood, link, bags, y.astype(float), rng)
    value, gradient = loss(theta)
    np.testing.assert_allclose(
        gradient, approx_fprime(theta, lambda t: loss(t)[0], 1e-7), rtol=1e-4, atol=1e-4
    )

    # the same, one point after another
    W, b, v, c = theta[:10].reshape(2, 5), theta[10:15], theta[15:20], theta[20]
    rates, penalties = loss.rates, loss.penalties
    link_of = {"exp": np.exp, "square": np.square, "identity": lambda f: f - 0.2 / 1.3}[link]

    def f(x):
        return sum(max(x @ W[:, k] + b[k], 0) * v[k] for k in range(5)) + c

    expected, means = 0.0, []
    for i in range(len(bags)):
        w = bags.weights[bags.offsets[i] : bags.offsets[i + 1]]
        outputs = np.array([f((x - rates.centre) / rates.spread) for x in bags[i]])
        total = w @ (1.3 * link_of(outputs))
        means.append(w @ outputs / w.sum())
        expected += DEVIANCES[likelihood](y[i], total, 1.7 * w @ w)[0] / len(bags)
    assert loss.deviance(theta) == pytest.approx(expected)
    outputs = np.array([f(x) for x in penalties.inputs])
    expected += 2 * dense_penalty(outputs, penalties.features)
    expected += 3 * dense_penalty(np.array(means), penalties.bag_features)
    expected += 0.1 * (np.sum(W**2) + np.sum(v**2)) / 2
    assert value == pytest.approx(expected)


def dense_penalty(f, features):
    w = features @ features.T
    laplacian = np.diag(w.sum(axis=1)) - w
    return f @ laplacian @ f / len(f) ** 2


def test_penalty_is_that_of_the_dense_laplacian(rng):
    x, f = rng.normal(size=(40, 3)), rng.normal(size=40)
    basis = fourier_basis(draw_frequencies(25, 3, seed=1), 1.4)
    features = fourier_features(x, basis, np.empty((40, 50)))
    value, slope = laplacian_penalty(f, features)
    assert value == pytest.approx(dense_penalty(f, features))
    pairs = (features @ features.T) * (f[:, None] - f) ** 2
    assert value == pytest.approx(pairs.mean() / 2)
    moved = approx_fprime(f, lambda v: laplacian_penalty(v, features)[0], 1e-6)
    np.testing.assert_allclose(slope, moved, atol=1e-6)


def test_penalty_below_zero_counts_as_zero(rng):
    bags = [rng.normal(size=(3, 2)) for _ in range(4)]
    rates = Rates(np.zeros(2), np.ones(2), 0.0, 1.0, "exp")
    against = np.array([[1.0, 0.0], [-1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])
    assert laplacian_penalty(np.array([1.0, -1, 1, -1]), against)[0] < 0
    off = Loss(Bags.from_list(bags), np.ones(4), rates, "poisson", 1.0)
    on = Loss(
        off.bags,
        off.y,
        rates,
        "poisson",
        1.0,
        Penalties(manifold=1.0, inputs=rng.normal(size=(4, 2)), features=against),
    )
    theta = first_parameters(2, 3, 0.0, rng) + rng.normal(size=13)
    assert (
        laplacian_penalty(
            (n := Network.of(theta, 2)).output(n.activations(on.penalties.inputs)), against
        )[0]
        < 0
    )
    np.testing.assert_array_equal(on(theta)[1], off(theta)[1])
    assert on(theta)[0] == off(theta)[0]


# ------------------------------------------------------------ fits of the network


@pytest.mark.parametrize("model", NNS, ids=name_of)
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


@pytest.mark.parametrize("model", NNS, ids=name_of)
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
    monkeypatch.setattr(aggregate_baselines, "_CHUNK_POINTS", 7)
    chunked = clone(model).fit(mapped, y, seed=1)
    np.testing.assert_allclose(chunked.predict(mapped), plain, rtol=1e-6)
    np.testing.assert_allclose(
        chunked.predict_points(mapped.points), chunked.predict_points(bags.points), rtol=1e-12
    )
    spoilt = bags.points.copy()
    spoilt[-1, 1] = np.nan
    np.save(tmp_path / "spoilt.npy", spoilt)
    spoilt = Bags(np.load(tmp_path / "spoilt.npy", mmap_mode="r"), bags.offsets)
    for use in (model.predict, ConstantRate().fit(bags, y).predict, lambda b: model.fit(b, y)):
        with pytest.raises(ValueError, match="bag 11, point .*, column 1.*value is nan"):
            use(spoilt)


def test_sample_of_many_points(problem, monkeypatch):
    bags, without, y = problem
    monkeypatch.setattr(aggregate_baselines, "_SAMPLE_POINTS", 10)
    for some in (bags, Bags(without.points, without.offsets)):
        model = AggregateNN(3, manifold=1.0, n_restarts=1, max_iter=20).fit(some, y, seed=1)
        points = some.points if some.weights is None else some.points[some.weights > 0]
        assert np.all(np.isfinite(model.predict(some)))
        assert not np.allclose(model.centre_, points.mean(axis=0))
        assert np.all(points.min(axis=0) < model.centre_)
        assert np.all(model.centre_ < points.max(axis=0))


def test_constant_columns_are_of_no_use_and_no_harm():
    bags, y, _ = slices_of_a_roll(10, seed=1, size=6)
    padded = Bags(np.column_stack([bags.points, np.full(len(bags.points), 7.0)]), bags.offsets)
    model = AggregateNN(3, manifold=1.0, n_restarts=1, max_iter=20).fit(padded, y, seed=1)
    assert np.all(np.isfinite(model.predict(padded)))


# ------------------------------------------------------------ what every estimator promises


@pytest.mark.parametrize("model", MODELS, ids=name_of)
def test_clone_file_and_pickle(problem, model, tmp_path):
    bags, _, y = problem
    options = {} if isinstance(model, ConstantRate) else {"seed": 1}
    fitted = clone(model).fit(bags, y, **options)
    assert clone(fitted).get_params() == model.get_params()
    again = clone(model).fit(bags, y, **options)
    np.testing.assert_array_equal(again.predict(bags), fitted.predict(bags))
    fitted.save(tmp_path / "fit.nc", notes={"source": "here"})
    for copy in (
        type(model).load(tmp_path / "fit.nc"),
        bdr_stan.load(tmp_path / "fit.nc"),
        pickle.loads(pickle.dumps(fitted)),
    ):
        assert type(copy) is type(model)
        assert copy.get_params() == fitted.get_params()
        np.testing.assert_array_equal(copy.predict(bags), fitted.predict(bags))
        np.testing.assert_array_equal(
            copy.predict_points(bags.points), fitted.predict_points(bags.points)
        )
        assert list(copy.feature_names_in_) == ["height", "depth"]
        kept = [name for name in vars(fitted) if name.endswith("_")]
        assert {"rate_", "theta_"} & set(kept)
        for name in kept:
            np.testing.assert_array_equal(getattr(copy, name), getattr(fitted, name))
    assert type(model).load(tmp_path / "fit.nc").notes_ == {"source": "here"}
    assert cross_val_predict(model, bags, y, cv=3).shape == (12,)


@pytest.mark.parametrize("model", MODELS, ids=name_of)
def test_new_bags_unlike_the_training_bags(problem, model):
    bags, _, y = problem
    model = clone(model)
    with pytest.raises(NotFittedError):
        model.predict(bags)
    with pytest.raises(NotFittedError):
        model.save("never.nc")
    model.fit(bags, y)
    with pytest.raises(
        ValueError, match="bags have 3 features a point, but the model was fitted to 2"
    ):
        model.predict_points(np.ones((2, 3)))
    turned = Bags(bags.points, bags.offsets, features=["depth", "height"])
    with pytest.raises(ValueError, match="column 0 of the bags is 'depth', but .* 'height' there"):
        model.predict(turned)
    with pytest.raises(ValueError, match="points is 1-D"):
        model.predict_points(np.ones(2))
    model.fit(Bags(bags.points, bags.offsets), y)
    assert not hasattr(model, "feature_names_in_")


@pytest.mark.parametrize(
    ("likelihood", "bad", "message"),
    [
        ("poisson", -1.0, "is -1 .* needs counts"),
        ("poisson", 0.5, "is 0.5 .* needs counts"),
        ("exponential", 0.0, "is 0 .* exponential likelihood needs labels > 0"),
        ("normal", np.nan, "is nan"),
    ],
)
def test_labels(problem, likelihood, bad, message):
    bags, _, y = problem
    spoilt = np.r_[y[:-1], bad]
    link = "identity" if likelihood == "normal" else "exp"
    with pytest.raises(ValueError, match="label of bag 11 " + message):
        AggregateNN(likelihood=likelihood, link=link).fit(bags, spoilt)
    with pytest.raises(ValueError, match="label of bag 11 " + message):
        AggregateNN(likelihood=likelihood, link=link).fit(bags, y, validation=(bags, spoilt))
    with pytest.raises(ValueError, match="label of bag 11 " + message):
        ConstantRate(likelihood).fit(bags, spoilt)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (
            {"likelihood": "binomial"},
            "likelihood must be one of 'poisson', 'normal', 'exponential'",
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
        ({"bandwidth": -1.0}, "bandwidth must be a positive number, found -1.0"),
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
        ValueError, match="validation bags have 1 features a point, but the training bags 2"
    ):
        AggregateNN().fit(bags, y, validation=([np.ones((2, 1))], [1]))
    with pytest.raises(ValueError, match="likelihood must be one of 'poisson', .*, found 'gamma'"):
        ConstantRate("gamma").fit(bags, y)
