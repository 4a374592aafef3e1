"""Distances of bags from the training bags."""

from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from bdr_stan.bags import BagsLike
from bdr_stan.embedding.familiarity import MIN_BAGS
from bdr_stan.embedding.mean_embedding import Embedding, embed
from bdr_stan.estimators.base import BagEstimator
from bdr_stan.types import Array

if TYPE_CHECKING:
    import pandas as pd


class Familiar(BagEstimator):
    """Detection of out-of-distribution bags."""

    def familiarity(self: Any, bags: BagsLike) -> "pd.DataFrame":
        """P-values that detect out-of-distribution bags, from distances to the training bags.

        A bag like the training bags has a p-value of at most 0.05 with probability 0.05, whatever
        its size. Out-of-distribution bags are detected if they have enough points.

        Parameters
        ----------
        bags : Bags, PartitionedBags, or list of n arrays, shapes (n_points, p)

        Returns
        -------
        pandas DataFrame of n rows, indexed by the bags' ids under their column's name
            familiarity, the p-value: about 5 of 100 bags like the training bags are below 0.05; and
            distance, from the average training bag in standard deviations of training bags of the
            same size, about 1 for most of them.

        Raises
        ------
        ValueError
            The fit was to fewer than 20 bags, to bags of one point each, to bags in partitions by
            BLR or with more embeddings than are kept, or saved by an earlier version.
        TypeError
            The bags have several samples.

        Notes
        -----
        Distances are Mahalanobis distances; the covariance is between-bag plus within-bag
        covariance over the bag's size. P-values are ranks among n training bags of similar size,
        each held out of the covariances; below 1 / (n + 1) the tail is extrapolated, down to 1e-6.
        Each concerns one bag, and only its points: neither labels nor covariates enter.

        Examples
        --------
        >>> import numpy as np
        >>> from bdr_stan import Shrinkage
        >>> rng = np.random.default_rng(0)
        >>> y = rng.normal(size=60)
        >>> bags = [rng.normal(mean, size=(40, 1)) for mean in y]
        >>> model = Shrinkage(n_landmarks=6).fit(bags, y, seed=1)
        >>> near, far = rng.normal(0.5, size=(40, 1)), rng.normal(8.0, size=(40, 1))
        >>> found = model.familiarity([near, far])
        >>> (found["familiarity"] < 0.01).tolist()
        [False, True]
        """
        import pandas as pd

        check_is_fitted(self, "result_")
        self._check_familiarity()
        bags = self.like_training(bags)
        found = self.familiarity_columns(embed(bags, self.feature_map_), distance=True)
        return pd.DataFrame(found, index=pd.Index(bags.index, name=bags.id_name))

    @property
    def has_familiarity(self) -> bool:
        """Whether the fit keeps the distances that `familiarity` needs."""
        return getattr(self, "_familiarity", None) is not None

    def _check_familiarity(self: Any) -> None:
        """Raise if the fit keeps nothing to compare new bags with."""
        if self.has_familiarity:
            return
        if "samples" in self.result_.settings:
            raise TypeError(
                "familiarity is of bags with one sample, but those of the fit have several: fit "
                "one of these alone"
            )
        n = len(self.result_.labels)
        if n < MIN_BAGS:
            raise ValueError(f"the fit is to {n} bags, but familiarity needs at least {MIN_BAGS}")
        raise ValueError(
            "the fit keeps no distances of its training bags, as those of BLR to bags in "
            "partitions, of embeddings too many to keep, to bags of one point each, and of earlier "
            "versions: fit again to bags in memory, such as a sample of them"
        )

    def familiarity_columns(
        self: Any, embedding: Embedding, *, distance: bool = False
    ) -> dict[str, Array]:
        """P-values of embedded bags, and distances, by name; none if the fit has none."""
        found = self._familiarity
        if found is None:
            return {}
        columns = {"familiarity": found.p_values(embedding)}
        return columns | ({"distance": found.distance(embedding)} if distance else {})
