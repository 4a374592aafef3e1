"""Ridge regression on shrunk embeddings; what it shares with `RBFNetwork` is tested there."""

import numpy as np
import pytest
from builders.location_family import location_family
from sklearn.base import clone
from sklearn.linear_model import Ridge

from bdr_stan import BLR, Bags, KernelMean, RBFNetwork
from bdr_stan.embedding.mean_embedding import embed
from bdr_stan.kernels import RBF, LandmarkFeatures, Linear, Matern32
from experiments.papers import FreqShrinkage
from experiments.papers.freq_shrinkage import BY_BAG
from experiments.papers.shrunk_embedding import ShrunkEmbedding


@pytest.fixture(scope="module")
def problem():
    return location_family(11, 40, largest=30)


def check_saved(model, bags, path):
    """The fit predicts, and is saved, whatever the parameters of the model become."""
    predictions = model.predict(bags)
    model.save(path)
    again = FreqShrinkage.load(path)
    assert repr(again.get_params()) == repr(model.get_params())
    assert again.shrinkage_ == model.shrinkage_
    np.testing.assert_array_equal(again.predict(bags), predictions)
    other = 7.0 if model.shrinkage in BY_BAG else "s-kmse"
    np.testing.assert_array_equal(
        again.set_params(shrinkage=other, target="zero").predict(bags), predictions
    )


# ------------------------------------------------------------------ all bags by one amount


@pytest.mark.parametrize("target", [None, "average", "zero", [[0.0, 1.0], [2.0, 0.0]]], ids=str)
def test_means_move_towards_the_target_by_the_amount(problem, target, tmp_path):
    bags, y = problem
    landmarks = np.concatenate(bags)[::50]
    model = FreqShrinkage(
        landmarks=landmarks, bandwidth=1.4, shrinkage=5.0, target=target, alpha=0.1
    ).fit(bags[:30], y[:30])
    mean = embed(bags, LandmarkFeatures(RBF(1.4), landmarks)).mean
    f = {"zero": np.zeros(len(landmarks)), "average": mean[:30].mean(axis=0)}.get(
        "average" if target is None else str(target),
        RBF(1.4)(np.array([[0.0, 1.0], [2.0, 0.0]]), landmarks).mean(axis=0),
    )
    x = np.array([f + len(bag) / (len(bag) + 5) * (m - f) for bag, m in zip(bags, mean)])
    reference = Ridge(alpha=0.1, solver="svd").fit(x[:30], y[:30])
    np.testing.assert_allclose(model.predict(bags), reference.predict(x), rtol=1e-9)
    assert model.shrinkage_ == 5
    check_saved(model, bags, tmp_path / "fit.nc")


def test_no_amount_is_no_shrinkage(problem):
    bags, y = problem
    plain = RBFNetwork(6).fit(bags, y, seed=1)
    for target in ("average", "zero"):
        same = FreqShrinkage(6, shrinkage=0, target=target).fit(bags, y, seed=1)
        np.testing.assert_allclose(same.predict(bags), plain.predict(bags), rtol=1e-9)


def test_the_amount_is_chosen_with_the_penalty_on_held_out_labels(problem):
    bags, y = problem
    held_out = bags[25:], y[25:]
    amounts = [0.0, 1.0, 4.0, 20.0, 1000.0]

    def fit(shrinkage, **options):
        return FreqShrinkage(6, shrinkage=shrinkage).fit(bags[:25], y[:25], seed=1, **options)

    def error(model):
        return np.mean((model.predict(held_out[0]) - held_out[1]) ** 2)

    by_amount = [error(fit(amount, validation=held_out)) for amount in amounts]
    model = fit(amounts, validation=held_out)
    assert model.shrinkage_ == amounts[np.argmin(by_amount)]
    assert error(model) == pytest.approx(min(by_amount))
    assert error(fit("tuned", validation=held_out)) <= min(by_amount) * (1 + 1e-9)
    penalties = np.geomspace(1e-5, 1, 6)
    chosen = FreqShrinkage(6, shrinkage=4.0, alpha=penalties)
    chosen.fit(bags[:25], y[:25], validation=held_out, seed=1)
    by_penalty = [
        error(FreqShrinkage(6, shrinkage=4.0, alpha=a).fit(bags[:25], y[:25], seed=1))
        for a in penalties
    ]
    assert chosen.alpha_ == pytest.approx(penalties[np.argmin(by_penalty)])
    # Without validation bags, each left out in turn, by the definition.
    scores = []
    for amount in amounts:
        moved = fit(amount)
        mean = moved.embed(bags[:25]).mean
        f = mean.mean(axis=0)
        sizes = np.array([len(bag) for bag in bags[:25]])
        x = f + (sizes / (sizes + amount))[:, None] * (mean - f)
        left = [
            Ridge(moved.alpha_, solver="svd").fit(np.delete(x, i, 0), np.delete(y[:25], i))
            for i in range(25)
        ]
        scores.append(
            np.mean([(m.predict(x[i : i + 1])[0] - y[i]) ** 2 for i, m in enumerate(left)])
        )
    assert fit(amounts).shrinkage_ == amounts[np.argmin(scores)]


