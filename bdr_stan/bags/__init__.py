"""Bags of points: the container and its readers; below, checks for other packages."""

from bdr_stan.bags.checks import LARGEST_VALUE as LARGEST_VALUE
from bdr_stan.bags.checks import values_are_usable as values_are_usable
from bdr_stan.bags.chunks import Chunk as Chunk
from bdr_stan.bags.columns import TableColumns as TableColumns
from bdr_stan.bags.container import Bags, BagsLike
from bdr_stan.bags.container import as_bags as as_bags
from bdr_stan.bags.labels import check_classes as check_classes
from bdr_stan.bags.labels import check_labels as check_labels
from bdr_stan.bags.labels import check_one_per_bag as check_one_per_bag
from bdr_stan.bags.labels import check_outputs as check_outputs
from bdr_stan.bags.labels import check_within as check_within
from bdr_stan.bags.labels import label_sd_values as label_sd_values
from bdr_stan.bags.labels import output_names as output_names
from bdr_stan.bags.labels import values_of_bags as values_of_bags
from bdr_stan.bags.partitions import PartitionedBags
from bdr_stan.bags.samples import Samples

__all__ = ["Bags", "BagsLike", "PartitionedBags", "Samples"]
