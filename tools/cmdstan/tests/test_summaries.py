"""summaries: what CmdStanPy reads of stansummary and diagnose."""

from pathlib import Path

import arviz
import cmdstanpy
import numpy as np
import pandas as pd
import pytest
from cmdstan_from_pypi import summaries

HEAD = """# model = x_model
# method = sample (Default)
#     num_warmup = 4
#     save_warmup = {saved}
#     thin = 2
#         max_depth = 3
lp__,accept_stat__,stepsize__,treedepth__,n_leapfrog__,divergent__,energy__,beta.1.2,z.real
{rows}
# Adaptation terminated
# Step size = 0.8
#
#  Elapsed Time: 0.5 seconds (Warm-up)
#                2 seconds (Sampling)
#                2.5 seconds (Total)
"""


def write(path, values, saved="false"):
    rows = "\n".join(",".join(map(str, row)) for row in values)
    path.write_text(HEAD.format(rows=rows, saved=saved))
    return str(path)


@pytest.fixture
def values(rng):
    """Draws without a fault, shape (chain, draw, column)."""
    values = rng.normal(size=(4, 500, 9))
    values[:, :, 2:6] = [0.8, 2, 3, 0]
    return values


@pytest.fixture
def chains(tmp_path, values):
    return [write(tmp_path / f"{i}.csv", v) for i, v in enumerate(values)]


def table(files, tmp_path, *options):
    target = tmp_path / "table.csv"
    assert summaries.main(["stansummary", *options, f"--csv_filename={target}", *files]) == 0
    return pd.read_csv(target, index_col=0)


def test_the_table_is_that_of_arviz(chains, values, tmp_path):
    found = table(chains, tmp_path, "--percentiles= 5,50,95", "--sig_figs=12")
    assert list(found.index[[0, 7, 8]]) == ["lp__", "beta[1,2]", "z.real"]
    assert list(found.columns) == [
        *("Mean", "MCSE", "StdDev", "MAD", "5%", "50%", "95%"),
        *("ESS_bulk", "ESS_tail", "ESS_bulk/s", "R_hat"),
    ]
    x = values[:, :, 7]
    row = found.loc["beta[1,2]"]
    assert row["Mean"] == pytest.approx(x.mean(), rel=1e-10)
    assert row["StdDev"] == pytest.approx(x.std(ddof=1), rel=1e-10)
    assert row["95%"] == pytest.approx(np.percentile(x, 95), rel=1e-10)
    assert row["ESS_bulk"] == pytest.approx(float(arviz.ess(x)), rel=1e-10)
    assert row["ESS_bulk/s"] == pytest.approx(float(arviz.ess(x)) / 8, rel=1e-10)
    assert row["R_hat"] == pytest.approx(float(arviz.rhat(x)), rel=1e-10)
    assert found.loc["stepsize__", "Mean"] == 0.8
    assert np.isnan(found.loc["stepsize__", "R_hat"])


def test_warmup_is_left_out_and_a_torn_row_too(tmp_path, values):
    file = write(tmp_path / "w.csv", values[0], saved="1")
    drawn = summaries.read_draws([file])
    np.testing.assert_allclose(drawn.values[0], values[0, 2:])
    text = Path(file).read_text().partition("# Adaptation")[0].rstrip()
    Path(file).write_text(text[: text.rindex(",")])
    assert summaries.read_draws([file]).values.shape == (1, 497, 9)


def test_a_table_on_the_console(chains, capsys):
    assert summaries.main(["stansummary", *chains]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["name", "Mean", "MCSE"]
    assert len(lines) == 10


def test_what_cannot_be_read_is_told(tmp_path, chains, capsys):
    (tmp_path / "bad.csv").write_text("# nothing\n")
    assert summaries.main(["diagnose", str(tmp_path / "bad.csv")]) == 1
    assert "bad.csv has no draws: it is not an output of Stan" in capsys.readouterr().err
    (tmp_path / "other.csv").write_text("lp__,x\n1,2\n")
    assert summaries.main(["stansummary", chains[0], str(tmp_path / "other.csv")]) == 1
    assert "other.csv has other columns than" in capsys.readouterr().err
    assert summaries.main(["stansummary", "nowhere.csv"]) == 1


def test_draws_without_a_fault(tmp_path, values, capsys):
    values[:, :, 3] = 2
    files = [write(tmp_path / f"{i}.csv", v) for i, v in enumerate(values)]
    assert summaries.main(["diagnose", *files]) == 0
    output = capsys.readouterr().out
    assert "Treedepth satisfactory for all transitions." in output
    assert "No divergent transitions found." in output
    assert "E-BFMI satisfactory." in output
    assert "R-hat values satisfactory for all parameters." in output
    assert output.endswith("Processing complete, no problems detected.\n")


def test_every_fault_is_found(tmp_path, values, capsys):
    values[0, :5, 3] = 3
    values[1, :10, 5] = 1
    values[2, :, 6] = np.cumsum(values[2, :, 6])
    values[3, :, 7] += 3
    files = [write(tmp_path / f"{i}.csv", v) for i, v in enumerate(values)]
    assert summaries.main(["diagnose", *files]) == 0
    output = capsys.readouterr().out
    assert "5 of 2000 (0.25%) transitions hit the maximum treedepth limit of 3" in output
    assert "10 of 2000 (0.50%) transitions ended with a divergence." in output
    assert "Chain 3: E-BFMI = 0." in output
    assert "Chain 1: " not in output
    assert "R-hat greater than 1.01:\n  beta[1,2]\n" in output
    assert output.endswith("Processing complete.\n")


@pytest.mark.slow
def test_cmdstanpy_summarises_and_diagnoses(coin, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the program's profile.csv is written to the working directory
    folder = tmp_path / "it's here; (1)"
    data = {"N": 2, "y": [0, 1], "trouble": 0}
    fit = coin.sample(data=data, chains=2, seed=1, show_progress=False, output_dir=folder)
    found = fit.summary(percentiles=[10, 90])
    assert list(found.index) == ["lp__", "theta", "next"]
    assert found.loc["theta", "Mean"] == pytest.approx(0.5, abs=0.05)
    assert "90%" in found.columns
    assert "Checking sampler transitions for divergences." in fit.diagnose()
    moved = folder.rename(tmp_path / "elsewhere")
    again = table(map(str, sorted(moved.glob("*.csv"))), tmp_path, "--percentiles= 10,90")
    pd.testing.assert_frame_equal(again.loc[found.index], found, check_names=False)


def test_cmdstanpy_rebuilds_the_home(assembled, quick_compiler, monkeypatch):
    monkeypatch.setenv("CMDSTAN", str(assembled))
    cmdstanpy.rebuild_cmdstan(progress=False)
    assert (assembled / "examples" / "bernoulli" / "bernoulli").is_file()
