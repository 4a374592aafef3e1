"""Support measure machines against scikit-learn's machines on features that are known."""

import pickle
import tracemalloc

import numpy as np
import pytest
from sklearn.base import clone, is_classifier, is_outlier_detector
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.svm import SVC, OneClassSVM

from bdr_stan import Bags
from bdr_stan.kernel_means.kernel_mean import KernelMean
from bdr_stan.kernel_means.shrinkage import ESTIMATORS
from bdr_stan.kernels import RBF, Cauchy, Linear
from experiments.papers import OneClassSMM, SupportMeasureMachine
from experiments.papers.support_measures import bag_weights


@pytest.fixture
def problem(rng):
    """Two classes of bags that differ in spread alone, sizes from 1 to 25."""
    y = rng.permutation(np.repeat([0, 1], 30))
    sizes = rng.integers(5, 26, 60)
    sizes[:2] = 1
    bags = [rng.normal(size=(m, 2)) * (1 + 1.5 * c) + 1 for m, c in zip(sizes, y, strict=True)]
    return bags, np.array(["narrow", "wide"])[y]


def gram_of(bags, others, kernel, estimator, outer, width=0.3):
    """Kernel between bags, pair by pair."""
    left = [KernelMean(x, kernel, estimator=estimator) for x in bags]
    right = [KernelMean(x, kernel, estimator=estimator) for x in others]
    if outer == "linear":
        return np.array([[a.inner(b) for b in right] for a in left])
    distances = np.array([[a.distance(b) for b in right] for a in left])
    return np.exp(-(distances**2) / (2 * width**2))


@pytest.mark.parametrize("outer", ["linear", "gaussian"])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_it_is_the_machine_on_pairs_of_bags(problem, estimator, outer):
    bags, y = problem
    bags, y, new = bags[:20], y[:20], bags[20:30]
    kernel = RBF(1.5)
    options = {"estimator": estimator, "outer": RBF(0.3) if outer == "gaussian" else outer}
    gram = gram_of(bags, bags, kernel, estimator, outer)
    cross = gram_of(new, bags, kernel, estimator, outer)
    ours = SupportMeasureMachine(kernel, C=3.0, **options).fit(bags, y)
    theirs = SVC(C=3.0, kernel="precomputed").fit(gram, y)
    np.testing.assert_allclose(
        ours.decision_function(new), theirs.decision_function(cross), atol=1e-3
    )
    np.testing.assert_array_equal(ours.predict(bags), theirs.predict(gram))
    ours = OneClassSMM(kernel, nu=0.2, **options).fit(bags)
    theirs = OneClassSVM(nu=0.2, kernel="precomputed").fit(gram)
    np.testing.assert_allclose(
        ours.decision_function(new), theirs.decision_function(cross), atol=1e-3
    )


def test_the_linear_machine_is_one_on_means(problem):
    bags, y = problem
    means = np.array([bag.mean(axis=0) for bag in bags])
    ours = SupportMeasureMachine(Linear()).fit(bags, y)
    theirs = SVC(kernel="linear").fit(means, y)
    np.testing.assert_allclose(
        ours.decision_function(bags), theirs.decision_function(means), atol=1e-3
    )


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("outer", ["linear", "gaussian"])
def test_it_learns(problem, estimator, outer):
    bags, y = problem
    machine = SupportMeasureMachine(estimator=estimator, outer=outer, C=100.0)
    scores = cross_val_score(machine, Bags.from_list(bags), y, cv=3)
    assert scores.mean() > 0.75
    detector = OneClassSMM(estimator=estimator, outer=outer).fit(
        [b for b, c in zip(bags, y, strict=True) if c == "narrow"][:20]
    )
    scores = detector.decision_function(bags)
    assert roc_auc_score(y == "narrow", scores) > 0.75
    np.testing.assert_array_equal(detector.predict(bags), np.where(scores > 0, 1, -1))


def test_conventions(problem):
    bags, y = problem
    machine = SupportMeasureMachine(estimator="s-kmse", outer="gaussian").fit(bags, y)
    assert is_classifier(machine) and is_outlier_detector(OneClassSMM())
    assert list(machine.classes_) == ["narrow", "wide"]
    assert machine.shrinkage_.shape == (60,) and machine.shrinkage_[0] == 0
    again = pickle.loads(pickle.dumps(machine))
    np.testing.assert_array_equal(again.decision_function(bags), machine.decision_function(bags))
    assert repr(clone(machine)) == repr(machine)
    assert machine.score(bags, y) == np.mean(machine.predict(bags) == y)
    part = machine.decision_function(bags[10:13])
    np.testing.assert_allclose(part, machine.decision_function(bags)[10:13], rtol=1e-10)
    search = GridSearchCV(machine, {"outer": ["linear", "gaussian"]}, cv=2)
    assert search.fit(Bags.from_list(bags), y).best_score_ > 0.75


