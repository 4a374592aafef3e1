"""Ridge regression on shrunk mean embeddings, each bag's shrunk by itself."""

from dataclasses import KW_ONLY, replace
from typing import Any

from bdr_stan import RBFNetwork
from bdr_stan.bags import Bags, BagsLike, as_bags
from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.embedding.training import TrainingFeatures
from bdr_stan.estimators.validation import check_choice
from bdr_stan.kernels import RBF, FourierFeatures, landmark_features
from bdr_stan.parameters import estimator
from bdr_stan.types import Array
from experiments.papers.shrunk_embedding import ShrunkEmbedding, shrink_embedding


@estimator
class FreqShrinkage(RBFNetwork):
    """Ridge regression on shrunk mean embeddings: each bag's kernel mean moves towards zero.

    How far is chosen for each bag by itself, at prediction as in the fit, by the leave-one-out
    score of its kernel mean; labels and the other bags play no part. A bag of one point stays
    unshrunk. Points count equally: bags with weights are refused. ``embed(bags).shrinkage`` is
    lambda of each bag.

    Parameters
    ----------
    estimator : {"s-kmse", "f-kmse"}, default "s-kmse"
        "s-kmse": one factor per bag, at a cost of N_i^2. "f-kmse": one factor for each principal
        direction of the bag's points, at a cost of N_i^3 in time and N_i^2 in memory.

    Notes
    -----
    Source: Law et al. (2018), section 5, with the estimators of Muandet et al. (2014).

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
    >>> shrinkage = model.embed(bags).shrinkage
    >>> bool(shrinkage[::2].mean() > shrinkage[1::2].mean())  # small bags shrink more
    True
    """

    _: KW_ONLY
    estimator: str = "s-kmse"

    takes_parts = False  # the shrinkage of a bag takes pairs of its points

    def training_features(self, bags: BagsLike, *, seed: int | None = None) -> TrainingFeatures:
        bags = unweighted(bags)
        training = super().training_features(bags, seed=seed)
        return replace(training, embedding=self.shrunk(bags, training.embedding, training))

    def embed(self, bags: BagsLike, training: TrainingFeatures | None = None) -> ShrunkEmbedding:
        """Shrunk embeddings of new bags, as those of training features or, by default, a fit."""
        bags = unweighted(bags)
        return self.shrunk(bags, super().embed(bags, training), training)

    def fit_features(self, training: TrainingFeatures, *args: Any, **options: Any) -> Any:
        """As `RBFNetwork.fit_features`; TypeError for embeddings that are not shrunk."""
        check_shrunk(getattr(training, "embedding", None))
        return super().fit_features(training, *args, **options)

    def predict_features(self, embedding: Embedding) -> Array:
        """As `RBFNetwork.predict_features`; TypeError for embeddings that are not shrunk."""
        check_shrunk(embedding)
        return super().predict_features(embedding)

    def shrunk(
        self, bags: Bags, embedding: Embedding, training: TrainingFeatures | None
    ) -> ShrunkEmbedding:
        """The embedding of bags, shrunk, by the features of `training` or of the fit."""
        features: Any
        if training is not None:
            features = training.feature_map
        elif self.result_.settings["features"] == "fourier":
            features = FourierFeatures(self.landmarks_, self.bandwidth_)
        else:
            features = landmark_features(self.kernel_, self.landmarks_)
        # Fourier features stand for the Gaussian kernel, by whose score means are shrunk.
        fourier = isinstance(features, FourierFeatures)
        kernel = RBF(features.bandwidth) if fourier else features.kernel
        return shrink_embedding(embedding, bags, features, kernel, estimator=self.estimator)

    def check_parameters(self) -> None:
        super().check_parameters()
        check_choice(self.estimator, "estimator", ("s-kmse", "f-kmse"))


def unweighted(bags: BagsLike) -> Bags:
    """Bags in memory; ValueError where their points have weights."""
    bags = as_bags(bags)
    if bags.weights is not None:
        raise ValueError(
            "FreqShrinkage counts points equally, but the bags have weights: leave them out, or "
            "use RBFNetwork"
        )
    return bags


def check_shrunk(embedding: Any) -> None:
    """Raise TypeError unless this is an embedding of shrunk means."""
    if not isinstance(embedding, ShrunkEmbedding):
        raise TypeError(
            "the embedding is not shrunk: use FreqShrinkage.training_features, or shrink_embedding"
        )
