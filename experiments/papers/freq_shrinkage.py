"""Ridge regression on shrunk mean embeddings: all by one amount, or each bag's by itself."""

from dataclasses import KW_ONLY, replace
from functools import partial
from operator import itemgetter
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bdr_stan import KernelMean, RBFNetwork
from bdr_stan.bags import Bags, BagsLike, as_bags, check_outputs, output_names, values_of_bags
from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.embedding.training import TrainingFeatures
from bdr_stan.estimators.validation import check_choice, checked_validation, labels_of_training
from bdr_stan.kernel_means.ridge_path import RidgePath, mean_squares
from bdr_stan.parameters import estimator
from bdr_stan.types import Array, ArrayLike, Seed, numbers_or_nan
from experiments.papers.shrunk_embedding import ShrunkEmbedding, shrink_embedding

BY_BAG = ("s-kmse", "f-kmse")
AMOUNTS = (0.0, *np.geomspace(1, 1000, 13))  # in points; four per decade


@estimator
class FreqShrinkage(RBFNetwork):
    """Ridge regression on shrunk mean embeddings.

    Parameters
    ----------
    shrinkage : "tuned", float, sequence of float, "s-kmse" or "f-kmse", default "tuned"
        A number is the amount lambda >= 0, in points, by which all bags shrink: the mean embedding
        of N points becomes f + N / (N + lambda) (mean - f), f its target. From several the
        one, together with alpha, that predicts the labels best: of the validation bags of `fit`,
        else by leave-one-out. "tuned": 0, and 13 amounts from 1 to 1000. By name each bag shrinks
        by the leave-one-out score of its own kernel mean, at prediction as in the fit; labels and
        the other bags play no part, and bags with weights are refused. ``embed(bags).shrinkage``
        then is lambda of each bag, 0 for a bag of one point. "s-kmse" has one factor per bag, at a
        cost of N^2, "f-kmse" one for each principal direction of the bag's points, at a cost of
        N^3 in time and N^2 in memory.
    target : "average", "zero" or array of shape (m, p), optional
        f: the average embedding of the training bags, 0, or the kernel mean of these points.
        Default "average" for an amount; "zero" for shrinkage by name, which has no average.

    Attributes
    ----------
    shrinkage_ : float or str
        Amount chosen, or the name.

    Notes
    -----
    The risk of (1 - a) mean + a f is least at a = D / (D + |f - mu|^2), mu the true embedding and
    D = (E k(x, x) - |mu|^2) / N the risk of the mean (Muandet et al. 2014, Theorem 1). This is
    a = lambda / (N + lambda), with a lambda = N D / |f - mu|^2 that does not depend on N: so one
    amount for all bags shrinks small ones most. Source: Law et al. (2018), section 5.

    Examples
    --------
    >>> import numpy as np
    >>> from experiments.papers import FreqShrinkage
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=40)
    >>> bags = [rng.normal(mean, size=(n, 1)) for mean, n in zip(y, [5, 100] * 20)]
    >>> model = FreqShrinkage(n_landmarks=10).fit(bags, y, seed=1)
    >>> model.predict(bags[:3]).shape
    (3,)
    >>> model.shrinkage_ > 0
    True
    >>> each = FreqShrinkage(10, shrinkage="s-kmse").fit(bags, y, seed=1).embed(bags).shrinkage
    >>> bool(each[::2].mean() > each[1::2].mean())  # small bags shrink more
    True
    """

    _: KW_ONLY
    shrinkage: str | ArrayLike = "tuned"
    target: str | ArrayLike | None = None

    takes_parts = False  # the shrinkage of a bag by itself takes pairs of its points

    def training_features(self, bags: BagsLike, *, seed: int | None = None) -> TrainingFeatures:
        training = super().training_features(as_bags(bags), seed=seed)
        if not is_by_bag(self.shrinkage):
            return training
        shrunk = by_bag(bags, training.embedding, training.feature_map, self.shrinkage, self.target)
        return replace(training, embedding=shrunk)

    def embed(self, bags: BagsLike, training: TrainingFeatures | None = None) -> Embedding:
        """As `RBFNetwork.embed`; by name shrunk, by an amount not yet."""
        embedding = super().embed(bags, training)
        if training is None:
            fit = self.result_.settings
            features, shrinkage, target = self.feature_map_, fit["shrinkage"], fit["target"]
        else:
            features, shrinkage, target = training.feature_map, self.shrinkage, self.target
        if not is_by_bag(shrinkage):
            return embedding
        return by_bag(bags, embedding, features, shrinkage, target)

    def fit(
        self,
        bags: BagsLike,
        y: ArrayLike,
        *,
        validation: tuple[BagsLike, ArrayLike] | None = None,
        seed: int | None = None,
    ) -> Self:
        """Fit to bags and their labels.

        Parameters
        ----------
        validation : (bags, y), optional
            Bags and labels by whose squared error the amount and alpha are chosen.
        """
        if validation is None:
            return super().fit(bags, y, seed=seed)
        bags, outputs = as_bags(bags), output_names(y)
        check_outputs(bags, y, outputs)
        self.check_parameters()
        held_out, labels = checked_validation(
            validation, bags, partial(check_outputs, outputs=outputs)
        )
        training = self.training_features(bags, seed=self.checked_seed(seed))
        return self.fit_features(
            training,
            values_of_bags(bags, y, "y"),
            validation=(self.embed(held_out, training), labels),
        )

    def fit_features(
        self,
        training: TrainingFeatures,
        y: ArrayLike,
        *,
        validation: tuple[Embedding, ArrayLike] | None = None,
        seed: Seed = None,
    ) -> Self:
        """As `RBFNetwork.fit_features`; by name of embeddings that are shrunk."""
        shrinkage, target = self.shrinkage, self.target
        labels = np.asarray(labels_of_training(training, y, several=True), float)
        if is_by_bag(shrinkage):
            check_shrunk(getattr(training, "embedding", None))
            alpha, _ = self.best(training.embedding, labels, validation)
        else:
            target = target_embedding(training, target)
            trials = []
            for amount in np.atleast_1d(AMOUNTS if isinstance(shrinkage, str) else shrinkage):
                at, held_out = moved(training.embedding, amount, target), validation
                if validation is not None:
                    held_out = moved(validation[0], amount, target), validation[1]
                trials.append((*self.best(at, labels, held_out), float(amount), at))
            alpha, _, shrinkage, at = min(trials, key=itemgetter(1))
            training = replace(training, embedding=at)
        result = RBFNetwork(alpha=alpha).fit_features(training, y).result_
        kept = {"shrinkage": shrinkage, "target": target}
        return self.set_result(replace(result, settings=result.settings | kept), {})

    def best(
        self, embedding: Embedding, y: Array, validation: tuple[Embedding, ArrayLike] | None
    ) -> tuple[float, float]:
        """alpha of least squared error of labels held out, and the error."""
        path = RidgePath(embedding.mean, y)
        alphas = path.alphas(self.alpha)
        if validation is None:
            errors = path.leave_one_out(alphas)
        else:
            new, labels = validation
            centred = new.mean - path.origin
            predictions = path.level + np.tensordot(centred, path.weights(alphas), 1)
            errors = mean_squares(predictions - np.asarray(labels, float)[:, None])
        k = int(np.argmin(errors))
        return float(alphas[k]), float(errors[k])

    def predict_features(self, embedding: Embedding) -> Array:
        """As `RBFNetwork.predict_features`; by name of embeddings that are shrunk."""
        check_is_fitted(self, "result_")
        fit = self.result_.settings
        if is_by_bag(fit["shrinkage"]):
            check_shrunk(embedding)
        else:
            embedding = moved(embedding, fit["shrinkage"], fit["target"])
        return super().predict_features(embedding)

    def _set_fitted(self, result):
        super()._set_fitted(result)
        self.shrinkage_ = result.settings.get("shrinkage")

    def check_parameters(self) -> None:
        super().check_parameters()
        if isinstance(self.shrinkage, str):
            check_choice(self.shrinkage, "shrinkage", ("tuned", *BY_BAG))
        else:
            check_amounts(self.shrinkage)
        if isinstance(self.target, str):
            check_choice(self.target, "target", ("average", "zero"))
            if is_by_bag(self.shrinkage) and self.target == "average":
                raise ValueError(
                    f"target 'average' goes with an amount of shrinkage, not with "
                    f"{self.shrinkage!r}: give target='zero' or points"
                )
        elif self.target is not None:
            check_points(self.target)


