"""Bags of points: the container, its readers, and the labels that belong to bags."""

from bdr_stan.bags.checks import LARGEST_VALUE, values_are_usable
from bdr_stan.bags.chunks import Chunk
from bdr_stan.bags.columns import TableColumns
from bdr_stan.bags.container import Bags, BagsLike, as_bags
from bdr_stan.bags.labels import (
    check_classes,
    check_label_sd,
    check_labels,
    check_one_a_bag,
    check_within,
    label_sd_of,
    values_of_bags,
)
from bdr_stan.bags.matching import label_name, match_to_ids, rows_of_ids
from bdr_stan.bags.partitions import PartitionedBags
from bdr_stan.bags.record import BagsRecord

__all__ = [
    "LARGEST_VALUE",
    "Bags",
    "BagsLike",
    "BagsRecord",
    "Chunk",
    "PartitionedBags",
    "TableColumns",
    "as_bags",
    "check_classes",
    "check_label_sd",
    "check_labels",
    "check_one_a_bag",
    "check_within",
    "label_name",
    "label_sd_of",
    "match_to_ids",
    "rows_of_ids",
    "values_are_usable",
    "values_of_bags",
]
