"""Donors by the kernel means of their cells, and regressions on these, as methods of patpy.

Needs the extra "patpy": ``pip install 'bdr-stan[patpy]'``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.linalg import cholesky, solve, solve_triangular
from scipy.spatial.distance import pdist, squareform
from sklearn.base import clone, is_classifier

from bdr_stan import BDR, Bags, BDRClassifier, InverseBDRClassifier
from bdr_stan.embedding.shrinkage import between_bag_covariance
from bdr_stan.embedding.training import training_features
from bdr_stan.extras import require
from bdr_stan.types import Array

require("bdr_stan.patpy needs patpy: pip install 'bdr-stan[patpy]'", "patpy.tl.supervised")

from patpy.tl.sample_representation import SampleRepresentationMethod  # noqa: E402
from patpy.tl.supervised import SupervisedSampleMethod  # noqa: E402

__all__ = ["DistributionRegression", "KernelMeans"]

_JITTER = 1e-6  # of the kernel matrix of the landmarks
_IMPORTANCE = "supervised_sample_importance"  # where patpy keeps that of donors


class KernelMeans(SampleRepresentationMethod):
    """Donors by the kernel means of their cells, those of donors with few cells shrunk.

    The mean embedding of a donor of few cells is noisy, so that it seems far from all others. Here
    it is the posterior mean given its number of cells, with the covariances within and between
    donors estimated from all. Distances are those of kernel means (maximum mean discrepancy), of a
    Gaussian kernel in the span of the landmarks.

    Parameters
    ----------
    sample_key : column of ``adata.obs`` with the donor of each cell
    cell_group_key : str, optional, for patpy's plots; not used here
    layer : str, default "X_pca", key of ``obsm``, a layer, or "X"
    n_landmarks : int, default 60
    shrink : bool, default True
    seed : int, default 67, of the landmarks

    Attributes
    ----------
    sample_representation : pandas DataFrame, one row per donor in the order of `samples`
        Coordinates whose Euclidean distances are those of kernel means.

    Raises
    ------
    KeyError, TypeError, ValueError
        By `prepare_anndata`, as `Bags.from_anndata`.

    Notes
    -----
    Source: the interface of patpy's ``SampleRepresentationMethod``.

    Examples
    --------
    >>> import anndata
    >>> import numpy as np
    >>> import pandas as pd
    >>> from bdr_stan.patpy import KernelMeans
    >>> rng = np.random.default_rng(0)
    >>> donor = np.repeat(["a", "b", "c"], 50)
    >>> shift = np.repeat([0.0, 0.1, 3.0], 50)[:, None]
    >>> adata = anndata.AnnData(
    ...     obs=pd.DataFrame({"donor": donor}, index=[f"cell {i}" for i in range(150)]),
    ...     obsm={"X_pca": rng.normal(shift, 1, (150, 2))},
    ... )
    >>> method = KernelMeans("donor", n_landmarks=10)
    >>> method.prepare_anndata(adata)
    >>> distances = method.calculate_distance_matrix()
    >>> bool(distances[0, 1] < distances[0, 2])
    True
    """

    DISTANCES_UNS_KEY = "X_kernel_means_distances"

    def __init__(
        self,
        sample_key: str,
        cell_group_key: str | None = None,
        layer: str | None = "X_pca",
        n_landmarks: int = 60,
        shrink: bool = True,
        seed: int = 67,
    ) -> None:
        super().__init__(sample_key, cell_group_key, layer=layer, seed=seed)
        self.n_landmarks, self.shrink = n_landmarks, shrink

    def prepare_anndata(self, adata: Any) -> None:
        """Embed the cells of each donor, as `sample_representation`.

        Parameters
        ----------
        adata : anndata.AnnData
        """
        super().prepare_anndata(adata)
        bags = _bags_of(self)
        n_landmarks = min(self.n_landmarks, len(bags.points))
        values = _coordinates(bags, self.shrink, n_landmarks=n_landmarks, seed=self.seed)
        self.sample_representation = _representation(values, self.samples)
        self._fitted = True

    def calculate_distance_matrix(self, force: bool = False) -> Array:
        """Distances between donors in the order of `samples`.

        Parameters
        ----------
        force : bool, default False
            Whether to calculate those that ``adata.uns`` has already.

        Returns
        -------
        array, shape (n_donors, n_donors)
            Also kept as ``adata.uns["X_kernel_means_distances"]``.
        """
        distances = super().calculate_distance_matrix(force=force)
        if distances is None:
            distances = squareform(pdist(self.sample_representation))
            self.adata.uns[self.DISTANCES_UNS_KEY] = distances
        return distances


class DistributionRegression(SupervisedSampleMethod):
    """Labels of donors from their cells, less certain for donors with few.

    A regression of bdr_stan per label: BDR for numbers and ranks, BDRClassifier for two classes,
    InverseBDRClassifier for more. Donors whose label is missing are not in the fit, and are
    predicted.

    Parameters
    ----------
    sample_key : column of ``adata.obs`` with the donor of each cell
    label_keys : str or list of str, columns of ``adata.obs`` with labels of donors
    tasks : str or list of str, "classification", "regression" or "ranking" per label
    cell_group_key : str, optional, for patpy's plots; not used here
    layer : str, default "X_pca", key of ``obsm``, a layer, or "X"
    estimators : dict, optional
        Label -> estimator of bdr_stan, such as ``{"age": BLR(100)}``, in place of the defaults.
    seed : int, default 67, of landmarks and Stan

    Attributes
    ----------
    models : dict, label -> fitted estimator
        With `report()`, `predictive` and all else.
    bags : Bags, cells of the donors in the order of `samples`

    Raises
    ------
    KeyError, TypeError, ValueError
        By `prepare_anndata` and `fine_tune`: as `Bags.from_anndata` and the `fit` of the estimator.

    Notes
    -----
    Source: the interface of patpy's ``SupervisedSampleMethod``.

    Examples
    --------
    >>> import anndata
    >>> import numpy as np
    >>> import pandas as pd
    >>> from bdr_stan import BLR
    >>> from bdr_stan.patpy import DistributionRegression
    >>> rng = np.random.default_rng(0)
    >>> donor, age = np.repeat(np.arange(40), 20), np.repeat(rng.normal(50, 9, 40), 20)
    >>> obs = pd.DataFrame({"donor": donor, "age": age}, index=[f"cell {i}" for i in range(800)])
    >>> obs.loc[obs["donor"] == 7, "age"] = np.nan
    >>> cells = rng.normal(age[:, None], 9, (800, 2))
    >>> adata = anndata.AnnData(obs=obs, obsm={"X_pca": cells})
    >>> estimators = {"age": BLR(10, method="exact")}
    >>> model = DistributionRegression("donor", "age", "regression", estimators=estimators)
    >>> model.prepare_anndata(adata)
    >>> predicted = model.predict("age")
    >>> len(predicted), bool(abs(predicted[7] - age[140]) < 9)
    (40, True)
    >>> model.models["age"].predictive(model.bags).interval(0.9)[0].shape
    (40,)
    """

    def __init__(
        self,
        sample_key: str,
        label_keys: str | Sequence[str],
        tasks: str | Sequence[str],
        cell_group_key: str | None = None,
        layer: str | None = "X_pca",
        estimators: Mapping[str, Any] | None = None,
        seed: int = 67,
    ) -> None:
        super().__init__(sample_key, label_keys, tasks, cell_group_key, layer=layer, seed=seed)
        self.estimators = estimators
        self.models: dict[str, Any] = {}

    def prepare_anndata(self, adata: Any, train: bool = True, **options: Any) -> None:
        """Read the cells of the donors, and fit.

        Parameters
        ----------
        adata : anndata.AnnData
        train : bool, default True
            Whether to fit the labels of the constructor.
        **options
            As of `fine_tune`.
        """
        super().prepare_anndata(adata)
        self.bags = _bags_of(self)
        if train:
            self.fine_tune(list(self.label_keys), list(self.tasks), **options)

    def fine_tune(
        self, labels: str | Sequence[str], tasks: str | Sequence[str], **options: Any
    ) -> None:
        """Fit labels, which join those of the constructor.

        Parameters
        ----------
        labels, tasks : str or list of str, as for the constructor
        **options
            Arguments of the estimators' `fit`, such as ``draws=500``.
        """
        labels, tasks = self._prepare_fine_tune(labels, tasks)
        self._check_estimators(dict(zip(labels, tasks, strict=True)))
        self.adata.obs.drop(columns=self._importance_columns(), errors="ignore", inplace=True)
        for label, task in zip(labels, tasks, strict=True):
            y = self.labels.loc[self.samples, label]
            known = np.flatnonzero(y.notna())
            y = y.iloc[known].to_numpy()
            estimator = clone((self.estimators or {}).get(label) or _default(task, y))
            options = {"seed": self.seed, **options}
            self.models[label] = estimator.fit(self.bags.take(known), y, **options)
        self._fitted = True

    def predict(self, label: str) -> pd.Series | pd.DataFrame:
        """Predictions of all donors.

        Parameters
        ----------
        label : str, one that was fitted

        Returns
        -------
        pandas Series or DataFrame, one row per donor in the order of `samples`
            Posterior mean of numbers; of classes the columns ``prob_<class>`` and ``<label>_pred``.

        Raises
        ------
        RuntimeError
            Before a fit.
        ValueError
            A label that was not fitted.
        """
        self._check_fitted()
        if label not in self.models:
            raise ValueError(
                f"label={label!r} is not found in model label keys that were fitted: call "
                f"fine_tune({label!r}, task) first"
            )
        model = self.models[label]
        if not hasattr(model, "predict_proba"):
            return pd.Series(model.predict(self.bags), index=self.samples, name=label)
        chance = model.predict_proba(self.bags)
        names = [f"prob_{name}" for name in model.classes_]
        predicted = {f"{label}_pred": model.predict(self.bags)}
        return pd.DataFrame(chance, self.samples, names).assign(**predicted)

    def get_sample_importance(self, force: bool = False) -> pd.DataFrame:
        """Prediction of each donor: the posterior mean, of two classes the second's probability.

        Parameters
        ----------
        force : bool, default False
            Whether to predict what ``adata.uns`` has already.

        Returns
        -------
        pandas DataFrame, one row per donor
            Columns ``<label>_importance``, of several labels ``average_importance``, too.

        Raises
        ------
        RuntimeError
            Before a fit.
        NotImplementedError
            More than two classes, which one number per donor cannot describe.
        """
        self._check_fitted()
        if force or _IMPORTANCE not in self.adata.uns:
            found = {name: self._score(label) for label, name in self._importances()}
            self.adata.uns[_IMPORTANCE] = _with_average(found, self.samples).to_dict()
        return pd.DataFrame(self.adata.uns[_IMPORTANCE], index=self.samples)

    def get_cell_importance(self, force: bool = False) -> pd.DataFrame:
        """Posterior mean of the influence of each cell: what it adds to the label of its donor.

        The average over a donor's cells is what they add to the intercept; of classes on the scale
        of the latent function. Positive and negative values raise and lower the label.

        Parameters
        ----------
        force : bool, default False
            Whether to compute what ``adata.obs`` has already.

        Returns
        -------
        pandas DataFrame, one row per cell
            Columns ``<label>_importance``, of several labels ``average_importance``, too; also kept
            in ``adata.obs``.

        Raises
        ------
        RuntimeError
            Before a fit.
        AttributeError
            An estimator without `influence`.
        """
        self._check_fitted()
        columns = self._importance_columns()
        if force or not set(columns) <= set(self.adata.obs.columns):
            cells = Bags.from_anndata(self.adata, self.sample_key, self.layer or "X")
            order = _cells_of(self.adata, self.sample_key, cells)
            found = {}
            for label, name in self._importances():
                found[name] = np.empty(len(order))
                found[name][order] = self.models[label].influence(cells.points).mean
            table = _with_average(found, self.adata.obs_names)
            self.adata.obs[list(table)] = table
        return self.adata.obs[columns]

    def get_sample_representations(self) -> pd.DataFrame:
        """Representation of the donors by `KernelMeans`, whatever the labels.

        Returns
        -------
        pandas DataFrame, one row per donor, columns dim_0, dim_1, ..

        Raises
        ------
        RuntimeError
            Before `prepare_anndata`.
        """
        self._check_adata_loaded()
        method = KernelMeans(self.sample_key, layer=self.layer, seed=self.seed)
        method.prepare_anndata(self.adata)
        return method.sample_representation

    def _check_estimators(self, tasks):
        """Raise ValueError for estimators of no column, or of another kind than the task."""
        for label, estimator in (self.estimators or {}).items():
            if label not in self.adata.obs.columns:
                raise ValueError(
                    f"estimators names {label!r}, which is no column of adata.obs: name a label"
                )
            if label in tasks and is_classifier(estimator) != (tasks[label] == "classification"):
                raise ValueError(
                    f"estimators has {type(estimator).__name__} for {label!r}, whose task is "
                    f"{tasks[label]!r}: change one of them"
                )

    def _importances(self):
        """Labels that were fitted, with the columns of their importance."""
        return [(label, f"{label}_importance") for label in self.label_keys if label in self.models]

    def _importance_columns(self):
        """Names of the columns of `get_cell_importance`."""
        names = [name for _, name in self._importances()]
        return names if len(names) < 2 else ["average_importance", *names]

    def _score(self, label):
        """A number per donor: prediction, or probability of the second of two classes."""
        predicted = self.predict(label)
        if isinstance(predicted, pd.Series):
            return predicted.to_numpy()
        if predicted.shape[1] > 3:
            raise NotImplementedError(
                f"{label!r} has {predicted.shape[1] - 1} classes, which one number per donor "
                f"cannot describe: use predict({label!r})"
            )
        return predicted.iloc[:, 1].to_numpy()


def _default(task, y):
    """Estimator of labels for a task of patpy."""
    if task != "classification":
        return BDR()
    return BDRClassifier() if len(np.unique(y)) <= 2 else InverseBDRClassifier()


def _bags_of(method):
    """Bags of the cells of a method's donors, in the order of its `samples`."""
    bags = Bags.from_anndata(method.adata, method.sample_key, method.layer or "X")
    return bags.take(pd.Index(bags.ids).get_indexer(list(method.samples)))


