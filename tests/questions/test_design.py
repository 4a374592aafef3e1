"""The size of a survey, bags to sample more, and power by simulated studies."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from builders.mistakes import check_call
from scipy.stats import norm, t

from bdr_stan import BLR, Bags, Shrinkage, design_from_variances, plots
from bdr_stan.embedding.shrinkage import shrinkage_factors
from bdr_stan.questions.design import _studies_like

COSTS = {"cost_of_bag": 20, "cost_of_point": 1}
VARIANCES = {"between": 1.0, "within": 4.0, "noise": 0.25}


def survey(n=60, seed=0, least=2, most=20):
    rng = np.random.default_rng(seed)
    means, sizes = rng.normal(size=n), rng.integers(least, most + 1, n)
    points = rng.normal(np.repeat(means, sizes))[:, None]
    cost = pd.DataFrame({"cost": rng.uniform(1, 5, n)}, [f"c{k}" for k in range(n)])
    bags = Bags.from_points(points, sizes=sizes, ids=list(cost.index), metadata=cost)
    return bags, means + 0.4 * rng.normal(size=n)


@pytest.fixture(scope="module")
def pilot():
    bags, y = survey()
    return Shrinkage(6, kernel="rbf", engine="stanli").fit(bags, y, seed=1), bags


def expected_width(model, n, points, of, level):
    """From the definition: information about the weights of n bags, inverted."""
    draws, coordinates = model.draws(), model.coordinates_
    w, eta, sigma = draws["w"][0], draws["eta"][0], draws["sigma"][0]
    rho = model.result_.draws("rho")[0]
    s = shrinkage_factors([points], coordinates.lam, eta)[0]
    v = eta * np.sum(w**2 * (1 - s)) + sigma**2
    P = coordinates.prior_factor
    information = P.T @ P / rho**2 + n * np.diag(eta * s) / v
    covariance = np.linalg.inv(information)
    of_embedding = np.trace(covariance @ np.diag(eta * s))
    if of == "prediction":
        variance = v + v / n + of_embedding
    elif of == "average":
        variance = v / n + of_embedding / n
    else:
        first, second = (model.embedding_of(bags).mean for bags in of)
        moved = np.mean(first - second, axis=0) @ coordinates.basis
        variance = moved @ covariance @ moved
    degrees = n - 1 - np.trace(covariance @ np.diag(n * eta * s / v))
    return 2 * t.ppf((1 + level) / 2, degrees) * np.sqrt(variance)


def test_widths_are_those_of_the_definition(pilot):
    model, bags = pilot
    shifted = Bags(bags.points + 0.5, bags.offsets, ids=bags.ids, metadata=bags.metadata)
    for of, width in (("prediction", 2.6), ("average", 0.5), ((shifted, bags), 0.6)):
        row = model.design(width=width, of=of, level=0.9, **COSTS).iloc[3]
        n, points = int(row["bags"]), row["points"]
        expected = expected_width(model, n, points, of, 0.9)
        assert row["width"] <= width
        if isinstance(of, str):
            assert row["width"] == pytest.approx(expected, rel=1e-3)
        else:  # also has the points as a sample
            assert expected < row["width"] < 1.1 * expected
        assert row["cost"] == n * (20 + points)


def test_the_first_study_is_the_cheapest():
    found = design_from_variances(3.2, **VARIANCES, coefficients=3, cost_of_bag=2, cost_of_point=1)

    def width(n, points):
        s = 1 / (1 + 4 / points)
        v = 1 - s + 0.25
        of_weights = 3 / (3 / s + n / v)
        quantile = t.ppf(0.975, n - 1 - of_weights * n / v)
        return 2 * quantile * np.sqrt(v + v / n + of_weights)

    costs = {
        (n, points): n * (2 + points)
        for n, points in product(range(20, 100), range(2, 40))
        if width(n, points) <= 3.2
    }
    best = min(costs, key=costs.get)
    assert found["cost"].iloc[0] == pytest.approx(costs[best], rel=0.01)
    assert found["cost"].is_monotonic_increasing
    first = found.iloc[0]
    assert first["width"] == pytest.approx(width(first["bags"], first["points"]), rel=1e-3)


def test_a_width_below_the_noise_is_refused_with_the_number(pilot):
    noise = 2 * norm.ppf(0.975) * 0.5
    check_call(
        lambda: design_from_variances(1.0, **VARIANCES, **COSTS), ["width=1", f"{noise:.2f}"]
    )
    sigma = pilot[0].draws()["sigma"][0]
    with pytest.raises(ValueError, match=r"width=0\.1 cannot be reached") as raised:
        pilot[0].design(width=0.1, **COSTS)
    width = float(str(raised.value).split()[-2])
    assert width == pytest.approx(2 * norm.ppf(0.975) * sigma, rel=1e-3)


def test_points_go_where_the_variance_falls_most(pilot):
    model, bags = pilot
    few = bags[:3]
    table = model.next_sample(few, budget=5)
    draws, lam = model.draws(), model.coordinates_.lam
    signal = draws["w"][0] ** 2 * draws["eta"][0]

    def uncertain(more):
        return np.sum((1 - shrinkage_factors(few.sizes + more, lam, draws["eta"][0])) @ signal)

    every = [m for m in product(range(6), repeat=3) if sum(m) == 5]
    assert uncertain(table["more"].to_numpy()) == pytest.approx(min(map(uncertain, every)))
    sd = model.predictive(few).sd
    np.testing.assert_allclose(table["variance"], sd**2 - draws["sigma"][0] ** 2)
    assert table["after"].sum() == pytest.approx(uncertain(table["more"].to_numpy()))
    assert table["equal"].tolist() == [2, 2, 1]
    assert table["after"].sum() <= table["after_equal"].sum()


def test_costs_are_found_by_id_and_by_name(pilot):
    model, bags = pilot
    by_name = model.next_sample(bags, budget=100, cost_of_point="cost")
    shuffled = bags.metadata["cost"].sample(frac=1, random_state=1)
    by_id = model.next_sample(bags, budget=100, cost_of_point=shuffled)
    pd.testing.assert_frame_equal(by_name, by_id)
    spent = by_name["more"] @ bags.metadata["cost"]
    assert 100 - bags.metadata["cost"].max() < spent <= 100
    assert by_name["equal"] @ bags.metadata["cost"] <= 100


def test_power_of_no_effect_is_the_level_and_of_a_large_one_is_1():
    bags, y = survey(100, least=10)
    model = BLR(5, method="exact").fit(bags, y, seed=1)
    shifted = Bags(bags.points + 0.5, bags.offsets, ids=bags.ids, metadata=bags.metadata)
    study = {"bags": 30, "points": 5, "level": 0.8}
    none = model.power(shifted, bags, effect=0, simulations=60, seed=1, **study)
    assert abs(none["power"] - 0.2) < 4 * np.sqrt(0.2 * 0.8 / 60)
    sure = model.power(shifted, bags, effect=1, simulations=10, seed=1, **study)
    assert sure["power"] == 1 and 0 < sure["standard_error"] < 0.1
    again = model.power(shifted, bags, effect=0, simulations=60, seed=1, **study)
    assert none == again


def test_the_sampling_error_of_a_small_pilot_counts_once():
    """The true slope is 1; averages of two points have 1.5 times the variance of the means."""
    bags, y = survey(1500, seed=2, least=2, most=2)
    model = Shrinkage(5, kernel="rbf", engine="stanli").fit(bags, y, seed=1)
    draws, shifted = model.draws(), Bags(bags.points + 0.5, bags.offsets)
    study = _studies_like(model, shifted, bags, 0.5, draws | {"sigma": np.zeros(1)})
    after, before, y = study(20_000, 2, np.random.default_rng(1))
    np.testing.assert_allclose(after.points, before.points + 0.5)
    averages = before.points.reshape(-1, 2).mean(axis=1)
    assert np.std(y) == pytest.approx(1, abs=0.13)  # without the correction sqrt(1.5)
    assert np.var(averages) < 1.6  # without it 1.75


def test_mistakes(pilot):
    model, bags = pilot
    exact = BLR(5, method="exact").fit(*survey(), seed=1)
    shifted = [bag + 1 for bag in bags]
    study = {"effect": 1, "bags": 20, "points": 5}
    other = [bag[::-1][1:] for bag in bags]
    for call, words in [
        (lambda: model.design(width=0, **COSTS), "width must be a positive"),
        (lambda: model.design(width=2, cost_of_bag=-1, cost_of_point=1), "cost_of_bag"),
        (lambda: model.design(width=2, cost_of_bag=1, cost_of_point=0), "cost_of_point"),
        (lambda: model.design(width=2, level=1, **COSTS), "level"),
        (lambda: model.design(width=2, of="mean", **COSTS), "of must be"),
        (lambda: exact.design(width=2, **COSTS), "BDR"),
        (lambda: Shrinkage().design(width=2, **COSTS), "not fitted"),
        (lambda: design_from_variances(2, **VARIANCES | {"noise": 0}, **COSTS), "noise"),
        (lambda: design_from_variances(2, **VARIANCES, coefficients=0, **COSTS), "coefficients"),
        (lambda: model.next_sample(bags, budget=0), "budget"),
        (lambda: model.next_sample(bags, budget=5, cost_of_point=-1), "cost"),
        (lambda: model.next_sample(bags, budget=5, cost_of_point="price"), "price"),
        (lambda: model.next_sample(bags, budget=5, cost_of_point=[1, 2]), "cost_of_point"),
        (lambda: exact.next_sample(bags, budget=5), "BDR"),
        (lambda: model.power(shifted, bags, **study | {"points": 0}), "points"),
        (lambda: model.power(shifted, bags, **study | {"bags": 2.5}), "bags"),
        (lambda: model.power(shifted, bags, **study | {"effect": np.nan}), "effect"),
        (lambda: model.power(shifted, bags, simulations=0, **study), "simulations"),
        (lambda: model.power(bags, bags, **study), "contrast is 0"),
        (lambda: model.power(other, bags, **study), "same points"),
    ]:
        check_call(call, words)


def test_plot_of_several_widths():
    widths = (2.3, 3.0)
    studies = [design_from_variances(w, **VARIANCES, **COSTS) for w in widths]
    ax = plots.design(*studies)
    shown = [table["cost"] <= 3 * table["cost"].min() for table in studies]
    assert [len(line.get_xdata()) for line in ax.lines[::2]] == [sum(s) for s in shown]
    best = studies[0].iloc[0]
    assert ax.lines[1].get_xydata().tolist() == [[best["points"], best["bags"]]]
