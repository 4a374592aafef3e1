"""Examples and benchmarks run from end to end, as a user would run them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

SAYS = {
    "experiments/learned_kernels.py": "landmarks and length scales learned",
    "experiments/digits_classification.py": "Log loss in bags of 1 image:",
    "experiments/faces.py": "The fastest pass over the images",
    "examples/digits.py": "the 95% intervals of BLR hold",
    "experiments/gamma.py": "1000 fresh bags",
    "experiments/gamma_fixed.py": "paired two-sided Wilcoxon",
    "experiments/kmse_loss.py": "Lowest loss over that of KME",
    "experiments/kmse_density.py": "Reconstruction error of kernel PCA, change in percent:",
    "experiments/kmse_support_measures.py": "bags of five digits | AUC",
    "experiments/aerosol.py": "average of three, equal weights",
    "experiments/entropy.py": "Median RMSE of MERR:",
    "benchmarks/set_kernels.py": "one kernel after the other",
    "experiments/malaria.py": "The true rates give a bag NLL of",
    "benchmarks/aggregate_compression.py": "largest relative difference of a district's total",
    "benchmarks/aggregate_geometry.py": "times that of points, non-centred",
    "benchmarks/point_predictions.py": "exceedance of 1",
    "benchmarks/bdr_vs_plain.py": "times the plain program's",
    "benchmarks/embedding.py": "scikit-learn",
    "experiments/swiss_roll.py": "Share of test individuals whose true rate lies",
    "experiments/elevators.py": "Share of test outcomes and of test labels",
    "experiments/shrinkage_spectrum.py": "Effective number of coordinates, of 20:",
}


def test_no_script_is_left_out():
    found = {str(p.relative_to(ROOT)) for d in ("examples", "experiments", "benchmarks") for p in (ROOT / d).glob("*.py")}
    assert found == set(SAYS) | {"benchmarks/bdr_fit.py"}  # which has no quick way


@pytest.mark.slow
@pytest.mark.parametrize("script", SAYS)
def test_script_runs_quickly_through(script, tmp_path):
    run = subprocess.run(
        [sys.executable, ROOT / script, "--quick"],
        cwd=tmp_path,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert run.returncode == 0, run.stderr
    assert SAYS[script] in run.stdout
