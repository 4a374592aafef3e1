"""``bdr-stan design``, with a pilot and without."""

import pytest
from builders.problems import location_bags
from builders.shell import fails, run

from bdr_stan import BLR, Shrinkage

SURVEY = ["--cost-of-bag", 20, "--cost-of-point", 1]
VARIANCES = ["--between", 1, "--within", 4, "--noise", 0.25]


@pytest.fixture(scope="module")
def pilots(tmp_path_factory):
    folder = tmp_path_factory.mktemp("my survey (copy)")
    bags, y = location_bags()
    Shrinkage(5, engine="stanli").fit(bags, y, seed=1).save(folder / "pilot.nc")
    BLR(5, method="exact").fit(bags, y, seed=1).save(folder / "exact.nc")
    return folder


def test_designs(pilots):
    for arguments in ([pilots / "pilot.nc"], VARIANCES):
        result = run("design", *arguments, "--width", 3, *SURVEY)
        assert result.exit_code == 0, result.output
        head, *lines = result.output.strip().splitlines()
        assert head.split() == ["points", "cost", "width"]
        assert len(lines) >= 2
    result = run("design", pilots / "pilot.nc", "--width", 1, "--of", "average", *SURVEY)
    assert result.exit_code == 0, result.output


def test_refusals(pilots):
    pilot = pilots / "pilot.nc"
    fails("the noise of the labels makes", "design", pilot, "--width", 1e-3, *SURVEY)
    fails("--between, --within and --noise", "design", "--width", 3, *SURVEY)
    fails("--between, --within and --noise", "design", pilot, *VARIANCES, "--width", 3, *SURVEY)
    fails("BDR and Shrinkage", "design", pilots / "exact.nc", "--width", 3, *SURVEY)
    fails("width must be a positive number", "design", pilot, "--width", -1, *SURVEY)
    fails("cost_of_bag", "design", pilot, "--width", 3, "--cost-of-bag", 0, "--cost-of-point", 1)
    fails("there is no file", "design", pilots / "none.nc", "--width", 3, *SURVEY)
    fails("not in the range", "design", pilot, "--width", 3, *SURVEY, "--level", 1, code=2)
