"""Likelihoods of totals of bags, one object each."""

from bdr_stan.aggregate.likelihoods.base import LabelDensity, Likelihood, Scale
from bdr_stan.aggregate.likelihoods.binomial import BINOMIAL, Binomial
from bdr_stan.aggregate.likelihoods.counts import (
    NEGATIVE_BINOMIAL,
    POISSON,
    NegativeBinomial,
    Poisson,
)
from bdr_stan.aggregate.likelihoods.normal import NORMAL, Normal
from bdr_stan.aggregate.likelihoods.positive import EXPONENTIAL, GAMMA, Exponential, Gamma

__all__ = [
    "LIKELIHOODS",
    "Binomial",
    "Exponential",
    "Gamma",
    "LabelDensity",
    "Likelihood",
    "NegativeBinomial",
    "Normal",
    "Poisson",
    "Scale",
    "likelihood_named",
]

LIKELIHOODS: dict[str, Likelihood] = {
    likelihood.name: likelihood
    for likelihood in (POISSON, NEGATIVE_BINOMIAL, EXPONENTIAL, GAMMA, BINOMIAL, NORMAL)
}


def likelihood_named(name: str) -> Likelihood:
    """The likelihood of this name.

    Raises
    ------
    ValueError : there is none.
    """
    if name not in tuple(LIKELIHOODS):
        names = ", ".join(map(repr, LIKELIHOODS))
        raise ValueError(f"likelihood must be one of {names}, found {name!r}")
    return LIKELIHOODS[name]
