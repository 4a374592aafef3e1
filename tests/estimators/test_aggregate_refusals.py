"""What fits and predictions of rates refuse."""

import numpy as np
import pandas as pd
import pytest
from builders.rates import country, fitted, with_effects

from bdr_stan import AggregateRegressor, Bags
from bdr_stan.kernels import RBF


def fit_with(y=None, bags=None, trials=None, fit=None, **parameters):
    bags = country() if bags is None else bags
    y = np.arange(len(bags)) if y is None else y
    AggregateRegressor(**{"n_landmarks": 5, **parameters}).fit(
        bags, y, trials=trials, **(fit or {})
    )


def changed(values, i, value):
    values = np.array(values, float)
    values[i] = value
    return values


COUNTS = np.arange(1, 31)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"likelihood": "beta"}, "likelihood must be one of 'poisson', .*found 'beta'"),
        ({"link": "log"}, "negative binomial likelihood takes the link 'square' or 'exp', found"),
        ({"likelihood": "normal", "link": "square"}, "normal likelihood takes the link 'identity'"),
        ({"likelihood": "binomial", "link": "exp"}, "binomial likelihood takes the link 'logit'"),
        ({"method": "exact"}, "AggregateRegressor has no method 'exact'; there are: .*vb"),
        ({"kernel": "gauss"}, "kernel must be a Kernel, 'auto' or one of 'rbf', .*found 'gauss'"),
        ({"y": changed(COUNTS, 3, 2.5)}, "label of bag 3 is 2.5 .* needs counts .*'normal' or"),
        ({"y": changed(COUNTS, 3, -1)}, "bag 3 is -1 .*negative binomial likelihood needs"),
        ({"y": changed(COUNTS, 3, 2.5e9)}, "label of bag 3 is 2500000000 .*up to 2147483647"),
        ({"y": changed(COUNTS, 3, np.nan)}, "label of bag 3 is nan"),
        ({"y": np.zeros(30)}, "all 30 labels are 0"),
        ({"y": COUNTS[:7]}, "y has 7 labels, but there are 30 bags"),
        ({"y": COUNTS - 1, "likelihood": "exponential"}, "bag 0 is 0 .*needs labels > 0"),
        ({"y": COUNTS - 1, "likelihood": "gamma"}, "bag 0 is 0 .*needs labels > 0"),
        ({"likelihood": "binomial"}, "the binomial likelihood needs trials of these bags: give"),
        ({"likelihood": "binomial", "y": COUNTS, "trials": np.full(30, 20)},
         "label of bag 20 is 21, above its 20 trials"),
        ({"likelihood": "binomial", "method": "vb", "trials": COUNTS},
         "method='vb' has no bound for the binomial likelihood"),
        ({"bag_effects": True}, "the negative binomial likelihood has effects of bags already"),
        ({"bag_effects": True, "likelihood": "gamma"}, "cannot separate from an effect: leave out"),
        ({"bag_effects": True, "method": "laplace", "likelihood": "poisson"},
         "method='laplace' takes no bag_effects"),
        ({"thin": 10}, "link 'square' needs no thinning: it is compressed without loss"),
        ({"thin": 10, "likelihood": "normal"}, "link 'identity' needs no thinning"),
        ({"thin": 0, "link": "exp"}, "thin must be an integer >= 1, found 0"),
        ({"thin": 2.5, "link": "exp"}, "thin must be an integer >= 1, found 2.5"),
        ({"method": "vb", "stan_file": "mine.stan"}, "method='vb' runs no Stan program"),
        ({"landmarks": "grid"}, "must be 'kmeans', 'random', 'one per bag' or an array"),
        ({"kernel": RBF(columns=[5])}, "RBF depends on the column 5, which the points do not have"),
        ({"kernel": RBF(columns=["rain"])}, "depends on the column 'rain', .*they have 0 to 1"),
        ({"kernel": RBF([1.0, 2.0, 3.0])}, "bandwidth has 3 entries, but the points have 2"),
        ({"fit": {"draws": 0}}, "draws must be an integer >= 1, found 0"),
        ({"prior": {"sigma_scale": 1.0}, "learn_kernel": False},
         "prior has no number called 'sigma_scale'; this model has intercept_location"),
    ],
)  # fmt: skip
def test_what_a_fit_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        fit_with(**{"y": COUNTS, **arguments})


