"""Data for tutorials: simulated, shipped, or from scikit-learn; nothing is downloaded."""

from bdr_stan.datasets.country import country_files, sids_counties
from bdr_stan.datasets.tables import county_table, digits_bags, donor_cells, precinct_table

__all__ = [
    "country_files",
    "county_table",
    "digits_bags",
    "donor_cells",
    "precinct_table",
    "sids_counties",
]
