"""The demonstration, and what it may claim."""

import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from bdr_stan import BDR
from bdr_stan.cli import main
from bdr_stan.datasets import digits_bags
from bdr_stan.demo import conclusion

EXAMPLE = Path(__file__).parents[1] / "examples" / "digits.py"


def table(small, large, n=200, width=1.0):
    return pd.DataFrame(
        {"n_bags": n, "coverage": [small, 0.95, large, 0.95], "width": width},
        index=["1", "2-5", ">100", "all"],
    )


def test_conclusion_claims_what_the_numbers_show():
    said = conclusion({"BLR": table(0.7, 1.0, width=3.0), "BDR": table(0.94, 0.96, width=0.8)})
    assert said == (
        "BLR is overconfident for small bags, BDR is calibrated for every size: in bags of 1 "
        "image the 95% intervals of BLR cover 70% of the labels, those of BDR 94%; in bags of >100 "
        "images 100% and 96%, with widths of 3.00 and 0.80."
    )


def test_conclusion_claims_no_more_than_the_numbers_show():
    closer = conclusion({"BLR": table(0.7, 1.0), "BDR": table(0.85, 0.96)})
    assert closer.startswith(
        "BLR is overconfident for small bags, BDR is closer to nominal coverage: in bags"
    )
    for blr, bdr in [(0.94, 0.95), (0.85, 0.7), (0.99, 0.95)]:
        said = conclusion({"BLR": table(blr, 0.95), "BDR": table(bdr, 0.95)})
        assert said.startswith("These bags do not show that the intervals of BDR are better")


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Folder and text of ``bdr-stan demo --quick``."""
    folder = tmp_path_factory.mktemp("demo") / "new" / "folder"
    result = CliRunner().invoke(main, ["demo", "--quick", "--output", str(folder)])
    assert result.exit_code == 0, result.output
    return folder, result


@pytest.mark.slow
def test_demo_prints_a_table_diagnostics_and_a_conclusion(demo):
    _, result = demo
    for name in ("1", "2-5", "6-20", "21-100", ">100", "all"):
        assert f"\n{name} " in result.stdout
    for model in ("BLR", "BDR"):
        assert f"\n{model}, NUTS: 4 chains x 1000 draws, " in result.stdout
    assert result.stdout.count("divergences  0 ") == 2
    last = result.stdout.strip().splitlines()[-1]
    assert last.startswith(
        "BLR is overconfident for small bags, BDR is calibrated for every size: in bags"
    )
    assert "Warning" not in result.stderr


@pytest.mark.slow
def test_demo_writes_a_fit_that_predicts(demo):
    folder, _ = demo
    bags, _ = digits_bags(5, seed=9)
    mean, sd = BDR.load(folder / "fit.nc").predict(bags, return_std=True)
    assert np.isfinite(mean).all() and (sd > 0).all()


@pytest.mark.slow
def test_demo_draws_a_picture(demo):
    folder, _ = demo
    from matplotlib.image import imread

    picture = imread(folder / "demo.png")
    assert picture.ndim == 3 and min(picture.shape[:2]) > 300
    assert len(np.unique(picture[..., 0])) > 50
    assert sorted(path.name for path in folder.iterdir()) == ["demo.png", "fit.nc"]


def test_example_runs_the_quick_demo(monkeypatch):
    seen = []
    monkeypatch.setattr("bdr_stan.demo.run", lambda *a, **k: seen.append((a, k)))
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert seen == [(("demo_output",), {"quick": True})]
