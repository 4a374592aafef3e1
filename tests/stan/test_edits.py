"""Edited programs in `examples/edits`: small, taken by Stan, right where they differ."""

import difflib
import re
import runpy
import subprocess
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from builders import plain
from scipy.integrate import trapezoid

from bdr_stan import cmdstan
from bdr_stan.posterior.stanli import constrained, load

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted((ROOT / "examples" / "edits").glob("*.stan"))
BENCHMARK = SimpleNamespace(**runpy.run_path(str(ROOT / "benchmarks" / "edits.py")))
PAGE = ROOT / "docs" / "tutorials" / "edit_stan.md"
MOST_CHANGED, MOST_COLUMNS = 15, 80
OWN_DATA = {"noise_by_column": ("urban", (0, 1)), "weights_by_group": ("group", (1, 2))}


def named(path):
    return path.stem


def edited_data(program, new=()):
    """Data of an edited program, of a few bags; `new` are indices of some, as new bags."""
    stock = plain.stock(BENCHMARK.stock_program(program.stem).stem)
    data = plain.plain_data(stock, new)
    data |= {"weight_basis": dict(stock.model.constants)["basis"][0]}
    if program.stem in OWN_DATA:
        name, values = OWN_DATA[program.stem]
        of_bags = np.resize(values, plain.N)
        data |= {name: of_bags, f"{name}_new": of_bags[list(new)].astype(int)}
    return data


def test_every_program_is_in_the_benchmark():
    assert {path.stem for path in PROGRAMS} == set(BENCHMARK.EDITS)


@pytest.mark.parametrize("program", PROGRAMS, ids=named)
def test_few_lines_are_changed(program):
    assert 0 < BENCHMARK.changed_lines(program.stem) <= MOST_CHANGED
    assert max(map(len, program.read_text().splitlines())) <= MOST_COLUMNS


@pytest.mark.parametrize("program", PROGRAMS, ids=named)
def test_the_tutorial_shows_the_changed_lines(program):
    blocks = re.findall(r"^```diff\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    stock = BENCHMARK.stock_program(program.stem).read_text().splitlines()
    lines = difflib.unified_diff(stock, program.read_text().splitlines(), n=0, lineterm="")
    changed = [line for line in lines if not line.startswith(("---", "+++", "@@"))]
    assert changed in [block.splitlines() for block in blocks]


@pytest.mark.parametrize("program", PROGRAMS, ids=named)
def test_stanc_takes_it(program):
    stanc = cmdstan.setup(progress=False) / "bin" / "stanc"
    command = [stanc, "--o=/dev/null", program]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Warning" not in said.stderr


@pytest.mark.parametrize("new", [[], [0, 3]], ids=["no new bags", "two new bags"])
@pytest.mark.parametrize("program", PROGRAMS, ids=named)
def test_stanli_takes_it(program, new):
    model = load(program, edited_data(program, new))
    value, slope = model.log_prob_grad(np.linspace(-0.5, 0.5, model.n_unconstrained))
    assert np.isfinite(value) and np.all(np.isfinite(slope))


@pytest.mark.parametrize("program", PROGRAMS, ids=named)
def test_labels_are_drawn_from_the_density(program, recwarn):
    """The same new bag again and again: its labels have the distribution that log_lik has.

    The bound on the distance of the empirical from the true distribution function has a
    probability of 2 exp(-2 * 2.5^2), 7e-6, to be exceeded. stanli compiles all of the program.
    """
    number = 1500
    data = edited_data(program, [3] * number)
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


@pytest.mark.slow
@pytest.mark.parametrize("name", ["noise_by_column", "zero_inflated"])
def test_a_fit_recovers_the_truth(name):
    edit, args = BENCHMARK.EDITS[name], SimpleNamespace(draws=500)
    data = edit.simulate(np.random.default_rng(1), 150)
    model, _ = BENCHMARK.fitted(edit, data, ROOT / "examples" / "edits" / f"{name}.stan", args)
    for parameter, value in data.truth.items():
        draws = model.result_.draws(parameter)
        assert abs(draws.mean() - value) < 4 * draws.std()
        assert draws.std() < 0.5