def test_small_bags_gain_from_one_amount():
    """Labels that are means of bags of 3 or 300 points: the small ones are nearly noise."""
    rng = np.random.default_rng(2)
    y = rng.normal(size=400)
    bags = [rng.normal(mean, 3.0, size=(n, 1)) for mean, n in zip(y, [3, 300] * 200)]
    new, truth = bags[200:], y[200:]

    def errors(model):
        return (model.fit(bags[:200], y[:200], seed=1).predict(new) - truth) ** 2

    gain = errors(RBFNetwork(10)) - errors(FreqShrinkage(10))
    assert gain.mean() > 4 * gain.std() / np.sqrt(200)


def test_weights_count_in_the_size_of_a_bag(problem):
    bags, y = problem
    twice = [np.concatenate([bag, bag[:1]]) for bag in bags]
    weights = [np.r_[np.ones(len(bag)), 0.0] for bag in bags]
    placed = {"bandwidth": 1.4, "landmarks": np.concatenate(bags)[::50]}
    model = FreqShrinkage(shrinkage=4.0, alpha=0.1, **placed)
    expected = model.fit(bags, y).predict(bags)
    weighted = Bags.from_list(twice, weights=weights)
    np.testing.assert_allclose(clone(model).fit(weighted, y).predict(weighted), expected, rtol=1e-9)


# ------------------------------------------------------------------ each bag by itself


@pytest.mark.parametrize("target", [None, [[0.0, 1.0], [2.0, 0.0]]], ids=str)
@pytest.mark.parametrize("name", BY_BAG)
def test_new_bags_are_shrunk_as_the_training_bags(problem, name, target, tmp_path):
    bags, y = problem
    landmarks = np.concatenate(bags)[::50]
    model = FreqShrinkage(
        landmarks=landmarks, bandwidth=1.4, shrinkage=name, target=target, alpha=0.1
    ).fit(bags[:30], y[:30])
    mean = None if target is None else KernelMean(np.array(target), RBF(1.4))
    shrunk = [KernelMean(bag, RBF(1.4), estimator=name, target=mean) for bag in bags]
    x = np.array([each(landmarks) for each in shrunk])
    reference = Ridge(alpha=0.1, solver="svd").fit(x[:30], y[:30])
    np.testing.assert_allclose(model.predict(bags), reference.predict(x), rtol=1e-6)
    amounts = [each.shrinkage for each in shrunk]
    np.testing.assert_allclose(model.embed(bags).shrinkage, amounts, rtol=1e-6)
    assert model.shrinkage_ == name
    check_saved(model, bags, tmp_path / "fit.nc")


@pytest.mark.parametrize("name", BY_BAG)
def test_order_of_points_and_bags_does_not_matter_to_prediction(problem, name):
    bags, y = problem
    model = FreqShrinkage(6, shrinkage=name).fit(bags, y, seed=1)
    whole = model.predict(bags)
    np.testing.assert_allclose(model.predict(bags[10:13]), whole[10:13], rtol=1e-10)
    turned = [bag[::-1] for bag in bags]  # as far as the search for lambda goes
    np.testing.assert_allclose(model.predict(turned), whole, rtol=1e-5)


