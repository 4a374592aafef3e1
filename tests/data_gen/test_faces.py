"""The stand-in for IMDb-WIKI, the loader for those who have the features, and the split."""

from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

from data_gen import faces
from data_gen.faces import bag_sizes, best_predictive, draw_people, feature_block, write_faces
from experiments.paper_data import load_faces, nested_split


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return write_faces(tmp_path_factory.mktemp("faces"), n_bags=120, n_features=512, seed=3)


def labels(people):
    starts = np.concatenate([[0], np.cumsum(people.sizes)[:-1]])
    return np.add.reduceat(people.ages, starts) / people.sizes


# ---------------------------------------------------------------- the generator


def test_sizes_are_those_of_the_paper():
    sizes = bag_sizes()
    assert len(sizes) == 19_545 and sizes.sum() == 397_949
    assert sizes.min() == 1 and sizes.max() == 796
    assert abs((sizes == 1).mean() - 0.225) < 1e-4
    assert np.median(sizes) < 15 and (sizes > 100).mean() > 0.02  # heavy-tailed


@pytest.mark.parametrize("n_bags", [100, 301, 5000])
def test_sizes_of_fewer_bags_keep_the_proportions(n_bags):
    sizes = bag_sizes(n_bags)
    assert len(sizes) == n_bags and sizes.sum() == round(n_bags * 397_949 / 19_545)
    assert sizes.min() == 1 and (sizes == 1).sum() == round(0.225 * n_bags)


def test_labels_and_the_best_predictions_are_as_uncertain_as_stated():
    people = draw_people(seed=1)
    y, best = labels(people), best_predictive(people)
    assert 11.5 < y.std() < 12.5
    error, one, many = y - best.mean, people.sizes == 1, people.sizes > 20
    # The sd of the squared error's mean is below 1% of the sd's square.
    assert np.sqrt(np.mean(error**2) / np.mean(best.sd**2)) == pytest.approx(1, abs=0.02)
    single = np.sqrt(np.mean(error[one] ** 2)) / best.sd[one][0]
    assert single == pytest.approx(1, abs=0.03)
    assert best.sd[one].min() > 1.2 * best.sd[many].max()
    assert 8.5 < np.sqrt(np.mean(error**2)) < 9.5
    lower, upper = best.interval(0.95)
    assert np.mean((lower < y) & (y < upper)) == pytest.approx(0.95, abs=0.01)
    np.testing.assert_array_equal(best_predictive(people, np.array([7, 2])).mean, best.mean[[7, 2]])


def test_features_are_a_relu_layer_with_constant_columns(files):
    features = np.load(files["features"], mmap_mode="r")
    assert features.dtype == np.float32 and features.shape == (2443, 512)
    assert features.min() == 0
    constant = np.ptp(features, axis=0) == 0
    assert constant.sum() == 2  # 13 of 4096
    assert 0.3 < (features[:, ~constant] > 0).mean() < 0.7


def test_thirteen_features_of_the_full_size_are_constant():
    latent = draw_people(200, seed=1).latent
    block = feature_block(0, latent, seed=1)
    assert block.shape == (512, 4096) and (np.ptp(block, axis=0) == 0).sum() == 13


def test_features_show_the_apparent_age(files):
    people = draw_people(120, seed=3)
    features = np.array(np.load(files["features"]), float)
    design = np.column_stack([features, np.ones(len(features))])
    half = len(design) // 2
    fit = np.linalg.lstsq(design[:half], people.apparent[:half], rcond=None)[0]
    left = people.apparent[half:] - design[half:] @ fit
    assert left.std() < 0.3 * people.apparent.std()
    # and little of the age beyond it: the person's offset hides it
    assert np.corrcoef(people.apparent, people.ages)[0, 1] < 0.75


def test_low_intrinsic_dimension(files):
    features = np.load(files["features"])[:, :200].astype(float)
    values = np.linalg.svd(features - features.mean(axis=0), compute_uv=False) ** 2
    assert values[:14].sum() > 0.6 * values.sum()


def test_a_block_of_images_depends_on_no_other_block(files):
    written = np.load(files["features"])
    latent = draw_people(120, seed=3).latent
    for block in (4, 1, 0):  # the last is short
        made = feature_block(block, latent, 512, seed=3)
        np.testing.assert_array_equal(made, written[512 * block : 512 * (block + 1)])
    assert not np.array_equal(feature_block(0, latent, 512, seed=4), written[:512])


def test_seed_decides(files, tmp_path):
    again = write_faces(tmp_path, n_bags=120, n_features=512, seed=3)
    for name in files:
        assert again[name].read_bytes() == files[name].read_bytes()
    other = write_faces(tmp_path, n_bags=120, n_features=512, seed=4)
    for name in files:
        assert other[name].read_bytes() != files[name].read_bytes()


