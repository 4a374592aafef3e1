"""Inverse distribution regression: labels by Bayes' rule from embeddings given the label."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY
from typing import Any

import numpy as np

from bdr_stan.bags import Bags, check_within
from bdr_stan.embedding.mean_embedding import Embedding
from bdr_stan.estimators.base import ProbabilisticClassifier, ProbabilisticRegressor
from bdr_stan.estimators.embedding import EmbeddingEstimator
from bdr_stan.estimators.label_models import ClassLabels, LabelModel
from bdr_stan.estimators.own_program import is_plain
from bdr_stan.estimators.validation import check_bounds, check_choice
from bdr_stan.labels import Labels
from bdr_stan.models.bayes_rule import InverseCoordinates, inverse_predictive
from bdr_stan.models.inverse import inverse_model
from bdr_stan.models.label_distribution import LABEL_DISTRIBUTIONS, label_distribution, open_ends
from bdr_stan.models.label_errors import LABEL_NOISE, spread_of_true_labels
from bdr_stan.models.plain import (
    INVERSE_DATA,
    density_given_labels,
    inverse_data_of_bags,
    plain_inverse_model,
)
from bdr_stan.parameters import estimator
from bdr_stan.posterior.priors import INVERSE
from bdr_stan.questions.familiarity import UNFAMILIAR, too_many_unfamiliar
from bdr_stan.types import Array, ArrayLike
from bdr_stan.user_warnings import warn

_MIN_BAGS = 3
_MAX_DRAWS = 100  # averaged by predictions: the curves are precise, and more change nothing


@estimator
class InverseEstimator(EmbeddingEstimator):
    """Base of the models of embeddings given the label.

    Parameters
    ----------
    kernel : str or Kernel, default "rbf"
        A name of `bdr_stan.kernels.KERNELS`, such as "matern32", a kernel, or "additive", a kernel
        on each column, which suits columns with separate effects.
    method : {"nuts", "optimize", "laplace"}, default "nuts"
        All but NUTS fix the scales of the curves at their marginal modes.
    stan_file : path, optional
        Your variant of ``inverse.stan`` (``bdr-stan eject inverse my_inverse.stan``), with
        method="nuts". Predictions are its own y_new and log_lik. Its data are chosen before it
        runs, as in a fit without it: coordinates, functions of the label, the labels to choose from
        with their probabilities, the power, offsets of classes.

    Attributes
    ----------
    idata : InferenceData or DataTree
        posterior, of coordinates in units of their residual spread given labels: tau, amplitude,
        explained (component), the share of each coordinate's spread between bags that the label
        explains; curve (component, function), curvature. With `stan_file` all its variables.
    power_ : float
        The power of the likelihood in Bayes' rule. Coordinates of the embedding are not quite
        independent given the label, so a power of 1 would be overconfident: this power predicts
        labels of held-out bags best. These bags also set offsets of the log odds of classes.
    held_out_ : array, shape (n,)
        Log density of each training label under a fit to the other four fifths of the bags, for
        comparing models; NaN if a fold could not be fitted, and with `stan_file`, which has no
        folds. There is no log_likelihood, as the posterior conditions on embeddings and not on
        labels.
    """

    has_covariance = True
    coordinates = InverseCoordinates
    predicts_from = ("tau", "curve")  # type: ignore[assignment]
    program_data = INVERSE_DATA
    prior_texts = INVERSE
    has_likelihood = False  # its posterior is given embeddings, not labels

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.method != "nuts" and is_plain(self.stan_file):
            raise ValueError(
                f"method={self.method!r} would look for the mode of curves and their scales "
                "together, which is far from their averages: use method='nuts' with "
                f"{self.stan_file}"
            )

    def report(self) -> str:
        """Diagnostics, kernel, and the share of the embeddings that the label explains; a str."""
        power = f"Power of the likelihood: {self.power_:.2f}"
        if self.stan_file is not None:
            return f"{super().report()}\n{power}"
        explained = self.result_.draws("explained").mean(axis=0)
        return (
            f"{super().report()}\nThe label explains more than half of "
            f"{np.sum(explained > 0.5)} of {len(explained)} coordinates of the embedding, at most "
            f"{explained.max():.0%} of one. {power}"
        )

    @property
    def _most_draws(self) -> int:
        return _MAX_DRAWS

    def warn_of_other_bags(self, embedding: Embedding) -> None:
        distances = self.training_distances
        if distances is not None:
            n = too_many_unfamiliar(distances.p_values(embedding))
            if n:
                warn(
                    f"{n} of {len(embedding.sizes)} bags are unlike all training bags (familiarity "
                    f"of at most {UNFAMILIAR}), and Bayes' rule misleads there: familiarity(bags) "
                    "names them; predict these by BDR"
                )

    def _needed_data(self, labels):
        options = {
            "label_sd": labels.label_sd is not None,
            "label_noise='size'": getattr(self, "label_noise", "constant") == "size",
        }
        return {"label_sd_new": " and ".join(name for name, has in options.items() if has)}

    def _plain_model(self, stock, training, labels):
        return plain_inverse_model(stock, training.embedding, labels)

    def _program_bags(self, program, coordinates, embedding, labels):
        bags = inverse_data_of_bags(coordinates, embedding, labels)
        bags["y"] = np.full(bags["N"], coordinates.labels[0])

        def data_at(i, y):
            return {"y_at_given": density_given_labels(coordinates, y, bags["label_sd"][i])}

        return bags, data_at

    def predictive_of_draws(
        self, coordinates: Any, embedding: Embedding, labels: Labels, draws: Mapping[str, Array]
    ) -> Any:
        return inverse_predictive(
            coordinates,
            embedding,
            draws["tau"],
            draws["curve"],
            labels.classes,
            known_variance=labels.error_variance,
        )

    def _set_fitted(self, result):
        super()._set_fitted(result)
        self.power_ = float(result.constants["power"])
        held_out = result.constants["held_out"]
        own_program = self.stan_file is not None  # its curves have no folds
        self.held_out_ = np.full_like(held_out, np.nan) if own_program else held_out


class _NumbersWithin(LabelModel):
    """Numbers within bounds, of bags enough for an inverse model."""

    def __init__(self, owner: str, bounds: Sequence[float | None] | None):
        super().__init__(owner)
        self.bounds = bounds

    def checked(self, bags: Bags, y: ArrayLike) -> Array:
        labels = super().checked(bags, y)
        if len(labels) < _MIN_BAGS:
            raise ValueError(
                f"{len(labels)} bags are too few to estimate how embeddings scatter about a line: "
                f"give at least {_MIN_BAGS}"
            )
        if self.bounds is not None:
            check_within(bags, labels, self.bounds)
        return labels

    def checked_errors(self, bags: Bags, y: Array, label_sd: ArrayLike | str) -> Array:
        errors = super().checked_errors(bags, y, label_sd)
        spread_of_true_labels(y, errors**2)
        return errors


@estimator
class InverseBDR(ProbabilisticRegressor, InverseEstimator):
    """Inverse distribution regression: a model of the embedding given the label, inverted.

    In `BDR` the label is linear in a bag's mean embedding. Here the embedding follows a smooth
    curve as the label changes, and Bayes' rule predicts the label: predictions may be nonlinear and
    skewed, and never leave the bounds of the labels. Predictions of bags of few points stay near
    the distribution of the labels.

    Parameters
    ----------
    label_distribution : {"empirical", "normal", "uniform"}, default "empirical"
        Prior of the labels: a kernel density estimate of the training labels, with a soft edge if
        they support one; a normal distribution; or uniform within the bounds. With "empirical" a
        label of at least 5% of the bags has a probability. In log densities it counts as spread
        over the label's resolution.
    bounds : (lower, upper), optional
        Smallest and largest possible label, units of y; None for an open end. With label_noise
        "size" they bound the labels without noise.
    label_noise : {"constant", "size"}, default "constant"
        "size" treats labels as averages over the N_i points of their bags, with noise of variance
        sigma_point^2 / N_i about the label that the embedding follows; predictions include this
        noise. sigma_point predicts labels of held-out bags best; bags of several sizes identify it,
        and fewer than 10 do not.

    Attributes
    ----------
    sigma_point_ : float
        With label_noise "size": noise standard deviation of one point, units of y; 0 if no noise
        predicts better.

    Notes
    -----
    The header of ``stan/inverse.stan`` states the model. It learns the distribution of embeddings
    rather than the label's dependence on them: if bags of equal labels form several clusters, or
    new bags are out-of-distribution, prefer `BDR`. Predictions use 100 of the draws. With
    `label_noise` or `label_sd` the curves are functions of the true labels, using regression
    calibration (Carroll et al. 2006). Source: Cook (2007), Adragni and Cook (2009), for uncertain
    embeddings.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import InverseBDR
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(size=40)
    >>> bags = [rng.normal(3 * mean, size=(30, 1)) for mean in y]
    >>> model = InverseBDR(n_landmarks=6, bounds=(0, 1), method="optimize").fit(bags, y, seed=1)
    >>> bool(np.corrcoef(model.predict(bags), y)[0, 1] > 0.9)
    True
    >>> lower, upper = model.predictive([np.full((30, 1), 9.0)]).interval(0.95)  # far from all bags
    >>> bool(0 <= lower[0] < upper[0] <= 1)
    True
    """

    _: KW_ONLY
    label_distribution: str = "empirical"
    bounds: Sequence[float | None] | None = None
    label_noise: str = "constant"

    takes_label_sd = True

    @property
    def label_model(self) -> LabelModel:
        """Numbers within the bounds."""
        bounds = None if self.label_noise == "size" else self.bounds
        return _NumbersWithin(type(self).__name__, bounds)

    def check_parameters(self) -> None:
        super().check_parameters()
        check_choice(self.label_distribution, "label_distribution", LABEL_DISTRIBUTIONS)
        check_choice(self.label_noise, "label_noise", LABEL_NOISE)
        check_bounds(self.bounds)
        ends = (None,) if self.bounds is None else tuple(self.bounds)
        if self.label_distribution == "uniform" and None in ends:
            raise ValueError(
                "label_distribution='uniform' needs both bounds: give bounds=(lower, upper)"
            )

    def _model(self, training, labels):
        return inverse_model(
            training,
            labels.y,
            distribution=lambda y: label_distribution(self.label_distribution, y, self.bounds),
            prior=self.prior,
            label_noise=self.label_noise,
            label_sd=labels.label_sd,
            bounds=open_ends(self.bounds),
        )

    def report(self) -> str:
        """The report of the base, and labels that have probabilities; a str."""
        repeated = self.coordinates_.repeated
        shares = [
            f"{np.mean(self.result_.labels == label):.0%} are {label:g} (width {width:.2g})"
            for label, width in zip(repeated.labels, repeated.resolution, strict=True)
        ]
        lines = [
            super().report(),
            "Labels with probabilities, which log densities spread over a width: "
            + ", ".join(shares),
        ]
        return "\n".join(lines if shares else lines[:1])

    def _set_fitted(self, result):
        super()._set_fitted(result)
        if self.coordinates_.sigma_point is not None:
            self.sigma_point_ = self.coordinates_.sigma_point


@estimator
class InverseBDRClassifier(ProbabilisticClassifier, InverseEstimator):
    """Inverse distribution regression of two or more classes.

    Each class has a mean embedding, about which its bags scatter by their sampling error and by
    the variation within the class. Bayes' rule yields the probabilities of the classes: for bags of
    few points they stay near the shares of the classes among the training bags.

    Attributes
    ----------
    classes_ : array, shape (C,), the labels, sorted

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import InverseBDRClassifier
    >>> rng = np.random.default_rng(0)
    >>> y = np.array(["a", "b", "c"] * 12)
    >>> bags = [rng.normal({"a": -3, "b": 0, "c": 3}[label], size=(30, 1)) for label in y]
    >>> model = InverseBDRClassifier(n_landmarks=6, method="optimize").fit(bags, y, seed=1)
    >>> model.predict([np.full((30, 1), mean) for mean in (-3.0, 0.0, 3.0)])
    array(['a', 'b', 'c'], dtype='<U1')
    """

    @property
    def label_model(self) -> LabelModel:
        """Two or more classes."""
        return ClassLabels(type(self).__name__, several=True)

    def _model(self, training, labels):
        return inverse_model(training, labels.y, prior=self.prior)
