"""draws: what CmdStan wrote, of every method. Its CSV files are written by hand here."""

import cmdstanpy
import numpy as np
import pytest

from bdr_stan.results.draws import fit_attrs, sample_stats, stan_draws

# Stands for a compiled program: a chain's draws are in the file of its number beside it.
EXECUTABLE = """#!/bin/sh
chain=1
for argument; do
    case $argument in
        id=*) chain=${argument#id=} ;;
        file=*.csv) output=${argument#file=} ;;
    esac
done
cp "$(dirname "$0")/$chain.csv" "$output"
"""

NUTS_COLUMNS = "lp__,accept_stat__,stepsize__,treedepth__,n_leapfrog__,divergent__,energy__"
VARIABLES = "a,w.1,w.2,m.1.1,m.2.1,m.1.2,m.2.2"


def write_csv(path, columns, rows, **config):
    config = {
        "stan_version_major": 2,
        "stan_version_minor": 35,
        "stan_version_patch": 0,
        "model": "hand_model",
        **config,
    }
    lines = [f"# {key} = {value}" for key, value in config.items()]
    lines.append(columns)
    n_warmup, adaptation, timing = 0, [], []
    if config["method"] == "sample":
        n_warmup = config["num_warmup"] if config["save_warmup"] else 0
        timing = ["# ", "#  Elapsed Time: 0.1 seconds (Warm-up)", "#   0.2 seconds (Sampling)"]
        timing += ["#   0.3 seconds (Total)"]
        adaptation = ["# Adaptation terminated", "# Step size = 0.5"]
        adaptation += ["# Diagonal elements of inverse mass matrix:", "# 1, 1, 1, 1, 1, 1, 1"]
    text = [",".join(repr(float(v)) for v in row) for row in rows]
    lines += [*text[:n_warmup], *adaptation, *text[n_warmup:], *timing]
    path.write_text("\n".join(lines) + "\n")


def program(folder):
    """CmdStanPy's model of a program that writes the files of a folder as its chains."""
    executable = folder / "hand_model"
    executable.write_text(EXECUTABLE)
    executable.chmod(0o755)
    return cmdstanpy.CmdStanModel(exe_file=executable)


def nuts_fit(folder, rng, n_chains=2, n_draws=6, n_warmup=3, save_warmup=1):
    n_rows = n_draws + n_warmup * save_warmup
    tables = [rng.normal(size=(n_rows, 14)) for _ in range(n_chains)]
    for chain, table in enumerate(tables, start=1):
        table[:, 3], table[:, 4], table[:, 5] = chain, 2**chain - 1, np.arange(n_rows) % 2
        write_csv(
            folder / f"{chain}.csv",
            f"{NUTS_COLUMNS},{VARIABLES}",
            table,
            method="sample",
            algorithm="hmc",
            metric="diag_e",
            num_samples=n_draws,
            num_warmup=n_warmup,
            save_warmup=save_warmup,
            thin=1,
            max_depth=7,
        )
    fit = program(folder).sample(
        chains=n_chains,
        iter_warmup=n_warmup,
        iter_sampling=n_draws,
        save_warmup=bool(save_warmup),
        max_treedepth=7,
        output_dir=folder / "output",
        show_progress=False,
    )
    return fit, np.stack(tables)[:, n_rows - n_draws :]


@pytest.mark.parametrize("save_warmup", [0, 1])
def test_nuts_draws_have_stan_shapes_and_no_warmup(tmp_path, rng, save_warmup):
    fit, table = nuts_fit(tmp_path, rng, save_warmup=save_warmup)
    draws = stan_draws(fit)
    assert list(draws) == ["a", "w", "m"]
    np.testing.assert_array_equal(draws["a"], table[:, :, 7])
    np.testing.assert_array_equal(draws["w"], table[:, :, 8:10])
    np.testing.assert_array_equal(draws["m"][:, :, 1, 0], table[:, :, 11])  # columns run first
    assert draws["m"].shape == (2, 6, 2, 2)


def test_nuts_sample_stats_have_arviz_names_and_types(tmp_path, rng):
    fit, table = nuts_fit(tmp_path, rng)
    stats = sample_stats(fit)
    assert set(stats) == {
        "lp", "acceptance_rate", "step_size", "tree_depth", "n_steps", "diverging", "energy"
    }  # fmt: skip
    np.testing.assert_array_equal(stats["lp"], table[:, :, 0])
    assert stats["diverging"].dtype == bool
    np.testing.assert_array_equal(stats["diverging"], table[:, :, 5] == 1)
    assert stats["tree_depth"].dtype == stats["n_steps"].dtype == int
    assert fit_attrs(fit) == {"inference_method": "nuts", "max_tree_depth": 7}


def test_draws_outlive_the_csv_files(tmp_path, rng):
    fit, table = nuts_fit(tmp_path, rng)
    draws = stan_draws(fit, ["w"])
    for file in (tmp_path / "output").iterdir():
        file.unlink()
    del fit
    np.testing.assert_array_equal(draws["w"][..., 1], table[:, :, 9])
    assert draws["w"].base is None  # does not keep the whole table in memory


def mode_fit(folder, rng):
    row, columns = rng.normal(size=(1, 8)), f"lp__,{VARIABLES}"
    settings = {"algorithm": "lbfgs", "save_iterations": 0, "jacobian": 0}
    write_csv(folder / "1.csv", columns, row, method="optimize", **settings)
    return program(folder).optimize(output_dir=folder / "mode"), row[None]


def laplace_fit(folder, rng):
    mode, _ = mode_fit(folder, rng)
    table, columns = rng.normal(size=(5, 9)), f"log_p__,log_q__,{VARIABLES}"
    settings = {"mode": "mode.csv", "draws": 5, "jacobian": 1}
    write_csv(folder / "1.csv", columns, table, method="laplace", **settings)
    return program(folder).laplace_sample(mode=mode, draws=5, jacobian=False), table[None]


@pytest.mark.parametrize(
    "make, method, lp, log_q",
    [
        (mode_fit, "optimize", 0, None),
        (laplace_fit, "laplace", 0, 1),
    ],
)
def test_other_methods_are_one_chain(tmp_path, rng, make, method, lp, log_q):
    fit, table = make(tmp_path, rng)
    draws, stats = stan_draws(fit, ["m", "a"]), sample_stats(fit)
    assert list(draws) == ["m", "a"]
    assert draws["m"].shape == (1, table.shape[1], 2, 2)
    np.testing.assert_array_equal(draws["a"], table[:, :, -7])
    np.testing.assert_array_equal(stats["lp"], table[:, :, lp])
    if log_q is None:
        assert set(stats) == {"lp"}
    else:
        np.testing.assert_array_equal(stats["log_q"], table[:, :, log_q])
    assert fit_attrs(fit) == {"inference_method": method}


def test_unknown_stan_variable_and_unknown_fit(tmp_path, rng):
    fit, _ = mode_fit(tmp_path, rng)
    with pytest.raises(ValueError, match="no variable 'beta'; it has a, w, m"):
        stan_draws(fit, ["beta"])
    with pytest.raises(TypeError, match="expected a CmdStanPy fit .* found <class 'dict'>"):
        stan_draws({})
