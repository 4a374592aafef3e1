"""Sets for the entropy problem, the stand-in for the aerosol data and the reader of the real."""

import numpy as np
import pandas as pd
import pytest
from scipy.io import savemat
from scipy.stats import multivariate_normal

from data_gen.aerosol import FEATURES, aerosol_bags
from data_gen.entropy import entropy_sets
from experiments.paper_data import load_misr1


def test_label_is_the_entropy_of_the_first_coordinate():
    sets = entropy_sets(3, n_bags=20, n_points=20_000)
    for i, points in enumerate(sets.bags):
        variance = points[:, 0].var()
        # the entropy of a normal distribution is the mean of minus its log density
        nats = -multivariate_normal(0, variance).logpdf(points[:, 0]).mean()
        assert nats == pytest.approx(sets.y[i], abs=0.03), f"set {i}"


def test_sets_are_one_distribution_turned():
    sets = entropy_sets(4, n_bags=6, n_points=20_000)
    back = [
        points @ np.array([[np.cos(b), -np.sin(b)], [np.sin(b), np.cos(b)]])
        for points, b in zip(sets.bags, sets.angle, strict=True)
    ]
    covariances = [np.cov(points.T) for points in back]
    np.testing.assert_allclose(covariances, [np.mean(covariances, axis=0)] * 6, atol=0.03)
    assert sets.angle.min() > 0 and sets.angle.max() < np.pi
    assert np.ptp(entropy_sets(4, n_bags=200, n_points=1).y) > 0.3


def test_sizes_and_seeds():
    sets = entropy_sets(0)
    assert len(sets.bags) == 100 and set(sets.bags.sizes) == {500}
    bags, y = aerosol_bags(0, n_bags=7, n_points=5)
    assert len(bags) == len(y) == 7 and bags.points.shape == (35, 16)
    for draw in (
        lambda seed: entropy_sets(seed, n_bags=3)[:2],
        lambda seed: aerosol_bags(seed, n_bags=3),
    ):
        (a, y), (b, z), (c, _) = draw(1), draw(1), draw(2)
        np.testing.assert_array_equal(a.points, b.points)
        np.testing.assert_array_equal(y, z)
        assert not np.array_equal(a.points, c.points)


def test_aerosol_brightens_dark_ground_and_clouds_are_few():
    bags, y = aerosol_bags(5, n_bags=400, n_points=60)
    assert bags.features == FEATURES and bags.points.shape[1] == 16
    reflectance = bags.points[:, :12]
    assert reflectance.min() > 0 and reflectance.max() < 2
    assert np.all(np.abs(bags.points[:, 12:]) < 1.02)
    assert y.min() > -0.03 and 0.1 < np.median(y) < 0.3
    blue = bags.points[:, FEATURES.index("blue_nadir")]
    darkest = np.array(
        [np.quantile(blue[a:b], 0.1) for a, b in zip(bags.offsets, bags.offsets[1:])]
    )
    assert np.corrcoef(darkest, y)[0, 1] > 0.3
    assert 0.02 < np.mean(blue > 0.2) < 0.1  # under cloud


@pytest.mark.parametrize("draw", [entropy_sets, aerosol_bags])
def test_generators_reject(draw):
    with pytest.raises(ValueError, match="n_bags must be a whole number, >= 2, found 1"):
        draw(0, n_bags=1)
    with pytest.raises(ValueError, match="n_points must be a whole number, >= 1, found 0.5"):
        draw(0, n_points=0.5)


# ------------------------------------------------------------ the real file


@pytest.fixture
def table(rng):
    """Three bags of four pixels, their rows mixed."""
    bag = np.repeat([3.0, 1.0, 2.0], 4)
    rows = np.column_stack([bag, rng.normal(size=(12, 16)), bag / 10])
    return rng.permutation(rows)


@pytest.mark.parametrize("kind", ["MISR1", "other", "csv"])
def test_misr1_is_read_from_either_kind_of_file(tmp_path, table, kind):
    path = tmp_path / f"MISR1.{'csv' if kind == 'csv' else 'mat'}"
    if kind == "csv":
        pd.DataFrame(table).to_csv(path, index=False)
    else:
        savemat(path, {kind: table, "about": np.ones((2, 3))})
    bags, y = load_misr1(path)
    np.testing.assert_array_equal(bags.ids, [1, 2, 3])
    np.testing.assert_allclose(y, [0.1, 0.2, 0.3])
    for points, number in zip(bags, (1, 2, 3), strict=True):
        np.testing.assert_allclose(points, table[table[:, 0] == number, 1:17])


def test_misr1_rejects(tmp_path, table):
    with pytest.raises(FileNotFoundError, match="there is no file"):
        load_misr1(tmp_path / "none.mat")
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(ValueError, match=r"a.txt must be a .mat or a .csv file"):
        load_misr1(tmp_path / "a.txt")
    savemat(tmp_path / "a.mat", {"a": table, "b": table})
    with pytest.raises(ValueError, match="has no matrix MISR1 and 2 of 18 columns, expected one"):
        load_misr1(tmp_path / "a.mat")
    savemat(tmp_path / "a.mat", {"MISR1": table[:, :17]})
    with pytest.raises(ValueError, match=r"has shape \(12, 17\), expected \(N_pixels, 18\)"):
        load_misr1(tmp_path / "a.mat")
    words = pd.DataFrame(table).astype(object)
    words.iloc[0, 5] = "cloud"
    words.to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(TypeError, match="holds object, not numbers"):
        load_misr1(tmp_path / "a.csv")
    bent = table.copy()
    row = np.flatnonzero(bent[:, 0] == 2)[1]
    bent[row, 17] = 9.0
    pd.DataFrame(bent).to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(ValueError, match=r"bag 1 \(id 2.0\) has the labels 0.2 and 9"):
        load_misr1(tmp_path / "a.csv")