def is_by_bag(shrinkage: Any) -> bool:
    """Whether this shrinkage, of checked parameters, is chosen for each bag by itself."""
    return isinstance(shrinkage, str) and shrinkage in BY_BAG


def moved(embedding: Embedding, amount: float, target: Array) -> Embedding:
    """The means moved towards a target, shape (d,), by an amount in points."""
    kept = (embedding.sizes / (embedding.sizes + amount))[:, None]
    return replace(embedding, mean=target + kept * (embedding.mean - target))


def target_embedding(training: TrainingFeatures, target: Any) -> Array:
    """The parameter `target` at the features, shape (d,)."""
    average = training.embedding.m0
    if target is None or isinstance(target, str):
        return np.zeros_like(average) if target == "zero" else average
    points, p = np.asarray(target, float), training.feature_map.n_inputs
    if points.ndim != 2 or points.shape[1] != p:
        raise ValueError(f"target must have a column per feature, {p}, found shape {points.shape}")
    return training.feature_map(points).mean(axis=0)


def by_bag(
    bags: BagsLike, embedding: Embedding, features: Any, name: str, target: Any
) -> ShrunkEmbedding:
    """The embedding of bags, each shrunk by itself towards the parameter `target`."""
    bags = unweighted(bags)
    kernel = features.kernel
    mean = None if target is None or isinstance(target, str) else KernelMean(target, kernel)
    return shrink_embedding(embedding, bags, features, kernel, estimator=name, target=mean)


def unweighted(bags: BagsLike) -> Bags:
    """Bags in memory; ValueError where their points have weights."""
    bags = as_bags(bags)
    if bags.weights is not None:
        raise ValueError(
            "the scores of single bags count points equally, but the bags have weights: leave "
            "them out, or give an amount as shrinkage"
        )
    return bags


def check_shrunk(embedding: Any) -> None:
    """Raise TypeError unless this is an embedding of shrunk means."""
    if not isinstance(embedding, ShrunkEmbedding):
        raise TypeError(
            "the embedding is not shrunk: use FreqShrinkage.training_features, or shrink_embedding"
        )


def check_amounts(shrinkage: Any) -> None:
    """Raise ValueError unless these are one or several numbers >= 0."""
    values = numbers_or_nan(shrinkage)
    if values.ndim != 1 or len(values) == 0 or not np.all((values >= 0) & (values < np.inf)):
        raise ValueError(
            "shrinkage must be 'tuned', 's-kmse', 'f-kmse', or one or several numbers >= 0, found "
            f"{shrinkage!r}"
        )


def check_points(target: Any) -> None:
    """Raise ValueError unless the target is an array of points."""
    points = numbers_or_nan(target)
    if points.ndim != 2 or points.size == 0 or not np.isfinite(points).all():
        raise ValueError(
            f"target must be 'average', 'zero' or an array of points, (m, p), found {target!r}"
        )
