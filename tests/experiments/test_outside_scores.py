"""Published scores beside ours: verdicts, the table, centred bags, ids of files."""

import numpy as np
import pytest

from bdr_stan import Bags
from experiments.outside_benchmarks import page, summary, table
from experiments.outside_scores import AHEAD, BEHIND, WITHIN, Comparison, centred, git_blob


def comparison(published, more_is_better=False):
    """Scores 1, 2, 3: mean 2, standard error 1 / sqrt(3) = 0.577."""
    ours = np.array([1.0, 2.0, 3.0])
    return Comparison("b", "MSE", published, "theirs", ours, "`BDR`", "draws", more_is_better)


@pytest.mark.parametrize(
    ("published", "low", "high"),
    [(2.6, AHEAD, BEHIND), (2.5, WITHIN, WITHIN), (1.5, WITHIN, WITHIN), (1.4, BEHIND, AHEAD)],
)
def test_the_verdict_is_by_one_standard_error(published, low, high):
    assert comparison(published).error == pytest.approx(1 / np.sqrt(3))
    assert comparison(published).verdict == low
    assert comparison(published, more_is_better=True).verdict == high


def test_the_page_has_every_comparison_and_counts_the_verdicts():
    several = [comparison(value) for value in (2.6, 2.5, 1.4, 1.3)]
    lines = table(several).splitlines()
    assert lines[2] == "| b | MSE | 2.6 | theirs | 2 ± 0.58 | `BDR` | 3 draws | ahead |"
    assert len(lines) == 6
    assert summary(several) == "Of 4 scores 1 ahead, 1 within one standard error and 2 behind."
    assert "the table\n\n## Settings" in page("the table", 3)


def test_centred_bags_have_mean_0_and_keep_their_differences(rng):
    bags = Bags.from_list([rng.normal(5, 1, (n, 2)) for n in (1, 4, 9)])
    moved = centred(bags)
    for before, after in zip(bags, moved):
        np.testing.assert_allclose(after, before - before.mean(axis=0), atol=1e-12)


def test_git_blob_is_the_id_of_git(tmp_path):
    """Ids of `git hash-object` for an empty file and for one line."""
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "line").write_bytes(b"hello\n")
    assert git_blob(tmp_path / "empty") == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    assert git_blob(tmp_path / "line") == "ce013625030ba8dba906f756967f9e9ca394464a"
