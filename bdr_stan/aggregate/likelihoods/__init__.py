"""Likelihoods of totals of bags, one object each."""

from bdr_stan.aggregate.likelihoods.base import LabelDensity as LabelDensity
from bdr_stan.aggregate.likelihoods.base import LabelDistribution as LabelDistribution
from bdr_stan.aggregate.likelihoods.base import Likelihood as Likelihood
from bdr_stan.aggregate.likelihoods.base import Scale as Scale
from bdr_stan.aggregate.likelihoods.counts import BINOMIAL, NEGATIVE_BINOMIAL, POISSON
from bdr_stan.aggregate.likelihoods.counts import Binomial as Binomial
from bdr_stan.aggregate.likelihoods.numbers import EXPONENTIAL, GAMMA, NORMAL

__all__ = ["LIKELIHOODS"]

LIKELIHOODS: dict[str, Likelihood] = {
    likelihood.name: likelihood
    for likelihood in (POISSON, NEGATIVE_BINOMIAL, EXPONENTIAL, GAMMA, BINOMIAL, NORMAL)
}


def likelihood_named(name: str) -> Likelihood:
    """The likelihood of this name, words joined by "_" or a blank; ValueError if there is none."""
    if (name := str(name).replace("_", " ")) not in LIKELIHOODS:
        names = ", ".join(repr(each.replace(" ", "_")) for each in LIKELIHOODS)
        raise ValueError(f"likelihood must be one of {names}, found {name!r}")
    return LIKELIHOODS[name]
