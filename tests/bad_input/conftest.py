"""Every mistake gets one sentence that says what is wrong and where, before any work is done.

Cases stand in tables by area: what is called, and words that the sentence must have, such as the
name of the parameter, bag, column or file. They run in one folder of ready files, which none of
them may change.
"""

import copy
import json
import shutil
from importlib import import_module

import h5py
import pytest
import xarray as xr
from builders.mistakes import BAGS, FITTED, TABLE, Y

from bdr_stan import RBFNetwork


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """The files that the cases name."""
    folder = tmp_path_factory.mktemp("ready")
    (folder / "folder").mkdir()
    TABLE.to_csv(folder / "table.csv", index=False)
    TABLE.to_csv(folder / "table.txt", index=False)
    TABLE.rename(columns={"z": "age"}).to_csv(folder / "renamed.csv", index=False)
    TABLE.to_parquet(folder / "table.parquet")
    cut(folder / "table.parquet", folder / "short.parquet")
    (folder / "binary.csv").write_bytes(bytes(range(128, 256)))
    for name in ("empty.csv", "empty.nc"):
        (folder / name).touch()
    for name in ("taken.stan", "text.nc"):
        (folder / name).write_text("text")
    FITTED.save(folder / "fit.nc")
    RBFNetwork(5).fit(BAGS, Y, seed=1).save(folder / "ridge.nc")
    own = copy.copy(FITTED).set_params(method="nuts", stan_file="taken.stan")
    own.save(folder / "own.nc")
    cut(folder / "fit.nc", folder / "short.nc")
    xr.Dataset({"x": 1}).to_netcdf(folder / "other.nc", engine="h5netcdf")
    for name in ("lacking", "halved", "garbled", "bare", "words", "unknown"):
        shutil.copy(folder / "fit.nc", folder / f"{name}.nc")
    with h5py.File(folder / "lacking.nc", "a") as file:
        del file["posterior/beta"]
    with h5py.File(folder / "halved.nc", "a") as file:
        del file["posterior"]
    for name, config in {
        "bare": {},
        "words": "text",
        "unknown": {"estimator": "OLS", "params": {}, "settings": {}, "members": [], "notes": {}},
    }.items():
        with h5py.File(folder / f"{name}.nc", "a") as file:
            file.attrs["bdr_stan_config"] = json.dumps(config)
    content = bytearray((folder / "garbled.nc").read_bytes())
    content[2000:-2000:3] = b"x" * len(content[2000:-2000:3])
    (folder / "garbled.nc").write_bytes(content)
    return folder


def cut(path, short):
    content = path.read_bytes()
    short.write_bytes(content[: len(content) // 2])


@pytest.fixture(autouse=True)
def nothing_left(folder, monkeypatch):
    """Cases run in the folder of files, and leave it as it is."""

    def state():
        return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}

    monkeypatch.chdir(folder)
    before = state()
    yield
    assert state() == before


@pytest.fixture(autouse=True)
def no_stan(monkeypatch):
    """Whatever would start Stan, or the search for the mode before it, fails loudly."""

    def started(*arguments, **options):
        pytest.fail("the mistake went unnoticed until Stan was started")

    for module, name in (
        ("posterior.latent_gaussian", "most_probable_scales"),
        ("posterior.sampling", "compile_program"),
        ("cmdstan.programs", "find"),
    ):
        monkeypatch.setattr(import_module(f"bdr_stan.{module}"), name, started)
