"""Families of labels: the distribution of a bag's label given its linear predictor."""

from bdr_stan.families import counts, numbers
from bdr_stan.families.base import Family as Family
from bdr_stan.families.integrated import label_densities as label_densities
from bdr_stan.families.numbers import NormalNumbers as NormalNumbers
from bdr_stan.families.ordinal import Ordinal as Ordinal
from bdr_stan.families.times import TIMES as TIMES
from bdr_stan.families.times import Times as Times

__all__ = ["FAMILIES"]

# An ordinal family of as many categories as the labels of a fit have takes the place of this one.
FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (*counts.FAMILIES, *numbers.FAMILIES, Ordinal(), TIMES["weibull"])
}
