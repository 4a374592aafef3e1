"""What only Linux, or no Windows, has is not needed where Stan programs run on stanli.

`make lint` also checks types as on Windows. Here a process without the modules and functions that
Windows lacks fits, saves and predicts.
"""

import subprocess
import sys
from pathlib import Path

import pytest

WITHOUT = """
import os, signal, sys
# Other packages first: they have code of their own for each system.
import arviz, click.testing, cmdstanpy, dask.dataframe, distributed, filelock, geopandas, h5netcdf
import joblib, matplotlib.pyplot, pandas, platformdirs, psutil, pyarrow.parquet, rasterio
import rioxarray, scipy.stats, skpro.regression.base, sklearn.pipeline, stanli
import xarray.backends
names = {"fork", "getuid", "geteuid", "killpg", "sysconf", "O_NOFOLLOW", "symlink", "chown"}
for name in names & set(dir(os)):
    delattr(os, name)
del signal.SIGKILL, signal.SIGHUP
for name in ("fcntl", "resource", "termios", "pwd", "grp"):
    sys.modules[name] = None
sys.platform = "win32"
"""
FIT = """
import numpy as np
from bdr_stan import BDR, Bags

rng = np.random.default_rng(5)
level = rng.normal(size=40)
sizes = rng.integers(3, 30, 40)
bags = Bags.from_list([rng.normal(m, 1, (n, 1)) for m, n in zip(level, sizes)])
model = BDR(n_landmarks=8)
model.fit(bags, level, chains=2, warmup=300, draws=1000, seed=3, progress=False)
model.save("fit.nc")
assert np.array_equal(BDR.load("fit.nc").predict(bags), model.predict(bags))
assert np.corrcoef(model.predict(bags), level)[0, 1] > 0.9
print("saved and predicted")
"""
REFUSED = """
from bdr_stan.cmdstan import ToolchainError, doctor
from bdr_stan.cmdstan.programs import compile_program
try:
    compile_program("blr")
except ToolchainError as error:
    print(error)
print([finding.what for finding in doctor()])
"""
IMPORTS = """
import importlib, pkgutil
import bdr_stan
for module in pkgutil.walk_packages(bdr_stan.__path__, "bdr_stan."):
    importlib.import_module(module.name)
print("all imported")
"""


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A process that does all of it: what it imports before it begins takes seconds."""
    root = Path(__file__).parents[1]
    code = f"{WITHOUT}sys.path.insert(0, {str(root)!r})\n{FIT}{REFUSED}{IMPORTS}"
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path_factory.mktemp("without"),
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_fit_on_stanli_is_saved_and_predicts(done):
    assert "saved and predicted\n" in done.stdout, done.stderr
    assert done.stderr == ""


def test_cmdstan_is_refused_on_windows_in_one_sentence(done):
    sentence = "on Windows Stan programs run on stanli: pip install 'bdr-stan[stanli]', then "
    assert done.stdout.splitlines()[1:3] == [
        f"{sentence}engine='stanli'",
        "['cache folder', 'stanli']",
    ], done.stderr


def test_every_module_is_imported(done):
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("all imported\n")
