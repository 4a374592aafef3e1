"""Bags of points: the container, its readers, and labels of bags."""

from bdr_stan.bags.checks import LARGEST_VALUE, values_are_usable
from bdr_stan.bags.chunks import Chunk
from bdr_stan.bags.columns import TableColumns
from bdr_stan.bags.container import Bags, BagsLike, as_bags
from bdr_stan.bags.labels import (
    check_classes,
    check_label_sd,
    check_labels,
    check_one_per_bag,
    check_within,
    label_sd_values,
    values_of_bags,
)
from bdr_stan.bags.partitions import PartitionedBags

__all__ = [
    "LARGEST_VALUE",
    "Bags",
    "BagsLike",
    "Chunk",
    "PartitionedBags",
    "TableColumns",
    "as_bags",
    "check_classes",
    "check_label_sd",
    "check_labels",
    "check_one_per_bag",
    "check_within",
    "label_sd_values",
    "values_are_usable",
    "values_of_bags",
]
