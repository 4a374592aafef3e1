"""Reasons to doubt predictions.

A reason is a function of a `Question` that gives a row of the table, or None if it does not apply
to the fit or finds nothing.
"""

import warnings
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from functools import cached_property
from itertools import zip_longest
from textwrap import wrap
from typing import Any

import numpy as np
from scipy.stats import binom

from bdr_stan.bags import BagsLike
from bdr_stan.predictive.distributions import check_level
from bdr_stan.questions.conformal import ConformalIntervals
from bdr_stan.questions.protocol import Fit
from bdr_stan.results.advice import checks
from bdr_stan.results.leave_one_out import GOOD_K
from bdr_stan.types import Array, DataFrame

_FACTOR = 1.5  # of selection, in the answer
_MOST_BAGS = 200  # of which reasons are found that take time
_N_DRAWS = 400
_UNLIKE = 0.01  # p-value of a bag that is unlike the training bags
_RELIABLE = 0.95  # share of the variance between bags, above which attenuation is negligible
_HEADS = (
    "reason for doubt",
    "what the answer becomes",
    "how strong it must be to change the conclusion",
)
_WIDTHS = (22, 40, 28)  # of the columns in text


@dataclass(frozen=True)
class Doubt:
    """A reason for doubt, the answer under it, and its strength needed to change the answer."""

    reason: str
    answer: str
    limit: str


class Doubts:
    """Reasons to doubt the predictions of some bags, as a table; see `model.doubts`.

    Parameters
    ----------
    conclusion : str
        The statement that the doubts are about.
    rows : list of Doubt, or None where a reason does not apply

    Examples
    --------
    >>> from bdr_stan.questions.doubts import Doubt, Doubts
    >>> doubts = Doubts("Kent is above Devon.", [Doubt("Selection", "0.2 to 0.4", "G = 1.6")])
    >>> print(doubts)
    Conclusion: Kent is above Devon.
    <BLANKLINE>
    reason for doubt        what the answer becomes                   how strong it must be to
                                                                      change the conclusion
    ----------------------  ----------------------------------------  ----------------------------
    Selection               0.2 to 0.4                                G = 1.6
    """

    def __init__(self, conclusion: str, rows: Iterable[Doubt | None]) -> None:
        self.conclusion, self.rows = conclusion, [row for row in rows if row is not None]

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        reasons = ", ".join(row.reason for row in self.rows)
        return f"Doubts({len(self)} reasons: {reasons}; print it, or to_dataframe())"

    def __str__(self) -> str:
        rule = "  ".join("-" * width for width in _WIDTHS)
        parts = [_row(_HEADS), rule, "\n\n".join(_row(astuple(row)) for row in self.rows)]
        return "\n".join([f"Conclusion: {self.conclusion}", "", *parts])

    def to_dataframe(self) -> DataFrame:
        """The table, with a row for each reason.

        Returns
        -------
        pandas DataFrame
            Indexed by the reason for doubt, with two columns of text.
        """
        import pandas as pd

        table = pd.DataFrame([astuple(row) for row in self.rows], columns=list(_HEADS))
        return table.set_index(_HEADS[0])


@dataclass(frozen=True)
class Question:
    """Predictions of bags, and the conclusion that bag a has a higher label than bag b."""

    model: Any
    bags: Any
    mean: Array  # predicted labels, or probabilities of the second class, shape (n,)
    a: int
    b: int
    level: float

    @cached_property
    def sampled(self) -> Array:
        """Numbers of some bags, evenly spaced by their predictions, and of the conclusion's two."""
        n = len(self.mean)
        places = np.linspace(0, n - 1, min(_MOST_BAGS, n)).round().astype(int)
        evenly = np.argsort(self.mean, kind="stable")[places]
        return np.unique([*evenly, self.a, self.b])

    @cached_property
    def sample(self) -> Any:
        """The bags with these numbers, in memory."""
        return self.bags.take(self.sampled).load()

    def in_sample(self, i: int) -> int:
        """Number in the sample of the bag of number i."""
        return int(np.flatnonzero(self.sampled == i)[0])

    def name(self, i: int) -> str:
        """Name of a bag in the table."""
        return f"bag {i}" if self.bags.ids is None else str(self.bags.ids[i])

    @property
    def what(self) -> str:
        """What is predicted."""
        classes = getattr(self.model, "classes_", None)
        if classes is not None:
            return f"probability of {classes[1]!s}"
        return self.model.result_.settings.get("label_name") or "label"

    @property
    def conclusion(self) -> str:
        """The conclusion as a sentence."""
        return (
            f"the {self.what} of {self.name(self.a)} ({self.mean[self.a]:.3g}) is above that of "
            f"{self.name(self.b)} ({self.mean[self.b]:.3g})."
        )


