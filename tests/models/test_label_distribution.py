"""Distributions of labels before a bag is seen, against SciPy and numerical integrals."""

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from bdr_stan.models import label_distribution as module
from bdr_stan.models.label_distribution import LABEL_DISTRIBUTIONS, label_distribution
from bdr_stan.predictive.grid import trapezoid_weights


def density(of):
    return lambda y: float(np.exp(of.log_density(np.array([y])))[0])


def edges(of):
    """Whether density falls steeply at the least and at the most label seen."""
    step = 0.03 * (of.most - of.least)
    at = density(of)
    return at(of.least - step) < 0.1 * at(of.least + step), at(of.most + step) < 0.1 * at(
        of.most - step
    )


def test_normal(rng):
    y = rng.normal(3, 2, 50)
    of = label_distribution("normal", y)
    at = np.linspace(-5, 10, 7)
    np.testing.assert_allclose(of.log_density(at), stats.norm.logpdf(at, y.mean(), y.std()))


def test_uniform(rng):
    of = label_distribution("uniform", rng.normal(3, 0.1, 50), (-1, 60))
    assert (of.low, of.high) == (-1, 60)  # however far from the labels seen
    values = of.log_density(np.array([-1.01, -1, 3, 60, 60.01]))
    assert values[[0, 4]].tolist() == [-np.inf, -np.inf] and np.ptp(values[1:4]) == 0


@pytest.mark.parametrize("bounds", [None, (0, None), (None, 9), (0, 9)])
def test_empirical_is_a_density_within_its_bounds(rng, bounds):
    y = np.clip(rng.gamma(2, 1.3, 200), 0.001, 8.9)
    of = label_distribution("empirical", y, bounds)
    low = -np.inf if bounds is None or bounds[0] is None else bounds[0]
    high = np.inf if bounds is None or bounds[1] is None else bounds[1]
    parts = [(max(low, -30), 1), (1, min(high, 40))]
    total = sum(quad(density(of), *part, limit=200)[0] for part in parts)
    # the share of the wide part beyond the bounds is missing
    assert 0.98 < total < 1 + 1e-3
    outside = np.array([low - 1e-6, high + 1e-6])
    outside = outside[np.isfinite(outside)]
    assert np.all(of.log_density(outside) == -np.inf)
    assert of.low >= low and of.high <= high


@pytest.mark.parametrize("seed", range(4))
def test_edges_are_found_where_labels_have_them(seed):
    rng = np.random.default_rng(seed)
    assert edges(label_distribution("empirical", rng.uniform(4, 8, 400))) == (True, True)
    assert edges(label_distribution("empirical", rng.exponential(1, 400))) == (True, False)
    assert edges(label_distribution("empirical", rng.normal(4, 8, 400))) == (False, False)


@pytest.mark.parametrize("seed", range(4))
def test_a_label_a_little_beyond_an_edge_is_nearly_as_likely_as_one_inside(seed):
    y = np.random.default_rng(seed).uniform(4, 8, 150)
    at = density(label_distribution("empirical", y))
    assert at(y.min() - 0.05) > 0.04 * at(6) and at(y.max() + 0.05) > 0.04 * at(6)


def test_no_label_is_impossible(rng):
    """However far: the log density falls with the logarithm of the distance."""
    for y in (rng.uniform(4, 8, 150), rng.normal(4, 8, 150), rng.standard_t(2, 150)):
        of = label_distribution("empirical", y)
        far = y.max() + y.std() * np.array([1, 10, 100, 900])
        assert of.high >= far[-1]
        cost = -np.log(y.std()) - of.log_density(far)
        np.testing.assert_array_less(cost, np.log(150) + 2 + 4 * np.log([3, 12, 102, 902]))
    bounded = label_distribution("empirical", np.array([0.2, 0.4, 0.9]), (0, 1))
    assert bounded.log_density(np.array([-0.01, 1.01])).tolist() == [-np.inf, -np.inf]


LABELS = {
    "uniform": lambda rng, n: rng.uniform(size=n),
    "exponential": lambda rng, n: rng.exponential(size=n),
    "normal": lambda rng, n: rng.normal(size=n),
    "heavy tails": lambda rng, n: rng.standard_t(2, n),
    "two groups": lambda rng, n: rng.choice([-3, 3], n) + 0.5 * rng.normal(size=n),
    "ratings": lambda rng, n: rng.choice(5, n, p=[0.1, 0.1, 0.2, 0.35, 0.25]) + 1.0,
}


