"""Conformal Bayes: regions of labels with coverage that does not rest on the model.

docs/validation/conformal.md describes what is compared. Scores use the posterior given also the
new bag with the candidate y: the draws theta_s of the posterior of the training bags, with weights

    w_s = p(y | theta_s, new bag) / sum_t p(y | theta_t, new bag)
    score of bag i = spread_i sum_s w_s p(y_i | theta_s, bag i)

so nothing is refitted. Bounds of size classes are symmetric in the n + 1 bags: bounds from only the
training bags would break the exchangeability within classes.

Source: Fong and Holmes (2021), "Conformal Bayesian computation".
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit

from bdr_stan.predictive.classes import ClassPredictive, MulticlassPredictive
from bdr_stan.predictive.mixture import LabelMixture, bags_at_once
from bdr_stan.results.diagnostics import pareto_smoothed
from bdr_stan.types import Array

# Reach of candidates in spreads about the centre; doubled while one of the ends is kept.
_REACH, _CANDIDATES, _DOUBLINGS = 6.0, 25, 12
# Tolerance of the search for an end, in steps between candidates, and the most evaluations.
_TOLERANCE, _MOST_STEPS = 1e-3, 40
_ROUNDING = 1e-9  # of log scores, of which equal ones are kept, and of shares of bags
_NEARLY_KEPT = 1.0  # of log scores of classes, below the least that is kept
_CENTRAL = (1 / 6, 1 / 2, 5 / 6)  # of a normal the outer two are nearly two sds apart
_MOST_CLASSES = 4
_LEAST_RANK = 4  # of the first kept score, if the number of classes is not given


class LabelScale(NamedTuple):
    """Valid labels, and the scale with evenly spaced candidates."""

    to_scale: Callable[[Array], Array] = np.asarray
    from_scale: Callable[[Array], Array] = np.asarray
    is_count: bool = False
    trials: Array | None = None  # of counts, shape (n,)

    def at(self, x: Array, bags: Array) -> Array:
        """Labels of bags at places x of the scale."""
        if not self.is_count:
            with np.errstate(over="ignore"):
                return self.from_scale(x)
        return np.clip(np.round(x), 0, np.inf if self.trials is None else self.trials[bags])


REAL, POSITIVE, SHARES = LabelScale(), LabelScale(np.log, np.exp), LabelScale(logit, expit)


class TrainingLabels(NamedTuple):
    """What scores need of the n training labels."""

    log_likelihood: Array  # of each label under each draw, (S, n), or (1, n) of their averages
    draws: Array | None  # of labels from predictive distributions, (D, n); None for classes
    sizes: Array  # of their bags, (n,)


class Ranks:
    """Scores of k training bags, (S, k), that candidates need to have at least at a rank from 1."""

    def __init__(self, log_likelihood: Array, log_spread: Array, rank: int) -> None:
        largest = log_likelihood.max(axis=0)
        self.likelihood, self.log_factor = np.exp(log_likelihood - largest), largest + log_spread
        self.rank = rank
        self.are_weighted = len(log_likelihood) > 1  # draws, not averages

    def excess(self, log_density: Array, log_spread: Array) -> Array:
        """Log scores of candidates minus the rank's, (m,), of densities (S, m); kept if >= 0."""
        largest = log_density.max(axis=0)
        possible = largest > -np.inf
        largest = np.where(possible, largest, 0)
        density = np.exp(log_density - largest)
        with np.errstate(divide="ignore"):
            if self.are_weighted:
                total = np.where(possible, density.sum(axis=0), 1)
                log_score = np.log(np.sum(density**2, axis=0) / total)
                scores = np.log(density.T @ self.likelihood / total[:, None]) + self.log_factor
            else:
                log_score, scores = np.log(density.mean(axis=0)), self.log_factor[None]
        kth = np.partition(scores, self.rank - 1, axis=1)[:, self.rank - 1]
        score = log_score[possible] + largest[possible] + log_spread[possible]
        excess = np.full(len(possible), -np.inf)
        excess[possible] = score - np.broadcast_to(kth, len(possible))[possible] + _ROUNDING
        return excess


