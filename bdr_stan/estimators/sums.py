"""Fits from sums: summaries of bags, which add up, in the place of the bags.

With normal labels the posterior depends on the bags through sums only, see "Lossless compression"
in ``docs/explanation/computation.md``. A `Basis` fixes what the sums are of; each site turns its
bags into a `Summary`; a fit to the total is the fit to all bags together.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from hashlib import sha256
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from bdr_stan import __version__
from bdr_stan.bags import BagsLike, as_bags
from bdr_stan.bags.record import RECORDED, BagsRecord
from bdr_stan.embedding.compressed_embedding import CompressedEmbedding, RowSums, sums_at_nodes
from bdr_stan.embedding.compression import Rows, merged
from bdr_stan.embedding.covariates import Covariates
from bdr_stan.embedding.landmarks import check_kernel_reaches
from bdr_stan.embedding.mean_embedding import embed
from bdr_stan.embedding.size_nodes import SizeNodes, with_fewest_rows
from bdr_stan.embedding.training import TrainingFeatures, chosen_features
from bdr_stan.estimators.base import estimator_from_file
from bdr_stan.estimators.validation import check_positive
from bdr_stan.kernels import landmark_features
from bdr_stan.labels import SummedLabels
from bdr_stan.posterior.settings import SamplerSettings
from bdr_stan.questions.protocol import Fit
from bdr_stan.results import files
from bdr_stan.results.encoding import decode, encode, packed, unpacked
from bdr_stan.results.inference_data import dataset
from bdr_stan.types import Array, ArrayLike, PathName, check_counts

_ARRAYS = "bdr_stan_arrays"
_SUMMED = ("powers", "by_points", "scatter")  # of a Summary, besides its rows


class _Saved:
    """Base of what is saved to a file of its own."""

    def save(self, path: PathName) -> None:
        """Write to one file; an existing file is replaced once the new one is complete.

        Parameters
        ----------
        path : str or Path
        """
        arrays: dict[str, Array] = {}
        content = encode(self.config(), arrays, type(self).__name__)  # type: ignore[attr-defined]
        vectors, shapes = packed(arrays)
        variables = dataset(vectors, {name: [f"{name}_row"] for name in vectors}, sample=False)
        config = {"bdr_stan": __version__, type(self).__name__: content, "arrays": shapes}
        files.write(path, {_ARRAYS: variables}, config)

    @classmethod
    def load(cls, path: PathName) -> Self:
        """Read a file written by `save`.

        Parameters
        ----------
        path : str or Path

        Raises
        ------
        FileNotFoundError
            The file does not exist.
        ValueError
            The file is damaged, or contains something else.
        """
        what = cls.__name__
        try:
            groups, config = files.read(path)
        except ValueError as error:
            raise ValueError(
                f"{path} holds no {what}, or is cut short: copy or write it again"
            ) from error
        if what not in config:
            raise ValueError(f"{path} holds no {what}: give a file that {what}.save has written")
        try:
            vectors = {str(name): array.values for name, array in groups[_ARRAYS].items()}
            arrays = unpacked(vectors, config["arrays"])

            def made(name: str, **params: Any) -> Any:
                return estimator_from_file(name, params, str(path))

            return cls.from_config(decode(config[what], arrays, made))  # type: ignore[attr-defined]
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path} holds a {what} of bdr_stan {config.get('bdr_stan')}, which version "
                f"{__version__} cannot read: use that version, or write it again"
            ) from error


@dataclass(frozen=True)
class Basis(_Saved):
    """What several sites agree on: kernel, landmarks, encodings of columns, and a model.

    Made by ``BDR(...).basis(bags)`` and passed to the sites as a file. It contains the landmarks,
    which are points or averages of points of `bags`, and no labels.

    Attributes
    ----------
    estimator : BDR, Shrinkage or BLR
        Not fitted, with the parameters of the model.
    features : TrainingFeatures
        Kernel, landmarks and encodings, without embeddings.
    largest_size : float
        Points of the largest bag that a summary may have.
    """

    estimator: Any
    features: TrainingFeatures
    largest_size: float

    @property
    def landmarks(self) -> Array:
        """Landmarks of the kernel, shape (d, p), units of the points."""
        return self.features.landmarks

    @cached_property
    def digest(self) -> str:
        """Identification of the basis: two with the same digest are equal."""
        arrays: dict[str, Array] = {}
        text = json.dumps(encode(self.config(), arrays, "Basis"), sort_keys=True, default=str)
        content = sha256(text.encode())
        for array in arrays.values():
            content.update(np.ascontiguousarray(array).tobytes())
        return content.hexdigest()[:16]

    def summarise(self, bags: BagsLike, y: ArrayLike, *, min_bags: int = 10) -> "Summary":
        """Sums over bags and their labels: all that a fit needs of them.

        Parameters
        ----------
        bags : Bags, PartitionedBags, list of n arrays, or table
            With the columns of the bags of the basis, in the same units.
        y : array or Series, shape (n,)
            Labels, as for `fit`.
        min_bags : int, default 10
            Fewest bags of a summary. A summary is not anonymous: of few bags the embeddings and
            labels can be computed from it. If it is above 1, each level of a covariate or group
            must also have more than one bag.

        Returns
        -------
        Summary
            Of about a hundred matrices of d by d numbers, whatever the number of bags.

        Raises
        ------
        ValueError, TypeError
            Bags unlike those of the basis, fewer than `min_bags`, or larger than `largest_size`.
        """
        check_counts(min_bags=min_bags)
        record, model = self.features.record, self.estimator
        bags = model.bags_like(bags, record.settings, True, model.columns_of_bags)
        labels = model.label_model.of_model(model.read_labels(bags, y))
        self._check(bags, min_bags)
        learned = self.features.covariates
        x = np.empty((len(bags), 0)) if learned is None else learned.transform(bags)
        covariance, tau = getattr(model, "covariance", None), getattr(model, "tau", 1.0)
        sizes = bags.effective_sizes
        several = sizes > 1 + 1e-9
        if covariance is None and self.features.free_linear_variance:
            covariance = "average"
        estimated = covariance if covariance == "identity" or several.any() else None
        _, sums, scatter = sums_at_nodes(
            bags, self.features.feature_map, labels, self._nodes, x, covariance=estimated, tau=tau
        )
        weight = float({"average": several.sum(), "pooled": np.sum(sizes - 1)}.get(covariance, 1.0))
        d = len(sums.powers) // 2
        return Summary(
            self,
            sums.rows,
            sums.powers,
            sums.by_points,
            np.zeros((d, d)) if scatter is None else scatter * weight,
            weight,
        )

    def _check(self, bags, min_bags):
        """Raise ValueError for too few bags, too large ones, or new or unique levels."""
        if len(bags) < min_bags:
            raise ValueError(
                f"{len(bags)} bags are too few for a summary: their labels could be computed from "
                f"it, so at least min_bags={min_bags} are needed"
            )
        sizes = bags.effective_sizes
        if sizes.max() > self.largest_size:
            raise ValueError(
                f"{bags.name(int(np.argmax(sizes)))} has {sizes.max():.6g} points, but the largest "
                f"bag of the basis may have {self.largest_size:.6g}: make the basis with a larger "
                "largest_size"
            )
        learned = self.features.covariates
        if learned is None:
            return
        learned.terms.check_levels(bags)
        levels = {n: v for n, v in learned.levels.items() if v is not None} | learned.terms.groups
        for name in levels if min_bags > 1 else ():
            counts = pd.Series(np.asarray(bags.metadata[name])).value_counts()
            if counts.min() == 1:
                raise ValueError(
                    f"{counts.idxmin()!r} of {name!r} occurs in one bag: its label could be "
                    "computed from the summary, so merge it with another level or leave the bag out"
                )

    @property
    def _nodes(self):
        return [SizeNodes((0.0, float(np.log(self.largest_size))), None)]

    def config(self) -> dict[str, Any]:
        """As numbers and text, for a file."""
        features = self.features
        return {
            "estimator": self.estimator,
            "kernel": features.kernel,
            "landmarks": features.landmarks,
            "record": dict(features.record.settings),
            "covariates": None if features.covariates is None else features.covariates.config(),
            "free_linear_variance": features.free_linear_variance,
            "largest_size": self.largest_size,
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """The basis from its `config`."""
        record = {field: config["record"][name] for name, field in RECORDED.items()}
        covariates = config["covariates"]
        features = TrainingFeatures(
            landmark_features(config["kernel"], config["landmarks"]),
            config["kernel"],
            None,
            BagsRecord(np.arange(0), False, **record),
            None if covariates is None else Covariates.from_config(covariates),
            config["free_linear_variance"],
        )
        return cls(config["estimator"], features, config["largest_size"])


@dataclass(frozen=True)
class Summary(_Saved):
    """Sums over bags and their labels, which add up: ``model.fit(here + there)``.

    Attributes
    ----------
    basis : Basis
    n_bags : int
        Number of bags.
    """

    basis: Basis
    rows: Rows  # [e, x, 1, y] at nodes of the sizes
    powers: Array  # as in `RowSums`
    by_points: Array
    scatter: Array  # sum over the bags of their covariances, times their weights, (d, d)
    scatter_weight: float
    parts: tuple[str, ...] = ()  # identifications of the summaries that were added

    def __post_init__(self) -> None:
        if not self.parts:
            content = sha256(self.powers.tobytes() + self.by_points.tobytes())
            object.__setattr__(self, "parts", (content.hexdigest()[:16],))

    @property
    def n_bags(self) -> int:
        """Number of bags."""
        return round(self.powers[-1, -1])

    def __repr__(self) -> str:
        sites = f" in {len(self.parts)} parts" if len(self.parts) > 1 else ""
        return f"Summary({self.n_bags} bags{sites}, basis {self.basis.digest})"

    def __add__(self, other: Any) -> "Summary":
        if not isinstance(other, Summary):
            return NotImplemented
        if other.basis.digest != self.basis.digest:
            raise ValueError(
                f"the summaries have different bases, {self.basis.digest} and "
                f"{other.basis.digest}: make all with one file of Basis.save"
            )
        twice = set(self.parts) & set(other.parts)
        if twice:
            raise ValueError(
                f"both summaries contain the part {min(twice)}, so its bags would count twice: add "
                "each part once"
            )
        rows = with_fewest_rows(merged(Rows.stacked([self.rows, other.rows])))
        sums = {name: getattr(self, name) + getattr(other, name) for name in _SUMMED}
        weight = self.scatter_weight + other.scatter_weight
        if self._covariance == "identity":
            sums["scatter"], weight = self.scatter, self.scatter_weight
        parts = tuple(sorted(self.parts + other.parts))
        return replace(self, rows=rows, **sums, scatter_weight=weight, parts=parts)

    def __radd__(self, other: Any) -> "Summary":
        """The summary itself if `other` is 0, as for ``sum(summaries)``."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    @property
    def _covariance(self):
        return getattr(self.basis.estimator, "covariance", None)

    @property
    def features(self) -> TrainingFeatures:
        """Training features of all bags, in the form that a fit needs."""
        features, d = self.basis.features, len(self.scatter)
        within = None
        if self._covariance is not None or features.free_linear_variance:
            if self.scatter_weight == 0:
                raise ValueError(
                    "all bags have one point, so the covariance within bags has nothing to "
                    "estimate from: make the basis with covariance='identity' and tau"
                )
            within = self.scatter / self.scatter_weight
        origin = features.feature_map.gram().mean(axis=0)
        sums = RowSums(self.rows, self.powers, self.by_points, np.zeros((2, d)))
        embedding = CompressedEmbedding(None, within, origin, sums)
        features = replace(features, record=features.record.take(slice(0)))
        n_points = float(self.by_points[-1, -1])
        if features.are_tested(self._covariance, n_points, self.n_bags):
            return features.with_varying_effects(embedding)
        return replace(features, embedding=embedding)

    @property
    def labels(self) -> SummedLabels:
        """Number, mean and standard deviation of the labels, in the form of the model."""
        ones, y = self.rows.rows[:, -2:].T
        sign, n = self.rows.sign[self.rows.group], self.n_bags
        mean = float(np.sum(sign * ones * y) / n)
        variance = float(np.sum(sign * (y - ones * mean) ** 2) / n)
        return SummedLabels(n=n, mean=mean, sd=float(np.sqrt(max(variance, 0.0))))

    def config(self) -> dict[str, Any]:
        """As numbers and text, for a file."""
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        return own | {"basis": self.basis.config(), "rows": vars_of(self.rows)}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """The summary from its `config`."""
        basis = Basis.from_config(config["basis"])
        return cls(**{**config, "basis": basis, "rows": Rows(**config["rows"])})


