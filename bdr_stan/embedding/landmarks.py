"""Landmarks: the evaluation points of mean embeddings."""

from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from bdr_stan.bags import Bags, BagsLike, as_bags
from bdr_stan.kernels import Kernel, NormalScores, column_spreads, fields_of, summands
from bdr_stan.kernels.fields import has_landmarks
from bdr_stan.kernels.stationary import BandwidthKernel
from bdr_stan.kernels.summands import rank, scored_columns
from bdr_stan.types import Array, ArrayLike, Seed, check_counts

# Smaller kernel values count as 0. Kernels cut the exponential before it underflows to 0 itself.
_NEGLIGIBLE_KERNEL = 1e-100
UNITS_SAMPLE = 2000  # points; a standard deviation then has an error of 2%
IN_ONE_COLUMN = 10  # landmarks of a field there: enough for a smooth curve
KMEANS_SAMPLE = 20_000  # points; with more, k-means needs minutes and the centres hardly change


def choose_landmarks(
    bags: BagsLike,
    n_landmarks: Any = None,
    *,
    method: str | ArrayLike = "kmeans",
    scale: ArrayLike | None = None,
    seed: Seed = None,
) -> Array:
    """Landmarks of bags, float64, shape (d, p), in the units of the points.

    `method` is "kmeans" (centres of at most 20,000 points drawn from all bags, with columns divided
    by `scale`, shape (p,); all distinct points if there are at most `n_landmarks`), "random"
    (points drawn without replacement, all if there are no more; an integer seed means
    ``np.random.RandomState(seed).choice(n_points, n_landmarks, replace=False)``), "one per bag"
    (one point per bag, drawn in proportion to the weights) or an array, which is checked and
    returned, whatever `n_landmarks`. Raises ValueError for equal landmarks.
    """
    bags = as_bags(bags, in_parts=not isinstance(method, str) or method != "one per bag")
    if not isinstance(method, str):
        return _checked_landmarks(method, bags.n_features)
    if method not in ("kmeans", "random", "one per bag"):
        raise ValueError(
            f"method must be 'kmeans', 'random', 'one per bag' or an array, found {method!r}"
        )
    if method == "one per bag":
        rows, advice = row_of_each_bag(bags, np.random.default_rng(seed)), "use method='kmeans'"
    else:
        check_counts(n_landmarks=n_landmarks)
        if method == "kmeans":
            return _kmeans_centres(bags, n_landmarks, 1.0 if scale is None else scale, seed)
        rng = seed if isinstance(seed, np.random.Generator) else np.random.RandomState(seed)
        rows = rng.choice(bags.n_points, min(n_landmarks, bags.n_points), replace=False)
        advice = "ask for fewer, or use method='kmeans'"
    landmarks = bags.read_rows(rows).astype(np.float64)
    _check_distinct(landmarks, advice)
    return landmarks


