"""What a fit uses of the training bags: feature map, kernel, embedding and record."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from typing import Any, Self

import numpy as np
from scipy.stats import f

from bdr_stan.bags import Bags, BagsLike, PartitionedBags, as_bags
from bdr_stan.bags.base import BagsBase
from bdr_stan.bags.record import BagsRecord
from bdr_stan.bags.samples import by_name, by_sample
from bdr_stan.embedding.compressed_embedding import compressed_embedding
from bdr_stan.embedding.covariates import Covariates
from bdr_stan.embedding.landmarks import check_kernel_reaches, kernel_in_words, landmarks_of_kernel
from bdr_stan.embedding.mean_embedding import Embedding, embed
from bdr_stan.embedding.terms import NO_TERMS, Terms
from bdr_stan.kernels import Kernel, landmark_features, resolve_kernel
from bdr_stan.kernels.names import LINEAR_PLUS, name_for
from bdr_stan.kernels.normal_scores import LongTails
from bdr_stan.kernels.summands import rank, single_bandwidth, summands
from bdr_stan.labels import Labels
from bdr_stan.progress import Share, status
from bdr_stan.types import Array, ArrayLike, Seed
from bdr_stan.user_warnings import warn

# Embeddings of bags in partitions are kept up to this many numbers (160 MB).
MOST_KEPT = 20_000_000
_POINTS_OF_COVARIANCE = 100_000  # with features in a fraction of a second
_POINTS_FOR_TAILS = 10_000
LONG_TAILS = LongTails(7.0, 1_000, 20)  # of which a fit warns
_SHOWN_COLUMNS = 5  # in the message
_LEVEL = 0.1  # p-value above which an effect is dropped; no labels are used


@dataclass(frozen=True)
class TrainingFeatures:
    """Feature map, resolved kernel, embedding, record and covariates of the training bags.

    With several samples maps, kernels and landmarks are dicts, and the embeddings side by side.
    """

    feature_map: Any  # a `FeatureMap`
    kernel: Any  # a `Kernel`
    embedding: Any  # an `Embedding`, or within a fit a `CompressedEmbedding`; None before the pass
    record: BagsRecord
    covariates: Covariates | None = None
    # Whether labels may change the variance of the kernel's linear effects.
    free_linear_variance: bool = False
    # Features of each of several samples by its name, of the bags that have it.
    parts: "Mapping[str, TrainingFeatures]" = field(default_factory=dict)

    @property
    def samples(self) -> "Mapping[str, TrainingFeatures]":
        """Features of each sample by its name; themselves, without a name, if there is one."""
        return self.parts or {"": self}

    @property
    def landmarks(self) -> Any:
        """Landmarks of the feature map, shape (d, p)."""
        return by_sample(self.samples, lambda _, part: part.feature_map.landmarks)

    @property
    def bandwidth(self) -> Any:
        """Bandwidth of the kernel in the units of the points; None without a single one."""
        return by_sample(self.samples, lambda _, part: single_bandwidth(part.kernel))

    @property
    def coordinates(self) -> dict[str, list[str]]:
        """Names along dimensions of draws that are not numbered, of several samples."""
        sizes = {name: part.feature_map.n_columns for name, part in self.parts.items()}
        columns = [f"{name}[{k}]" for name, size in sizes.items() for k in range(size)]
        names = {"sample": list(sizes), "landmark": columns, "component": columns}
        return {dimension: values for dimension, values in names.items() if values}

    @property
    def constants(self) -> dict[str, tuple[Array, list[str]]]:
        """What predictions need of the training bags: name -> (values, dimensions)."""
        constants: dict[str, tuple[Array, list[str]]] = {}
        for name, part in self.samples.items():
            suffix = f"_{name}" if name else ""
            dimensions = [f"landmark{suffix}", f"feature{suffix}"]
            constants[f"landmarks{suffix}"] = part.landmarks, dimensions
        if not len(self.record):  # a fit from sums
            return constants
        sizes = self.embedding.sizes
        return {**constants, "bag_size": (sizes, ["bag", "sample"][: sizes.ndim])}

    @property
    def terms(self) -> Terms:
        """Groups and smooth functions of the regression."""
        return NO_TERMS if self.covariates is None else self.covariates.terms

    def are_tested(self, n_points: float, n_bags: int) -> bool:
        """Whether points suffice to drop effects that do not differ between bags: two a bag."""
        return self.free_linear_variance and n_points >= 2 * n_bags

    def with_varying_effects(self, embedding: Any) -> Self:
        """These features with an embedding, without the effects that do not differ between bags."""
        kernel, used = varying_effects(self.kernel, self.landmarks, embedding)
        feature_map = landmark_features(kernel, self.landmarks[used])
        embedding = embedding.columns(used)
        return replace(self, feature_map=feature_map, kernel=kernel, embedding=embedding)

    def take(self, bags: ArrayLike) -> Self:
        """Features of the bags with these indices, with the same covariance."""
        chosen, parts = np.arange(len(self.record))[bags], {}
        for name, part in self.parts.items():
            has = self.record.has(name)
            parts[name] = part.take((np.cumsum(has) - 1)[chosen[has[chosen]]])
        taken = self.embedding.take(bags), self.record.take(bags)
        return replace(self, embedding=taken[0], record=taken[1], parts=parts)


def training_features(
    bags: BagsLike,
    *,
    kernel: str | Kernel = "rbf",
    bandwidth: ArrayLike | str = "scaled",
    bandwidth_scale: float = 1.0,
    n_landmarks: int = 60,
    landmarks: str | ArrayLike = "kmeans",
    covariance: bool = False,
    covariates: Covariates | None = None,
    labels: Labels | None = None,
    by_size: bool = False,
    seed: Seed = None,
    progress: bool | None = None,
) -> TrainingFeatures:
    """Choose landmarks and bandwidth, and embed training bags in one pass over their points.

    Parameters of estimators are described there, `covariance` in `embed`; but False means the
    covariance of some of the points, if bags are in memory: `Familiarity` needs it. `labels`
    that are normal, with `by_size` of a noise that depends on the sizes of bags, allow a
    `CompressedEmbedding` of many bags in partitions.
    """
    bags = as_bags(bags, in_parts=True)
    choices: Any = {
        "kernel": kernel,
        "bandwidth": bandwidth,
        "bandwidth_scale": bandwidth_scale,
        "n_landmarks": n_landmarks,
        "landmarks": landmarks,
    }
    features = chosen_features(bags, covariates, **choices, seed=seed)
    feature_map: Any = features.feature_map
    x = None if covariates is None else covariates.transform(bags)
    n_points = float(np.sum(bags.effective_sizes))
    tested = features.are_tested(n_points, len(bags))
    share = Share()
    options: Any = {"covariance": covariance or tested, "progress": share.update}
    too_many = isinstance(bags, PartitionedBags) and len(bags) * feature_map.n_columns > MOST_KEPT
    embedding: Any
    with status("Embedding the points", progress is not False, after=10, detail=share.text):
        if labels is not None and too_many:
            options |= {"by_size": by_size, "covariates": x}
            embedding = compressed_embedding(bags, feature_map, labels, **options)
        else:
            embedding = replace(embed(bags, feature_map, **options), covariates=x)
    if isinstance(embedding, Embedding):
        variances = embedding.cluster_variances
        features = replace(features, record=replace(features.record, cluster_variances=variances))
    if tested:
        features = features.with_varying_effects(embedding)
    elif not covariance and isinstance(bags, Bags):
        within = _covariance_of_some(bags, feature_map)
        features = replace(features, embedding=replace(embedding, covariance=within))
    else:
        features = replace(features, embedding=embedding)
    check_kernel_reaches(features.kernel, features.embedding.extremes)
    if len(bags) > 1:
        _check_bags_differ(features.kernel, features.embedding.extremes)
    return features


def chosen_features(
    bags: Any,
    covariates: Covariates | None,
    *,
    kernel: str | Kernel,
    bandwidth: ArrayLike | str,
    bandwidth_scale: float,
    n_landmarks: int,
    landmarks: str | ArrayLike,
    seed: Seed,
) -> TrainingFeatures:
    """Kernel, landmarks and encodings by these bags, which are not embedded yet."""
    kernel = name_for(kernel, bags.n_features)
    with_effects = isinstance(kernel, str) and kernel.startswith(LINEAR_PLUS)
    if isinstance(kernel, str) and not with_effects:
        warn_of_skewed_columns(bags)
    kernel = resolve_kernel(kernel, bandwidth, bags, seed=seed, scale=bandwidth_scale)
    chosen = landmarks_of_kernel(kernel, bags, n_landmarks, method=landmarks, seed=seed)
    record = BagsRecord.from_bags(bags)
    feature_map = landmark_features(kernel, chosen)
    return TrainingFeatures(feature_map, kernel, None, record, covariates, with_effects)


def _covariance_of_some(bags, feature_map):
    """Within-bag covariance of features of some points, (d, d); None for bags of one point each."""
    several = np.flatnonzero(bags.effective_sizes > 1 + 1e-9)
    some = several[:: 1 + bags.n_points // _POINTS_OF_COVARIANCE]
    return embed(bags[some], feature_map, covariance=True).covariance if len(some) else None


def _check_bags_differ(kernel, extremes):
    """Raise ValueError if mean embeddings of bags differ only by rounding."""
    if np.ptp(extremes, axis=0).max() <= 1e-12 * np.abs(extremes).max():
        raise ValueError(
            f"all bags have the same mean embedding by {kernel_in_words(kernel)}: give a bandwidth "
            "near the distances between points"
        )


def warn_of_skewed_columns(bags: BagsBase) -> None:
    """Warn of columns with long tails; bags in partitions are not checked."""
    if not isinstance(bags, Bags):
        return
    sample = bags.sample_points(_POINTS_FOR_TAILS, np.random.default_rng(0))
    skewed = LONG_TAILS.columns(sample)
    if not skewed:
        return
    names = bags.features or [str(k) for k in range(bags.n_features)]
    shown = ", ".join(repr(names[k]) for k in skewed[:_SHOWN_COLUMNS])
    shown += ", .." * (len(skewed) > _SHOWN_COLUMNS)
    first = repr(names[skewed[0]]) if bags.features else skewed[0]
    kernel = f"NormalScores(columns=[{first}])" + " + RBF(columns=[..])" * (bags.n_features > 1)
    warn(
        f"columns with long tails: {shown}; a few large values determine the scale on which the "
        f"kernel compares points: take logarithms, or give the column a kernel of normal scores, "
        f"{kernel}"
    )


def varying_effects(kernel: Kernel, landmarks: Array, embedding: Embedding) -> tuple[Kernel, Array]:
    """The kernel without effects that do not differ between bags; which landmarks it uses, (d,).

    An effect is dropped if the bags' means of its features differ no more than means of samples of
    one population, by an F test (one-way analysis of variance of several features).
    """
    p = landmarks.shape[1]
    looked_at, parts = np.isfinite(landmarks), summands(kernel, p)
    used = np.ones(len(landmarks), bool)
    for columns, part in list(parts.items()):
        of_part = (looked_at == np.isin(np.arange(p), columns)).all(axis=1)
        if rank(part, p) is not None and p_value(embedding, of_part) > _LEVEL:
            del parts[columns]
            used[of_part] = False
    return reduce(add, parts.values()), used


def p_value(embedding: Embedding, features: Array) -> float:
    """P-value of equal means of these features, (d,) booleans, in all bags."""
    embedding, (sizes, n_bags) = embedding.columns(features), embedding.weighted_sizes
    assert embedding.covariance is not None
    values, axes = np.linalg.eigh(embedding.covariance)
    varying = values > 1e-9 * values[-1]  # levels of a category sum to 1
    between = np.diag(axes.T @ embedding.scatter @ axes)[varying] / values[varying]
    degrees = varying.sum() * (embedding.deviations.n_bags - 1)
    return float(f.sf(between.sum() / degrees, degrees, np.sum(n_bags * (sizes - 1))))


def features_by_sample(
    bags: Any, features_of: Callable[[str, Any], TrainingFeatures], covariates: Covariates | None
) -> TrainingFeatures:
    """Features of bags, `features_of` each sample by its name; several are joined."""

    def joined(features):
        parts = {name: each.take(bags.rows(name)) for name, each in features.items()}
        embedding = _side_by_side(bags, {name: part.embedding for name, part in parts.items()})
        if covariates is not None:
            embedding = replace(embedding, covariates=covariates.transform(bags))
        maps = {name: part.feature_map for name, part in parts.items()}
        kernels = {name: part.kernel for name, part in parts.items()}
        records = {name: part.record for name, part in features.items()}
        record = replace(BagsRecord.from_bags(bags), parts=records)
        return TrainingFeatures(maps, kernels, embedding, record, covariates, parts=parts)

    return by_sample(bags.samples, features_of, joined)


def embedded(bags: Any, feature_map: Any, bag_data: Mapping[str, Array]) -> Embedding:
    """Mean embeddings of bags with their `bag_data`, checked before the pass.

    Embeddings of several samples are side by side, 0 with size 0 if a bag lacks one.
    """

    def of_sample(name, feature_map):
        if bags.has(name).any():
            return embed(bags.samples[name], feature_map)
        return Embedding(np.empty(0), np.empty((0, feature_map.n_columns)), None)

    def joined(embeddings):
        return _side_by_side(bags, {n: e.take(bags.rows(n)) for n, e in embeddings.items()})

    return replace(by_sample(by_name(feature_map), of_sample, joined), **bag_data)


def _side_by_side(bags, embeddings):
    """Embedding of all bags, from the embeddings of the bags that have each sample by its name."""
    n = len(bags)
    sizes, means = np.zeros((n, len(embeddings))), []
    for m, (name, embedding) in enumerate(embeddings.items()):
        mean, has = np.zeros((n, embedding.mean.shape[1])), bags.has(name)
        sizes[has, m], mean[has] = embedding.sizes, embedding.mean
        means.append(mean)
    return Embedding(sizes, np.hstack(means), None)