@pytest.mark.parametrize("name", LABELS)
def test_edges_cost_nothing_where_there_are_none_and_gain_where_there_are(name, monkeypatch):
    """In the negative log density of fresh labels."""

    def nll(y, fresh):
        of = label_distribution("empirical", y)
        grid = of.on_grid(400)[0]
        mass = np.trapezoid(np.exp(of.log_density(grid)), grid)
        return np.log(mass) - of.log_density(fresh).mean()

    gains = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        y, fresh = LABELS[name](rng, 120), LABELS[name](rng, 5000)
        found = nll(y, fresh)
        with monkeypatch.context() as patch:
            patch.setattr(module, "_edges", lambda *_: (False, False))
            gains.append(nll(y, fresh) - found)
    assert min(gains) > -0.05 and np.mean(gains) > -0.003
    if name in ("uniform", "exponential", "ratings"):
        assert np.mean(gains) > 0.05


@pytest.mark.parametrize("y", [[1.0, 2.0], [1.0, 1.0, 1.0, 5.0], [0.0, 1.0] * 20, [1.0, 1 + 1e-9]])
@pytest.mark.parametrize("name", LABEL_DISTRIBUTIONS)
def test_few_different_labels(y, name):
    y = np.array(y)
    of = label_distribution(name, y, (-10, 20))
    grid = of.on_grid(100)[0]
    assert np.all(np.diff(grid) > 0) and len(grid) >= 100
    assert np.isfinite(of.log_density(y)).all()


@pytest.mark.parametrize("n", [100, 2000])
@pytest.mark.parametrize(
    "name, bounds",
    [("normal", None), ("empirical", None), ("empirical", (4, 8)), ("uniform", (-5, 50))],
)
def test_the_grid_reaches_from_end_to_end_and_is_fine_at_the_labels(rng, n, name, bounds):
    y = rng.uniform(4.1, 7.9, 100)
    of = label_distribution(name, y, bounds)
    grid = of.on_grid(n)[0]
    assert grid[0] == of.low and grid[-1] == of.high
    seen = grid[(grid >= of.least) & (grid <= of.most)]
    assert len(seen) == n
    np.testing.assert_allclose(np.diff(seen), (of.most - of.least) / (n - 1))
    values = np.exp(of.log_density(grid))
    fine = of.on_grid(20 * n)[0]
    expected = np.trapezoid(np.exp(of.log_density(fine)), fine)
    assert np.trapezoid(values, grid) == pytest.approx(expected, rel=0.02)
    if bounds is not None:
        assert (of.low, of.high) == bounds


def test_many_labels_are_as_good_as_all(rng, monkeypatch):
    y = rng.exponential(1, 3000)
    at = np.linspace(-1, 8, 200)
    everything = label_distribution("empirical", y)
    monkeypatch.setattr("bdr_stan.models.label_distribution._MAX_KERNEL_LABELS", 2000)
    fewer = label_distribution("empirical", y)
    assert (fewer.low, fewer.high) == (everything.low, everything.high)
    densities = np.exp([fewer.log_density(at), everything.log_density(at)])
    np.testing.assert_allclose(*densities, atol=0.02)


def test_beyond_an_edge_lies_one_of_n_and_1_labels_a_spacing_further():
    y = np.arange(10.0)
    density = module._with_edges(y, -np.inf, np.inf, (True, False))
    beyond = np.array([0.1, 2.0, 70.0])
    wide = stats.t.pdf(-1 - beyond, 3, y.mean(), 2 * y.std())
    np.testing.assert_allclose(density(-1 - beyond), ((1 + beyond) ** -2 + wide) / 11)


@pytest.mark.parametrize("share", [0.3, 0.06, 0.03])
def test_labels_that_many_bags_have_have_probabilities(rng, share):
    y = np.where(np.arange(200) < share * 200, 1.5, rng.exponential(size=200))
    of = label_distribution("empirical", y)
    assert list(of.repeated.labels) == ([1.5] if share > 0.05 else [])
    grid, log_density = of.on_grid(300)
    mass = np.exp(log_density) * trapezoid_weights(grid)
    assert mass.sum() == pytest.approx(1, abs=0.03)
    if share > 0.05:
        assert mass[grid == 1.5] == pytest.approx(share * 200 / 201)


def test_a_repeated_label_represents_what_lies_nearest(rng):
    """And no more than the width of the kernel of the density estimate."""
    y = np.repeat([0.0, 1.0, 1.2, 9.0], 25)
    of, width = label_distribution("empirical", y), np.sqrt(2 * np.pi) * y.std(ddof=1) * 100**-0.2
    np.testing.assert_allclose(of.repeated.resolution, [1.0, 0.6, width, width], rtol=1e-6)
    np.testing.assert_allclose(of.probabilities, 25 / 101)
