"""What a fit uses of training bags with several samples: features of each, side by side."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from bdr_stan.bags.record import BagsRecord
from bdr_stan.bags.samples import Samples
from bdr_stan.embedding.covariates import Covariates
from bdr_stan.embedding.mean_embedding import Embedding, embed
from bdr_stan.embedding.training import TrainingFeatures
from bdr_stan.kernels import FeatureMap
from bdr_stan.types import Array, ArrayLike


@dataclass(frozen=True, kw_only=True)
class SamplesFeatures(TrainingFeatures):
    """Features of training bags with several samples: maps, kernels and landmarks are dicts."""

    samples: Mapping[str, TrainingFeatures]  # each of the bags that have the sample
    present: Mapping[str, Array]  # which bags have the sample, bool, shape (n,)

    @property
    def landmarks(self) -> Any:
        return {name: features.landmarks for name, features in self.samples.items()}

    @property
    def bandwidth(self) -> Any:
        return {name: features.bandwidth for name, features in self.samples.items()}

    @property
    def coordinates(self) -> dict[str, list[str]]:
        """Names along the dimensions of draws."""
        named = [
            f"{name}[{k}]"
            for name, features in self.samples.items()
            for k in range(features.feature_map.n_columns)
        ]
        return {"sample": list(self.samples), "landmark": named, "component": named}

    @property
    def constants(self) -> dict[str, tuple[Array, list[str]]]:
        of_samples = {
            f"landmarks_{name}": (features.landmarks, [f"landmark_{name}", f"feature_{name}"])
            for name, features in self.samples.items()
        }
        return of_samples | {"bag_size": (self.embedding.sizes, ["bag", "sample"])}

    def take(self, bags: ArrayLike) -> Self:
        chosen = np.arange(len(self.record))[bags]
        samples, present = {}, {}
        for name, features in self.samples.items():
            has = self.present[name]
            present[name] = has[chosen]
            samples[name] = features.take((np.cumsum(has) - 1)[chosen[has[chosen]]])
        return replace(super().take(bags), samples=samples, present=present)

    def has(self, name: str) -> Array:
        """Whether each bag has a sample, bool, shape (n,)."""
        return self.present[name]

    def name(self, i: int) -> str:
        """Name of bag i in messages."""
        return self.record.name(i)


def samples_features(
    bags: Samples,
    features_of: Callable[[str, Any], TrainingFeatures],
    covariates: Covariates | None,
) -> SamplesFeatures:
    """Features of all samples; `features_of` makes them by name for the bags that have a sample."""
    samples = {
        name: features_of(name, sample).take(bags.rows(name))
        for name, sample in bags.samples.items()
    }
    present = {name: bags.has(name) for name in samples}
    embedding = _side_by_side(len(bags), {n: (present[n], f.embedding) for n, f in samples.items()})
    if covariates is not None:
        embedding = replace(embedding, covariates=covariates.transform(bags))
    return SamplesFeatures(
        feature_map={name: features.feature_map for name, features in samples.items()},  # type: ignore[arg-type]
        kernel={name: features.kernel for name, features in samples.items()},  # type: ignore[arg-type]
        embedding=embedding,
        record=BagsRecord.from_bags(bags),
        covariates=covariates,
        samples=samples,
        present=present,
    )


def embed_samples(bags: Samples, feature_maps: Mapping[str, FeatureMap]) -> Embedding:
    """Mean embeddings of all samples, concatenated; 0 with size 0 if a bag lacks one."""
    parts = {}
    for name, feature_map in feature_maps.items():
        has, none = bags.has(name), np.empty((0, feature_map.n_columns))
        embedding = Embedding(np.empty(0), none, None)
        if has.any():
            embedding = embed(bags.samples[name], feature_map).take(bags.rows(name))
        parts[name] = has, embedding
    return _side_by_side(len(bags), parts)


def embedded(bags: Any, feature_map: Any, bag_data: Mapping[str, Array]) -> Embedding:
    """Mean embeddings of bags with their `known` data, checked before the pass."""
    embed_bags = embed_samples if isinstance(bags, Samples) else embed
    return replace(embed_bags(bags, feature_map), **bag_data)


def _side_by_side(n: int, parts: Mapping[str, tuple[Array, Embedding]]) -> Embedding:
    sizes, means = np.zeros((n, len(parts))), []
    for m, (has, embedding) in enumerate(parts.values()):
        mean = np.zeros((n, embedding.mean.shape[1]))
        sizes[has, m], mean[has] = embedding.sizes, embedding.mean
        means.append(mean)
    return Embedding(sizes, np.hstack(means), None)
