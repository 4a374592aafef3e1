"""Bags of points: the container, its readers, and the labels that belong to bags."""

from bdr_stan.bags.container import (
    LARGEST_VALUE,
    Bags,
    as_bags,
    check_classes,
    check_labels,
    check_one_a_bag,
    values_are_usable,
)

__all__ = [
    "LARGEST_VALUE",
    "Bags",
    "as_bags",
    "check_classes",
    "check_labels",
    "check_one_a_bag",
    "values_are_usable",
]
