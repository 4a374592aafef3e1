"""Fits from sums: summaries of bags, which add up, instead of the bags.

With normal labels the posterior depends on the bags through sums only, see "Lossless compression"
in ``docs/explanation/computation.md``. A `Basis` fixes the features to sum; each site turns its
bags into a `Summary`; a fit to the total is the fit to all bags.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from hashlib import sha256
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from bdr_stan import __version__
from bdr_stan.bags import Bags, BagsLike, as_bags
from bdr_stan.bags.record import RECORDED, BagsRecord
from bdr_stan.embedding.compressed_embedding import CompressedEmbedding, RowSums, sums_at_nodes
from bdr_stan.embedding.compression import Rows
from bdr_stan.embedding.covariates import Covariates, learn_covariates
from bdr_stan.embedding.landmarks import check_kernel_reaches
from bdr_stan.embedding.mean_embedding import check_several_points, embed
from bdr_stan.embedding.size_nodes import SizeNodes, with_fewest_rows
from bdr_stan.embedding.training import TrainingFeatures, chosen_features
from bdr_stan.estimators.base import estimator_from_file
from bdr_stan.kernels import landmark_features
from bdr_stan.labels import SummedLabels
from bdr_stan.posterior.settings import SamplerSettings
from bdr_stan.questions.protocol import Fit
from bdr_stan.results import files
from bdr_stan.results.encoding import decode, encode
from bdr_stan.types import Array, ArrayLike, PathName, check_counts, is_number

_INTERPOLATION_ERROR = 1e-12  # of log likelihoods at sizes between the nodes


class _InFile:
    """Base of objects with a `config` of numbers, text and arrays, in a file of their own."""

    config: Any
    from_config: Any

    def save(self, path: PathName) -> None:
        """Write to one file.

        Parameters
        ----------
        path : str or Path
            An existing file is replaced once the new one is complete.
        """
        arrays: dict[str, Array] = {}
        what = type(self).__name__
        content = encode(self.config(), arrays, what)
        config = {"bdr_stan": __version__, what: content}
        files.write(path, *files.with_arrays({}, config, arrays))

    @classmethod
    def load(cls, path: PathName) -> Self:
        """Read a file written by `save`.

        Parameters
        ----------
        path : str or Path

        Raises
        ------
        FileNotFoundError, ValueError
            The file does not exist, is damaged, or contains something else.
        """
        what = cls.__name__
        try:
            groups, config = files.read(path)
        except ValueError as error:
            raise ValueError(f"{path} holds no {what}, or is cut short: copy it again") from error
        if what not in config:
            raise ValueError(f"{path} holds no {what}: give a file that {what}.save has written")

        def made(name, **params):
            return estimator_from_file(name, params, str(path))

        try:
            arrays = files.arrays_of(groups, config)
            return cls.from_config(decode(config[what], arrays, made))
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path} holds a {what} of bdr_stan {config.get('bdr_stan')}, which version "
                f"{__version__} cannot read: use that version, or write it again"
            ) from error


@dataclass(frozen=True)
class Basis(_InFile):
    """What several sites agree on: a model, its kernel and landmarks, encodings of columns.

    ``BDR(...).basis(bags)`` creates it; the sites receive it as a file. It contains the landmarks,
    which are points or averages of points of those bags, and no labels.

    Parameters
    ----------
    estimator : BDR, Shrinkage or BLR
        The model, not fitted.
    features : TrainingFeatures
        Kernel, landmarks and encodings, without embeddings.
    largest_size : float
        Points of the largest bag that a summary may have.
    digest : str
        Identifies the basis.

    Examples
    --------
    >>> from bdr_stan import Shrinkage
    >>> from bdr_stan.datasets import digits_bags
    >>> bags, y = digits_bags(40, seed=1)
    >>> Shrinkage(6).basis(bags, seed=1).summarise(bags, y).n_bags
    40
    """

    estimator: Any
    features: TrainingFeatures
    largest_size: float
    digest: str = ""

    def __post_init__(self) -> None:
        if not self.digest:
            arrays: dict[str, Array] = {}
            content = json.dumps(encode(self.config(), arrays, "Basis"), default=str).encode()
            content += b"".join(array.tobytes() for array in arrays.values())
            object.__setattr__(self, "digest", sha256(content).hexdigest()[:16])

    def summarise(self, bags: BagsLike, y: ArrayLike, *, min_bags: int = 10) -> "Summary":
        """Sum over bags and their labels whatever a fit needs.

        Parameters
        ----------
        bags : Bags, PartitionedBags, list of n arrays, or table
            With the columns of the bags of the basis, in the same units.
        y : array or Series, shape (n,)
            Labels, as for `fit`.
        min_bags : int, default 10
            Fewest bags. A summary is not anonymous: the embeddings and labels of few bags can be
            computed from it. Unless it is 1, each level of a covariate or group needs two bags,
            and each category two points, which bags in partitions are not checked for.

        Returns
        -------
        Summary
            Its size does not depend on the number of bags.

        Raises
        ------
        ValueError, TypeError
            Bags unlike the bags of the basis, fewer than `min_bags`, or larger than `largest_size`.
        """
        check_counts(min_bags=min_bags)
        model, features = self.estimator, self.features
        bags = model.bags_like(bags, "", features.record.settings)
        _check_independent(bags)
        labels = model.label_model.of_model(model.read_labels(bags, y))
        sizes, learned = bags.effective_sizes, features.covariates
        self._check(bags, sizes, min_bags)
        x = np.empty((len(bags), 0)) if learned is None else learned.transform(bags)
        nodes = [SizeNodes((0.0, float(np.log(self.largest_size))), None, _INTERPOLATION_ERROR)]
        n_several = int(np.sum(sizes > 1 + 1e-9))
        estimated = self.has_covariance and n_several > 0
        sums, scatter = sums_at_nodes(
            bags, features.feature_map, labels, nodes, x, covariance=estimated
        )
        d = sums.extremes.shape[1]
        sums = replace(sums, extremes=np.zeros((2, d)))  # numbers of single bags do not leave
        weight = float(n_several)
        return Summary(
            self, sums, np.zeros((d, d)) if scatter is None else scatter * weight, weight
        )

    @property
    def has_covariance(self) -> bool:
        """Whether the model needs the covariance within bags."""
        return self.estimator.has_covariance or self.features.free_linear_variance

    def _check(self, bags, sizes, min_bags):
        """Raise ValueError for too few bags, too large ones, and new or unique levels."""
        if len(bags) < min_bags:
            raise ValueError(
                f"{len(bags)} bags are too few for a summary: their labels could be computed from "
                f"it, so at least min_bags={min_bags} are needed"
            )
        largest = int(np.argmax(sizes))
        if sizes[largest] > self.largest_size:
            raise ValueError(
                f"{bags.name(largest)} has {sizes[largest]:.6g} points, but the largest bag of the "
                f"basis may have {self.largest_size:.6g}: make the basis with a larger largest_size"
            )
        learned, columns = self.features.covariates, self.features.record.columns
        levels = {} if learned is None else {**learned.levels, **learned.terms.groups}
        self.features.terms.check_levels(bags)
        counts: dict[Any, int] = {}  # of bags with each level, of points with each category
        for name in (name for name, values in levels.items() if values is not None):
            of_levels = bags.metadata[name].value_counts()
            counts |= {f"{level!r} of {name!r}": n for level, n in of_levels.items()}
        if columns is not None and columns.categories and isinstance(bags, Bags):
            indicators = [columns.names[k] in columns.categories for k in columns.sources]
            n_points = np.count_nonzero(bags.points[:, indicators], axis=0)
            counts |= dict(zip(np.array(columns.features)[indicators], n_points, strict=True))
        once = [what for what, n in counts.items() if n == 1 and min_bags > 1]
        if once:
            raise ValueError(
                f"{once[0]} occurs once: its bag's label could be computed from the summary, so "
                "merge it with another level or category, or leave the bag out"
            )

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
            "digest": self.digest,
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """The basis from its `config`."""
        record = {field: config["record"].get(name) for name, field in RECORDED.items()}
        covariates = config["covariates"]
        features = TrainingFeatures(
            landmark_features(config["kernel"], config["landmarks"]),
            config["kernel"],
            None,
            BagsRecord(np.arange(0), False, **record),
            None if covariates is None else Covariates.from_config(covariates),
            config["free_linear_variance"],
        )
        return cls(config["estimator"], features, config["largest_size"], config["digest"])


def _check_independent(bags):
    """Raise ValueError for points in clusters, or with replicate weights."""
    if bags.design is not None:
        raise ValueError(
            f"sums take points as independent: leave {bags.design} out of the bags, or fit to them"
        )


@dataclass(frozen=True)
class Summary(_InFile):
    """Sums over bags and their labels, which add up: ``model.fit(here + there)``.

    Parameters
    ----------
    basis : Basis
        What the sums are of.
    sums : RowSums
        At nodes of the sizes of bags.
    scatter : array, shape (d, d)
        Sum over the bags of their covariances, times their weights.
    scatter_weight : float
        Sum of these weights.
    parts : tuple of str
        Identifications of the summaries that were added.

    Examples
    --------
    >>> from bdr_stan import Shrinkage
    >>> from bdr_stan.datasets import digits_bags
    >>> bags, y = digits_bags(40, seed=1)
    >>> basis = Shrinkage(6).basis(bags, seed=1)
    >>> sum(basis.summarise(bags[k::2], y[k::2]) for k in (0, 1)).n_bags
    40
    """

    basis: Basis
    sums: RowSums
    scatter: Array
    scatter_weight: float
    parts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.parts:
            content = self.sums.powers.astype(np.float32)  # the order of rows does not matter
            object.__setattr__(self, "parts", (sha256(content.tobytes()).hexdigest()[:16],))

    @property
    def n_bags(self) -> int:
        """Number of bags."""
        return round(self.sums.powers[-1, -1])

    def __repr__(self) -> str:
        parts = f" in {len(self.parts)} parts" if len(self.parts) > 1 else ""
        return f"Summary({self.n_bags} bags{parts}, basis {self.basis.digest})"

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
        sums = self.sums.plus(other.sums)
        sums = replace(sums, rows=with_fewest_rows(sums.rows))
        total = replace(self, sums=sums, parts=tuple(sorted(self.parts + other.parts)))
        weight = self.scatter_weight + other.scatter_weight
        return replace(total, scatter=self.scatter + other.scatter, scatter_weight=weight)

    def __radd__(self, other: Any) -> "Summary":
        return self if isinstance(other, int) and other == 0 else NotImplemented  # of ``sum``

    @property
    def features(self) -> TrainingFeatures:
        """Training features of all bags."""
        features, within = self.basis.features, None
        if self.basis.has_covariance:
            check_several_points(self.scatter_weight > 0)
            within = self.scatter / self.scatter_weight
        feature_map: Any = features.feature_map
        embedding = CompressedEmbedding(None, within, feature_map.gram().mean(axis=0), self.sums)
        n_points = float(self.sums.by_points[-1, -1])
        if features.are_tested(n_points, self.n_bags):
            return features.with_varying_effects(embedding)
        return replace(features, embedding=embedding)

    @property
    def labels(self) -> SummedLabels:
        """Number, mean and standard deviation of the labels, in the form of the model."""
        rows, n = self.sums.rows, self.n_bags
        (ones, y), sign = rows.rows[:, -2:].T, rows.sign[rows.group]
        mean = float(np.sum(sign * ones * y) / n)
        variance = float(np.sum(sign * (y - ones * mean) ** 2) / n)
        return SummedLabels(n=n, mean=mean, sd=float(np.sqrt(max(variance, 0.0))))

    def config(self) -> dict[str, Any]:
        """As numbers and text, for a file."""
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        return own | {"basis": self.basis.config(), "sums": asdict(self.sums)}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """The summary from its `config`."""
        sums = {**config["sums"], "rows": Rows(**config["sums"]["rows"])}
        basis = Basis.from_config(config["basis"])
        return cls(**{**config, "basis": basis, "sums": RowSums(**sums)})


class FromSums(Fit):
    """Fits to summaries of bags."""

    def basis(
        self: Any, bags: BagsLike, *, largest_size: float = 100_000, seed: int | None = None
    ) -> Basis:
        """Fix kernel, landmarks and encodings by some bags, for summaries of others.

        Parameters
        ----------
        bags : Bags, list of arrays, or table
            Bags that may be shared, with all levels of categories, covariates and groups: public
            points, or generated ones with the same columns and units.
        largest_size : float, default 100 000
            Points of the largest bag that a summary may have. Each factor of 2 adds about three
            matrices to a summary.

        Raises
        ------
        ValueError, TypeError
            Unusable bags or parameters; labels without sums: a `family` other than "normal" and
            "lognormal", ``compress=False``, or a `stan_file`.
        """
        bags = as_bags(bags, in_parts=True)
        _check_independent(bags)
        self.check_parameters()
        self._check_summable()
        if not is_number(largest_size) or not 1 <= largest_size < np.inf:
            raise ValueError(f"largest_size must be a number of at least 1, found {largest_size!r}")
        choices = {"kernel": self.kernel_for(bags), "seed": self.checked_seed(seed)}
        for name in ("bandwidth", "bandwidth_scale", "n_landmarks", "landmarks"):
            choices[name] = getattr(self, name)
        columns = [getattr(self, role) or () for role in ("covariates", "groups", "smooths")]
        learned = learn_covariates(bags, *columns) if any(columns) else None
        features = chosen_features(bags, learned, **choices)
        check_kernel_reaches(features.kernel, embed(bags, features.feature_map).extremes)
        features = replace(features, record=features.record.take(slice(0)))
        return Basis(clone(self), features, float(largest_size))

    def update(self: Any, bags: BagsLike, y: ArrayLike, **options: Any) -> Any:
        """Fit again, to the bags of a fit from sums and to new ones.

        Parameters
        ----------
        bags, y : new bags and their labels, as for `fit`
        **options
            As for `fit`; chains, draws and seed by default as in the last fit.

        Raises
        ------
        AttributeError
            The fit is not from sums.
        """
        summary = self.summary_ + self.summary_.basis.summarise(bags, y, min_bags=1)
        return self.fit(summary, **{**self.result_.settings["run"]["arguments"], **options})

    @property
    def summary_(self: Any) -> Summary:
        """Sums over the training bags of a fit from sums."""
        check_is_fitted(self, "result_")
        content = self.result_.settings.get("summary")
        if content is None:
            raise AttributeError(
                "the fit is to bags, not from sums: make a basis, summarise the bags, and fit to "
                "the summary"
            )
        return Summary.from_config(content)

    def _check_summable(self: Any) -> None:
        """Raise ValueError unless labels have sums, and the program uses them."""
        name = type(self).__name__
        if not getattr(self, "compress", False):
            raise ValueError(f"{name} needs each bag, not sums: use BDR, BLR or Shrinkage")
        if not self.label_model.is_normal:
            raise ValueError(
                f"labels of family={self.family!r} have no sums, only normal and lognormal ones do"
            )
        if self.stan_file is not None:
            raise ValueError("a fit from sums runs the stock program: leave stan_file out")

    def _check_sums(self: Any, summary: Summary, others: Mapping[str, Any]) -> None:
        """Raise unless this estimator can be fitted to the summary, without other arguments."""
        self.check_parameters()
        self._check_summable()
        passed = [name for name, value in others.items() if value is not None]
        if "label_sd" in passed:
            raise TypeError(
                "known errors of labels have no sums of bearable size, as each bag has a variance "
                "of its own: fit to the bags, or leave label_sd out"
            )
        if passed:
            raise TypeError(f"a Summary contains the labels: leave {passed[0]} out")
        here, there = (getattr(one, "family", None) for one in (self, summary.basis.estimator))
        if here not in (None, there):
            raise ValueError(
                f"the sums are for family={there!r}, but the model has family={here!r}: use the "
                "same in the basis and in the model"
            )

    def _fit_sums(self: Any, summary: Summary, settings: SamplerSettings, started: float) -> Any:
        """Fit to a summary that was checked."""
        training = summary.features
        self._check_same_covariates(training)
        self._fit_labels(training, summary.labels, settings, started)
        kept = {"summary": summary.config(), "n_bags": summary.n_bags}
        result = self.result_
        return self.set_result(replace(result, settings={**result.settings, **kept}))
