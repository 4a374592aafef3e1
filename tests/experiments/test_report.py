"""What the scripts of the papers share of reporting."""

import numpy as np
import pandas as pd
import pytest

from experiments import report


def test_a_table_names_its_index_and_leaves_gaps_empty():
    table = pd.DataFrame({"MSE": [0.12345, 2.0], "NLL": [np.nan, 1.0]}, index=["a", "b"])
    said = report.markdown(table.rename_axis("method"))
    assert said == (
        "| method | MSE | NLL |\n| --- | --- | --- |\n| a | 0.123 |  |\n| b | 2.000 | 1.000 |"
    )
    assert "| a | 0.12 |  |" in report.markdown(table, digits=2)


def test_a_table_takes_texts_and_cells_of_its_own():
    table = pd.DataFrame({2: ["one", "1.5"], 10: [3, 4]}, index=[5, 50])
    assert report.markdown(table, str).splitlines() == [
        "|  | 2 | 10 |",
        "| --- | --- | --- |",
        "| 5 | one | 3 |",
        "| 50 | 1.5 | 4 |",
    ]


def test_a_mean_has_its_standard_error():
    assert report.mean_and_error(pd.Series([1.0, 3.0]), 2) == "2.00 ± 1.00"
    assert report.mean_and_error(pd.Series([np.nan, np.nan])) == ""


@pytest.mark.parametrize("jobs", [1, 2])
def test_results_come_in_the_order_of_the_items(jobs):
    assert report.results_of(abs, [-3, 2, -1], jobs) == [3, 2, 1]


def test_rows_set_columns_to_the_right():
    said = report.rows(["a", "b", "c"], [[1, 2, 3]], right=slice(1, None))
    assert said == "| a | b | c |\n| --- | ---: | ---: |\n| 1 | 2 | 3 |"


def test_arguments_have_quick_and_output(tmp_path, capsys):
    options = {"quick": "little", "output": "folder of pages"}
    given = report.arguments("What it does.", **options).parse_args([])
    assert (given.quick, given.output) == (False, None)
    parser = report.arguments("What it does.", folder=str(tmp_path), **options)
    assert parser.parse_args(["--quick"]).output == tmp_path
    with pytest.raises(SystemExit):
        parser.parse_args(["--help"])
    said = capsys.readouterr().out
    assert all(text in said for text in ("What it does.", "little", "folder of pages"))


def test_a_page_goes_to_a_folder_made_for_it(tmp_path):
    report.write(tmp_path / "new" / "docs", "page.md", "text\n")
    assert (tmp_path / "new" / "docs" / "page.md").read_text() == "text\n"


def test_memory_is_in_gigabytes():
    own, of_children = report.peak_memory()
    assert 0.01 < own < 1000 and of_children >= 0


def test_standard_error_of_a_mean():
    assert report.standard_error([1.0, 2, 3, 6]) == pytest.approx(np.sqrt(14 / 3) / 2)