def landmarks_of_kernel(
    kernel: Kernel,
    bags: Bags,
    n_landmarks: int,
    *,
    method: str | ArrayLike = "kmeans",
    seed: Seed = None,
) -> Array:
    """Landmarks for a resolved kernel, shape (d, p); for a sum, landmarks of each summand.

    Summands on different columns share `n_landmarks`. Linear and quadratic effects have as many
    landmarks as functions, and leave at least a third of `n_landmarks` to other summands. The
    landmarks of a summand have NaN in the columns that it does not use; with fewer distinct values,
    each value is a landmark. ValueError for fewer landmarks than summands.
    """
    parts = summands(kernel, bags.n_features)
    of_effects = _landmarks_of_effects(parts, bags, seed)
    if not isinstance(method, str):
        users = _checked_landmarks(method, bags.n_features, partial=len(parts) > 1)
        their_columns = {tuple(np.flatnonzero(np.isfinite(row))) for row in users}
        missing = [rows for columns, rows in of_effects.items() if columns not in their_columns]
        return np.vstack([*missing, users])
    if len(parts) == 1 and not of_effects:
        units = landmark_units(kernel, bags, seed)
        return choose_landmarks(bags, n_landmarks, method=method, scale=units, seed=seed)
    others = {columns: part for columns, part in parts.items() if columns not in of_effects}
    if not others:
        return np.vstack(list(of_effects.values()))
    check_counts(n_landmarks=n_landmarks)
    rest = max(n_landmarks - sum(map(len, of_effects.values())), -(-n_landmarks // 3))
    n_each = dict(zip(others, even_shares(rest, len(others)), strict=True))
    chosen = _landmarks_in_columns(bags, n_each, method, seed, scored_columns(kernel))
    return np.vstack([*of_effects.values(), chosen])


def _landmarks_of_effects(parts, bags, seed):
    """Columns -> landmarks of the summands of finite rank r, shape (r, p): their features span all.

    Values within 1.5 standard deviations of the mean along each column: their kernel matrix is well
    conditioned, also if values and normal scores of a column with a long tail are combined.
    """
    p = bags.n_features
    ranks = {columns: r for columns, part in parts.items() if (r := rank(part, p)) is not None}
    if not ranks:
        return {}
    sample = bags.sample_points(KMEANS_SAMPLE, np.random.default_rng(seed))
    of_effects = {}
    for columns, r in ranks.items():
        values = sample[:, list(columns)]
        k = len(columns)
        steps = np.kron(np.linspace(1.5, -1.5, r // k)[:, None], np.eye(k))
        rows = values.mean(axis=0) + steps * column_spreads(values)
        of_effects[columns] = _rows_in_columns(rows, list(columns), p)
    return of_effects


def even_shares(total: int, n: int) -> list[int]:
    """A number of landmarks divided evenly among n summands, a list of int >= 1."""
    if total < n:
        raise ValueError(
            f"the kernel has {n} summands, each with landmarks of its own, but n_landmarks is "
            f"{total}: ask for {n} or more"
        )
    return [total // n + (k < total % n) for k in range(n)]


def landmarks_of_fields(
    kernel: Kernel,
    bags: Bags,
    n_landmarks: Any,
    *,
    method: str | ArrayLike = "kmeans",
    seed: Seed = None,
) -> Array:
    """Landmarks of each field of a kernel, shape (d, p), see `FieldFeatures`.

    Each field has `n_landmarks`, at most 10 if it uses one column; fields on the same columns share
    them. NaN in the columns that a field does not use.
    """
    p = bags.n_features
    fields = fields_of(kernel)
    if not isinstance(method, str):
        partial = any(len(field.columns_seen(p)) < p for field in fields)
        return _checked_landmarks(method, p, partial=partial)
    seen = {field.columns_seen(p): field for field in fields if has_landmarks(field)}
    if not seen:
        return np.empty((0, p))
    if method == "one per bag" or (len(fields) == 1 and len(*seen) == p):
        sample = bags.sample_points(UNITS_SAMPLE, np.random.default_rng(seed))
        units = column_spreads(sample, bags.sources)
        return choose_landmarks(bags, n_landmarks, method=method, scale=units, seed=seed)
    check_counts(n_landmarks=n_landmarks)
    n_each = {c: n_landmarks if len(c) > 1 else min(n_landmarks, IN_ONE_COLUMN) for c in seen}
    by_score = {c: field for c, field in seen.items() if isinstance(field, NormalScores)}
    chosen = [
        _rows_in_columns(field.spaced(n_each.pop(columns))[:, None], list(columns), p)
        for columns, field in by_score.items()
    ]
    if n_each:
        chosen.append(_landmarks_in_columns(bags, n_each, method, seed))
    return np.vstack(chosen)


def _rows_in_columns(values, columns, p):
    """Array of p columns with `values` in some of them and NaN in the others."""
    rows = np.full((len(values), p), np.nan)
    rows[:, columns] = values
    return rows


def _landmarks_in_columns(bags, n_each, method, seed, scored=None):
    """Landmarks of each group of columns, spread over normal scores if they are `scored`."""
    scored = scored or {}
    sample = bags.sample_points(KMEANS_SAMPLE, np.random.default_rng(seed))
    units = column_spreads(sample, bags.sources)
    chosen = []
    for columns, n in n_each.items():
        columns = list(columns)
        points = sample[:, columns]
        values = np.unique(points, axis=0)
        if len(values) > n:
            at_scores = {k: scored[c] for k, c in enumerate(columns) if c in scored}
            spread, scale = points.copy(), units[columns].copy()
            for k, by_score in at_scores.items():
                spread[:, k], scale[k] = by_score.scores(sample)[:, 0], 1.0
            seen = Bags(spread, [0, len(points)], copy=False)
            values = choose_landmarks(seen, n, method=method, scale=scale, seed=seed)
            for k, by_score in at_scores.items():
                values[:, k] = by_score.values(values[:, k])
        chosen.append(_rows_in_columns(values, columns, bags.n_features))
    return np.vstack(chosen)


def landmark_units(kernel: Kernel, bags: Bags, seed: Seed = None) -> Array | None:
    """Units of the columns for k-means, (p,): lengths or sds; None if one length serves all."""
    if isinstance(kernel, BandwidthKernel) and kernel.columns is None:
        return np.asarray(kernel.lengths) if np.ndim(kernel.lengths) else None
    sample = bags.sample_points(KMEANS_SAMPLE, np.random.default_rng(seed))
    return column_spreads(sample, bags.sources)


def row_of_each_bag(bags: Bags, rng: np.random.Generator) -> Array:
    """A row of each bag, shape (n,), drawn in proportion to the weights of its points."""
    before = np.concatenate([[0.0], np.cumsum(bags.point_weights)])
    start, stop = bags.offsets[:-1], bags.offsets[1:]
    drawn = before[start] + rng.random(len(bags)) * (before[stop] - before[start])
    return np.clip(np.searchsorted(before, drawn, side="right") - 1, start, stop - 1)


def _kmeans_centres(bags, n_landmarks, scale, seed):
    from sklearn.cluster import KMeans  # needs a second to import

    rng = np.random.default_rng(seed)
    points = bags.sample_points(KMEANS_SAMPLE, rng) / scale
    distinct = np.unique(points, axis=0)
    if len(distinct) <= n_landmarks:  # e.g. only categories: they represent the kernel exactly
        return distinct * scale
    kmeans = KMeans(n_landmarks, n_init=1, random_state=int(rng.integers(2**31)))
    # Several threads sum in any order, so a seed would not determine the centres.
    with threadpool_limits(1):
        centres = kmeans.fit(points).cluster_centers_ * scale
    _check_distinct(centres, "ask for fewer")
    return centres


def _checked_landmarks(landmarks, p, *, partial=False):
    """Landmarks as an array; `partial` ones may have NaN in some columns."""
    try:
        landmarks = np.array(landmarks, np.float64)
    except (TypeError, ValueError):
        raise TypeError("the landmarks are not an array of numbers of shape (d, p)") from None
    if landmarks.ndim != 2 or landmarks.shape[1] != p or len(landmarks) == 0:
        raise ValueError(f"the landmarks have shape {landmarks.shape}, expected (d, {p})")
    bad = np.argwhere(np.isinf(landmarks) if partial else ~np.isfinite(landmarks))
    if len(bad):
        raise ValueError(
            f"landmark {bad[0, 0]}, column {bad[0, 1]} is {landmarks[tuple(bad[0])]}: "
            "landmarks must be finite"
        )
    _check_distinct(landmarks, "give each landmark once")
    return landmarks


def _check_distinct(landmarks, advice):
    comparable = np.nan_to_num(landmarks, nan=np.inf)  # NaN is not equal to itself
    _, first, which = np.unique(comparable, axis=0, return_index=True, return_inverse=True)
    repeated = np.flatnonzero(first[which.reshape(-1)] != np.arange(len(landmarks)))
    if len(repeated):
        k = repeated[0]
        raise ValueError(
            f"landmarks {first[which.reshape(-1)[k]]} and {k} are the same point: {advice}"
        )


def check_kernel_reaches(kernel: Kernel, values: Array) -> None:
    """Raise ValueError if most landmarks have kernel value 0 at all points."""
    n_zero = int(np.sum(np.all(np.abs(values) < _NEGLIGIBLE_KERNEL, axis=0)))
    if n_zero > values.shape[1] / 2:
        raise ValueError(
            f"{kernel_in_words(kernel)} is so small that the kernel is 0 between all points and "
            f"{n_zero} of {values.shape[1]} landmarks: give a larger bandwidth"
        )


def kernel_in_words(kernel: Kernel) -> str:
    """The bandwidth of a kernel, or the kernel itself, for messages."""
    bandwidth = getattr(kernel, "bandwidth", None)
    return f"the bandwidth of {kernel!r}" if bandwidth is None else f"bandwidth={bandwidth}"