def test_kernel_values_of_all_points_are_never_held(rng):
    y = np.repeat([0, 1], 50)
    bags = rng.normal(size=(100, 60, 2)) * (1 + y[:, None, None])
    tracemalloc.start()
    SupportMeasureMachine(estimator="f-kmse", outer="gaussian").fit(bags, y).predict(bags)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 6000**2 / 4  # a quarter of them, at most


def test_several_classes(problem):
    bags, _ = problem
    y = np.repeat([0, 1, 2], 20)
    bags = [bag + 5 * c for bag, c in zip(bags, y, strict=True)]
    machine = SupportMeasureMachine(RBF(2.0), C=10.0).fit(bags, y)
    assert machine.score(bags, y) > 0.95
    gram = gram_of(bags, bags, RBF(2.0), "kme", "linear")
    plain = SVC(C=10.0, kernel="precomputed").fit(gram, y)
    found = machine.decision_function(bags)
    np.testing.assert_allclose(found, plain.decision_function(gram), atol=1e-3)
    np.testing.assert_array_equal(machine.predict(bags), plain.predict(gram))


def test_outer_bandwidth_is_the_median_rule(problem):
    bags, y = problem
    kernel = RBF(1.5)
    means = [KernelMean(x, kernel) for x in bags[:12]]
    squares = [a.distance(b) ** 2 for i, a in enumerate(means) for b in means[:i]]
    machine = SupportMeasureMachine(kernel, outer="gaussian").fit(bags[:12], y[:12])
    assert machine.outer_.bandwidth == pytest.approx(np.sqrt(np.median(squares) / 2))


def test_outer_kernels_by_name_and_as_objects(problem):
    bags, y = problem
    bandwidth = SupportMeasureMachine(outer="gaussian").fit(bags, y).outer_.bandwidth
    decisions = {
        outer: SupportMeasureMachine(outer=outer).fit(bags, y).decision_function(bags)
        for outer in ("gaussian", "rbf", RBF(bandwidth), RBF("median"), "cauchy", Cauchy(bandwidth))
    }
    gauss, named, given, waiting, cauchy, same = decisions.values()
    for other in (named, given, waiting):
        np.testing.assert_array_equal(other, gauss)
    np.testing.assert_array_equal(same, cauchy)
    assert np.abs(cauchy - gauss).max() > 1e-3


@pytest.mark.parametrize(
    ("estimator", "outer"), [("kme", "linear"), ("s-kmse", Cauchy(0.5)), ("f-kmse", "gaussian")]
)
@pytest.mark.parametrize("n_classes", [1, 2, 3])
def test_pickle_keeps_the_fit(problem, n_classes, estimator, outer):
    bags, y = problem
    bags = Bags.from_list(bags, features=["a", "b"], ids=[f"bag {i}" for i in range(60)])
    options = {"estimator": estimator, "outer": outer}
    if n_classes == 1:
        model = OneClassSMM(**options).fit(bags)
    else:
        model = SupportMeasureMachine(**options, C=5.0)
        model.fit(bags, y if n_classes == 2 else np.repeat([10, 30, 20], 20))
    again = pickle.loads(pickle.dumps(model))
    assert repr(again.get_params()) == repr(model.get_params())
    predicted = again.predict(bags)
    np.testing.assert_array_equal(predicted, model.predict(bags))
    assert predicted.dtype == model.predict(bags).dtype
    np.testing.assert_array_equal(again.decision_function(bags), model.decision_function(bags))
    np.testing.assert_array_equal(again.shrinkage_, model.shrinkage_)
    if n_classes > 1:
        np.testing.assert_array_equal(again.classes_, model.classes_)
    assert list(again.feature_names_in_) == ["a", "b"]


def test_weighted_points_count_by_weight(problem):
    bags, y = problem
    doubled = [np.vstack([bag, bag[:1]]) for bag in bags]
    weighted = Bags.from_list(bags, weights=[np.r_[2.0, np.ones(len(b) - 1)] for b in bags])
    one, other = (SupportMeasureMachine(RBF(1.5)).fit(b, y) for b in (doubled, weighted))
    expected = one.decision_function(doubled)
    np.testing.assert_allclose(other.decision_function(weighted), expected, rtol=1e-6)


