"""Ridge regression on shrunk embeddings; what it shares with `RBFNetwork` is tested there."""

import numpy as np
import pytest
from builders.location_family import location_family
from sklearn.base import clone
from sklearn.linear_model import Ridge

from bdr_stan import BLR, Bags
from bdr_stan.embedding.mean_embedding import embed
from bdr_stan.kernels import RBF, LandmarkFeatures, Linear, Matern32
from experiments.papers import FreqShrinkage
from experiments.papers.shrunk_embedding import ShrunkEmbedding, shrink_embedding


@pytest.fixture(scope="module")
def problem():
    return location_family(11, 40, largest=30)


@pytest.mark.parametrize("estimator", ["s-kmse", "f-kmse"])
def test_new_bags_are_shrunk_as_the_training_bags(problem, estimator, tmp_path):
    bags, y = problem
    landmarks = np.concatenate(bags)[::50]
    model = FreqShrinkage(landmarks=landmarks, bandwidth=1.4, estimator=estimator, alpha=0.1)
    model.fit(bags[:30], y[:30])
    features = LandmarkFeatures(RBF(1.4), landmarks)
    plain = embed(bags, features)
    x = shrink_embedding(plain, Bags.from_list(bags), features, RBF(1.4), estimator=estimator).mean
    reference = Ridge(alpha=0.1, solver="svd").fit(x[:30], y[:30])
    np.testing.assert_allclose(model.predict(bags), reference.predict(x), rtol=1e-9)
    assert model.embed(bags).shrinkage.shape == (40,)
    model.save(tmp_path / "fit.nc")
    again = FreqShrinkage.load(tmp_path / "fit.nc")
    assert again.estimator == estimator
    np.testing.assert_array_equal(again.predict(bags), model.predict(bags))


@pytest.mark.parametrize("estimator", ["s-kmse", "f-kmse"])
def test_order_of_points_and_bags_does_not_matter_to_prediction(problem, estimator):
    bags, y = problem
    model = FreqShrinkage(6, estimator=estimator).fit(bags, y, seed=1)
    whole = model.predict(bags)
    np.testing.assert_allclose(model.predict(bags[10:13]), whole[10:13], rtol=1e-10)
    turned = [bag[::-1] for bag in bags]  # as far as the search for lambda goes
    np.testing.assert_allclose(model.predict(turned), whole, rtol=1e-5)


def test_small_bags_shrink_most(problem):
    bags, y = problem
    model = FreqShrinkage(6).fit(bags, y, seed=1)
    sizes = np.array([len(bag) for bag in bags])
    few, many = (sizes > 1) & (sizes < 8), sizes > 20
    shrinkage = model.embed(bags).shrinkage
    assert shrinkage[few].min() > shrinkage[many].max()


def test_bags_whose_points_are_unlike_shrink_to_zero(problem):
    bags, y = problem
    model = FreqShrinkage(6).fit(bags, y, seed=1)
    far = np.array([[0.0, 0.0], [1e4, 0.0], [0.0, 1e4]])
    nothing = model.embed([far])
    assert nothing.shrinkage[0] > 1e15  # infinite but for rounding
    np.testing.assert_allclose(nothing.mean, 0, atol=1e-15)
    assert np.isfinite(model.predict([far])).all()


@pytest.mark.parametrize(
    "options",
    [
        {"kernel": "matern32"},
        {"kernel": Matern32(1.5)},
        {"kernel": RBF(columns=("a",)) + Linear()},
        {"features": "fourier"},
        {"bandwidth": np.array([1.0, 2.0])},
    ],
    ids=str,
)
def test_kernels_and_features_of_a_file(problem, options, tmp_path):
    arrays, y = problem
    bags = Bags.from_list(arrays, features=["a", "b"])
    model = FreqShrinkage(6, **options).fit(bags, y, seed=1)
    model.save(tmp_path / "fit.nc")
    again = FreqShrinkage.load(tmp_path / "fit.nc")
    np.testing.assert_array_equal(again.predict(bags), model.predict(bags))
    assert repr(again.get_params()) == repr(model.get_params())


def test_a_bandwidth_for_each_feature(problem):
    bags, y = problem
    model = FreqShrinkage(6, bandwidth=np.array([1.0, 2.0])).fit(bags, y, seed=1)
    stretched = [bag / [1.0, 2.0] for bag in bags]
    same = clone(model).set_params(bandwidth=1.0, landmarks=model.landmarks_ / [1.0, 2.0])
    np.testing.assert_allclose(
        same.fit(stretched, y).predict(stretched), model.predict(bags), rtol=1e-6
    )


def test_wrong_estimator(problem):
    with pytest.raises(ValueError, match="must be 's-kmse' or 'f-kmse', found 'b-kmse'"):
        FreqShrinkage(estimator="b-kmse").fit(*problem)


def test_what_shrinkage_cannot_use(problem):
    bags, y = problem
    weighted = Bags.from_list(bags, weights=[np.ones(len(bag)) for bag in bags])
    with pytest.raises(ValueError, match="counts points equally, but the bags have weights"):
        FreqShrinkage(4).fit(weighted, y)
    model = FreqShrinkage(4).fit(bags, y, seed=1)
    with pytest.raises(ValueError, match="counts points equally, but the bags have weights"):
        model.predict(weighted)
    plain = embed(bags, LandmarkFeatures(model.kernel_, model.landmarks_))
    with pytest.raises(TypeError, match="not shrunk: use FreqShrinkage.training_features"):
        model.predict_features(plain)
    with pytest.raises(TypeError, match="not shrunk"):
        FreqShrinkage(4).fit_features(BLR(4).training_features(bags, seed=1), y)
    assert isinstance(model.training_features(bags).embedding, ShrunkEmbedding)
