"""``bdr-stan basis``, ``summarise`` and ``fit`` of summaries, with files alone."""

import pytest
from builders.shell import fails, run
from builders.sites import site

from bdr_stan import Summary, load


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    """A folder "my sites (copy)" with public.csv, two sites' tables, basis.nc and their sums."""
    folder = tmp_path_factory.mktemp("my sites (copy)")
    site(40, 9).to_csv(folder / "public.csv", index=False)
    columns = ["--features", "age,income,sex", "--weight", "w", "--groups", "region"]
    more = ["--bag", "ward", "--label", "stay", "--landmarks", 8, "--seed", 1]
    result = run("basis", folder / "public.csv", *columns, *more, "-o", folder / "basis.nc")
    assert result.exit_code == 0, result.output
    for k in range(2):
        site(30, k).to_csv(folder / f"{k}.csv", index=False)
        here = folder / "basis.nc", folder / f"{k}.csv"
        result = run("summarise", *here, "--label", "stay", "-o", folder / f"{k}.sums")
        assert result.exit_code == 0, result.output
    return folder


def test_sites_share_files_alone(sites, tmp_path):
    files = sites / "0.sums", sites / "1.sums"
    quick = ["--chains", 2, "--warmup", 200, "--draws", 100, "--seed", 1]
    result = run("fit", *files, *quick, "-o", tmp_path / "fit.nc")
    assert result.exit_code == 0, result.output
    assert "BDR (nuts): 60 bags" in result.output
    model = load(tmp_path / "fit.nc")
    assert model.summary_.parts == (Summary.load(files[0]) + Summary.load(files[1])).parts
    assert model.groups == ["region"]
    result = run("predict", tmp_path / "fit.nc", sites / "public.csv", "-o", tmp_path / "p.csv")
    assert result.exit_code == 0, result.output
    assert len((tmp_path / "p.csv").read_text().splitlines()) == 41


def test_refusals(sites, tmp_path):
    out = ["-o", tmp_path / "a.sums"]
    site(5, 3).to_csv(tmp_path / "few.csv", index=False)
    table = [sites / "basis.nc", tmp_path / "few.csv", "--label", "stay"]
    fails("5 bags are too few for a summary", "summarise", *table, *out)
    fails("must end in .sums", "summarise", *table, "-o", tmp_path / "a.nc")
    fails("holds no Basis", "summarise", sites / "0.sums", *table[1:], *out)
    twice = [sites / "0.sums", sites / "0.sums"]
    fails("its bags would count twice", "fit", *twice, "-o", tmp_path / "fit.nc")
    fails("there is no file", "fit", tmp_path / "b.sums", "-o", tmp_path / "fit.nc")
    public = [sites / "public.csv", "--bag", "ward", "-o", tmp_path / "b.nc"]
    fails("not in the range x>=1", "basis", *public, "--largest-size", 0, code=2)
    fails("is not one of", "basis", *public, "--family", "poisson", code=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["few.csv"]
