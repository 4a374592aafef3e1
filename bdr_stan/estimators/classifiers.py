"""Classifiers of bags: logistic regression on mean embeddings, and probit BDR."""

from dataclasses import KW_ONLY

from scipy.special import log_expit, log_ndtr

from bdr_stan.estimators.bdr import UncertainEmbeddings
from bdr_stan.estimators.linear import LinearClassifier
from bdr_stan.models.two_classes import LogitModel, ProbitModel
from bdr_stan.parameters import estimator
from bdr_stan.posterior.settings import WARMUP_OF_VARIANTS


@estimator
class BLRClassifier(LinearClassifier):
    """Bayesian logistic regression on the empirical mean embeddings of bags of two classes.

    Treats each bag's mean embedding as exact, however few its points. Use `BDRClassifier` if bag
    sizes differ.

    Parameters
    ----------
    stan_file : path, optional
        Your variant of ``blr_logit.stan`` (``bdr-stan eject blr_logit my_blr_logit.stan``).

    Notes
    -----
    The header of ``stan/blr_logit.stan`` states the model.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import BLRClassifier
    >>> rng = np.random.default_rng(0)
    >>> y = np.array(["sick", "well"] * 20)
    >>> bags = [rng.normal(1.0 if label == "well" else -1.0, size=(30, 1)) for label in y]
    >>> model = BLRClassifier(n_landmarks=6, method="optimize").fit(bags, y, seed=1)
    >>> new = [np.full((30, 1), -1.0), np.full((30, 1), 1.0)]
    >>> model.predict(new)
    array(['sick', 'well'], dtype='<U4')
    """

    _log_cdf = log_expit

    def _model(self, training, labels):
        return self._model_by(LogitModel, training, labels, prior=self.prior)


@estimator
class BDRClassifier(UncertainEmbeddings, LinearClassifier):
    """Bayesian distribution regression of two classes: weights and embeddings both uncertain.

    A bag's class depends on its true mean embedding, which its points estimate. The sampling
    uncertainty of a small bag moves its probabilities towards one half.

    Parameters
    ----------
    stan_file : path, optional
        Your variant of ``bdr_probit.stan`` (``bdr-stan eject bdr_probit my_bdr_probit.stan``).

    Notes
    -----
    The header of ``stan/bdr_probit.stan`` states the model. Source: Law et al. (2018), appendix B,
    in the joint basis of Sigma and R; the paper fixes eta.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import BDRClassifier
    >>> rng = np.random.default_rng(0)
    >>> y = np.array(["sick", "well"] * 20)
    >>> bags = [rng.normal(1.0 if label == "well" else -1.0, size=(30, 1)) for label in y]
    >>> model = BDRClassifier(n_landmarks=6)
    >>> model = model.fit(bags, y, chains=2, seed=1)
    >>> one_point, thirty = model.predict_proba([np.full((1, 1), 1.0), np.full((30, 1), 1.0)])
    >>> bool(0.5 < one_point[1] < thirty[1])
    True
    """

    _log_cdf = log_ndtr
    # After 300, chains of one fit in four were poorly adapted, see benchmarks/README.md.
    _default_warmup = WARMUP_OF_VARIANTS

    def _model(self, training, labels):
        return self._model_by(ProbitModel, training, labels, prior=self.prior)


@estimator
class ShrinkageClassifier(BDRClassifier):
    """Shrinkage estimator of two classes: the mode of the model of `BDRClassifier`.

    Parameters and attributes as for `BDRClassifier`, with method "optimize" by default: weights,
    intercept and eta at their joint mode, rho at its marginal mode. Predictions include the
    uncertainty of the embedding, but not of the weights.

    Parameters
    ----------
    method : {"optimize", "nuts", "laplace"}, default "optimize"
        All but NUTS fix rho at its marginal mode.

    Notes
    -----
    Source: Law et al. (2018), section 3.2 and appendix B.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import ShrinkageClassifier
    >>> rng = np.random.default_rng(0)
    >>> y = np.array(["sick", "well"] * 20)
    >>> bags = [rng.normal(1.0 if label == "well" else -1.0, size=(30, 1)) for label in y]
    >>> model = ShrinkageClassifier(n_landmarks=6).fit(bags, y, seed=1)
    >>> new = [np.full((30, 1), -1.0), np.full((30, 1), 1.0)]
    >>> model.predict(new)
    array(['sick', 'well'], dtype='<U4')
    """

    _: KW_ONLY
    method: str = "optimize"
