"""Predictive distributions of times to events: survival, restricted means, censored labels."""

import numpy as np

from bdr_stan.bags.checks import checked_numbers
from bdr_stan.families import Times
from bdr_stan.predictive.distributions import draw_quantiles, interval_ends
from bdr_stan.predictive.outcomes import OutcomePredictive
from bdr_stan.types import Array, ArrayLike

_N_PREDICTORS = 8_000  # per bag, of all draws together: probabilities are accurate to 0.001


class TimesPredictive(OutcomePredictive):
    """Predictive distribution of the times to events of n bags.

    Times count from 0, whatever the entry. For `log_prob`, of the labels with the event and entry
    of `predictive`, a censored time has its tail, and an entry is conditioned on.
    """

    family: Times
    _answers = f"survival(times), restricted_mean(horizon), {OutcomePredictive._answers}"

    def survival(self, times: ArrayLike, *, level: float | None = None) -> Array:
        """Probability that the event of each bag is later than each of the times.

        Parameters
        ----------
        times : float or array, shape (k,), >= 0, in units of y
        level : float, 0 < level < 1, optional
            Also return central intervals of the probability, which is uncertain because of the
            parameters and of the embedding of the bag.

        Returns
        -------
        array, shape (n, k), or (n,) of one time
            With `level` (mean, lower, upper), each of this shape.

        Raises
        ------
        TypeError, ValueError
            Times that are not numbers from 0; a level outside (0, 1).

        Examples
        --------
        >>> import numpy as np
        >>> from bdr_stan import BLR
        >>> bags = [np.full((5, 1), float(k)) for k in range(8)]
        >>> years = np.exp(np.arange(8) / 4)
        >>> model = BLR(3, family="weibull", method="laplace")
        >>> model = model.fit(bags, years, event=[0, 1, 1, 1] * 2, seed=1)
        >>> model.predictive(bags).survival([1, 5]).shape
        (8, 2)
        """
        at = _from_zero(times, "times")
        ends = None if level is None else interval_ends(level)
        found = np.empty((1 if ends is None else 3, len(self), len(at)))
        for i, components in self._chunks():
            for k, time in enumerate(at):
                tails, weights = self._tails(components, time)
                found[0, i, k] = np.average(tails, axis=0, weights=weights)
                if ends is not None:
                    found[1:, i, k] = draw_quantiles(tails, ends, weights)
        found = found if np.ndim(times) else found[..., 0]
        return found[0] if ends is None else tuple(found)

    def restricted_mean(self, horizon: float) -> Array:
        """Expected time until the event or the horizon, whichever is first: units of y, (n,).

        ValueError unless the horizon is a number >= 0.
        """
        at = _from_zero(horizon, "horizon")[0]
        found = np.empty(len(self))
        for i, components in self._chunks():
            h, scales, weights = self._stratified(components, slice(None), _N_PREDICTORS)
            sigma = scales["sigma"][:, None]
            with np.errstate(divide="ignore", over="ignore"):
                means = self.family.restricted_mean(at, h, sigma)
            found[i] = np.average(means, axis=0, weights=weights)
        return found

    @property
    def is_partly_known(self) -> bool:
        """Whether labels may be censored or truncated, so that no error of a prediction is known."""
        event, entry = self.labels.event, self.labels.entry
        return (event is not None and bool(np.any(event != 1))) or bool(np.any(entry))

    def _tails(self, components, y):
        """Probabilities above y, of one bag each or of all, given predictors; and weights."""
        h, scales, weights = self._stratified(components, slice(None), _N_PREDICTORS)
        with np.errstate(divide="ignore", over="ignore"):
            log_tails = self.family.log_tail(np.maximum(y, 0), h, scales["sigma"][:, None])
        return np.exp(log_tails), weights

    def _cdf(self, components, i, labels):
        tails, weights = self._tails(components, labels)
        return 1 - np.average(tails, axis=0, weights=weights)

    def _log_density(self, components, i, labels):
        event, entry = (getattr(self.labels.take(i), name) for name in ("event", "entry"))
        if event is not None and np.isnan(event).any():
            raise ValueError(
                "the fit has censored times, so log_prob needs to know which of these are: pass "
                "event= to predictive"
            )
        if entry is not None and np.any(labels <= entry):
            raise ValueError("a time is not above the entry of its bag: correct one of them")
        return super()._log_density(components, i, labels)


def _from_zero(values, name):
    """Numbers from 0, shape (k,); a horizon is one number."""
    numbers = np.atleast_1d(checked_numbers(values, name))
    if numbers.ndim != 1 or (name == "horizon" and np.ndim(values)) or not np.all((numbers >= 0) & (numbers < np.inf)):
        raise ValueError(f"{name} must be finite and >= 0, found {values}")
    return numbers