def test_a_fit_keeps_the_bags_at_the_margin_alone(problem):
    machine = SupportMeasureMachine(C=100.0).fit(*problem)
    support = machine.machine_.support_
    assert 0 < len(support) < 60
    kept = machine.support_bags_.points
    assert len(kept) == sum(len(problem[0][i]) for i in support)


@pytest.mark.parametrize(
    ("machine", "message"),
    [
        (SupportMeasureMachine(estimator="mean"), "estimator must be one of"),
        (
            SupportMeasureMachine(outer="cubic"),
            "outer must be .*'linear', 'rbf', .* 'gaussian', found 'cubic'",
        ),
        (SupportMeasureMachine(C=0), "C must be a positive number, found 0"),
        (SupportMeasureMachine("gauss"), "kernel must be a Kernel, 'auto' or one of"),
        (OneClassSMM(nu=0), r"nu must be in \(0, 1\], found 0"),
    ],
)
def test_unusable_parameters(problem, machine, message):
    with pytest.raises(ValueError, match=message):
        machine.fit(*problem)


def test_other_errors(problem):
    bags, y = problem
    with pytest.raises(NotFittedError):
        SupportMeasureMachine().predict(bags)
    with pytest.raises(ValueError, match=r"y has shape \(59,\), expected \(60,\)"):
        SupportMeasureMachine().fit(bags, y[1:])
    with pytest.raises(ValueError, match="y has one class, .*'narrow'"):
        SupportMeasureMachine().fit(bags, ["narrow"] * 60)
    machine = SupportMeasureMachine().fit(bags, y)
    with pytest.raises(ValueError, match="the bags have 1 features per point, but the model was"):
        machine.predict([bag[:, :1] for bag in bags])
    named = SupportMeasureMachine().fit(Bags.from_list(bags, features=["a", "b"]), y)
    with pytest.raises(ValueError, match="column 0 of the bags is 'b', but the model was fitted"):
        named.predict(Bags.from_list(bags, features=["b", "a"]))
    with pytest.raises(ValueError, match="most bags have the same kernel mean"):
        OneClassSMM("rbf", 1.0, outer="gaussian").fit([np.ones((2, 1))] * 5)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_weights_of_points_are_those_of_kernel_means(rng, estimator):
    arrays = [rng.normal(size=(size, 3)) for size in (1, 5, 30, 2, 8)]
    means = [KernelMean(a, RBF(2.0), estimator=estimator) for a in arrays]
    weights, shrinkage = bag_weights(Bags.from_list(arrays), RBF(2.0), estimator)
    np.testing.assert_allclose(weights, np.concatenate([m.weights for m in means]))
    np.testing.assert_allclose(shrinkage, [m.shrinkage for m in means])


def test_weighted_bags_keep_their_weights(rng):
    bags = Bags.from_list(
        [rng.normal(size=(2, 1)), rng.normal(size=(3, 1))], weights=[[1, 3], [0, 2, 2]]
    )
    weights, _ = bag_weights(bags, RBF(1.0), "kme")
    np.testing.assert_allclose(weights, [0.25, 0.75, 0, 0.5, 0.5])
    with pytest.raises(ValueError, match="'s-kmse' counts points equally, but the bags have"):
        bag_weights(bags, RBF(1.0), "s-kmse")


def test_weights_of_memory_maps(rng, tmp_path):
    points = rng.normal(size=(30, 2))
    in_memory = Bags.from_points(points, sizes=[4, 26])
    np.save(tmp_path / "points.npy", points)
    mapped = Bags.from_points(np.load(tmp_path / "points.npy", mmap_mode="r"), sizes=[4, 26])
    weights = bag_weights(in_memory, RBF(1.0), "s-kmse")[0]
    np.testing.assert_array_equal(bag_weights(mapped, RBF(1.0), "s-kmse")[0], weights)
    points[7, 1] = np.nan
    np.save(tmp_path / "points.npy", points)
    mapped = Bags.from_points(np.load(tmp_path / "points.npy", mmap_mode="r"), sizes=[4, 26])
    with pytest.raises(ValueError, match="bag 1, point 3, column 1: value is nan"):
        bag_weights(mapped, RBF(1.0), "kme")
