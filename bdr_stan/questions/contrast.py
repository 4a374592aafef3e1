"""What a change of the points changes, for example a policy: the movement of mean embeddings.

docs/explanation/model.md has the formulas, of shares p_j before and q_j after: the error of the
movement (the linearisation of a ratio, Sarndal, Swensson and Wretman 1992, section 5.5), and its
bias where only shares change. Here both sums are divided by 1 - sum_j p_j^2, with equal shares (N
- 1) / N. An added point has p_j = 0 and no error, and m' is the mean of the other points. Small
bags have too few points for their own variance: that of one point is averaged with the variance
over all bags, with the weight of ten points.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from bdr_stan.bags import Bags, BagsLike
from bdr_stan.bags.matching import rows_of_ids
from bdr_stan.bags.samples import by_name
from bdr_stan.embedding.mean_embedding import Movement
from bdr_stan.embedding.shrinkage import ATTENUATED, attenuation
from bdr_stan.embedding.training import embedded
from bdr_stan.kernels import FeatureMap
from bdr_stan.predictive.classes import of_category
from bdr_stan.predictive.contrast import Contrast
from bdr_stan.predictive.robustness import Regression
from bdr_stan.questions.protocol import Fit
from bdr_stan.types import Array, ArrayLike
from bdr_stan.user_warnings import warn

_PRIOR_POINTS = 10  # weight of the average variance of all bags
_MOST_POINTS = 10_000  # of a bag, evenly spaced, for estimating its variance
_FEATURES_AT_ONCE = 500_000  # numbers in memory (4 MB)
_LEAST_DEGREES = 1e-12  # of 1 - sum_j p_j^2, whose bag of one point has no deviations
_CONSTANT_SHARE = 1e-20  # sum of squared deviations of a constant, relative to its own squares
_ALIKE = 4  # standard errors below which the versions' points are uncorrelated
_LEAST_POINTS = 50  # to find that out
_DRAWS_OF_MODE = 1000  # of sampling errors, for a contrast under a fit with one draw
_SCALES = ("sigma", "sigma_point", "rho", "eta", "term_sd")


class Contrasts(Fit):
    """Effects of changes of the points."""

    def contrast(
        self: Any,
        bags_a: BagsLike,
        bags_b: BagsLike,
        *,
        trials: ArrayLike | str | None = None,
        exposure: ArrayLike | str | None = None,
        offset: ArrayLike | str | None = None,
        category: Any = None,
    ) -> Contrast:
        """Posterior of the effect of a change of the points on each bag's expected label.

        The versions are made of the same points: some or all have other values (the same number of
        points in each bag, in the same order), other weights, or some are removed or added. Small
        bags are not shrunk towards the average bag: a changed bag is the same bag, moved.

        Parameters
        ----------
        bags_a, bags_b : Bags, or lists of n arrays, shapes (n_points, p)
            The bags after the change, and before: label of `bags_a` minus label of `bags_b`; for
            two classes the probability of the second.

        Returns
        -------
        Contrast
            With `mean`, `sd`, `quantile(q)`, `interval(level)`, `draws` and `reliability`; of
            normal labels with `robustness()` against omitted causes.

        Raises
        ------
        ValueError
            The versions have different numbers of bags, or of points and neither contains the
            other's; or a category is not a class.
        TypeError
            The labels have more than two classes, and `category` is missing; points of BDR or
            Shrinkage in partitions.

        Warns
        -----
        UserWarning
            The effect is attenuated (see `Contrast`), or the points are in different orders.

        Notes
        -----
        For each draw of the weights w the linear predictor moves by w' delta, delta the average
        movement of the features over the bag's points. The draws include its sampling error, with
        the points as a sample of a population, for `BDR` and `Shrinkage`; `BLR` treats bags as
        exact. Two samples of different points are compared by ``population(a, minus=b)``.
        """
        first, second = two_versions(self, bags_a, bags_b)
        label_data: dict[str, Any] = {"trials": trials, "exposure": exposure, "offset": offset}
        after, before = (
            (self.labels_of_new(bags, **label_data), self.covariates_of(bags))
            for bags in (first, second)
        )
        draws = self.draws()
        if len(draws["w"]) == 1:  # repeated for the sampling errors
            draws = {name: np.repeat(v, _DRAWS_OF_MODE, axis=0) for name, v in draws.items()}
        embedding = embedded(second, self.feature_map_, {})
        moved = fitted_movement(self, first, second, embedding, draws["w"])
        still = np.zeros_like(moved.sd)

        def expected(version, movement):
            labels, covariates = version
            moved_bags = replace(embedding, movement=movement, **covariates)
            predictive = self.predictive_of_draws(self.coordinates_, moved_bags, labels, draws)
            return of_category(predictive, category)

        unchanged = expected(before, Movement(np.zeros_like(moved.mean), still))
        columns = (covariates.get("covariates") for _, covariates in (after, before))
        regression = _regression(self, *columns)
        exact = None
        if regression is not None:
            exact = Contrast.between(expected(after, moved._replace(sd=still)), unchanged)
        reliability = self.result_.settings.get("reliability")
        if reliability is not None and reliability < ATTENUATED:
            warn(f"this contrast is too small, as {attenuation(reliability)}")
        return Contrast.between(
            expected(after, moved),
            unchanged,
            regression=regression,
            exact=exact,
            reliability=reliability,
        ).with_ids_of(first)


def two_versions(model: Any, bags_a: BagsLike, bags_b: BagsLike) -> tuple[Any, Any]:
    """Two versions of the same bags, with the columns of the bags of the fit."""
    first, second = model.like_training(bags_a), model.like_training(bags_b)
    if len(first) != len(second):
        raise ValueError(
            f"bags_a holds {len(first)} bags, but bags_b {len(second)}: a contrast is between "
            "two versions of the same bags"
        )
    if first.ids is not None and second.ids is not None:
        second = second.take(rows_of_ids(second.ids, first.ids, "bags_b"))
    for name in first.samples:
        odd = np.flatnonzero(first.has(name) != second.has(name))
        if len(odd):
            raise ValueError(
                f"{first.name(odd[0])} has {name!r} in only one of the two versions "
                f"({len(odd)} in total): a contrast is between two versions of the same bags, so "
                "leave it out of both"
            )
    return first, second


def fitted_movement(model: Any, first: Any, second: Any, embedding: Any, w: Array) -> Movement:
    """Movement of the bags between two versions; without error if embeddings are exact."""
    moved, coordinates = embedded(first, model.feature_map_, {}).mean, model.coordinates_
    moved, sd = moved - embedding.mean, np.zeros(len(moved))
    if not np.any(coordinates.lam):
        return Movement(moved, sd)
    root = np.linalg.qr(w / np.sqrt(len(w)), mode="r") @ coordinates.basis.T
    for m, (name, feature_map) in enumerate(by_name(model.feature_map_).items()):
        has, columns = first.has(name), coordinates.is_of_sample(m)
        both, sizes = np.ix_(has, columns), embedding.sizes_of(m)[has]
        versions = first.of_sample(name), second.of_sample(name)
        of_sample = movement(*versions, feature_map, root[:, columns], sizes, moved[both])
        moved[both], sd[has] = of_sample.mean, np.hypot(sd[has], of_sample.sd)
    return Movement(moved, sd)


def _regression(model, first, second):
    """Regression with a linear contrast, if any; columns of the versions, (n, Q)."""
    if not model.label_model.is_linear:
        return None
    n, draws = len(model.result_.labels) - 1, model.draws()
    names = [name for name in _SCALES if model.result_.has_draws(name)]
    scales = np.column_stack([model.result_.draws(name) for name in names])
    if model.covariates_ is None or first is None or second is None:
        return Regression(n, scales)
    # A covariate that differs between the versions is part of the contrast: no benchmark.
    changed = np.any(first != second, axis=0)
    levels = model.covariates_.levels.values()
    coefficients = {
        name: draws["gamma"][:, columns]
        for name, columns in model.covariates_.slices.items()
        if not changed[columns].any()
    }
    n_levels = sum(len(names_of_levels or (0, 1)) - 1 for names_of_levels in levels)
    return Regression(n - n_levels, scales, coefficients)


class _Pairs(NamedTuple):
    """Points of some bags before and after the change, (m, p), and their shares, (m,)."""

    before: Array
    after: Array
    p: Array
    q: Array
    starts: Array  # of each bag among the pairs
    bag: Array  # number of each pair's bag among them, (m,)

    def sums(self, values: Array) -> Array:
        """Sums over the pairs of each bag."""
        return np.add.reduceat(values, self.starts, axis=0)

    def deviations(self, values: Array, weights: Array) -> Array:
        """Deviations of values from the weighted means of their bags, times their weights."""
        weighted, totals = weights[:, None] * values, self.sums(weights)[:, None]
        mean = self.sums(weighted) / np.where(totals > 0, totals, 1)
        return weighted - weights[:, None] * mean[self.bag]


def movement(
    first: Bags, second: Bags, features: FeatureMap, root: Array, sizes: Array, moved: Array
) -> Movement:
    """Movement of each bag from `second` to `first`, (n, d), and sd of w' times it, by `root`."""
    for bags in (first, second):
        if not isinstance(bags, Bags):
            raise TypeError(
                "a contrast pairs the points of both versions, which must be in memory: load() "
                "the bags, or some of them, first"
            )
    bias, products = np.empty_like(moved), np.zeros((3, second.n_features))
    squares, concentration, n_pairs, changed = np.zeros((4, len(second)))
    for bags, pairs in _pairs(first, second, max(1, _FEATURES_AT_ONCE // features.n_columns)):
        concentration[bags] = pairs.sums(pairs.p**2)
        bias[bags], squares[bags] = _errors(pairs, features, root, concentration[bags])
        n_pairs[bags] = np.bincount(pairs.bag)
        changed[bags] = pairs.sums(np.any(pairs.before != pairs.after, axis=1))
        products += _products(pairs)
    _warn_of_other_order(products, np.sum(n_pairs - 1))
    # Unchanged bags are outside a change of all points of other bags.
    outside = (changed == 0) & np.any(changed > 0) & np.all(changed == n_pairs, where=changed > 0)
    degrees = np.where(outside, 0, 1 / concentration - 1)
    if degrees.sum() > 0:
        average = squares.sum() / degrees.sum()
    else:  # bags of one point each: an upper bound
        average = np.sum((moved @ root.T).var(axis=0))
    variance = (_PRIOR_POINTS * average + squares) / (_PRIOR_POINTS + degrees)
    return Movement(moved + bias, np.where(outside, 0, np.sqrt(variance / sizes)))


def _pairs(first, second, most):
    """Numbers of bags with their pairs, up to a maximum unless of one bag."""
    used = np.minimum(second.sizes, _MOST_POINTS)
    cuts = np.flatnonzero(np.diff(np.cumsum(used) // most)) + 1
    shares = first.point_shares, second.point_shares
    for bags in np.split(np.arange(len(second)), cuts):
        by_bag = [_pairs_of_bag(first, second, *shares, i) for i in bags]
        n = [len(arrays[0]) for arrays in by_bag]
        joined = (np.concatenate(arrays) for arrays in zip(*by_bag, strict=True))
        yield bags, _Pairs(*joined, np.cumsum([0, *n[:-1]]), np.repeat(np.arange(len(bags)), n))


def _pairs_of_bag(first, second, shares_after, shares_before, i):
    """Points of a bag before and after the change, and their shares: x, x', p, q."""
    (before, p), (after, q) = (
        (bags.read_checked(start, stop), shares[start:stop])
        for bags, shares in ((second, shares_before), (first, shares_after))
        for start, stop in [bags.offsets[i : i + 2]]
    )
    if len(before) == len(after):
        one, other = np.lexsort(before.T), np.lexsort(after.T)
        if np.array_equal(before[one], after[other]):  # the same points, perhaps in another order
            before, p, after, q = before[one], p[one], after[other], q[other]
        some = np.unique(np.linspace(0, len(p) - 1, min(len(p), _MOST_POINTS)).astype(int))
        return before[some], after[some], p[some] / p[some].sum(), q[some] / q[some].sum()
    rows, number = np.unique(np.concatenate([before, after]), axis=0, return_inverse=True)
    of_before, of_after = np.split(number.ravel(), [len(before)])
    if len(np.setdiff1d(of_before, of_after)) and len(np.setdiff1d(of_after, of_before)):
        raise ValueError(
            f"{second.name(i)} has {len(after)} points in bags_a and {len(before)} in bags_b, and "
            "neither are all among the others: change values or weights of the same points, remove "
            "some or add some; population(bags_a, minus=bags_b) compares different samples"
        )
    share_before, share_after = (
        np.bincount(k, s, len(rows)) for k, s in ((of_before, p), (of_after, q))
    )
    # Equal points share their remaining weight; added points follow.
    counts = np.bincount(of_before, minlength=len(rows))
    part, added = 1 / counts[of_before], counts == 0
    np.divide(p, share_before[of_before], out=part, where=share_before[of_before] > 0)
    q = np.append(share_after[of_before] * part, share_after[added])
    p = np.append(p, np.zeros(added.sum()))
    points = np.concatenate([before, rows[added]])
    return points, points, p, q


def _errors(pairs, features, root, concentration):
    """Correction of each bag's movement, (n, d), and sum of the squared errors of points, (n,)."""
    several = np.maximum(1 - concentration, _LEAST_DEGREES)
    added = np.where(pairs.p > 0, 0.0, pairs.q)  # added points are exact
    q, others = pairs.q - added, 1 - pairs.sums(added)[pairs.bag]
    raised = q / np.maximum(others, _LEAST_DEGREES) - pairs.p
    raised[pairs.sums(np.any(pairs.before != pairs.after, axis=1))[pairs.bag] > 0] = 0.0
    raised = (raised / several[pairs.bag])[:, None]
    after = pairs.deviations(features(pairs.after), q)
    before = pairs.deviations(features(pairs.before), pairs.p)
    bias = raised * after
    errors = (after + bias - before) @ root.T
    return pairs.sums(bias), pairs.sums(np.sum(errors**2, axis=1)) / concentration**2


def _products(pairs):
    """Sums of products, and of squares, of the deviations of both versions by column, (3, p)."""
    ones = np.ones(len(pairs.p))
    x, y = (pairs.deviations(values, ones) for values in (pairs.before, pairs.after))
    rounding = [_CONSTANT_SHARE * np.sum(v**2, axis=0) for v in (pairs.before, pairs.after)]
    return np.sum([x * y, x**2, y**2], axis=1) - [np.zeros(x.shape[1]), *rounding]


def _warn_of_other_order(products, degrees):
    """Warn if the points of the two versions are uncorrelated within bags in every column."""
    cross, *squares = products
    varied = np.minimum(*squares) > 0
    if degrees < _LEAST_POINTS or not varied.any():
        return
    correlation = np.abs(cross[varied]) / np.sqrt(squares[0][varied] * squares[1][varied])
    if correlation.max() < _ALIKE / np.sqrt(degrees):
        warn(
            "the points of bags_a and bags_b seem to be in different orders, or different samples: "
            "their columns are uncorrelated within bags, so intervals of the contrast are too "
            "wide; give both versions the same order of rows, or compare samples by "
            "population(bags_a, minus=bags_b)"
        )