class _NewBags(NamedTuple):
    """New bags against training bags of similar size; `log_spread` is of all n new bags."""

    predictive: LabelMixture
    ranks: Ranks
    log_spread: Array

    def excess(self, i: Array) -> Callable[[Array], Array]:
        """Function from labels of the bags `i`, which may repeat, to their `Ranks.excess`."""
        log_density = self.predictive.log_density_function(i)

        def excess(labels):
            with np.errstate(divide="ignore"):  # logarithms of 0, which is not possible
                return self.ranks.excess(log_density(labels), self.log_spread[i])

        return excess

    def pareto_k(self, i: Array, labels: Array) -> Array:
        """Pareto k-hat of the weights that add each bag with its label; NaN without weights."""
        if not self.ranks.are_weighted or not len(i):
            return np.full(len(i), np.nan)
        log_density = self.predictive.log_density_function(i)(labels)
        with np.errstate(all="ignore"):  # in ArviZ, of weights that are nearly equal
            return np.array([pareto_smoothed(weights)[1] for weights in log_density.T])


class SizeClass(NamedTuple):
    """Training bags like a new one: those from `first` to before `end`, sorted by size."""

    number: int  # 1 has the smallest bags
    first: int
    end: int


class SizeClasses:
    """Classes of training bags by sizes, (n,), for a level: `n_classes`, None for all it allows."""

    def __init__(self, sizes: Array, level: float, n_classes: int | None) -> None:
        self.order = np.argsort(sizes, kind="stable")
        self.sizes, self.level = sizes[self.order], level
        self.fewest = int(np.ceil(1 / (1 - level) - _ROUNDING))  # of a class, with the new bag
        n = len(sizes)
        if n + 1 < self.fewest:
            raise ValueError(
                f"level={level:g} needs at least {self.fewest - 1} training bags, but the fit has "
                f"{n}: choose a lower level"
            )
        if n_classes is None:
            n_classes = int(np.clip((n + 1) * (1 - level) / _LEAST_RANK, 1, _MOST_CLASSES))
        elif (n + 1) // n_classes < self.fewest:
            raise ValueError(
                f"level={level:g} needs at least {self.fewest - 1} training bags in each size "
                f"class, and the fit has {n} in total: choose by_size={(n + 1) // self.fewest} or "
                "less, or a lower level"
            )
        self.n_classes = n_classes

    def class_of(self, size: float) -> SizeClass:
        """The class of a new bag of this size. Bags of one size stay together."""
        pooled = np.insert(self.sizes, np.searchsorted(self.sizes, size), size)
        n = len(pooled)
        # Changes of size nearest to equal shares of the bags.
        changes = np.append(np.flatnonzero(pooled[1:] > pooled[:-1]) + 1, n)
        shares = np.arange(1, self.n_classes) * n / self.n_classes
        ends = [0]
        for end in np.unique(changes[np.argmin(np.abs(changes - shares[:, None]), axis=1)]):
            if min(end - ends[-1], n - end) >= self.fewest:
                ends.append(int(end))
        ends.append(n)
        number = int(np.searchsorted(ends, np.searchsorted(pooled, size, side="right")))
        return SizeClass(number, ends[number - 1], ends[number] - 1)


class Compared:
    """New bags of sizes (m,), each with the training bags of its size class."""

    def __init__(self, size_classes: SizeClasses, sizes: Array, bags: Any) -> None:
        self.size_classes, self.ids, self.id_name = size_classes, bags.ids, bags.id_name
        of_size = {size: size_classes.class_of(size) for size in np.unique(sizes)}
        self.of_bag = [of_size[size] for size in sizes]

    def __len__(self) -> int:
        return len(self.of_bag)

    def by_class(self) -> Iterator[tuple[Array, Array, int]]:
        """New bags of a class, training bags of the class, and the rank of the least score kept."""
        share = 1 - self.size_classes.level
        for group in sorted(set(self.of_bag)):
            rank = np.floor(share * (group.end - group.first + 1) + _ROUNDING)
            new = np.flatnonzero([of_bag == group for of_bag in self.of_bag])
            yield new, self.size_classes.order[group.first : group.end], int(rank)

    @property
    def described(self) -> dict[str, Any]:
        """What regions report of it."""
        sizes, classes = self.size_classes.sizes, self.of_bag
        return {
            "level": self.size_classes.level,
            "size_class": np.array([group.number for group in classes], dtype=int),
            "n_like": np.array([group.end - group.first for group in classes], dtype=int),
            "sizes_like": np.array(
                [[sizes[group.first], sizes[group.end - 1]] for group in classes]
            ),
            "ids": self.ids,
            "id_name": self.id_name,
        }


