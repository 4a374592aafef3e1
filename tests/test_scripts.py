"""Examples, experiments and benchmarks run from end to end, as a user would run them."""

import os
import runpy
import subprocess
import sys
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

ROOT = Path(__file__).parents[1]

SAYS = {
    "examples/choose_a_kernel.py": "test NLL",
    "examples/classification.py": "log_loss",
    "examples/compare_models.py": "95% hold, size all",
    "examples/donors_from_cells.py": "of the severities of donors held out.",
    "examples/edit_a_stan_file.py": "Student-t noise: 50% intervals cover",
    "examples/influence.py": "Were everyone ten years older",
    "examples/map_from_files.py": "districts held out: NLL",
    "examples/rates_inside_bags.py": "correlation of log rates:",
    "examples/regression_from_data_frame.py": "of the labels of counties held out.",
    "examples/space_time.py": "held-out regions:",
    "examples/spread_within_bags.py": "Means differ by 1 sds: R2 0.",
    "experiments/aerosol.py": "average of three, equal weights",
    "experiments/attenuation.py": "Slopes are relative to the truth",
    "experiments/bandwidth_bayes.py": "Bandwidths averaged or chosen",
    "experiments/clusters.py": "design effect",
    "experiments/conformal.py": "not one interval: 0.0",
    "experiments/design.py": "Expected and realised",
    "experiments/digits_classification.py": "Log loss in bags of 1 image:",
    "experiments/donors.py": "AUC of test donors with fewer than 50 cells",
    "experiments/election.py": "intervals of the gap hold in",
    "experiments/votes.py": "means of counties",
    "experiments/ecological.py": "| generated 2 |",
    "experiments/elevators.py": "Share of test outcomes and of test labels",
    "experiments/embedding_choices.py": "The largest improvement is",
    "experiments/embedding_posterior.py": "95% intervals cover",
    "experiments/entropy.py": "Median RMSE of MERR:",
    "experiments/familiarity.py": "at the 5% level",
    "experiments/errors_of_points.py": "Effects, errors and coverage",
    "experiments/evidence.py": "gain over the grid",
    "experiments/faces.py": "The fastest pass over the images",
    "experiments/fourier_features.py": "above 0 landmarks win",
    "experiments/faces_splits.py": "Mean (sd) over 2 splits:",
    "experiments/gamma.py": "1000 fresh bags",
    "experiments/gamma_fixed.py": "paired two-sided Wilcoxon",
    "experiments/inverse.py": "A stand-in of 100 people",
    "experiments/kmse_density.py": "Reconstruction error of kernel PCA, change in percent:",
    "experiments/kmse_loss.py": "Lowest loss over that of KME",
    "experiments/kmse_support_measures.py": "bags of five digits | AUC",
    "experiments/learned_kernels.py": "landmarks and length scales learned",
    "experiments/outside_benchmarks.py": "within one standard error and",
    "experiments/joint_maps.py": "fits reported that surveys and totals disagree",
    "experiments/map_peers.py": "Pixels of held-out districts",
    "experiments/grid_country.py": "Lines, curves and a field in space",
    "experiments/generated_tables.py": "20 more, varying",
    "experiments/real_clusters.py": "design effect",
    "experiments/real_tables.py": "random forest",
    "experiments/real_totals.py": "How far the units of a group differ",
    "experiments/merr_rates.py": "Slopes of the bound are upper bounds",
    "experiments/omitted_causes.py": "With education: The contrast is",
    "experiments/malaria.py": "The true rates give a bag NLL of",
    "experiments/malaria_splits.py": "VBAgg-Sq minus each method",
    "experiments/space_time.py": "forecasts: a map per month",
    "experiments/sensitivity.py": "from linear programming: ",
    "experiments/replicate_weights.py": "labels in 95% intervals",
    "experiments/shrinkage_spectrum.py": "Effective number of coordinates, of 20:",
    "experiments/survival.py": "share of censored times:",
    "experiments/swiss_roll.py": "Share of test individuals whose true rate lies",
    "experiments/swiss_roll_normal.py": "MSE of the individuals' means by the number",
    "experiments/swiss_roll_settings.py": "gradient from the evidence, early stopping",
    "benchmarks/aggregate_compression.py": "largest relative difference of a district's total",
    "benchmarks/aggregate_geometry.py": "times that of points, non-centred",
    "benchmarks/bdr_by_hand.py": "times the effective draws of Stan",
    "benchmarks/bdr_scale.py": "leapfrog steps a draw",
    "benchmarks/contrast.py": "| linear | weight 2 above 0 | 20 |",
    "benchmarks/calibration.py": "mean of thinning_error_",
    "benchmarks/dask_scale.py": "relative differences: landmarks 0e+00",
    "benchmarks/embedding.py": "scikit-learn",
    "benchmarks/families.py": "negative binomial regression: NLL",
    "benchmarks/edits.py": "| edited | urban |",
    "benchmarks/sums.py": "bags per minute",
    "benchmarks/engines.py": "times CmdStan's processor time",
    "benchmarks/implausible_values.py": "| none |",
    "benchmarks/map_page.py": "5 layers, 50 districts: written in",
    "benchmarks/programs.py": "| 30 | 5 | non-centred |",
    "benchmarks/overdispersion.py": "strong scatter: 6 of 6 fits",
    "benchmarks/point_predictions.py": "exceedance of 1",
    "benchmarks/rasters.py": "from shapely's zonal sums",
    "benchmarks/same_results.py": "largest of all: 0.0e+00, the same results",
    "benchmarks/stacking.py": "Behind the best member:",
    "benchmarks/warmup.py": "R-hat  diverged",
    "benchmarks/whitening.py": "| BLR | 40 | diagonal metric |",
    "benchmarks/set_kernels.py": "one kernel after the other",
}
ELSEWHERE = {
    "examples/digits.py",  # the demonstration, in test_demo.py
    "benchmarks/bdr_fit.py",  # which has no quick way
    "benchmarks/mutants.py",  # which runs the tests
}
# Their processes begin with the script, so it must be the main program.
STARTS_PROCESSES = {
    "benchmarks/bdr_by_hand.py",
    "benchmarks/dask_scale.py",
    "benchmarks/embedding.py",
    "benchmarks/point_predictions.py",
    "benchmarks/rasters.py",
}
# That experiments share.
MODULES = {
    "__init__.py",
    "kernels.py",
    "known_effects.py",
    "learned_landmarks.py",
    "methods.py",
    "outside_scores.py",
    "paper_data.py",
    "report.py",
    "uci_tables.py",
}
FOLDERS = ("examples", "experiments", "benchmarks")


