"""stan/fast/aggregate_square.stan, blr.stan of normal totals, against SciPy on the raw points."""

import numpy as np
import pytest
from builders import reference, totals
from builders.terms import no_effects
from builders.totals import density_of_weights, prior_points, refusal

from bdr_stan.cmdstan.programs import compile_program
from bdr_stan.models.bdr import blr_data
from bdr_stan.models.totals import compressed_totals

LIKELIHOODS = [name for name, link in totals.MODELS if link == "square"]
FORMS = ["packed", "factors", "points"]  # of what the program gets of the bags


@pytest.fixture(scope="session")
def model():
    return compile_program("aggregate_square", progress=False)


def problem(likelihood="negative binomial", has_effects=True, n=6, d=3):
    rng = np.random.default_rng(43)
    return totals.random_rates(rng, likelihood, "square", n, d, has_effects)[0]


def stan_data(p, form=None, *, whitened=True, use_likelihood=True):
    """Data as the model gives them, or in a form of choice: they take the smaller one."""
    data = totals.stan_data(p, whitened=whitened, use_likelihood=use_likelihood)
    if form is None:
        return data
    rows = totals.compressed(p)
    if form == "packed":
        packed, empty = rows.packed, np.empty((0, data["D"] + 1))
        return data | {
            "P": packed.shape[1], "packed": packed, "T": 0, "rows": empty, "start": [], "length": []
        }  # fmt: skip
    values = rows.rows
    if form == "points":
        rows = totals.point_rows(p)
        values = rows.rows * np.sqrt(rows.weights)[:, None]
    return data | {
        "P": 0, "packed": np.empty((0, 0)), "T": len(values), "rows": values,
        "start": rows.start + 1, "length": rows.length,
    }  # fmt: skip


@pytest.mark.parametrize("n, d, is_packed", [(6, 3, True), (6, 20, False)])
def test_data_are_what_the_program_declares(model, n, d, is_packed):
    p = problem(n=n, d=d)
    data = stan_data(p)
    assert set(data) == set(model.src_info()["inputs"])
    assert (data["A"], data["D"], data["has_effects"]) == (n, d, 1)
    assert (data["P"], data["T"] > 0) == (
        ((d + 1) * (d + 2) // 2, False) if is_packed else (0, True)
    )
    np.testing.assert_array_equal(data["y"], p.y)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("has_effects", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_log_density(model, likelihood, has_effects, form):
    p = problem(likelihood, has_effects)
    data, points = stan_data(p, form), prior_points(p, 5)
    totals.check_density(model, p, data, points)


@pytest.mark.parametrize("n, d", [(1, 1), (2, 12)])
def test_one_bag_and_more_weights_than_points(model, n, d):
    p = problem(n=n, d=d)
    data, points = stan_data(p), prior_points(p, 4)
    totals.check_density(model, p, data, points)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("has_effects", [False, True])
@pytest.mark.parametrize("form", ["packed", "factors"])
def test_gradient(model, likelihood, has_effects, form):
    p = problem(likelihood, has_effects)
    data = stan_data(p, form)
    totals.check_gradient(model, p, data, prior_points(p, 2))


@pytest.mark.parametrize("likelihood", ["negative binomial", "gamma"])
def test_errors_of_labels_add_to_the_dispersion(model, likelihood):
    totals.check_errors_of_labels(model, problem(likelihood, False))


def test_without_likelihood_the_density_is_the_prior(model):
    p = problem()
    data, points = stan_data(p, use_likelihood=False), prior_points(p, 4)
    totals.check_density(model, p, data, points, use_likelihood=False)


def test_neither_whitening_nor_compression_changes_the_density(model):
    p = problem()
    whitened, plain = stan_data(p), stan_data(p, whitened=False)
    assert np.all(whitened["information"] > 0) and not np.any(plain["information"])
    for point in prior_points(p, 3):
        ways = [whitened, plain, *(stan_data(p, form) for form in FORMS)]
        density = [density_of_weights(model, p, way, point) for way in ways]
        np.testing.assert_allclose(density, density[0], rtol=1e-8)


def test_labels_do_not_tell_f_from_minus_f(model):
    p = problem("poisson", False)
    data, point = stan_data(p) | {"intercept_location": 0.0}, prior_points(p, 1)[0]
    turned = point | {"w": -point["w"], "intercept": -point["intercept"]}
    density = [density_of_weights(model, p, data, x) for x in (point, turned)]
    np.testing.assert_allclose(*density, rtol=1e-12)


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize("changes, says", totals.REFUSED_ROWS)
def test_rows_that_are_not_all_bags_in_turn(model, changes, says):
    p = problem("poisson", False)
    assert says in refusal(model, p, totals.changed(stan_data(p, "points"), changes))


@pytest.mark.parametrize("changes, says", totals.REFUSED_LABELS)
@pytest.mark.parametrize("form", FORMS)
def test_labels_that_are_no_counts(model, form, changes, says):
    p = problem("poisson", False)
    assert says in refusal(model, p, totals.changed(stan_data(p, form), changes))


def test_rows_or_packed_triangles(model):
    p = problem("poisson", False)
    rows, packed = stan_data(p, "factors"), stan_data(p, "packed")
    both = rows | {name: packed[name] for name in ("P", "packed")}
    neither = packed | {"P": 0, "packed": np.empty((0, 0))}
    for data in (both, neither):
        assert "either as rows (T > 0) or packed (P > 0), found T = " in refusal(model, p, data)
    few = packed | {"P": 9, "packed": packed["packed"][:, :9]}
    assert "P must be 10, the entries of a triangle" in refusal(model, p, few)
    missing = totals.changed(packed, {"packed": ((2, 0), np.nan)})
    assert "row 3 of packed must hold finite numbers" in refusal(model, p, missing)


# ---------------------------------------------------------------- normal totals


@pytest.mark.parametrize("n, d", [(12, 3), (3, 5), (1, 1)])
def test_density_of_normal_totals(n, d):
    p = totals.random_rates(np.random.default_rng(44), "normal", "identity", n, d)[0]
    program = compile_program("blr", progress=False)
    rows = compressed_totals(totals.compressed(p), p.y)
    data = blr_data(rows, p.priors) | reference.plain_coordinates(d) | no_effects(d + 1)
    points, stan = prior_points(p, 5), []
    for point in points:
        parameters = {"t": reference.whiten(data, point["w"], point["intercept"], point["rho"])}
        parameters |= {name: point[name] for name in ("sigma", "rho")}
        stan.append(reference.density_of_weights(program, data, parameters))
    gap = np.subtract([totals.log_density(p, **x) for x in points], stan)
    np.testing.assert_allclose(gap, gap[0], atol=1e-8, rtol=1e-12)


def test_effects_that_are_known_without_labels(model):
    totals.check_refusal_of_known_effects(model, problem())


# ---------------------------------------------------------------- slow


@pytest.mark.slow
def test_without_likelihood_the_prior_comes_back(model):
    totals.check_prior_comes_back(model, problem(n=3), 2500)