def kept_pieces(
    predictive: LabelMixture,
    training: TrainingLabels,
    compared: Compared,
    labels: LabelScale,
) -> tuple[list[Array], Array]:
    """Pieces of regions of n new bags' labels, numbers, under the training draws; k-hat, (n,)."""
    centre, scale, spread = _centres(predictive, labels)
    spreads = _spreads(training.draws, labels)
    n = len(compared)
    pareto_k = np.full(n, np.nan)
    pieces: list[Array] = [np.empty((0, 2))] * n
    for new, i in _by_class(predictive, training, compared, spreads, spread):
        for bag, piece in _pieces(new, i, labels, centre, scale):
            pieces[bag] = piece
        for end in (0, -1):
            bounded = [bag for bag in i if len(pieces[bag]) and np.isfinite(pieces[bag].flat[end])]
            bags, y = np.array(bounded, dtype=int), np.array([pieces[b].flat[end] for b in bounded])
            pareto_k[bags] = np.fmax(pareto_k[bags], new.pareto_k(bags, y))
    return pieces, pareto_k


def kept_classes(
    predictive: ClassPredictive | MulticlassPredictive,
    training: TrainingLabels,
    compared: Compared,
) -> tuple[Array, Array]:
    """Whether each class is in the region of each new bag, (n, C), and Pareto k-hat, (n,)."""
    n, n_classes = len(compared), len(predictive.classes)
    is_in, pareto_k = np.zeros((n, n_classes), dtype=bool), np.full(n, np.nan)
    for new, i in _by_class(
        predictive, training, compared, np.ones(len(training.sizes)), np.ones(n)
    ):
        excess = new.excess(i)
        for code in range(n_classes):
            codes = np.full(len(i), code)
            above = excess(codes)
            is_in[i, code] = above >= 0
            close = above > -_NEARLY_KEPT  # of others weights do not matter
            pareto_k[i[close]] = np.fmax(pareto_k[i[close]], new.pareto_k(i[close], codes[close]))
    return is_in, pareto_k


def _by_class(predictive, training, compared, spreads, spread):
    """New bags of one size class, some at a time, and their indices."""
    for i, bags, rank in compared.by_class():
        ranks = Ranks(training.log_likelihood[:, bags], np.log(spreads[bags]), rank)
        new = _NewBags(predictive, ranks, np.log(spread))
        for part in bags_at_once(len(i), predictive.numbers_per_bag):
            yield new, i[part]


def _centres(predictive, labels):
    """Centre and scale of the candidates of new bags, and spreads of their labels, each (n,)."""
    if labels.is_count:
        spread = _spread_of_counts(predictive.sd)
        return predictive.mean, spread, spread
    quantiles = predictive.quantile(_CENTRAL)
    low, middle, high = labels.to_scale(quantiles)
    return middle, (high - low) / 2, (quantiles[2] - quantiles[0]) / 2


def _spreads(draws, labels):
    """Spread of each distribution, (n,), from its draws, (D, n); see `_centres`."""
    if labels.is_count:
        return _spread_of_counts(draws.std(axis=0))
    low, high = np.quantile(draws, (_CENTRAL[0], _CENTRAL[2]), axis=0)
    return (high - low) / 2


def _spread_of_counts(sd):
    """With the variance of rounding: the usual 0 of a bag that has no other count is not rare."""
    return np.sqrt(sd**2 + 1 / 12)


