"""Predictive distributions of times to events: survival, restricted means, censored labels."""

import numpy as np

from bdr_stan.bags.checks import checked_numbers
from bdr_stan.families import Times
from bdr_stan.predictive.distributions import draw_quantiles, interval_ends
from bdr_stan.predictive.outcomes import OutcomePredictive
from bdr_stan.types import Array, ArrayLike

_N_PREDICTORS = 8_000  # per bag, of all draws together: probabilities are accurate to 0.001
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(32)


class TimesPredictive(OutcomePredictive):
    """Predictive distribution of the times to events of n bags, which count from 0.

    `log_prob` is of labels with the event and entry of `predictive`: a censored time has its tail,
    and an entry is conditioned on.
    """

    family: Times

    @property
    def _answers(self):
        return f"survival(times), restricted_mean(horizon), {super()._answers}"

    def survival(self, times: ArrayLike, *, level: float | None = None) -> Array:
        """Probability that the event of each bag is later than each of the times.

        Parameters
        ----------
        times : float or array, shape (k,), >= 0, in units of y
        level : float, 0 < level < 1, optional
            Also return central intervals of the probability, which is uncertain because of the
            parameters and the embedding.

        Returns
        -------
        array, shape (n, k), or (n,) for one time; with `level` shape (3, n, k): mean, lower, upper

        Raises
        ------
        TypeError, ValueError
            Times that are not numbers from 0; a level outside (0, 1).
        """
        at = np.atleast_1d(checked_numbers(times, "time"))
        if at.ndim > 1 or not np.all((at >= 0) & (at < np.inf)):
            raise ValueError(f"times must be finite numbers >= 0, found {times}")
        ends = [] if level is None else interval_ends(level)
        found = np.empty((1 + len(ends), len(self), len(at)))
        for i, components in self._chunks():
            h, scales, weights = self._stratified(components, slice(None), _N_PREDICTORS)
            for k, time in enumerate(at):
                tails = self._tails(time, h, scales)
                found[0, i, k] = np.average(tails, axis=0, weights=weights)
                if ends:
                    found[1:, i, k] = draw_quantiles(tails, np.array(ends), weights)
        found = found if np.ndim(times) else found[..., 0]
        return found if ends else found[0]

    def restricted_mean(self, horizon: float) -> Array:
        """Expected time until the event or the horizon, whichever is first: units of y, (n,)."""
        if np.ndim(horizon):
            raise ValueError(f"horizon must be one number, found {horizon}")
        share = (_NODES + 1) / 2  # of the square root of time, as early survival may be steep
        return self.survival(horizon * share**2) @ (horizon * share * _WEIGHTS)

    @property
    def is_partly_known(self) -> bool:
        """Whether labels may be censored or truncated: predictions then have no known errors."""
        event, entry = self.labels.event, self.labels.entry
        return (event is not None and bool(np.any(event != 1))) or bool(np.any(entry))

    def _tails(self, y, h, scales):
        """Probabilities above y, of one bag each or of all, given predictors h."""
        with np.errstate(divide="ignore", over="ignore"):
            return np.exp(self.family.log_tail(np.maximum(y, 0), h, scales["sigma"][:, None]))

    def _cdf(self, components, i, labels):
        h, scales, weights = self._stratified(components, slice(None), _N_PREDICTORS)
        return 1 - np.average(self._tails(labels, h, scales), axis=0, weights=weights)

    def _log_density(self, components, i, labels):
        known = self.labels.take(i)
        if known.event is not None and np.isnan(known.event).any():
            raise ValueError(
                "the fit has censored times, so log_prob needs the events of these bags: pass "
                "event= to predictive"
            )
        if known.entry is not None and np.any(labels <= known.entry):
            raise ValueError("a time is not above the entry of its bag: correct one of them")
        return super()._log_density(components, i, labels)
