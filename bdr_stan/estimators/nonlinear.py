"""Bayesian distribution regression with a curve of the leading coordinates of the embedding."""

from collections.abc import Sequence
from dataclasses import KW_ONLY

from bdr_stan.estimators.embedding import EmbeddingEstimator
from bdr_stan.estimators.parameters import estimator
from bdr_stan.estimators.prediction import ProbabilisticRegressor
from bdr_stan.estimators.validation import (
    check_choice,
    check_counts,
    check_positive,
)
from bdr_stan.kernels import Kernel
from bdr_stan.models.curve import CurvedCoordinates
from bdr_stan.models.nonlinear import nonlinear_model, nonlinear_predictive
from bdr_stan.posterior.priors import CURVED
from bdr_stan.results.result import Result
from bdr_stan.types import is_integer


@estimator
class NonlinearBDR(ProbabilisticRegressor, EmbeddingEstimator):
    """Bayesian distribution regression with a nonlinear function of the embedding.

    `BDR` takes a bag's label to be linear in its true mean embedding. Here a smooth function of
    the leading coordinates, those in which bags differ most for what they vary, is added to
    that. A small bag's embedding is uncertain, so the function is averaged over what it may be,
    and predictions may be skewed.

    Parameters
    ----------
    kernel : str or Kernel, default "auto"
        As for `BDR`; "additive" often predicts better.
    covariance : {"average", "pooled", "identity"}, default "average"
        As for `BDR`.
    n_curved : {1, 2, 3}, default 1
        Leading coordinates that the curve depends on. Each costs points and basis functions.
    n_functions : int, default 20
        Basis functions of the curve, at most: a long curve keeps the smooth ones. Two coordinates
        need about 40.
    tau : float, default 1
        Standard deviation for covariance "identity".
    covariates : list of str, optional
        Columns of `bags.metadata` that enter linearly beside the embedding, as for `BDR`.
    stan_file : path, optional
        Your variant of ``nonlinear.stan`` (``bdr-stan eject nonlinear my_nonlinear.stan``).

    Attributes
    ----------
    idata : InferenceData or DataTree
        posterior: intercept, sigma, rho (units of y), w (component), c (function), beta
        (landmark); with covariates gamma (covariate).
    kappa_, ell_ : float
        Sd of the curve in units of rho, and its length scale in prior sds of a coordinate.

    Notes
    -----
    The model stands at the head of ``stan/nonlinear.stan``. The prior covariance of the
    embeddings is that between the training bags, as in `BDR` by default. Its scale eta, kappa and
    ell are fixed at their most probable values.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import NonlinearBDR
    >>> rng = np.random.default_rng(0)
    >>> means = rng.uniform(-2, 2, size=40)
    >>> bags = [rng.normal(mean, size=(30, 1)) for mean in means]
    >>> y = means**2
    >>> model = NonlinearBDR(n_landmarks=6, method="optimize").fit(bags[:30], y[:30], seed=1)
    >>> bool(np.corrcoef(model.predict(bags[30:]), y[30:])[0, 1] > 0.9)
    True
    """

    kernel: str | Kernel = "auto"
    covariance: str = "average"
    _: KW_ONLY
    n_curved: int = 1
    n_functions: int = 20
    tau: float = 1.0
    covariates: Sequence[str] | None = None

    prior_texts = CURVED
    coordinates = CurvedCoordinates
    predicts_from = ("intercept", "w", "c", "sigma")

    def check_parameters(self) -> None:
        super().check_parameters()
        check_choice(self.covariance, "covariance", ("average", "pooled", "identity"))
        if not is_integer(self.n_curved) or self.n_curved not in (1, 2, 3):
            raise ValueError(f"n_curved must be 1, 2 or 3, found {self.n_curved!r}")
        check_counts(n_functions=self.n_functions)
        check_positive(tau=self.tau)

    def _set_fitted(self, result: Result) -> None:
        super()._set_fitted(result)
        self.kappa_, self.ell_ = (float(result.constants[name]) for name in ("kappa", "ell"))

    def _model(self, training, y):
        return nonlinear_model(
            training,
            y,
            n_curved=self.n_curved,
            n_functions=self.n_functions,
            prior=self.prior,
        )

    def _predictive(self, embedding, draws, classes):
        return nonlinear_predictive(self.coordinates_, embedding, **draws)