def test_no_script_is_left_out():
    files = (path for folder in FOLDERS for path in (ROOT / folder).glob("*.py"))
    found = {str(path.relative_to(ROOT)) for path in files if path.name not in MODULES}
    assert found == set(SAYS) | ELSEWHERE


def test_examples_are_short_and_use_the_public_face():
    for path in (ROOT / "examples").glob("*.py"):
        text = path.read_text()
        assert len(text.splitlines()) <= 40, path.name
        assert "._" not in text and "import _" not in text, path.name


@pytest.mark.slow
@pytest.mark.parametrize("script", sorted(set(SAYS) - STARTS_PROCESSES))
def test_script_runs_quickly_through(script, tmp_path, monkeypatch, capfd):
    """In this process, which has imported the package already."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend((ROOT / script).parent)
    monkeypatch.setattr(sys, "argv", [script, "--quick"])
    code = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            runpy.run_path(str(ROOT / script), run_name="__main__")
        except SystemExit as end:  # of click
            code = end.code
    plt.close("all")
    assert code == 0
    assert SAYS[script] in capfd.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("script", sorted(STARTS_PROCESSES))
def test_script_that_starts_processes_runs_quickly_through(script, tmp_path):
    run = subprocess.run(
        [sys.executable, ROOT / script, "--quick"],
        cwd=tmp_path,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=1800,  # the tests run side by side, and one script compiles a program of its own
    )
    assert run.returncode == 0, run.stderr
    assert SAYS[script] in run.stdout