def _pieces(new, i, labels, centre, scale):
    """Pairs of a bag out of `i` and its pieces, shape (r, 2), if there are any."""
    bag, x, is_kept = _scan(new, i, labels, centre, scale)
    follows = np.append(False, bag[1:] == bag[:-1])  # whether the candidate before is of its bag
    is_followed = np.append(follows[1:], False)
    starts = np.flatnonzero(is_kept & ~(follows & np.roll(is_kept, 1)))
    stops = np.flatnonzero(is_kept & ~(is_followed & np.roll(is_kept, -1)))
    lower = _ends(new, labels, bag, x, starts, follows[starts], -1)
    upper = _ends(new, labels, bag, x, stops, is_followed[stops], 1)
    ends = np.column_stack([lower, upper])
    bags, first = np.unique(bag[starts], return_index=True)
    return zip(bags, np.split(ends, first)[1:], strict=True)


def _scan(new, i, labels, centre, scale):
    """Candidates of the bags `i` sorted by bag and place: bag, place, and whether each is kept."""

    def tried(bags, x, excess):
        y = labels.at(x, bags)
        return bags, y if labels.is_count else x, excess(y) >= 0

    excess = new.excess(i)
    steps = np.linspace(-_REACH, _REACH, _CANDIDATES)
    candidates = [tried(i, centre[i] + step * scale[i], excess) for step in steps]
    for sign, (bags, place, is_kept) in ((-1, candidates[0]), (1, candidates[-1])):
        for doubling in range(1, _DOUBLINGS + 1):
            bags, before = bags[is_kept], place[is_kept]
            if not len(bags):
                break
            x = centre[bags] + sign * _REACH * 2.0**doubling * scale[bags]
            bags, place, is_kept = tried(bags, x, new.excess(bags))
            candidates.append((bags, place, is_kept))
            is_kept = is_kept & (place != before)  # a count can be the last one
    bag, place, is_kept = map(np.concatenate, zip(*candidates, strict=True))
    order = np.lexsort((place, bag))
    bag, place, is_kept = bag[order], place[order], is_kept[order]
    is_new = np.append(True, (bag[1:] != bag[:-1]) | (place[1:] != place[:-1]))
    return bag[is_new], place[is_new], is_kept[is_new]


def _ends(new, labels, bag, place, last, bounded, direction):
    """Labels at the ends of pieces: the last kept, or where the next, if `bounded`, is not."""
    bags, inside = bag[last], place[last]
    following = place[np.clip(last + direction, 0, len(place) - 1)]
    ends = np.where(bounded, inside, direction * np.inf)
    j = np.flatnonzero(bounded)
    if len(j):
        excess = new.excess(bags[j])
        root = _last_count if labels.is_count else _root
        ends[j] = root(lambda x: excess(labels.at(x, bags[j])), inside[j], following[j])
    return labels.at(ends, bags)


def _last_count(excess, inside, outside):
    """Last counts before `excess` falls below 0, by bisection; shapes (m,)."""
    while np.max(np.abs(outside - inside)) > 1:
        middle = np.where(np.abs(outside - inside) > 1, np.floor((inside + outside) / 2), inside)
        is_kept = excess(middle) >= 0
        inside, outside = np.where(is_kept, middle, inside), np.where(is_kept, outside, middle)
    return inside


def _root(excess, inside, outside):
    """Roots between places of `excess` >= 0 and < 0, (m,): Illinois, or bisection if infinite."""
    a, b, at_a, at_b = inside, outside, excess(inside), excess(outside)
    tolerance, last = _TOLERANCE * np.abs(b - a), np.zeros(len(a))
    x, converged = a, np.zeros(len(a), dtype=bool)
    for _ in range(_MOST_STEPS):
        finite = np.isfinite(at_a) & np.isfinite(at_b)
        share = np.divide(at_a, at_a - at_b, out=np.full(len(a), 0.5), where=finite)
        before, x = x, np.where(converged, x, a + share * (b - a))
        converged |= np.abs(x - before) <= tolerance
        if converged.all():
            break
        value = excess(x)
        side = np.where(value >= 0, 1, -1)
        again = side == last
        at_a = np.where(side > 0, value, np.where(again, at_a / 2, at_a))
        at_b = np.where(side < 0, value, np.where(again, at_b / 2, at_b))
        a, b, last = np.where(side > 0, x, a), np.where(side < 0, x, b), side
    return x
