"""Data for tutorials, tests and the experiments of the papers: nothing is downloaded."""

from bdr_stan.datasets.country import country_files
from bdr_stan.datasets.digits import digits_bags
from bdr_stan.datasets.papers import (
    Aggregates,
    aggregate_splits,
    load_elevators,
    load_faces,
    load_misr1,
    negative_binomial_sizes,
    nested_split,
)
from bdr_stan.datasets.tables import county_table, donor_cells

__all__ = [
    "Aggregates",
    "aggregate_splits",
    "country_files",
    "county_table",
    "digits_bags",
    "donor_cells",
    "load_elevators",
    "load_faces",
    "load_misr1",
    "negative_binomial_sizes",
    "nested_split",
]
