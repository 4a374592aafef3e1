"""data_gen: the authors' gamma bags to the last digit, and the tables on disk."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from scipy import integrate, stats
from sklearn.metrics import mean_squared_error

from bdr_stan.metrics import calibration
from data_gen import digits, gamma
from data_gen.gamma import bag_sizes, gamma_bags, noisy_log_density, optimal_predictive


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


# ---------------------------------------------------------------- optimal predictions


def convolved_density(x, y, noise):
    """Density of chi-square(y) / y + normal(0, noise) at x, by adaptive quadrature."""

    def integrand(u):
        return stats.chi2.pdf(u * y, y) * y * stats.norm.pdf(x - u, scale=noise)

    return integrate.quad(integrand, 0, max(x, 0) + 12 * noise, epsabs=0, limit=500)[0]


@pytest.mark.parametrize("noise", [0.05, 0.3, 1.0])
def test_noisy_density_is_the_convolution(noise):
    y = np.array([4.0, 5.3, 8.0])
    x = np.array([-5, -1, 0.1, 1, 4, 9]) * [noise, noise, 1, 1, 1, 1]
    exact = [[convolved_density(a, b, noise) for b in y] for a in x]
    np.testing.assert_allclose(noisy_log_density(x, y, noise), np.log(exact), atol=1e-6)
    wide = np.linspace(-8 * noise, 16, 2001)
    total = np.trapezoid(np.exp(noisy_log_density(wide, y, noise)), wide, axis=0)
    np.testing.assert_allclose(total, 1, atol=1e-6)


@pytest.mark.parametrize("noise", [0.0, 0.5, 1.0])
def test_optimal_predictions_match_brute_force(noise, rng):
    y = np.array([4.2, 6.0, 7.7])
    bags = [
        rng.chisquare(b, (n, 5)) / b + rng.normal(0, noise, (n, 5)) for n, b in zip([1, 6, 40], y)
    ]
    optimal = optimal_predictive(bags, noise=noise)
    grid = np.linspace(4, 8, 201)
    for i, points in enumerate(bags):
        log_post = np.zeros(len(grid))
        for k, b in enumerate(grid):
            if noise == 0:
                log_post[k] = np.log(stats.chi2.pdf(points * b, b) * b).sum()
            else:
                u = np.linspace(0, 2.3, 801) ** 3  # a power of u at 0 that is hard to integrate
                joint = stats.norm.pdf(points.reshape(-1, 1) - u, scale=noise)
                joint *= stats.chi2.pdf(u * b, b) * b
                log_post[k] = np.log(
                    integrate.simpson(joint * 3 * u ** (2 / 3), dx=2.3 / 800)
                ).sum()
        post = np.exp(log_post - log_post.max())
        post /= integrate.simpson(post, x=grid)
        mean = integrate.simpson(post * grid, x=grid)
        sd = np.sqrt(integrate.simpson(post * (grid - mean) ** 2, x=grid))
        assert optimal.mean[i] == pytest.approx(mean, abs=2e-4)
        assert optimal.sd[i] == pytest.approx(sd, abs=2e-4)
        log_density = optimal.log_prob(np.full(3, 5.21))[i]
        assert log_density == pytest.approx(np.interp(5.21, grid, np.log(post)), abs=1e-3)
        below = integrate.cumulative_simpson(post, x=grid, initial=0)
        assert optimal.quantile(0.3)[i] == pytest.approx(np.interp(0.3, below, grid), abs=1e-3)


# The figures printed beside the paper's Figure 4: MSE and NLL of the best predictor.
@pytest.mark.parametrize(
    "s5, published", [(0, (0.139, -0.117)), (25, (0.351, 0.372)), (50, (0.603, 0.888))]
)
def test_optimal_predictions_score_as_published(s5, published):
    bags, y = gamma_bags(23, s5=s5, splits=["test"])["test"]
    optimal = optimal_predictive(bags)
    scores = mean_squared_error(y, optimal.mean), -optimal.log_prob(y).mean()
    np.testing.assert_allclose(scores, published, atol=0.001)


def test_optimal_predictions_of_noisy_bags_score_as_published():
    bags, y = gamma_bags(23, fixed_size=1000, noise=1.0, splits=["test"])["test"]
    optimal = optimal_predictive(bags, noise=1.0)
    # Table 1: mean and sd over ten draws of the data.
    assert mean_squared_error(y, optimal.mean) == pytest.approx(0.170, abs=2 * 0.009)
    assert -optimal.log_prob(y).mean() == pytest.approx(0.401, abs=2 * 0.018)


@pytest.mark.slow
def test_optimal_predictions_score_as_published_over_ten_draws():
    scores = []
    for seed in range(23, 33):
        bags, y = gamma_bags(seed, fixed_size=1000, noise=1.0, splits=["test"])["test"]
        optimal = optimal_predictive(bags, noise=1.0)
        scores.append((mean_squared_error(y, optimal.mean), -optimal.log_prob(y).mean()))
    np.testing.assert_allclose(np.mean(scores, axis=0), (0.170, 0.401), atol=0.002)
    np.testing.assert_allclose(np.std(scores, axis=0), (0.009, 0.018), atol=0.001)


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_optimal_predictions_are_calibrated(noise):
    parts = [gamma_bags(seed, s5=50, noise=noise, splits=["test"])["test"] for seed in (40, 41, 42)]
    for bags, y in parts:
        small = bags.sizes <= 20
        table = calibration(y[small], optimal_predictive(bags[small], noise=noise))
        assert (abs(table["coverage"] - table["level"]) < 4 * table["se"]).all()


def test_optimal_predictive_has_the_face_of_a_predictive():
    bags, _ = gamma_bags(23, fixed_size=3, splits=["validation"])["validation"]
    optimal = optimal_predictive(bags[:7])
    assert len(optimal) == 7 and optimal.quantile([0.1, 0.5, 0.9]).shape == (3, 7)
    lower, upper = optimal.interval(0.8)
    np.testing.assert_allclose([lower, upper], optimal.quantile([0.1, 0.9]), rtol=1e-12)
    np.testing.assert_allclose(optimal.cdf(lower), 0.1, rtol=1e-9)
    density = [np.exp(optimal.log_prob(np.full(7, label))) for label in optimal.grid]
    np.testing.assert_allclose(np.trapezoid(density, optimal.grid, axis=0), 1)
    assert (
        np.isneginf(optimal.log_prob([3.9, 8.1, 5, 5, 5, 5, 5])).tolist()
        == [True] * 2 + [False] * 5
    )


@pytest.mark.parametrize(
    "noise, message",
    [
        (0.01, "noise must be 0 or at least 0.05, found 0.01"),
        (np.nan, "noise must be 0 or at least 0.05, found nan"),
        (0, "entries must be positive without noise"),
    ],
)
def test_optimal_predictive_rejects(noise, message):
    with pytest.raises(ValueError, match=message):
        optimal_predictive([np.array([[0.5, -0.1]])], noise=noise)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda p: p.quantile(1.0), "quantiles need 0 < q < 1, found q = 1.0"),
        (lambda p: p.log_prob([5.0, 6.0]), r"y has shape \(2,\), expected \(1,\)"),
    ],
)
def test_grid_predictive_rejects(call, message):
    with pytest.raises(ValueError, match=message):
        call(optimal_predictive([np.array([[0.5, 0.1]])]))


# ---------------------------------------------------------------- tables on disk


def read(path):
    """bag, label and points of a table, each with one row a point."""
    if path.suffix == ".npz":
        stored = np.load(path)
        return stored["bag"], stored["label"], stored["points"]
    exact = {"float_precision": "round_trip"}  # which pandas 2 is not by default
    table = pd.read_csv(path, **exact) if path.suffix == ".csv" else pd.read_parquet(path)
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
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=True,
        )
        assert "--force" in done.stdout
