"""Table 2 on features from files, as users who have those of IMDb-WIKI run it."""

import sys

import numpy as np
import pytest

from bdr_stan import Bags, RBFNetwork
from data_gen.faces import write_faces
from experiments import faces_splits


@pytest.fixture
def files(tmp_path):
    """Features, people and ages; the ages as .csv."""
    paths = write_faces(tmp_path, n_bags=100, n_features=8, seed=3)
    ages = tmp_path / "ages.csv"
    np.savetxt(ages, np.load(paths["ages"]), header="age", comments="")
    return [str(path) for path in (paths["features"], paths["bags"], ages)]


def run(monkeypatch, *options):
    monkeypatch.setattr(sys, "argv", ["faces_splits.py", *options])
    faces_splits.main()


@pytest.mark.slow
def test_features_from_files_give_every_row_of_the_table(monkeypatch, files, tmp_path, capsys):
    features, bags, ages = files
    options = ["--features", features, "--bags", bags, "--ages", ages]
    run(monkeypatch, "--quick", *options, "--output", str(tmp_path))
    page = (tmp_path / "faces_splits.md").read_text()
    assert "The features are from files." in page and "simulated" not in page
    rows = dict.fromkeys(faces_splits.PUBLISHED)
    for line in page.splitlines():
        name, *cells = (cell.strip() for cell in f"{line} | ".strip("|").split("|"))
        if name in rows and rows[name] is None:
            rows[name] = cells
    for name, (rmse, _) in faces_splits.PUBLISHED.items():
        ours, published = rows[name][:2]
        assert 2 < float(ours.split()[0]) < 20 and float(published) == rmse
    assert "| Optimal" not in page  # of the simulator alone


def test_some_files_without_the_others_are_refused(monkeypatch, files, capsys):
    with pytest.raises(SystemExit):
        run(monkeypatch, "--features", files[0])
    assert "give --features, --bags and --ages together" in capsys.readouterr().err


def test_a_regression_on_images_predicts_the_average_of_a_bag(rng):
    """Single images are bags of one point, and predictions are linear in the mean embedding."""
    images, bag = rng.normal(size=(60, 2)), rng.normal(size=(7, 2))
    model = RBFNetwork(10).fit(Bags.from_points(images, sizes=np.ones(60, int)), images[:, 0])
    of_images = model.predict(Bags.from_points(bag, sizes=np.ones(7, int)))
    np.testing.assert_allclose(model.predict([bag]), of_images.mean(), rtol=1e-10)


def test_differences_are_paired_by_split():
    results = {
        "RBF network": [(9.0, np.nan), (10.0, np.nan)],
        "BLR": [(9.25, 3.5), (10.75, 3.75)],
    }
    assert faces_splits.score_table(results).splitlines()[2:] == [
        "| RBF network | 9.50 (0.71) | 9.51 |  |  |  |  |",
        "| BLR | 10.00 (1.06) | 9.55 | +0.500 ± 0.250 | +0.04 | 3.625 (0.177) | 3.68 |",
    ]