class FromSums(Fit):
    """Fits to summaries of bags, in the place of the bags."""

    def basis(
        self: Any, bags: BagsLike, *, largest_size: float = 100_000, seed: int | None = None
    ) -> Basis:
        """Kernel, landmarks and encodings by some bags, for summaries of others.

        Parameters
        ----------
        bags : Bags, list of arrays, or table
            Bags that may be shared, with all levels of categories, covariates and groups: public
            points, or generated ones of the same columns and units.
        largest_size : float, default 100 000
            Points of the largest bag that a summary may have. A summary has about 4 matrices for
            each factor of 2.

        Returns
        -------
        Basis

        Raises
        ------
        ValueError, TypeError
            Unusable bags or parameters; labels without sums: a `family` other than "normal" and
            "lognormal", ``compress=False``, or a `stan_file`.
        """
        bags = as_bags(bags, in_parts=True)
        self.check_parameters()
        self._check_summable()
        check_positive(largest_size=largest_size)
        choices = {
            name: getattr(self, name)
            for name in ("bandwidth", "bandwidth_scale", "n_landmarks", "landmarks")
        }
        columns = [getattr(self, role) or () for role in ("covariates", "groups", "smooths")]
        seed = self.checked_seed(seed)
        features = chosen_features(bags, *columns, kernel=self.kernel_for(bags), **choices, seed=seed)
        check_kernel_reaches(features.kernel, embed(bags, features.feature_map).extremes)
        record = features.record.take(slice(0))
        return Basis(clone(self), replace(features, record=record), float(largest_size))

    def update(self: Any, bags: BagsLike, y: ArrayLike, **options: Any) -> Self:
        """Fit again to the bags of a fit from sums and to new ones.

        Parameters
        ----------
        bags, y : new bags and their labels, as for `fit`
        **options
            As for `fit`; by default the chains, draws and seed of the last fit.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            The fit is not from sums.
        """
        check_is_fitted(self, "result_")
        summary = self.summary_ + self.summary_.basis.summarise(bags, y, min_bags=1)
        arguments = self.result_.settings["run"]["arguments"]
        return self.fit(summary, **{**arguments, **options})

    @property
    def summary_(self: Any) -> Summary:
        """Sums over the training bags, of a fit from sums.

        Raises
        ------
        AttributeError
            The fit is not from sums.
        """
        check_is_fitted(self, "result_")
        content = self.result_.settings.get("summary")
        if content is None:
            raise AttributeError(
                "the fit is to bags, not from sums: make a basis, summarise the bags, and fit to "
                "the summary"
            )
        return Summary.from_config(content)

    def _check_summable(self: Any) -> None:
        """Raise ValueError unless labels have sums, and the program takes them."""
        name = type(self).__name__
        if not getattr(self, "compress", False):
            raise ValueError(f"{name} needs each bag, not sums over them: use BDR, BLR or Shrinkage")
        if not self.label_model.is_normal:
            raise ValueError(
                f"labels of family={self.family!r} have no sums: only of normal and lognormal "
                "labels does the posterior depend on sums alone"
            )
        if self.stan_file is not None:
            raise ValueError("a fit from sums runs the stock program: leave stan_file out")

    def _check_sums(self: Any, summary: Summary, others: Mapping[str, Any]) -> None:
        """Raise unless this estimator can be fitted to the summary, without other arguments."""
        self.check_parameters()
        self._check_summable()
        passed = [name for name, value in others.items() if value is not None]
        if passed:
            raise TypeError(f"a Summary contains the labels: leave {passed[0]} out")
        model = summary.basis.estimator
        for name in ("family", "covariance", "tau"):
            here, there = (getattr(one, name, None) for one in (self, model))
            if here != there and here is not None:
                raise ValueError(
                    f"the sums are of {name}={there!r}, but the model has {name}={here!r}: use the "
                    "same in the basis and in the model"
                )

    def _fit_sums(self: Any, summary: Summary, settings: SamplerSettings, started: float) -> Self:
        """Fit to a summary that was checked."""
        training = summary.features
        self._check_same_covariates(training)
        self._fit_labels(training, summary.labels, settings, started)
        kept = {"summary": summary.config(), "n_bags": summary.n_bags}
        result = self.result_
        return self.set_result(replace(result, settings={**result.settings, **kept}))


def vars_of(rows: Rows) -> dict[str, Array]:
    """Arrays of rows, by name."""
    return {field.name: getattr(rows, field.name) for field in fields(rows)}