class DoubtedPredictions(Fit):
    """What could make conclusions from predictions wrong."""

    def doubts(self: Any, bags: BagsLike, *, above: Any = None, level: float = 0.95) -> Doubts:
        """What could make a conclusion from the predictions wrong, and how strong it must be.

        Collects the checks that apply to the fit: poor diagnostics of the sampler, intervals that
        do not rest on the model (`conformal`), selection of points (`sensitivity`), means of small
        bags treated as exact (attenuation), and out-of-distribution bags. With more than 200 bags
        some checks use 200, evenly spaced by their predictions. Trials, exposures and offsets come
        from the columns that the fit named.

        Parameters
        ----------
        bags : Bags, or list of n arrays, shapes (n_points, p), n >= 2
        above : (id, id), optional
            The conclusion: the first of these bags has a higher label than the second. Default: the
            bags with the highest and the lowest prediction.
        level : float, 0 < level < 1, default 0.95
            Probability that makes the conclusion certain, and level of intervals.

        Returns
        -------
        Doubts
            Its ``print`` is a table: reason for doubt, answer under it, strength needed to change
            the conclusion. `to_dataframe()` returns the table.

        Raises
        ------
        ValueError
            `above` names no two of the bags.
        TypeError
            The labels are categories, or more than two classes.

        Examples
        --------
        >>> import numpy as np
        >>> from bdr_stan import BLR
        >>> rng = np.random.default_rng(0)
        >>> y = rng.normal(size=40)
        >>> bags = [rng.normal(mean, size=(20, 1)) for mean in y]
        >>> doubts = BLR(5, method="exact").fit(bags, y, seed=1).doubts(bags, above=(2, 1))
        >>> doubts.to_dataframe().index.tolist()
        ['The model', 'Points seen with unequal probabilities (selection)',
         'Means of few points are measured with error (attenuation)']
        """
        check_level(level)
        bags = self.like_training(bags)
        if len(bags) < 2:
            raise ValueError("doubts are about the order of bags: pass two bags or more")
        predictive = self.predictive(bags)
        mean = getattr(predictive, "mean", None)
        if mean is None or np.ndim(mean) != 1:
            raise TypeError(
                "doubts are about numbers and two classes: the labels have no single mean"
            )
        a, b = _order(bags, mean, above)
        question = Question(self, bags, mean, a, b, level)
        return Doubts(question.conclusion, [reason(question) for reason in REASONS])


def _order(bags, mean, above):
    """Numbers of the conclusion's two bags, by default with the extreme predictions."""
    if above is None:
        return int(np.argmax(mean)), int(np.argmin(mean))
    if isinstance(above, str) or np.shape(above) != (2,):
        raise ValueError(f"above must be the ids of two bags, found {above!r}")
    names = [str(name) for name in bags.index]
    for name in above:
        if str(name) not in names:
            raise ValueError(f"above names the bag {name!r}, which is none of the bags")
    a, b = (names.index(str(name)) for name in above)
    if a == b:
        raise ValueError(f"above names the bag {above[0]!r} twice: name two bags")
    return a, b


def _row(cells):
    """Cells side by side, each wrapped to the width of its column."""
    columns = [wrap(cell, width) for cell, width in zip(cells, _WIDTHS, strict=True)]
    lines = (zip(line, _WIDTHS, strict=True) for line in zip_longest(*columns, fillvalue=""))
    return "\n".join(
        "  ".join(f"{text:{width}}" for text, width in texts).rstrip() for texts in lines
    )


def sampling(question: Any) -> Doubt | None:
    """Poor diagnostics of the sampler, of the model of a question."""
    bad = [check for check in checks(question.model.diagnostics()) if check.bad]
    if not bad:
        return None
    trouble = " ".join(check.trouble for check in bad)
    advice = " ".join(dict.fromkeys(check.advice for check in bad))
    return Doubt("Draws of the posterior", trouble, f"Not known. {advice}")


