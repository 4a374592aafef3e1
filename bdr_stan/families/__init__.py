"""Families of labels: the distribution of a bag's label given its linear predictor."""

from bdr_stan.families.base import Family as Family
from bdr_stan.families.counts import (
    Beta,
    BetaBinomial,
    BinomialCounts,
    NegativeBinomialCounts,
    PoissonCounts,
)
from bdr_stan.families.integrated import label_densities as label_densities
from bdr_stan.families.numbers import GammaNumbers, StudentT
from bdr_stan.families.numbers import NormalNumbers as NormalNumbers
from bdr_stan.families.ordinal import Ordinal as Ordinal

__all__ = ["FAMILIES"]

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        PoissonCounts(),
        NegativeBinomialCounts(),
        BinomialCounts(),
        BetaBinomial(),
        Beta(),
        GammaNumbers(),
        StudentT(),
        Ordinal(),  # of as many categories as the labels of a fit have
    )
}
