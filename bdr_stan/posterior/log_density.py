"""The log density of a fit's posterior, with its gradient, for samplers of one's own."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from bdr_stan.extras import require_main_thread
from bdr_stan.posterior import stanli
from bdr_stan.posterior.model import Draws, Model, StanInput
from bdr_stan.posterior.settings import SamplerSettings
from bdr_stan.types import Array, ArrayLike


@dataclass(frozen=True)
class LogDensity:
    """Log density of the posterior of a fit on the unconstrained scale; see `BDR.log_density`.

    The coordinates are Stan's sampling coordinates: whitened weights, and logarithms of scales. The
    density includes the Jacobian of the transforms and omits constants.

    Examples
    --------
    >>> import numpy as np
    >>> from bdr_stan import BLR
    >>> rng = np.random.default_rng(0)
    >>> bags = [rng.normal(shift, 1, (20, 1)) for shift in rng.normal(size=30)]
    >>> y = [bag.mean() for bag in bags]
    >>> log_density = BLR(4, method="laplace").fit(bags, y, draws=100, seed=1).log_density()
    >>> value, slope = log_density(np.zeros(log_density.dimension))
    >>> slope.shape == (log_density.dimension,)
    True
    >>> sorted(log_density.parameters(np.zeros(log_density.dimension)))
    ['beta', 'intercept', 'rho', 'sigma', 'w']
    """

    model: Model
    stan_input: StanInput
    settings: SamplerSettings

    @property
    def n_numbers(self) -> int:
        """Size of the program's data."""
        return sum(np.size(values) for values in self.stan_input.data.values())

    @property
    def dimension(self) -> int:
        """Number of unconstrained parameters, n."""
        return self._program.n_unconstrained

    def __call__(self, point: ArrayLike) -> tuple[float, Array]:
        """Log density and its gradient at a point.

        Parameters
        ----------
        point : array, shape (n,)

        Returns
        -------
        float, and array of shape (n,)
            -inf, and a gradient of nan, if the density is 0 or cannot be evaluated.

        Raises
        ------
        ValueError
            The point has another shape.
        RuntimeError
            Not called from the main thread; stanli runs only there.
        """
        point = self._checked(point, 1)
        try:
            value, slope = self._program.log_prob_grad(point)
        except RuntimeError:
            value = -np.inf
        return (value, slope) if value > -np.inf else (-np.inf, np.full(len(point), np.nan))

    def parameters(self, points: ArrayLike) -> Draws:
        """Parameters of the model at points, for example the draws of your own sampler.

        Parameters
        ----------
        points : array, shape (n,) or (S, n)

        Returns
        -------
        dict of arrays, shapes (S, ...), with S = 1 for a single point
            As in the posterior of `idata`, but coefficients of covariates are per standard
            deviation.

        Raises
        ------
        ValueError
            The points have another shape.
        RuntimeError
            This is not the main thread.
        """
        draws, _ = stanli.constrained(self._program, self._checked(points, 2))
        read = self.model.read(draws, replace(self.settings, method="nuts"))
        return {name: values[0] for name, values in read.items()}

    @cached_property
    def _program(self) -> Any:
        program = self.settings.stan_file or self.model.program
        return stanli.load(program, self.stan_input.data)

    def _checked(self, points: ArrayLike, n_axes: int) -> Array:
        """Points of `n_axes` axes; a single point gains an axis if there are two."""
        require_main_thread()
        values = np.asarray(points, float)
        values = values[None] if n_axes == 2 and values.ndim == 1 else values
        if values.ndim != n_axes or values.shape[-1] != self.dimension:
            raise ValueError(
                f"points must have {self.dimension} unconstrained parameters along their last "
                f"axis, found an array of shape {np.shape(points)}"
            )
        return values
