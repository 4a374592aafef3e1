"""Tables and a fit that the tests of the command line share."""

import numpy as np
import pandas as pd
import pytest
from builders.shell import FIT, points, run


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A folder with points.csv, points.parquet and fit.nc, a fit of BDR to them by NUTS."""
    folder = tmp_path_factory.mktemp("cli")
    points().to_csv(folder / "points.csv", index=False)
    points().to_parquet(folder / "points.parquet", index=False)
    # fewer draws than diagnostics ask for: the warnings are part of the test
    small = ["--chains", 2, "--warmup", 200, "--draws", 100, "--features", "income, age"]
    result = run(
        "fit", folder / "points.csv", *FIT, "--model", "bdr", *small, "-o", folder / "fit.nc"
    )
    assert result.exit_code == 0, result.output
    (folder / "said.txt").write_text(result.stdout)
    (folder / "warned.txt").write_text(result.stderr)
    return folder


@pytest.fixture(scope="session")
def pixels(tmp_path_factory):
    """A table with a row a pixel: cases, people asked and of these ill in each of 20 districts."""
    rng = np.random.default_rng(2)
    table = pd.DataFrame({"district": np.repeat(np.arange(20), 5)}).assign(
        lon=lambda t: t.district % 5 + rng.uniform(size=100),
        lat=lambda t: t.district // 5 + rng.uniform(size=100),
        people=rng.uniform(1, 9, 100),
        asked=30,
    )
    rate = np.exp(0.5 * table["lon"])
    table["cases"] = rng.poisson((rate * table.people).groupby(table.district).transform("sum"))
    table["cases"] = table.groupby("district")["cases"].transform("first")
    table["ill"] = table["district"] % 9 + 1
    path = tmp_path_factory.mktemp("totals") / "pixels.csv"
    table.to_csv(path, index=False)
    return path
