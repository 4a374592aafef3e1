"""Edited programs in `examples/edits`: small, taken by Stan, right where they differ."""

import difflib
import re
import runpy
import subprocess
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import trapezoid

from bdr_stan import cmdstan
from bdr_stan.models.plain import OF_POINTS
from bdr_stan.posterior.stanli import constrained, load

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted((ROOT / "examples" / "edits").glob("*.stan"))
BENCHMARK = SimpleNamespace(**runpy.run_path(str(ROOT / "benchmarks" / "edits.py")))
TUTORIAL = ROOT / "docs" / "tutorials" / "edit_stan.md"  # one edit, and a table of the others
PAGE = ROOT / "examples" / "edits" / "README.md"
MOST_CHANGED, MOST_COLUMNS = 15, 80


def named(path):
    return path.stem


@cache
def data_of_few_bags(program):
    edit = BENCHMARK.EDITS[program.stem]
    bags = edit.simulate(np.random.default_rng(1), 20)
    model = edit.estimator(**edit.options, stan_file=program, random_state=1)
    return model.stan_data(bags.bags, bags.y, stan_data=edit.stan_data)


def edited_data(program, number):
    """Data of an edited program, of a few bags, and the first of them as `number` new bags."""
    data = data_of_few_bags(program)
    of_new_bags = {"y_at"} | {name for name in data if name.endswith("_new")}
    of_new_bags -= {"N_new", "P_new", *(f"{name}_new" for name in OF_POINTS)}
    again = {name: np.repeat(data[name][:1], number, axis=0) for name in of_new_bags}
    return {**data, **again, "N_new": number}


def test_every_program_is_in_the_benchmark():
    assert {path.stem for path in PROGRAMS} == set(BENCHMARK.EDITS)


@pytest.mark.parametrize("program", PROGRAMS, ids=named)
def test_few_lines_are_changed(program):
    assert 0 < BENCHMARK.changed_lines(program.stem) <= MOST_CHANGED
    assert max(map(len, program.read_text().splitlines())) <= MOST_COLUMNS


@pytest.mark.parametrize("program", PROGRAMS, ids=named)
def test_the_pages_show_the_changed_lines(program):
    text = TUTORIAL.read_text() + PAGE.read_text()
    assert f"{program.name})" in text  # a link
    blocks = re.findall(r"^```diff\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    stock = BENCHMARK.stock_program(program.stem).read_text().splitlines()
    lines = difflib.unified_diff(stock, program.read_text().splitlines(), n=0, lineterm="")
    changed = [line for line in lines if not line.startswith(("---", "+++", "@@"))]
    assert changed in [block.splitlines() for block in blocks]


@pytest.mark.parametrize("program", PROGRAMS, ids=named)
def test_stanc_takes_it(program):
    stanc = cmdstan.find() / "bin" / "stanc"
    command = [stanc, "--o=/dev/null", program]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Warning" not in said.stderr


@pytest.mark.parametrize("n_new", [0, 2])
@pytest.mark.parametrize("program", PROGRAMS, ids=named)
def test_stanli_takes_it(program, n_new):
    model = load(program, edited_data(program, n_new))
    value, slope = model.log_prob_grad(np.linspace(-0.5, 0.5, model.n_unconstrained))
    assert np.isfinite(value) and np.all(np.isfinite(slope))


@pytest.mark.parametrize("program", PROGRAMS, ids=named)
def test_labels_are_drawn_from_the_density(program, recwarn):
    """The same new bag again and again: its labels have the distribution that log_lik has.

    The bound on the distance of the empirical from the true distribution function has a
    probability of 2 exp(-2 * 2.5^2), 7e-6, to be exceeded. stanli compiles all of the program.
    """
    number = 2500
    data = edited_data(program, number)
    counts = data["y"].dtype.kind == "i"
    middle, reach = np.mean(data["y"]), 60 * np.std(data["y"])
    grid = np.arange(number) if counts else np.linspace(middle - reach, middle + reach, number)
    model = load(program, data | {"y_at": grid})
    found, _ = constrained(model, np.full((1, model.n_unconstrained), 0.2))
    density = np.exp(found["log_lik"][0, 0])
    below = np.cumsum(density) * (1 if counts else grid[1] - grid[0])
    total = density.sum() if counts else trapezoid(density, grid)
    assert total == pytest.approx(1, abs=5e-3)
    share = np.searchsorted(np.sort(found["y_new"][0, 0]), grid, side="right") / number
    distance = np.abs(share - below).max()
    assert not [w for w in recwarn if "stanli" in str(w.message)]
    assert distance < 2.5 / np.sqrt(number) + (0 if counts else density.max() * (grid[1] - grid[0]))


def test_noise_by_group_has_the_density_of_its_definition(rng):
    """Of normal totals with a noise scale per group, on the logarithms of the scales."""
    program = ROOT / "examples" / "edits" / "noise_by_group.stan"
    data = edited_data(program, 0)
    D, model = data["D"], load(program, data)
    bag = np.repeat(np.arange(data["N"]), data["length"])

    def log_density(x):
        intercept, w = x[0], x[1 : D + 1]
        sigma, rho, *noise = np.exp(x[D + 1 :])
        noise_of_bag = np.array(noise)[data["group"] - 1]
        rate = intercept + data["phi"] @ w
        total = np.bincount(bag, data["weight"] * rate)
        variance = noise_of_bag**2 * np.bincount(bag, data["weight"] ** 2)
        location, spread = data["intercept_location"], data["intercept_scale"]
        return (
            stats.norm.logpdf(data["y"], total, np.sqrt(variance)).sum()
            + stats.norm.logpdf(intercept, location, spread)
            + stats.norm.logpdf(w, 0, rho).sum()
            + stats.norm.logpdf(np.log(rho), np.log(data["rho_median"]), data["rho_log_sd"])
            + stats.halfnorm.logpdf(sigma, scale=data["sigma_scale"]) + np.log(sigma)
            + stats.norm.logpdf(np.log(noise), np.log(sigma), 1).sum()
        )  # fmt: skip

    points = 0.5 * rng.normal(size=(4, D + 6))
    points[:, D + 1] += np.log(data["sigma_scale"])
    expected = np.array([log_density(x) for x in points])
    found = np.array([model.log_prob_grad(x)[0] for x in points])
    np.testing.assert_allclose(np.diff(found), np.diff(expected), rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["noise_by_column", "zero_inflated"])
def test_a_fit_recovers_the_truth(name):
    edit, args = BENCHMARK.EDITS[name], SimpleNamespace(draws=300)
    data = edit.simulate(np.random.default_rng(1), 80)
    model, _ = BENCHMARK.fitted(edit, data, ROOT / "examples" / "edits" / f"{name}.stan", args)
    for parameter, value in data.truth.items():
        draws = model.result_.draws(parameter)
        assert np.all(np.abs(draws.mean(axis=0) - value) < 4 * draws.std(axis=0))
        assert np.all(draws.std(axis=0) < 0.5)
