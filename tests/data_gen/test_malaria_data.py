"""data_gen.malaria: a country of districts whose rates are known."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import ndimage
from scipy.spatial import cKDTree

from data_gen import malaria
from data_gen.malaria import EFFECTS, FEATURES, district_sizes, load_country, write_country


@pytest.fixture(scope="module")
def country(tmp_path_factory):
    folder = tmp_path_factory.mktemp("country")
    write_country(folder, n_pixels=20_000, n_districts=200, seed=3)
    return load_country(folder)


def column(country, name):
    return country.bags.points[:, FEATURES.index(name)].astype(float)


# ---------------------------------------------------------------- districts


def test_sizes_are_those_of_the_paper():
    sizes = district_sizes()
    assert len(sizes) == 957 and sizes.sum() == 1_044_683
    assert sizes.min() == 13 and sizes.max() == 6_667
    assert np.log(sizes).std() > 0.7 and np.median(sizes) < 0.8 * sizes.mean()


@pytest.mark.parametrize("n_pixels, n_districts", [(100, 10), (5_003, 60), (300_000, 301)])
def test_sizes_of_other_countries_keep_the_proportions(n_pixels, n_districts):
    sizes, mean = district_sizes(n_pixels, n_districts), n_pixels / n_districts
    assert len(sizes) == n_districts and sizes.sum() == n_pixels and sizes.min() >= 1
    assert sizes.max() == pytest.approx(mean * 6_667 * 957 / 1_044_683, abs=1)


def test_districts_are_made_of_neighbouring_pixels(country):
    np.testing.assert_array_equal(np.sort(country.bags.sizes), np.sort(district_sizes(20_000, 200)))
    district = country.image(np.arange(200))
    astray = 0
    for i in range(200):
        pieces = ndimage.label(district == i, np.ones((3, 3)))[0]
        astray += country.bags.sizes[i] - np.bincount(pieces.ravel())[1:].max()
    assert astray <= 20  # pixels of 20,000


def test_every_pixel_has_its_place(country):
    assert len(np.unique(country.row * country.shape[1] + country.col)) == 20_000
    assert np.isfinite(country.image(country.rate)).sum() == 20_000
    x, y = column(country, "x"), column(country, "y")
    east = np.polyfit(country.col, x, 1)
    np.testing.assert_allclose(x, np.polyval(east, country.col), atol=1e-3)
    np.testing.assert_allclose(
        y, y.max() - country.pixel_km * (country.row - country.row.min()), atol=1e-3
    )
    assert east[0] == pytest.approx(country.pixel_km, rel=1e-6)
    assert 900 < np.ptp(x) < 1500 and 900 < np.ptp(y) < 1500  # km
    rate = country.image(country.rate)
    assert rate[country.row[7], country.col[7]] == country.rate[7]


def test_parts_are_a_random_partition_that_stays_on_disk(country):
    parts = [country.part(name) for name in ("train", "validation", "test")]
    assert [len(part.bags) for part in parts] == [120, 40, 40]
    np.testing.assert_array_equal(np.concatenate([part.y for part in parts]), country.y)
    np.testing.assert_array_equal(np.concatenate([part.rate for part in parts]), country.rate)
    for part in parts:
        assert part.bags.is_memory_map and len(part.rate) == part.bags.sizes.sum()
        on_map = part.image(part.y)
        np.testing.assert_array_equal(np.isfinite(on_map), np.isfinite(part.image(part.rate)))
        # Nowhere is all of the training or all of the test.
        centre = [np.mean(points[:, -2:], axis=0) for points in part.bags]
        assert (np.std(centre, axis=0) > 150).all()
    with pytest.raises(
        ValueError, match="unknown split 'tset': choose from train, validation, test"
    ):
        country.part("tset")


def test_a_seed_splits_the_districts_anew(country):
    parts = [country.part(name, seed=4) for name in ("train", "validation", "test")]
    assert [len(part.bags) for part in parts] == [120, 40, 40]
    images = np.array([part.image(part.rate) for part in parts])
    assert (np.isfinite(images).sum(axis=0) <= 1).all()
    np.testing.assert_array_equal(np.nansum(images, axis=0)[country.row, country.col], country.rate)
    for part in parts:
        expected = part.bags.sums(part.bags.weights * part.rate)
        assert (np.abs(part.y - expected) < 6 * np.sqrt(expected) + 6).all()
    np.testing.assert_array_equal(country.part("test", seed=4).y, parts[-1].y)
    assert not np.array_equal(country.part("test", seed=5).y, parts[-1].y)


# ---------------------------------------------------------------- pixels


def test_points_are_finite_float32_with_names(country):
    assert country.bags.features == list(FEATURES) and len(FEATURES) == 20
    assert country.bags.points.dtype == np.float32 and country.bags.is_memory_map
    country.bags.check_values()
    points = np.asarray(country.bags.points, float)
    correlation = np.corrcoef(points.T)
    assert np.linalg.eigvalsh(correlation)[0] > 1e-3  # no column is a sum of others
    off = np.abs(correlation[np.triu_indices(20, 1)])
    assert 0.8 < off.max() < 0.98


def test_population_has_towns_and_empty_land(country):
    population = country.bags.weights
    assert population.sum() == pytest.approx(25_000, rel=1e-3)
    assert 0.02 < (population == 0).mean() < 0.08
    assert population.max() > 50 * np.median(population)
    assert np.add.reduceat(population, country.bags.offsets[:-1]).min() > 0


def test_log_rate_is_the_sum_of_the_effects_and_a_smooth_residual(country):
    residual = np.log(country.rate)
    for name, effect in EFFECTS.items():
        residual -= effect(column(country, name))
    assert residual.mean() == pytest.approx(0, abs=1e-4)
    assert residual.std() == pytest.approx(0.4, abs=1e-4)
    image = country.image(residual)
    step = np.diff(image, axis=1)
    assert np.nanstd(step) < 0.25 * residual.std()


def test_the_river_shows_in_the_rate(country):
    distance, log_rate = column(country, "river_distance"), np.log(country.rate)
    assert log_rate[distance < 5].mean() - log_rate[distance > 40].mean() > 1.5
    assert 0.005 < (distance == 0).mean() < 0.05
    x = np.column_stack([column(country, "x"), column(country, "y")])
    nearest = cKDTree(x[distance == 0]).query(x)[0]
    np.testing.assert_allclose(distance, nearest, atol=0.01)


def test_cases_are_poisson_of_population_times_rate(country):
    expected = np.add.reduceat(country.bags.weights * country.rate, country.bags.offsets[:-1])
    z = (country.y - expected) / np.sqrt(expected)
    assert country.y.dtype.kind == "i" and country.y.min() >= 0
    assert abs(z.mean()) < 4 / 200**0.5
    assert np.mean(z**2) == pytest.approx(1, abs=4 * (2 / 200) ** 0.5)


def test_fields_are_matern():
    land = malaria._Land(np.random.default_rng(1), 20_000)
    length, lag = 40.0, 6
    products = []
    for _ in range(40):
        grid = land.grid(land.field(length), np.nan)
        products.append(np.nanmean(grid[:, lag:] * grid[:, :-lag]))
    r = 3**0.5 * lag * land.km / length
    se = np.std(products) / 40**0.5
    assert np.mean(products) == pytest.approx((1 + r) * np.exp(-r), abs=4 * se)
    assert se < 0.02


# ---------------------------------------------------------------- files


def test_seed_decides(tmp_path):
    def files(seed):
        paths = write_country(tmp_path, n_pixels=400, n_districts=20, seed=seed)
        return [path.read_bytes() for path in paths.values()]

    first = files(1)
    assert files(1) == first
    other = files(2)
    assert other[0] != first[0] and other[1] != first[1]


def test_what_is_interrupted_leaves_nothing_and_spares_what_was_there(tmp_path, monkeypatch):
    def interrupt(*args, **arrays):
        raise KeyboardInterrupt

    (tmp_path / "points.npy").write_text("earlier")
    monkeypatch.setattr(malaria.np, "savez", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_country(tmp_path, n_pixels=400, n_districts=20)
    assert [path.name for path in tmp_path.iterdir()] == ["points.npy"]
    assert (tmp_path / "points.npy").read_text() == "earlier"


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"n_districts": 9}, "n_districts must be a whole number, >= 10, found 9"),
        ({"n_pixels": 199, "n_districts": 20}, ">= 10 a district, found 199 for 20 districts"),
    ],
)
def test_write_country_rejects(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        write_country(tmp_path, **arguments)
    assert list(tmp_path.iterdir()) == []


def test_load_country_rejects(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file .*points\.npy: write it by data_gen"):
        load_country(tmp_path)


def test_command_line(tmp_path):
    arguments = ["--pixels", "400", "--districts", "20", "-o", str(tmp_path)]
    run = CliRunner().invoke(malaria.main, arguments)
    assert run.exit_code == 0, run.output
    assert f"20 districts, 400 pixels, {load_country(tmp_path).y.sum()} cases" in run.output
    run = CliRunner().invoke(malaria.main, arguments)
    assert run.exit_code == 1 and "points.npy exists: pass --force to replace it" in run.output
    run = CliRunner().invoke(malaria.main, [*arguments, "--force", "--pixels", "10"])
    assert run.exit_code == 1 and "n_pixels must be a whole number" in run.output
    run = CliRunner().invoke(malaria.main, ["-o", str(tmp_path / "no")])
    assert run.exit_code == 1 and "create it first" in run.output


@pytest.mark.slow
def test_full_size_takes_less_than_a_gigabyte(tmp_path):
    # Not ru_maxrss, which starts at the size of the process that forked this one.
    code = (
        "import sys; from data_gen.malaria import write_country; "
        "write_country(sys.argv[1]); "
        "status = open('/proc/self/status').read(); "
        "print(status.split('VmHWM:')[1].split()[0])"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(run.stdout) * 1024 < 1e9
    country = load_country(tmp_path)
    assert len(country.bags) == 957 and len(country.rate) == 1_044_683


# ---------------------------------------------------------------- surveys


def survey_slope(country, found):
    """Slope of the places' empirical log odds in their log rates."""
    order = {tuple(row): i for i, row in enumerate(np.asarray(country.bags.points))}
    at = [order[tuple(row)] for row in np.asarray(found.places.points)]
    odds = np.log((found.positives + 0.5) / (found.examined - found.positives + 0.5))
    return np.polyfit(np.log(country.rate[at]), odds, 1)[0], at


def test_surveys_follow_the_rate_unless_they_are_unrelated(country):
    people, rate = country.bags.weights, country.rate
    slopes, ranks = {}, {}
    for design in malaria.SURVEY_DESIGNS:
        found = malaria.surveys(country, design, n_places=400, seed=3)
        assert np.all(found.positives <= found.examined)
        assert found.examined.min() >= 50 and found.examined.max() <= 150
        slopes[design], at = survey_slope(country, found)
        ranks[design] = np.mean([people[rate < rate[i]].sum() / people.sum() for i in at])
    assert slopes["representative"] == pytest.approx(0.8, abs=0.15)
    assert abs(slopes["unrelated"]) < 0.15
    assert ranks["representative"] == pytest.approx(0.5, abs=0.06)
    assert ranks["high"] > 0.85


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"design": "random"}, "unknown design 'random': choose from representative, high"),
        ({"n_places": 0}, "n_places must be at least 1, found 0"),
    ],
)
def test_surveys_reject(country, arguments, message):
    with pytest.raises(ValueError, match=message):
        malaria.surveys(country, **arguments)
