"""Distribution-free distribution regression: densities of bags, and smoothing in their distance.

A baseline that knows no kernel means: each bag's density is estimated by itself, and the label of
a new bag is the average of the labels of bags with a similar density.
"""

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.base import RegressorMixin

from bdr_stan.bags import Bags, as_bags, check_labels
from bdr_stan.embedding.mean_embedding import embed
from bdr_stan.kernel_means.kernel_mean import bag_squared_norms
from bdr_stan.kernels import RBF, check_bandwidth, median_bandwidth
from bdr_stan.estimators.base import BagEstimator
from bdr_stan.results.groups import named_groups
from bdr_stan.estimators.merr import checked_validation, squared_distances
from bdr_stan.estimators.merr_cv import stacked_bags
from bdr_stan.kernel_means.set_kernels import point_weights, set_kernels

# Tried by default: bandwidths of the densities as parts of the median rule, and of the smoothing
# as parts of the median distance between the training bags' densities.
_BANDWIDTHS = 2.0 ** np.arange(-5, 1)
_SMOOTHINGS = 2.0 ** np.arange(-5, 1.25, 0.5)


class DFDR(RegressorMixin, BagEstimator):
    """Kernel density estimate of each bag, and a weighted average of labels of similar bags.

        p_i(z) = mean_j normal(z | x_ij, h^2 I)
        f(B) = sum_i w_i y_i / sum_i w_i,  w_i = exp(-D(p_i, p_B)^2 / (2 b^2))

    Parameters
    ----------
    distance : {"l2", "l1"}, default "l2"
        D between densities: the root of the integrated squared difference, from all pairs of
        points exactly, or the integrated absolute difference, by importance sampling.
    bandwidths : sequence of float, optional
        h to try, > 0, in the units of the points; default 1/32, 1/16, .., 1 times the median rule.
    smoothings : sequence of float, optional
        b to try, > 0, as parts of the median distance between the training bags' densities;
        default 2^-5, 2^-4.5, .., 2.
    n_samples : int, default 2000
        Points for the integrals of "l1", drawn from the average density of the training bags.
    random_state : int, optional
        Seed where `fit` gets none.

    Attributes
    ----------
    bandwidth_, smoothing_ : float
        h and b (as part of the median distance) chosen.
    table_ : pandas.DataFrame
        One row for each h: bandwidth, smoothing, rmse; the best first.
    idata : InferenceData or DataTree
        posterior: smoothing, the b in use, a single draw; constant_data what predicts.

    Notes
    -----
    Chosen by the squared error on validation bags, else by leave-one-out. "l2" leaves out a
    factor that all distances share, as b does not notice. Source: Poczos, Singh, Rinaldo,
    Wasserman (2013), "Distribution-free distribution regression"; their weights have a bounded
    support, which leaves bags without a neighbour.
    """

    def __init__(
        self,
        *,
        distance="l2",
        bandwidths=None,
        smoothings=None,
        n_samples=2000,
        random_state=None,
    ):
        self.distance = distance
        self.bandwidths = bandwidths
        self.smoothings = smoothings
        self.n_samples = n_samples
        self.random_state = random_state

    def fit(self, bags, y, *, validation=None, seed=None):
        """Fit to bags and their labels.

        Parameters
        ----------
        bags : Bags, or list of n arrays, shapes (n_points, p)
        y : array, shape (n,)
        validation : (bags, y), optional
            Bags and labels by whose squared error the bandwidths are chosen; default
            leave-one-out.
        seed : int, optional
            Seed of the median rule and of importance sampling; default `random_state`.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            Unusable bags, labels or parameters; raised before any work starts.
        """
        import pandas as pd

        bags = as_bags(bags)
        y = check_labels(bags, y)
        self._check_parameters()
        together, held_y = bags, y
        if validation is not None:
            held, held_y = checked_validation(validation, bags)
            together = stacked_bags(bags, held)
        rng = np.random.default_rng(self.random_state if seed is None else seed)
        bandwidths = self.bandwidths
        if bandwidths is None:
            bandwidths = _BANDWIDTHS * median_bandwidth(bags, seed=rng)
        bandwidths = np.atleast_1d(np.asarray(bandwidths, float))
        smoothings = np.atleast_1d(_SMOOTHINGS if self.smoothings is None else self.smoothings)
        n = len(y)
        shape = self.n_samples if self.distance == "l1" else 0, bags.n_features
        rows = rng.choice(len(bags.points), shape[0], p=point_weights(bags) / n)
        centres, noise = bags.read_rows(np.sort(rows)), rng.standard_normal(shape)

        vars(self).pop("_groups", None)  # an attempt that fails leaves no fit behind
        self._idata = None
        grams = None
        if self.distance == "l2":
            grams = set_kernels(together, [_overlap(h) for h in bandwidths])
        found = []
        for k, h in enumerate(bandwidths):
            if grams is not None:
                squares = grams[k].diagonal()
                apart = np.sqrt(squared_distances(grams[k][:, :n], squares, squares[:n]))
                densities = {"squared_norm": squares[:n]}
            else:
                samples = centres + h * noise
                relative = embed(together, samples, h).mean
                average = relative[:n].mean(axis=0)
                relative /= average
                apart = cdist(relative, relative[:n], "cityblock") / len(samples)
                densities = {"samples": samples, "average": average, "density": relative[:n]}
            between = apart[:n][np.triu_indices(n, 1)]
            if not np.median(between) > 0:
                raise ValueError(
                    f"most bags have the same density at bandwidth {h:g}: leave this bandwidth out"
                )
            unit = float(np.median(between))
            if validation is None:
                np.fill_diagonal(apart, np.inf)
            asked = apart if validation is None else apart[n:]
            errors = [
                np.mean((_smoothed(asked, y, b * unit) - held_y) ** 2) for b in smoothings
            ]
            best = int(np.argmin(errors))
            found.append((np.sqrt(errors[best]), float(h), float(smoothings[best]), unit, densities))
        found.sort(key=lambda row: row[0])
        self.table_ = pd.DataFrame(
            [(h, b, rmse) for rmse, h, b, *_ in found], columns=["bandwidth", "smoothing", "rmse"]
        )
        _, self.bandwidth_, self.smoothing_, unit, densities = found[0]
        self.n_features_in_ = bags.n_features
        self._set_feature_names(bags.features)
        self._training = bags if self.distance == "l2" else None
        self._groups = named_groups(
            {"smoothing": np.full((1, 1), self.smoothing_ * unit)},
            {},
            {"inference_method": "smoothing"},
            self._constants(densities, bags),
            np.arange(n) if bags.ids is None else np.asarray(bags.ids),
            y,
        )
        return self

    def predict(self, bags):
        """Predicted label of each bag.

        Parameters
        ----------
        bags : Bags, or list of n arrays, shapes (n_points, p)

        Returns
        -------
        array, shape (n,), units of y
        """
        bags = self._like_training(bags)
        known = {name: array.values for name, array in self._groups["constant_data"].items()}
        if self.distance == "l2":
            kernel = _overlap(self.bandwidth_)
            squares = bag_squared_norms(bags, point_weights(bags), kernel)
            products = set_kernels(bags, [kernel], self._training)[0]
            apart = np.sqrt(squared_distances(products, squares, known["squared_norm"]))
        else:
            density = embed(bags, known["samples"], self.bandwidth_).mean / known["average"]
            apart = cdist(density, known["density"], "cityblock") / len(known["samples"])
        y = self._groups["observed_data"]["y"].values
        return _smoothed(apart, y, float(self._groups["posterior"]["smoothing"].values[0, 0]))

    def _check_parameters(self):
        if self.distance not in ("l1", "l2"):
            raise ValueError(f"distance must be 'l1' or 'l2', found {self.distance!r}")
        for name in ("bandwidths", "smoothings"):
            values = getattr(self, name)
            if values is None:
                continue
            if np.size(values) == 0:
                raise ValueError(f"{name} is empty: give at least one number")
            for value in np.atleast_1d(values):
                check_bandwidth(value, name)
        if not isinstance(self.n_samples, (int, np.integer)) or self.n_samples < 1:
            raise ValueError(f"n_samples must be an integer >= 1, found {self.n_samples!r}")

    # ------------------------------------------------------------ files

    def _constants(self, densities, bags):
        dims = {
            "squared_norm": ["bag"],
            "samples": ["sample", "feature"],
            "average": ["sample"],
            "density": ["bag", "sample"],
        }
        constants = {name: (values, dims[name]) for name, values in densities.items()}
        constants["bag_size"] = bags.sizes, ["bag"]
        if self._training is not None:
            constants["points"] = bags.points, ["point", "feature"]
            if bags.weights is not None:
                constants["point_weight"] = bags.weights, ["point"]
        return constants

    def _config(self):
        chosen = {"bandwidth": self.bandwidth_, "smoothing": self.smoothing_}
        return super()._config() | chosen | {"table": self.table_.to_dict("list")}

    def _restore(self, groups, config):
        import pandas as pd

        super()._restore(groups, config)
        self.bandwidth_, self.smoothing_ = config["bandwidth"], config["smoothing"]
        self.table_ = pd.DataFrame(config["table"])
        known = {name: array.values for name, array in groups["constant_data"].items()}
        self._training = None
        if self.distance == "l2":
            self._training = Bags.from_points(
                known["points"], sizes=known["bag_size"], weights=known.get("point_weight")
            )
        self.n_features_in_ = known["points" if self.distance == "l2" else "samples"].shape[1]
        return self


def _overlap(h):
    """Integral of normal(z | x, h^2 I) normal(z | y, h^2 I), up to a factor, as a kernel."""
    return RBF(np.sqrt(2) * h)


def _smoothed(apart, y, b):
    """Average of y weighted by exp(-apart^2 / (2 b^2)), shape (m,); `apart` (m, n)."""
    exponent = -((apart / b) ** 2) / 2
    weights = np.exp(exponent - exponent.max(axis=1, keepdims=True))
    return weights @ y / weights.sum(axis=1)