def conformal(question: Question) -> Doubt | None:
    """Errors of the model, which conformal regions do not rest on."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of unreliable bags, in the answer
            regions = question.model.conformal(question.sample, question.level)
    except (TypeError, ValueError):  # a fit without draws or likelihood, or of too few bags
        return None
    if not isinstance(regions, ConformalIntervals):
        return None
    lower, upper = question.model.predictive(question.sample).interval(question.level)
    ratio = np.median(regions.upper - regions.lower) / np.median(upper - lower)
    answer = (
        f"Intervals that cover {question.level:.0%} of labels even if the model is wrong "
        f"(conformal) are {ratio:.2f} times as wide as the model's."
    )
    unreliable = int(np.sum(regions.pareto_k > GOOD_K))
    if unreliable:
        answer += f" They are unreliable for {unreliable} of {len(regions)} bags."
    apart = (
        regions.lower[question.in_sample(question.a)]
        > regions.upper[question.in_sample(question.b)]
    )
    limit = "The intervals of the two bags overlap: the conclusion rests on the model."
    if apart:
        limit = "It does not: the intervals of the two bags are apart."
    return Doubt("The model", answer, limit)


def selection(question: Question) -> Doubt | None:
    """Points that were seen with unequal probabilities."""
    model = question.model
    if not hasattr(model, "sensitivity") or getattr(model, "by_program", False):
        return None
    bounds = model.sensitivity(
        question.sample, selection=(1, _FACTOR), level=question.level, n_draws=_N_DRAWS
    )
    moves = np.maximum(bounds.lowest[0] - bounds.lowest[1], bounds.highest[1] - bounds.highest[0])
    fails = bounds.fails_at(
        *(bounds.ids[question.in_sample(number)] for number in (question.a, question.b))
    )
    width = np.mean(bounds.upper - bounds.lower, axis=1)
    answer = (
        f"If weights are wrong by up to a factor of {_FACTOR:g}, the expected {question.what} of a "
        f"bag moves by up to {moves.mean():.2g} on average, and {question.level:.0%} intervals "
        f"widen from {width[0]:.2g} to {width[1]:.2g}."
    )
    limit = f"Weights wrong by a factor of {fails:.2f}."
    if fails == 1:
        limit = "The conclusion is not certain without selection either."
    if np.isinf(fails):
        limit = "No selection of these points changes it."
    return Doubt("Points seen with unequal probabilities (selection)", answer, limit)


def familiarity(question: Question) -> Doubt | None:
    """Bags that are unlike the training bags."""
    if not getattr(question.model, "has_familiarity", False):
        return None
    p = question.model.familiarity(question.bags)["familiarity"].to_numpy()
    unlike = np.flatnonzero(p < _UNLIKE)
    named = [question.name(number) for number in (question.a, question.b) if number in unlike]
    by_chance = len(unlike) <= binom.ppf(0.95, len(p), _UNLIKE) and p.min() > _UNLIKE / len(p)
    if by_chance and not named:
        return None
    answer = (
        f"{len(unlike)} of {len(p)} bags are unlike the training bags, such as "
        f"{question.name(int(np.argmin(p)))}; {_UNLIKE * len(p):.2g} are expected by chance."
    )
    limit = (
        f"Not known: {' and '.join(named)} of the conclusion {'is' if len(named) == 1 else 'are'} "
        "among them."
        if named
        else "The two bags of the conclusion are not among them."
    )
    return Doubt("Out-of-distribution bags", answer, limit)


def attenuation(question: Question) -> Doubt | None:
    """Means of small bags that a model treats as exact."""
    model, bags = question.model, question.sample.samples.get("")  # of bags with one sample
    is_linear = hasattr(model, "influence") and not getattr(model, "by_program", False)
    if bags is None or not is_linear or np.any(model.coordinates_.lam):
        return None
    several = np.flatnonzero(bags.sizes > 1)
    if len(several) < 10:
        return None
    f = model.influence(bags, n_draws=_N_DRAWS).mean
    shares = bags.point_shares
    means = bags.sums(shares * f)
    within = bags.sums(shares * (f - np.repeat(means, bags.sizes)) ** 2)[several]
    sizes = bags.effective_sizes
    # First per point, from bags of several, then for the mean of a bag.
    variance = np.average(within * sizes[several] / (sizes[several] - 1)) * np.mean(1 / sizes)
    reliability = max(1 - variance / np.var(means), 0.0)
    if reliability > _RELIABLE:
        return None
    return Doubt(
        "Means of few points are measured with error (attenuation)",
        f"Slopes of {type(model).__name__} are about {reliability:.2f} times the true ones; "
        "intervals do not include it.",
        "Differences between bags are too small rather than wrong in sign: use BDR, which models "
        "the error.",
    )


REASONS = (sampling, conformal, selection, attenuation, familiarity)
