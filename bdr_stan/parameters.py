"""Parameters of estimators and of their methods: inherited by classes, and documented once."""

import inspect
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, dataclass_transform

from bdr_stan.arguments import answered

T = TypeVar("T")

# Sections that include the entries of base classes, and sections that methods may omit.
_WITH_ENTRIES = ("Parameters", "Attributes", "Raises")
_OMITTED = ("Returns", "Warns")
_HEADING = re.compile(r"^(\w[\w ]*)\n-+\n", re.MULTILINE)
# Parameters of classes and of methods that their docstrings do not describe.
_COMMON = """Parameters
----------
bags : Bags, or list of n arrays, shapes (n_points, p)
y : array, shape (n,), or str
    Label of each bag, or the name of a column of the bags' metadata. `MERR` and `RBFNetwork` also
    take several: shape (n, k), or a DataFrame of k columns.
sample_weight : array, shape (n,), optional
    Weight of each bag.
return_std : bool, default False
    Also return the predictive standard deviation.
trials, exposure, offset : array, shape (n,), or str, optional
    As for `fit`; by default those of the columns that the fit named.
event, entry : array, shape (n,), or str, optional
    As for `fit`, of times that are scored: only `log_prob` and `score` depend on them.
points : array, shape (n, p), Bags, or DataFrame with the columns of the fit
    A memory map is read chunk by chunk.
level : float, 0 < level < 1, default 0.95
    Probability of the intervals.
sample : str, optional
    For bags with several samples: the one that is meant.
groups : bool, default True
    False omits the effects of groups: labels in a group of effect 0.
n_draws : int, default 1000
    Draws of the posterior that are used, evenly spaced.
seed : int, optional
    Of all that is drawn; default `random_state`.
category : class or list of classes, optional
    Of more than two classes those whose probability is meant, such as ["fair", "good"].
stan_data : dict, optional
    Data of your own Stan program for these bags, as for `fit`; by default those of the columns that
    the fit named.
kernel : str or Kernel, default "rbf"
    A name of `bdr_stan.kernels.KERNELS`, such as "matern32" or "cauchy", or a kernel:
    ``RBF(columns=["age"]) + Matern32(columns=["income"])``.
bandwidth : float, array, shape (p,), "scaled", "ard" or "median", default "scaled"
    Of a kernel given by name, in the units of the points. "median" is
    sqrt(median squared distance / 2) of the columns as given; "scaled" and "ard" the same of
    columns divided by their standard deviations.
bandwidth_scale : float, default 1
    Factor on all bandwidths.
landmarks : {"kmeans", "random"} or array, shape (d, p), default "kmeans"
    Centres of clusters of the points, a random choice of them, or points of your own.
random_state : int, optional
    Seed where `fit` gets none.
"""


@dataclass_transform(eq_default=False)
def estimator(cls: type[T]) -> type[T]:
    """Make the fields of a class and of its bases the parameters of its constructor.

    scikit-learn reads the parameters from the signature of the constructor. The sections
    Parameters and Attributes of the docstring gain the entries of the base classes, and of
    parameters that several estimators share.
    """
    cls = dataclass(eq=False, repr=False)(cls)
    cls.__init__ = answered(cls.__init__)  # type: ignore[method-assign]
    if sys.flags.optimize > 1:  # which strips docstrings
        return cls
    docs = [c.__dict__["__doc__"] for c in cls.__mro__ if c.__dict__.get("__doc__")]
    cls.__doc__ = _completed([*docs, _COMMON], list(inspect.signature(cls).parameters))
    return cls


def describe(method: Callable[..., Any], bases: tuple[type, ...]) -> None:
    """Complete a docstring from the same method of the bases, and from common entries.

    It gains the entries of parameters that it omits, and the sections Returns and Raises. Without
    sections, also in bases, it stays as it is.
    """
    name, ours = method.__name__, (base for base in bases if "sklearn" not in base.__module__)
    inherited = [vars(base)[name].__doc__ for base in ours if name in vars(base)]
    docs = [inspect.cleandoc(doc) for doc in (method.__doc__, *inherited) if doc]
    if not method.__doc__ or not any(map(_HEADING.search, docs)):
        return
    named = re.findall(r"`(\w+)`", _HEADING.split(docs[0])[0])
    parameters = list(inspect.signature(method).parameters)
    method.__doc__ = _completed([*docs, _COMMON], parameters, _OMITTED, in_text=named)


def _completed(
    docs: list[str],
    parameters: list[str],
    omitted: Sequence[str] = (),
    in_text: Sequence[str] = (),
) -> str:
    """The first docstring with entries of the others that it lacks; parameters in their order."""
    doc, *others = (_sections(each) for each in docs)
    for name in omitted:
        doc.setdefault(name, next((other[name] for other in others if name in other), ""))
    for name in _WITH_ENTRIES:
        entries = _entries(doc.get(name, ""))
        for other in others:
            described = {each for names in entries for each in names}.union(in_text)
            inherited = _entries(other.get(name, ""))
            added = {k: v for k, v in inherited.items() if k in entries or described.isdisjoint(k)}
            entries = added | entries
        if name == "Parameters":
            # A group of parameters is described at its first parameter.
            places = {k: parameters.index(k[0]) for k in entries if set(k) <= set(parameters)}
            if omitted:  # a method of a base describes parameters that subclasses add
                places |= {k: len(places) for k in _entries(doc.get(name, "")) if k not in places}
            entries = {k: entries[k] for k in sorted(places, key=lambda k: places[k])}
        doc[name] = "\n".join(entries.values())
    order = dict.fromkeys(["", "Parameters", "Attributes", "Returns", "Raises", "Warns", *doc])
    sections = {name: doc[name] for name in order if doc.get(name)}
    return "\n\n".join(
        f"{name}\n{'-' * len(name)}\n{text}" if name else text for name, text in sections.items()
    )


def _sections(doc: str) -> dict[str, str]:
    """Text of each section of a docstring by its heading, the summary under ""."""
    summary, *rest = _HEADING.split(inspect.cleandoc(doc))
    sections = {"": summary} | dict(zip(rest[::2], rest[1::2], strict=True))
    return {name: text.strip() for name, text in sections.items()}


def _entries(section: str) -> dict[tuple[str, ...], str]:
    """Each entry of a section by the names that it describes."""
    texts = [text for text in re.split(r"\n(?=\S)", section) if text]
    heads = [text.splitlines()[0].split(" : ")[0] for text in texts]
    names = [tuple(each.strip().lstrip("*") for each in head.split(",")) for head in heads]
    return dict(zip(names, texts, strict=True))
