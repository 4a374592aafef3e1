"""donor_cells: one severity per donor, seen in the mix of cells and in three genes."""

import pandas as pd

from bdr_stan.datasets import donor_cells
from bdr_stan.datasets.tables import GENES


def test_a_row_is_a_cell_and_a_donor_has_one_severity():
    cells = donor_cells(40, seed=3)
    assert list(cells.columns) == ["donor", *GENES, "severity"]
    by_donor = cells.groupby("donor")
    assert by_donor["severity"].nunique().max() == 1
    assert by_donor.size().between(10, 400).all() and len(by_donor) == 40
    assert (cells[list(GENES)] >= 0).all(axis=None)
    assert not cells["donor"].is_monotonic_increasing
    pd.testing.assert_frame_equal(cells, donor_cells(40, seed=3))


def test_severity_shows_in_the_cells():
    by_donor = donor_cells(200, seed=3).groupby("donor")
    severity = by_donor["severity"].first()
    assert by_donor[list(GENES)].mean().corrwith(severity).abs().max() > 0.5