def _cells_of(adata, sample_key, bags):
    """Row of `adata` of each point of bags that were read from it, in their order."""
    rows = pd.Series(np.arange(adata.n_obs)).groupby(adata.obs[sample_key].to_numpy()).indices
    return np.concatenate([rows[name] for name in bags.ids])


def _coordinates(bags, shrink, **settings):
    """Coordinates of kernel means, shape (n, d), whose Euclidean distances are those of the means.

    K^-1/2 of the mean embeddings, K the kernel matrix of the landmarks. With `shrink`, embeddings
    are m0 + B (B + Sigma / N_i)^-1 (mu_hat_i - m0), with the covariances B between and Sigma within
    donors.
    """
    training = training_features(bags, covariance="average", **settings)
    embedding = training.embedding
    means = embedding.mean
    if shrink and len(bags) > 1:
        Sigma = embedding.covariance
        B = between_bag_covariance(embedding, Sigma)
        ridge = _JITTER * np.trace(B) * np.eye(len(B)) / len(B)
        gains = {
            size: solve(B + Sigma / size + ridge, B, assume_a="pos")
            for size in np.unique(embedding.sizes)
        }
        m0 = means.mean(axis=0)
        means = np.array(
            [m0 + (mean - m0) @ gains[size] for mean, size in zip(means, embedding.sizes)]
        )
    K = training.feature_map(training.landmarks)
    factor = cholesky(K + _JITTER * np.trace(K) / len(K) * np.eye(len(K)), lower=True)
    return solve_triangular(factor, means.T, lower=True).T


def _representation(values, samples):
    """Coordinates of donors as patpy's methods name them."""
    return pd.DataFrame(values, index=samples, columns=[f"dim_{k}" for k in range(values.shape[1])])


def _with_average(found, index):
    """Importances by column, of several labels with their average first."""
    table = pd.DataFrame(found, index=index)
    if len(found) > 1:
        table.insert(0, "average_importance", table.mean(axis=1))
    return table
