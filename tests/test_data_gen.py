"""data_gen: the authors' gamma bags to the last digit, and the tables on disk."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from data_gen import digits, gamma
from data_gen.gamma import bag_sizes, gamma_bags


def mean_embedding(bags, landmarks, bandwidth):
    mu = []
    for points in bags:
        squared = ((points[:, None] - landmarks) ** 2).sum(axis=-1)
        mu.append(np.exp(-squared / (2 * bandwidth**2)).mean(axis=0))
    return np.stack(mu)


def test_gamma_bags_give_the_stored_predictions_of_blr(reference_data):
    stored = np.load(reference_data / "oracle_blr_s5_25.npz")
    made = gamma_bags(23, s5=25, splits=["train", "test"])
    embedded = {
        split: mean_embedding(bags, stored["landmarks"], stored["bw"])
        for split, (bags, _) in made.items()
    }
    # Weights: normal(0, weight_var), no intercept, labels as they are.
    train, test, y = embedded["train"], embedded["test"], made["train"][1]
    precision = train.T @ train / stored["obs_var"] + np.eye(train.shape[1]) / stored["weight_var"]
    mean = test @ np.linalg.solve(precision, train.T @ y / stored["obs_var"])
    var = np.einsum("nd,dn->n", test, np.linalg.solve(precision, test.T)) + stored["obs_var"]
    np.testing.assert_allclose(mean, stored["test_mean"], atol=1e-6)
    np.testing.assert_allclose(var, stored["test_var"], atol=1e-8)


@pytest.mark.parametrize("split", ["test", "validation"])
def test_gamma_bags_give_the_stored_predictions_of_shrinkage(reference_data, split):
    stored = np.load(reference_data / "oracle_shrinkageC_s5_50.npz")
    bags, _ = gamma_bags(23, s5=50, splits=[split])[split]
    u, bw, measure, alpha = (stored[k] for k in ["landmarks", "bw", "measure_var", "alpha"])
    minus = ((u[:, None] - u) ** 2).sum(axis=-1)
    plus = ((u[:, None] + u) ** 2).sum(axis=-1)
    R = (2 * np.pi / (2 / bw**2 + 1 / measure)) ** (u.shape[1] / 2)
    R = R * np.exp(-minus / (4 * bw**2) - plus / (8 * (bw**2 / 2 + measure))) * stored["R_scale"]
    deviation = mean_embedding(bags, u, bw) - stored["m0"]
    mean, var = np.empty(len(bags)), np.empty(len(bags))
    for size in np.unique(bags.sizes):
        of_size = bags.sizes == size
        gain = np.linalg.solve(R + stored["Sigma"] / size, R)
        mean[of_size] = deviation[of_size] @ gain @ alpha
        var[of_size] = alpha @ (R - R @ gain) @ alpha
    mean += stored["bias"] + stored["m0"] @ alpha
    name = {"test": "test", "validation": "val"}[split]
    np.testing.assert_allclose(mean, stored[f"{name}_mean"], atol=1e-6)
    np.testing.assert_allclose(var + stored["obs_var"], stored[f"{name}_var"], atol=1e-8)


def test_gamma_bags_are_pinned():
    made = gamma_bags(23, s5=25)
    assert {split: len(bags) for split, (bags, _) in made.items()} == {
        "train": 1000, "early_stop": 500, "validation": 500, "test": 1000
    }  # fmt: skip
    bags, y = made["train"]
    np.testing.assert_allclose(y[:2], [4.14924102, 4.04275747], rtol=1e-8)
    assert bags.sizes[:4].tolist() == [100, 1000, 20, 100]
    first = [0.89404502, 1.31854995, 0.2418894, 0.70257605, 0.60276467]
    np.testing.assert_allclose(bags.points[0], first, rtol=1e-7)
    assert bags.points.sum() == pytest.approx(1406462.86195)
    bags, y = made["test"]
    np.testing.assert_allclose(y[:2], [6.46668326, 7.28871316], rtol=1e-8)
    assert bags.points.sum() == pytest.approx(1406267.36779)


def test_gamma_splits_do_not_depend_on_each_other():
    alone, y = gamma_bags(24, s5=5, splits=["validation"])["validation"]
    among = gamma_bags(24, s5=5, splits=["train", "validation"])["validation"]
    np.testing.assert_array_equal(alone.points, among[0].points)
    np.testing.assert_array_equal(y, among[1])


def test_gamma_moments_and_noise():
    bags, y = gamma_bags(23, fixed_size=1000, noise=1.0, splits=["early_stop"])["early_stop"]
    assert set(bags.sizes) == {1000} and y.min() >= 4 and y.max() <= 8
    mean = np.array([points.mean() for points in bags])
    var = np.array([points.var() for points in bags])
    # Entries have mean 1 and variance 2 / y + noise^2; averaged over 500 x 5000 of them.
    assert mean.mean() == pytest.approx(1, abs=0.003)
    assert (var - 2 / y - 1).mean() == pytest.approx(0, abs=0.005)
    assert np.corrcoef(var, 1 / y)[0, 1] > 0.7


def test_gamma_noise_moves_points_only():
    plain, y = gamma_bags(25, s5=50, splits=["validation"])["validation"]
    noisy, z = gamma_bags(25, s5=50, noise=0.5, splits=["validation"])["validation"]
    np.testing.assert_array_equal(y, z)
    assert (noisy.points - plain.points).std() == pytest.approx(0.5, abs=0.005)


@pytest.mark.parametrize("s5, counts", [(0, [0, 250, 250, 500]), (50, [500, 250, 250, 0])])
def test_gamma_shares(s5, counts):
    sizes = bag_sizes(1000, s5)
    assert [(sizes == size).sum() for size in (5, 20, 100, 1000)] == counts


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"s5": 60}, "s5 must be a percentage from 0 to 50, found 60"),
        ({"fixed_size": 0}, "fixed_size must be a whole number of points, >= 1, found 0"),
        ({"noise": -1}, "noise is a standard deviation and must be >= 0, found -1"),
        ({"splits": ["tset"]}, "unknown split 'tset': choose from train, early_stop"),
    ],
)
def test_gamma_rejects(arguments, message):
    with pytest.raises(ValueError, match=message):
        gamma_bags(23, **arguments)


# ---------------------------------------------------------------- tables on disk


def read(path):
    """bag, label and points of a table, each with one row a point."""
    if path.suffix == ".npz":
        stored = np.load(path)
        return stored["bag"], stored["label"], stored["points"]
    table = pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path)
    assert list(table.columns[:3]) == ["bag", "label", "x1"]
    return table["bag"], table["label"], table.drop(columns=["bag", "label"]).to_numpy()


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".npz"])
def test_gamma_table_holds_the_bags(tmp_path, suffix):
    path = tmp_path / f"gamma{suffix}"
    arguments = ["--seed", "24", "--fixed-size", "3", "--split", "validation", "-o", str(path)]
    done = CliRunner().invoke(gamma.main, arguments, catch_exceptions=False)
    assert done.output == f"{path}: 500 bags, 1500 points\n" and done.exit_code == 0
    bags, y = gamma_bags(24, fixed_size=3, splits=["validation"])["validation"]
    bag, label, points = read(path)
    np.testing.assert_array_equal(bag, np.repeat(np.arange(500), 3))
    np.testing.assert_allclose(label, np.repeat(y, 3), rtol=1e-15)
    np.testing.assert_allclose(points, bags.points, rtol=1e-15)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_commands_do_not_overwrite(tmp_path):
    path = tmp_path / "bags.csv"
    path.write_text("precious")
    arguments = ["--bags", "3", "-o", str(path)]
    done = CliRunner().invoke(digits.main, arguments)
    assert done.exit_code == 1 and "exists: pass --force to replace it" in done.output
    assert path.read_text() == "precious"
    assert CliRunner().invoke(digits.main, [*arguments, "--force"]).exit_code == 0
    assert read(path)[2].shape[1] == 64


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["-o", "bags.txt"], "must end in one of .parquet, .csv, .npz"),
        (["-o", "absent/bags.csv"], "the folder absent does not exist"),
        (["-o", "bags.csv", "--s5", "70"], "s5 must be a percentage from 0 to 50"),
    ],
)
def test_gamma_command_rejects(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(gamma.main, arguments)
    assert done.exit_code == 1 and message in done.output
    assert not list(tmp_path.iterdir())


def test_modules_run_as_commands():
    for name in ["gamma", "digits"]:
        done = subprocess.run(
            [sys.executable, "-m", f"data_gen.{name}", "--help"],
            cwd=Path(__file__).parents[1],
            capture_output=True,
            text=True,
            check=True,
        )
        assert "--force" in done.stdout