@pytest.mark.parametrize("rate", [0.0, 0.7, -3.0])
def test_normal_totals_that_are_all_alike(rate):
    bags = country()
    with pytest.raises(ValueError, match=f"every label is {rate:g} times its bag's total weight"):
        fit_with(rate * bags.totals, likelihood="normal")


def test_kernels_that_are_none():
    with pytest.raises(
        ValueError, match="kernel must be a Kernel, 'auto' or one of 'rbf', .* found 3"
    ):
        fit_with(kernel=3)
    with pytest.raises(ValueError, match="RBF names the column 'rain' twice: name each once"):
        RBF(columns=["rain", "height", "rain"])


@pytest.mark.parametrize("value, said", [(np.nan, "value is nan"), (-3.4e38, "nodata marker")])
def test_missing_values(value, said, tmp_path):
    bags = country()
    points = bags.points.copy()
    points[bags.offsets[5] - 1, 1] = value
    np.save(tmp_path / "points.npy", points)
    with pytest.raises(ValueError, match=f"bag 4, point [0-9]+, column 1: .*{said}"):
        Bags(points, bags.offsets)
    mapped = Bags(np.load(tmp_path / "points.npy", mmap_mode="r"), bags.offsets)
    with pytest.raises(ValueError, match=f"bag 4, point [0-9]+, column 1: .*{said}"):
        fit_with(COUNTS, mapped)


def test_bags_of_no_weight():
    bags = country()
    weights = bags.weights.copy()
    weights[bags.offsets[2] : bags.offsets[3]] = 0
    with pytest.raises(ValueError, match="all weights of bag 2 are zero"):
        Bags(bags.points, bags.offsets, weights=weights)


def test_what_predictions_refuse():
    model, bags, _ = fitted("binomial")
    with pytest.raises(
        ValueError, match="binomial likelihood needs trials of these bags: give trials="
    ):
        model.predict(bags)
    with pytest.raises(ValueError, match=r"trials has shape \(2,\), expected \(30,\)"):
        model.predict(bags, trials=[5, 5])
    with pytest.raises(ValueError, match="number of trials of bag 0 is 5.5 .*whole numbers"):
        model.predict(bags, trials=5.5)
    named = Bags(bags.points, bags.offsets, weights=bags.weights, features=["rain", "height"])
    with pytest.raises(
        ValueError, match="no column 'height', which the model was fitted to; it has"
    ):
        fitted(bags=named)[0].predict_points(pd.DataFrame({"rain": [0.5], "people": [3.0]}))
    with pytest.raises(
        ValueError, match="have 3 features per point, but the model was fitted to 2"
    ):
        model.predict_points(np.zeros((4, 3)))
    with pytest.raises(ValueError, match="n_draws must be an integer >= 1, found 0"):
        model.predict_points(bags, n_draws=0)
    with pytest.raises(ValueError, match="value is nan"):
        model.predict_points(np.full((4, 2), np.nan))


def test_districts_that_cannot_be_used():
    model, bags, _ = with_effects("negative binomial", "square", "laplace")
    with pytest.raises(ValueError, match="district 'x' of bag 1 is not a bag of the fit"):
        model.predict(bags[:2], district=["d0", "x"])
    with pytest.raises(TypeError, match="district is a list with one entry, 'd0'"):
        model.predict(bags[:2], district=["d0"])
    with pytest.raises(ValueError, match=r"district has shape \(1,\), but there are 3 points"):
        model.predict_points(bags.points[:3], district=["d0"])
    with pytest.raises(ValueError, match="the points have no column 'region'"):
        model.predict_points(bags.points[:3], district="region")
    poisson, bags, _ = fitted()
    with pytest.raises(ValueError, match="district goes with effects of training bags, which"):
        poisson.predict(bags[:1], district=[0])