def test_small_bags_shrink_most(problem):
    bags, y = problem
    model = FreqShrinkage(6, shrinkage="s-kmse").fit(bags, y, seed=1)
    sizes = np.array([len(bag) for bag in bags])
    few, many = (sizes > 1) & (sizes < 8), sizes > 20
    shrinkage = model.embed(bags).shrinkage
    assert shrinkage[few].min() > shrinkage[many].max()


def test_bags_whose_points_are_unlike_shrink_to_zero(problem):
    bags, y = problem
    model = FreqShrinkage(6, shrinkage="s-kmse").fit(bags, y, seed=1)
    far = np.array([[0.0, 0.0], [1e4, 0.0], [0.0, 1e4]])
    nothing = model.embed([far])
    assert nothing.shrinkage[0] > 1e15  # infinite but for rounding
    np.testing.assert_allclose(nothing.mean, 0, atol=1e-15)
    assert np.isfinite(model.predict([far])).all()


@pytest.mark.parametrize("shrinkage", ["tuned", "s-kmse"])
@pytest.mark.parametrize(
    "options",
    [
        {"kernel": "matern32"},
        {"kernel": Matern32(1.5)},
        {"kernel": RBF(columns=("a",)) + Linear()},
        {"bandwidth": np.array([1.0, 2.0])},
    ],
    ids=str,
)
def test_kernels_and_features_of_a_file(problem, options, shrinkage, tmp_path):
    arrays, y = problem
    bags = Bags.from_list(arrays, features=["a", "b"])
    model = FreqShrinkage(6, shrinkage=shrinkage, **options).fit(bags, y, seed=1)
    model.save(tmp_path / "fit.nc")
    again = FreqShrinkage.load(tmp_path / "fit.nc")
    np.testing.assert_array_equal(again.predict(bags), model.predict(bags))
    assert repr(again.get_params()) == repr(model.get_params())


def test_a_bandwidth_for_each_feature(problem):
    bags, y = problem
    model = FreqShrinkage(6, bandwidth=np.array([1.0, 2.0]), shrinkage="s-kmse").fit(
        bags, y, seed=1
    )
    stretched = [bag / [1.0, 2.0] for bag in bags]
    same = clone(model).set_params(bandwidth=1.0, landmarks=model.landmarks_ / [1.0, 2.0])
    np.testing.assert_allclose(
        same.fit(stretched, y).predict(stretched), model.predict(bags), rtol=1e-6
    )


def test_wrong_parameters(problem):
    with pytest.raises(ValueError, match="must be 'tuned', 's-kmse' or 'f-kmse', found 'b-kmse'"):
        FreqShrinkage(shrinkage="b-kmse").fit(*problem)
    with pytest.raises(ValueError, match=r"'f-kmse', or one or several numbers >= 0, found -1"):
        FreqShrinkage(shrinkage=-1).fit(*problem)
    with pytest.raises(ValueError, match=r"an array of points, \(m, p\), found \[0.0, 1.0\]"):
        FreqShrinkage(target=[0.0, 1.0]).fit(*problem)
    with pytest.raises(ValueError, match="target 'average' goes with an amount of shrinkage"):
        FreqShrinkage(shrinkage="s-kmse", target="average").fit(*problem)


def test_what_shrinkage_cannot_use(problem):
    bags, y = problem
    weighted = Bags.from_list(bags, weights=[np.ones(len(bag)) for bag in bags])
    with pytest.raises(ValueError, match="count points equally, but the bags have weights"):
        FreqShrinkage(4, shrinkage="s-kmse").fit(weighted, y)
    model = FreqShrinkage(4, shrinkage="s-kmse").fit(bags, y, seed=1)
    with pytest.raises(ValueError, match="count points equally, but the bags have weights"):
        model.predict(weighted)
    plain = embed(bags, LandmarkFeatures(model.kernel_, model.landmarks_))
    with pytest.raises(TypeError, match="not shrunk: use FreqShrinkage.training_features"):
        model.predict_features(plain)
    with pytest.raises(TypeError, match="not shrunk"):
        FreqShrinkage(4, shrinkage="s-kmse").fit_features(BLR(4).training_features(bags, seed=1), y)
    assert isinstance(model.training_features(bags).embedding, ShrunkEmbedding)
