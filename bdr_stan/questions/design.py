"""Surveys before they are made: cheapest size, next bags, power; see docs/explanation/model.md."""

import warnings
from heapq import heappop, heappush
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.special import stdtrit
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from bdr_stan.aggregate.labels import check_each
from bdr_stan.bags import Bags, BagsLike, values_of_bags
from bdr_stan.bags.checks import as_vector, checked_numbers
from bdr_stan.embedding.mean_embedding import embed
from bdr_stan.embedding.shrinkage import shrinkage_factors, variance_between
from bdr_stan.predictive.distributions import check_level, interval_ends, table_of_bags
from bdr_stan.progress import Share, status
from bdr_stan.questions.contrast import fitted_movement, two_versions
from bdr_stan.questions.protocol import Fit, check_stock
from bdr_stan.types import ArrayLike, DataFrame, check_counts, is_number

# Candidates: 2 to 20 points per bag and 20 to 200 bags, beyond in steps of 5% and 0.5%.
_POINTS = np.unique(np.round(np.geomspace(2, 1e5, 223)))
_BAGS = np.unique(np.round(np.geomspace(20, 1e7, 2632)))


class Design(Fit):
    """Surveys planned with a fit to a pilot."""

    def design(
        self: Any,
        *,
        width: float,
        cost_of_bag: float,
        cost_of_point: float,
        of: Any = "prediction",
        level: float = 0.95,
    ) -> DataFrame:
        """Cheapest numbers of bags, from 20, and of points per bag for intervals of a given width.

        Parameters
        ----------
        width : float
            Largest average width of the intervals, units of y.
        cost_of_bag, cost_of_point : float
            Cost of a bag without its points, and of each point.
        of : {"prediction", "average"} or (bags_a, bags_b), default "prediction"
            What has the intervals: labels of new bags of as many points; their average over many
            such bags, see `population`; or the average `contrast` of two versions of bags.

        Returns
        -------
        pandas DataFrame, the cheapest study first
            bags, points (per bag), cost, and the expected width; ValueError if by the noise of the
            labels intervals are wider.
        """
        draws, coordinates = _draws_of_pilot(self, "design"), self.coordinates_
        if not isinstance(of, str):
            first, second = two_versions(self, *of)
            embedding = self.embedding_of(second)
            moved = fitted_movement(self, first, second, embedding, draws["w"])
            error = np.mean(moved.sd**2 * embedding.sizes)  # variance, times points
            of = moved.mean.mean(axis=0) @ coordinates.basis, error
        root = np.sqrt(np.mean(self.result_.draws("rho") ** 2) * draws["eta"].mean())
        prior = coordinates.lam, draws, root * np.linalg.inv(coordinates.prior_factor)
        return _studies(prior, of, width, level, cost_of_bag, cost_of_point)

    def next_sample(
        self: Any, bags: BagsLike, *, budget: float, cost_of_point: ArrayLike | str = 1.0
    ) -> DataFrame:
        """Which bags to sample more, point by point by the largest fall of variance per cost.

        Parameters
        ----------
        budget : float
            To spend on points, in units of their cost.
        cost_of_point : float, array, shape (n,), or str, default 1
            Cost of a point, for all bags or for each, or the column of the metadata with it.

        Returns
        -------
        pandas DataFrame of n rows, indexed by the bags' ids
            points; more, to sample; equal, as many for all bags; variance of the expected label,
            without noise; after and after_equal, its expected values with these points.
        """
        draws = _draws_of_pilot(self, "next_sample")
        _check_positive(budget=budget)
        bags = self.like_training(bags)
        cost = np.full(len(bags), cost_of_point) if is_number(cost_of_point) else cost_of_point
        cost = checked_numbers(values_of_bags(bags, cost, "cost_of_point"), "cost", bags.ids)
        cost = as_vector(cost, len(bags), "cost_of_point", "bag")
        check_each(bags, cost, (cost > 0) & (cost < np.inf), "cost", "a point costs more than 0")
        embedding, labels = self.embedding_of(bags), self.labels_of_new(bags)
        noiseless = draws | dict.fromkeys(("sigma", "sigma_point"), np.zeros(len(draws["w"])))
        function = self.predictive_of_draws(self.coordinates_, embedding, labels, noiseless)
        lam, eta, before = self.coordinates_.lam, draws["eta"].mean(), function.sd**2
        signal = draws["w"].mean(axis=0) ** 2 * eta

        def known(more, i=slice(None)):  # variance between bags that the points determine
            sizes = embedding.sizes[i] * (1 + more / bags.sizes[i])
            return shrinkage_factors(sizes, lam, eta) @ signal

        equal = np.full(len(bags), int(budget // cost.sum()))
        equal += np.cumsum(cost) <= budget - equal[0] * cost.sum()
        more = _by_largest_gain(known, cost, budget)
        after, after_equal = (before + known(0) - known(n) for n in (more, equal))
        columns = {"points": bags.sizes, "more": more, "equal": equal, "variance": before}
        return table_of_bags(bags, columns | {"after": after, "after_equal": after_equal})

    def power(
        self: Any,
        bags_a: BagsLike,
        bags_b: BagsLike,
        *,
        effect: float,
        bags: int,
        points: int,
        simulations: int = 200,
        level: float = 0.95,
        seed: int | None = None,
    ) -> dict[str, float]:
        """Share of simulated studies in which the interval of the average contrast excludes 0.

        Parameters
        ----------
        bags_a, bags_b : Bags, or lists of n arrays, shapes (n_points, p)
            The pilot's bags after the change, and before: the same points in the same order.
        effect : float
            Average label of `bags_a` minus average label of `bags_b`, units of y.
        bags, points : int
            Number of bags of a study, and of points in each, at least 2 except for BLR.
        simulations : int, default 200
            Number of simulated studies.

        Returns
        -------
        dict of the power and its Monte-Carlo standard_error

        Notes
        -----
        A study has bags of the pilot, drawn with replacement. Labels are the pilot's posterior mean
        times a constant that makes the contrast `effect`, plus noise with the sigma of a draw. To
        not count the sampling error of the pilot twice, a point is from its bag with probability q,
        else from any bag; q^2 is the reliability of the bag's average. A copy of the estimator is
        fitted with Laplace's method, without Stan.
        """
        draws, ends = _draws_of_pilot(self, "power", exact=True), interval_ends(level)
        check_counts(bags=bags, points=points, simulations=simulations)
        if not (is_number(effect) and np.isfinite(effect)):
            raise ValueError(f"effect must be a number in units of the labels, found {effect!r}")
        rng, share, hits = np.random.default_rng(self.checked_seed(seed)), Share(), 0
        study = _studies_like(self, *two_versions(self, bags_a, bags_b), effect, draws)
        with status("Simulating", after=10, detail=share.text), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            for k in range(simulations):
                drawn = *study(bags, points, rng), int(rng.integers(2**31))
                lower, upper = np.quantile(clone(self).quick_contrast(*drawn), ends)
                hits += bool(lower > 0 or upper < 0)
                share.update(k + 1, simulations)
        near = (hits + 1) / (simulations + 2)  # for an error above 0 if all intervals agree
        error = float(np.sqrt(near * (1 - near) / simulations))
        return {"power": hits / simulations, "standard_error": error}


def design_from_variances(
    width: float,
    *,
    between: float,
    within: float,
    noise: float,
    cost_of_bag: float,
    cost_of_point: float,
    coefficients: int = 1,
    of: str = "prediction",
    level: float = 0.95,
) -> DataFrame:
    """Cheapest studies for a width, see `BDR.design`, from variances instead of a pilot.

    Parameters
    ----------
    between, within : float
        Variance, between bags and between points of a bag, of the function whose average over the
        bag determines the label; squared units of y.
    noise : float
        Variance of labels that the points do not determine.
    coefficients : int, default 1
        Number of weights, which share `between` equally. `of` is not a pair of bags.

    Examples
    --------
    >>> from bdr_stan import design_from_variances
    >>> variances = {"between": 1.0, "within": 4.0, "noise": 0.25}
    >>> studies = design_from_variances(3, **variances, cost_of_bag=5, cost_of_point=1)
    >>> studies.iloc[0].round(2).to_dict()
    {'bags': 20.0, 'points': 15.0, 'cost': 400.0, 'width': 2.99}
    """
    _check_positive(between=between, within=within, noise=noise)
    check_counts(coefficients=coefficients)
    w = np.full((1, coefficients), np.sqrt(between / coefficients))
    draws = {"w": w, "eta": np.ones(1), "sigma": np.sqrt([noise])}
    prior = np.full(coefficients, within / between), draws, np.diag(w[0])
    return _studies(prior, of, width, level, cost_of_bag, cost_of_point)


def _check_positive(**numbers):
    """Raise ValueError unless each is a finite number > 0."""
    for name, value in numbers.items():
        if not (is_number(value) and 0 < value < np.inf):
            raise ValueError(f"{name} must be a positive number, found {value!r}")


def _draws_of_pilot(model, question, *, exact=False):
    """Draws of a fit; ValueError for a fit that the question is not for."""
    check_is_fitted(model, "result_")
    check_stock(model)
    draws, result, terms = model.draws(), model.result_, model.groups or model.smooths
    one = "" in result.samples and "label_sd" not in result.constants
    fits = "gamma" not in draws if exact else "eta" in draws
    if not (one and fits and not terms and model.label_model.is_linear):
        raise ValueError(
            f"{question} is for {'BLR, ' * exact}BDR and Shrinkage with normal labels, without "
            f"label_sd, groups{', covariates' * exact} and smooths, of bags with one sample"
        )
    return draws


def _by_largest_gain(known, cost, budget):
    """Further points of each bag, (n,), one by one by the largest gain of `known` per cost."""
    more = np.zeros(len(cost), int)
    heap = sorted((-gain, i) for i, gain in enumerate((known(1) - known(0)) / cost))
    while heap:
        i = heappop(heap)[1]
        if cost[i] <= budget:
            budget, more[i] = budget - cost[i], more[i] + 1
            (gain,) = known(more[i] + 1, [i]) - known(more[i], [i])
            heappush(heap, (-gain / cost[i], i))
    return more


def _widths(lam, draws, root, of, points, level):
    """Widths of intervals of studies of `_BAGS` bags with so many points each.

    `root` is a root of the prior covariance of sqrt(eta) w, (d, d).
    """
    w, eta, Q = draws["w"], draws["eta"][:, None], np.shape(draws.get("gamma", [[]]))[1]
    nu = np.sum(eta * w**2 * (1 - shrinkage_factors([points], lam, eta)), axis=1)
    v = np.mean(nu + draws["sigma"] ** 2 + draws.get("sigma_point", 0.0) ** 2 / points)
    kept = np.sqrt(shrinkage_factors([points], lam, eta.mean()))
    g, axes = eigh(kept.T * root @ root.T * kept)
    c, variance = 1.0, v + (1 + Q) * v / _BAGS
    if not isinstance(of, str):
        c, variance = (of[0] / kept / np.sqrt(eta.mean()) @ axes) ** 2, of[1] / points / _BAGS
    gain = _BAGS[:, None] * np.maximum(g, 0) / v
    of_weights = np.sum(c * g / (1 + gain), axis=1)
    variance = (v + of_weights) / _BAGS if of == "average" else variance + of_weights
    degrees = _BAGS - 1 - Q - np.sum(gain / (1 + gain), axis=1)
    t = stdtrit(np.maximum(degrees, 1), interval_ends(level)[1])
    return np.where(degrees > 1, 2 * t * np.sqrt(variance), np.inf)


def _studies(prior, of, width, level, cost_of_bag, cost_of_point):
    """Studies of a width, the cheapest first, as `Design.design` returns them."""
    import pandas as pd

    _check_positive(width=width, cost_of_bag=cost_of_bag, cost_of_point=cost_of_point)
    check_level(level)
    if isinstance(of, str) and of not in ("prediction", "average"):
        raise ValueError(f"of must be 'prediction', 'average' or two bags, found {of!r}")
    widths = np.array([_widths(*prior, of, points, level) for points in _POINTS])
    k = np.flatnonzero((widths <= width).any(axis=1))
    if not len(k):
        raise ValueError(
            f"width={width:g} cannot be reached with any number of bags and points: the noise of "
            f"the labels makes intervals at least {widths.min():.6g} wide"
        )
    fewest = (widths[k] <= width).argmax(axis=1)
    bags, points = _BAGS[fewest].astype(int), _POINTS[k].astype(int)
    cost = bags * (cost_of_bag + points * cost_of_point)
    table = {"bags": bags, "points": points, "cost": cost, "width": widths[k, fewest]}
    return pd.DataFrame(table).sort_values("cost", ignore_index=True)


def _studies_like(model, first, second, effect, draws):
    """Function that draws a study: its bags after the change and before it, and their labels."""
    if not isinstance(second, Bags) or not np.array_equal(first.sizes, second.sizes):
        raise ValueError("power needs both versions in memory, of the same points in one order")
    beta, n = model.coordinates_.basis @ draws["w"].mean(axis=0), len(second)
    before = embed(second, model.feature_map_, covariance=True)
    moved = (embed(first, model.feature_map_).mean - before.mean) @ beta
    f = (before.mean - model.coordinates_.m0) @ beta
    error = beta @ before.covariance @ beta / before.sizes  # variance of f by sampling
    between = variance_between(f.var(), error.mean())
    own = np.sqrt(between / (between + error))
    f, moved = (own * values + (1 - own) * values.mean() for values in (f, moved))
    if abs(moved.mean()) <= 1e-9 * f.std():
        raise ValueError("by the pilot the contrast is 0, and no multiple of it is the effect")
    label = draws["intercept"].mean() + effect / moved.mean() * f
    shares = np.cumsum(second.point_shares)  # of the points of bag i: from i to i + 1

    def study(bags, points, rng):
        chosen, k = rng.integers(n, size=bags), rng.integers(len(draws["w"]))
        is_own = rng.random((bags, points)) < own[chosen, None]
        bag = np.where(is_own, chosen[:, None], rng.integers(n, size=(bags, points))).ravel()
        rows = np.searchsorted(shares, bag + rng.random(len(bag)))
        rows = np.clip(rows, second.offsets[bag], second.offsets[bag + 1] - 1)
        of_points = np.mean(draws.get("sigma_point", 0.0) ** 2) / points
        y = label[chosen] + rng.normal(0, np.sqrt(draws["sigma"][k] ** 2 + of_points), bags)
        cuts, how = np.arange(bags + 1) * points, {"columns": second.columns, "copy": False}
        return *(Bags(version.points[rows], cuts, **how) for version in (first, second)), y

    return study
