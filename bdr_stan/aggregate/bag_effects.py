"""Effects of bags on their log rate: of training bags given their labels, and of new bags."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bdr_stan.aggregate.rows import mean_points
from bdr_stan.bags import Bags, values_of_bags
from bdr_stan.bags.checks import as_vector
from bdr_stan.types import Array, ArrayLike, Seed

# Mean points that differ by less, in their standard deviations, are the same.
_MEAN_POINT_TOLERANCE = 1e-5


def gamma_effects(
    y: Array,
    means: Array,
    dispersion: Array,
    seed: Seed = None,
    error_variance: Array | float = 0.0,
) -> Array:
    """Log effects log g of bags of negative binomial labels, drawn given the labels, shape (S, n).

    Given label y, mean lambda and dispersion d, g ~ gamma(1/d^2 + y, 1/d^2 + lambda); of a single
    draw (the mode) its mean. For a label with an error of relative variance v, (n,), g has the
    variance d^2 + v, and the bag's effect is the share d^2 / (d^2 + v) of it.
    """
    variance = np.square(dispersion)[:, None]  # of the effect without the error
    prior = 1 / (variance + error_variance)
    shape, rate = prior + y, prior + means
    share = variance * prior
    if len(means) == 1:
        return share * np.log(shape / rate)
    # Numbers of shapes near 0 underflow: log gamma(a) is log gamma(a + 1) + log(uniform) / a.
    rng = np.random.default_rng(seed)
    log_uniform = -rng.standard_exponential(shape.shape)
    log_g = np.log(rng.standard_gamma(shape + 1)) + log_uniform / shape - np.log(rate)
    if not np.any(error_variance):
        return log_g
    return share * log_g + np.sqrt(share * error_variance) * rng.standard_normal(log_g.shape)


def dispersion_inside(dispersion: Array, share: Array, itself: Array) -> Array:
    """Dispersion of labels of bags in training bags with given effects, shape (S, n).

    `share`, shape (n,), is a bag's part of the training bag's expected label, 1 for bags in none.
    For training bags themselves (`itself`) it is 0: given its effect the label is a Poisson number.
    """
    factor = np.clip(share, 1e-8, 1.0) ** -0.25
    return dispersion[:, None] * np.where(itself, 0.0, factor)


@dataclass(frozen=True)
class TrainingEffects:
    """Effects of the bags of a fit on their log rates, for predictions of bags and their parts."""

    # Under each draw, shape (S, n), of coefficients (S, n, K); None if the fit keeps none.
    effects: Array | None
    ids: Array  # shape (n,)
    mean_points: Array | None  # shape (n, p); None if points were in partitions

    def numbers(self, district: Sequence[Any] | Array, what: str) -> Array:
        """Numbers of training bags with these ids, -1 for None or NaN; `what` has such an id.

        ValueError for an unknown id, or without effects.
        """
        if self.effects is None:
            raise ValueError(
                "district goes with effects of training bags, which this fit does not have: use "
                "likelihood='negative_binomial' or bag_effects=True, and fewer draws where draws x "
                "bags are beyond 20 million"
            )
        number_of = {str(name): i for i, name in enumerate(self.ids)}
        numbers = np.full(len(district), -1)
        for i, name in enumerate(district):
            if name is None or name != name:  # NaN
                continue
            if str(name) not in number_of:
                raise ValueError(
                    f"district {name!r} of {what} {i} is not a bag of the fit: pass ids of "
                    "training bags, or None for places outside all of them"
                )
            numbers[i] = number_of[str(name)]
        return numbers

    def districts(self, bags: Bags, district: ArrayLike | str | bool) -> tuple[Array, Array]:
        """Number of the training bag that contains or is each bag (-1: none), and which are one."""
        itself = np.full(len(bags), -1)
        have_effects = isinstance(bags, Bags) and self.effects is not None
        if district is not False and self.mean_points is not None and have_effects:
            itself = training_bags(bags, self.ids, self.mean_points)
        if isinstance(district, bool):
            return itself, itself >= 0
        names = np.asarray(values_of_bags(bags, district, "district"), object)
        names = as_vector(names, len(bags), "district", "bag")
        number = self.numbers(names, "bag")
        return number, (number >= 0) & (number == itself)

    def of_bags(self, bags: Bags, number: Array, itself: Array, tau: Array | None) -> Array | None:
        """Effects of bags under each draw, shape (S, len(bags)), given the result of `districts`.

        `tau`, shape (S,), is the scale of normal effects. None if all are new bags without effects.
        """
        new = None if tau is None else tau[:, None] * standard_effects(bags, len(tau))
        if self.effects is None or not np.any(number >= 0):
            return new
        of_training = self.effects[:, number]
        if tau is not None and new is not None:
            # A part of a training bag also has its own effect, of mean 1 on its rate.
            of_training = of_training + np.where(itself, 0.0, new - tau[:, None] ** 2 / 2)
        return np.where(number >= 0, of_training, 0.0 if new is None else new)


def training_bags(bags: Bags, ids: Array, points: Array) -> Array:
    """Number in a fit of the bags of the same id and mean point, shape (len(bags),), -1 if none.

    Bags without ids have no number: predictions of a bag must not depend on its position.
    """
    if bags.ids is None:
        return np.full(len(bags), -1)
    number_of = {str(name): i for i, name in enumerate(ids)}
    numbers = np.array([number_of.get(str(name), -1) for name in bags.index])
    by_id = np.flatnonzero(numbers >= 0)
    if len(by_id):
        spread = np.maximum(points.std(axis=0), np.abs(points).max(axis=0) * 1e-6)
        numbers[by_id[~have_mean_points(bags[by_id], points[numbers[by_id]], spread)]] = -1
    return numbers


def have_mean_points(bags: Bags, points: Array, spread: Array) -> Array:
    """Whether bags have these mean points, shape (n, p), up to rounding; bool array, shape (n,)."""
    distances = np.abs(mean_points(bags).points - points)
    return np.all(distances <= _MEAN_POINT_TOLERANCE * spread, axis=1)


def standard_effects(bags: Bags, n_draws: int) -> Array:
    """Standard normal numbers of each bag, one per posterior draw, shape (n_draws, n).

    A bag's points and weights are the seed of its numbers: they do not depend on other bags or the
    order of its points, and different bags have independent numbers.
    """
    effects = np.empty((n_draws, len(bags)))
    for i in range(len(bags)):
        rng = np.random.default_rng(_seed(bags, i))
        effects[:, i] = rng.standard_normal(n_draws)
    return effects


def _seed(bags, i):
    """A number that the content of a bag determines, and not the order of its points."""
    rows = np.array(bags[i], np.float64)
    if bags.weights is not None:
        of_bag = slice(bags.offsets[i], bags.offsets[i + 1])
        rows = np.column_stack([rows, bags.weights[of_bag]])
    rows += 0.0  # -0 is 0
    ordered = np.ascontiguousarray(rows[np.lexsort(rows.T)])
    return int.from_bytes(hashlib.sha256(ordered.tobytes()).digest(), "little")