def test_a_full_disk_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(faces.shutil, "disk_usage", lambda folder: SimpleNamespace(free=3e9))
    with pytest.raises(OSError, match=r"the files need 6\.5 GB, but .* has 3 GB free: choose"):
        write_faces(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_is_interrupted_leaves_nothing_and_spares_what_was_there(tmp_path):
    def interrupt(done, total):
        raise KeyboardInterrupt

    (tmp_path / "features.npy").write_text("earlier")
    with pytest.raises(KeyboardInterrupt):
        write_faces(tmp_path, n_bags=100, n_features=8, progress=interrupt)
    assert [p.name for p in tmp_path.iterdir()] == ["features.npy"]
    assert (tmp_path / "features.npy").read_text() == "earlier"


def test_progress_counts_images(tmp_path):
    seen = []
    write_faces(
        tmp_path,
        n_bags=100,
        n_features=2,
        progress=lambda *progress_made: seen.append(progress_made),
    )
    assert seen == [(512, 2036), (1024, 2036), (1536, 2036), (2036, 2036)]


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"n_bags": 99}, "n_bags must be a whole number, >= 100, found 99"),
        ({"n_bags": 100, "n_features": 1}, "n_features must be a whole number, >= 2, found 1"),
    ],
)
def test_generator_rejects(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        write_faces(tmp_path, **arguments)
    assert list(tmp_path.iterdir()) == []


def test_command_line(tmp_path):
    arguments = ["--bags", "100", "--features", "16", "-o", str(tmp_path)]
    run = CliRunner().invoke(faces.main, arguments)
    assert run.exit_code == 0, run.output
    assert "100 bags, 2036 images, 16 features" in run.output
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ages.npy", "bags.npy", "features.npy"]
    run = CliRunner().invoke(faces.main, arguments)
    assert run.exit_code == 1 and "features.npy exists: pass --force to replace it" in run.output
    run = CliRunner().invoke(faces.main, [*arguments, "--force", "--seed", "2"])
    assert run.exit_code == 0, run.output
    run = CliRunner().invoke(faces.main, ["-o", str(tmp_path / "no")])
    assert run.exit_code == 1 and "create it first" in run.output


# ---------------------------------------------------------------- the loader


def test_loader_maps_the_file_and_averages_ages(files):
    bags, y = load_faces(files["features"], files["bags"], files["ages"])
    assert len(bags) == len(y) == 120 and bags.is_memory_map and bags.n_features == 512
    people = draw_people(120, seed=3)
    np.testing.assert_array_equal(bags.sizes, people.sizes)
    np.testing.assert_allclose(y, labels(people), rtol=1e-14)
    np.testing.assert_array_equal(bags.ids, np.arange(120))


def write(folder, n=6, **changed):
    arrays = {
        "features": np.arange(2.0 * n, dtype=np.float32).reshape(n, 2),
        "bag": np.repeat([4, 1, 9], n // 3),
        "age": np.arange(20.0, 20 + n),
    } | changed
    for name, values in arrays.items():
        np.save(folder / f"{name}.npy", values)
    return [folder / f"{name}.npy" for name in arrays]


def test_bags_come_in_the_order_of_the_file(tmp_path):
    bags, y = load_faces(*write(tmp_path))
    assert bags.ids.tolist() == [4, 1, 9] and y.tolist() == [20.5, 22.5, 24.5]


def test_bags_and_ages_from_csv_or_arrays(tmp_path):
    features, _, _ = write(tmp_path)
    (tmp_path / "bag.csv").write_text("person\nann\nann\nbo\nbo\nbo\ncy\n")
    (tmp_path / "age.csv").write_text("age\n1\n2\n3\n4\n5\n6\n")
    bags, y = load_faces(str(features), tmp_path / "bag.csv", tmp_path / "age.csv")
    assert bags.ids.tolist() == ["ann", "bo", "cy"] and y.tolist() == [1.5, 4, 6]
    bags, y = load_faces(features, ["a", "a", "b", "b", "b", "b"], [1, 2, 3, 4, 5, 6])
    assert bags.sizes.tolist() == [2, 4] and y.tolist() == [1.5, 4.5]


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"bag": np.arange(5)}, r"bag\.npy has shape \(5,\), but .*features\.npy has 6 images"),
        ({"age": np.ones(7)}, r"age\.npy has shape \(7,\), but .*features\.npy has 6 images"),
        ({"bag": np.array([0, 0, 1, 0, 1, 2])}, "do not lie together .* sort the file by bag"),
        ({"bag": np.array([0, 0, 1, np.nan, 1, 2])}, "point 3 has no bag"),
        ({"age": np.array([1, np.nan, 3, np.inf, 5, 6])}, r"age of image 1 is nan \(2 in total"),
        ({"features": np.ones(6)}, r"has shape \(6,\), expected \(N_images, p\)"),
    ],
)
def test_loader_rejects(tmp_path, changed, message):
    with pytest.raises(ValueError, match=message):
        load_faces(*write(tmp_path, **changed))


def test_loader_rejects_other_files(tmp_path):
    features, bag, age = write(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"there is no file .*nowhere\.npy"):
        load_faces(tmp_path / "nowhere.npy", bag, age)
    with pytest.raises(ValueError, match=r"features\.h5 must be a \.npy file"):
        load_faces(tmp_path / "features.h5", bag, age)
    (tmp_path / "both.csv").write_text("bag,age\n1,2\n")
    with pytest.raises(ValueError, match="has the columns bag, age, expected one: the bag"):
        load_faces(features, tmp_path / "both.csv", age)
    (tmp_path / "bag.txt").write_text("1")
    with pytest.raises(ValueError, match=r"bag\.txt must be a \.npy or a \.csv file"):
        load_faces(features, tmp_path / "bag.txt", age)
    with pytest.raises(TypeError, match="the ages are <U1, not numbers"):
        load_faces(features, bag, list("abcdef"))


# ---------------------------------------------------------------- the split


def test_split_has_the_shares_of_the_paper():
    parts = nested_split(19_545, seed=0)
    assert {name: len(i) for name, i in parts.items()} == {
        "train": 9771,
        "early_stop": 2933,
        "validation": 2932,
        "test": 3909,
    }
    np.testing.assert_array_equal(np.sort(np.concatenate(list(parts.values()))), np.arange(19_545))
    for i in parts.values():
        assert (np.diff(i) > 0).all()


def test_split_is_decided_by_the_seed():
    first, again, other = (nested_split(50, seed=seed) for seed in (1, 1, 2))
    for name in first:
        np.testing.assert_array_equal(first[name], again[name])
    assert not np.array_equal(first["test"], other["test"])
