#!/usr/bin/env python3
"""Use a wheel where there is nothing else: no compiler, no make, an empty cache and home.

    python tests/clean_install.py dist/bdr_stan-*-manylinux*.whl

Installs the wheel into a fresh virtual environment in a folder with blanks in its name; then fits
BDR to the bags of digits, with the time from the end of the installation, runs `bdr-stan doctor`
and `bdr-stan demo --quick`, fits every public estimator with its defaults, and looks at what an
edited program is told. Then installs the extra "stanli" and fits with the edited program. Ends with
1 at the first thing that is not as it must be.
"""

import os
import re
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from contextlib import contextmanager
from pathlib import Path

TESTS = Path(__file__).resolve().parent
MOST_BYTES = 20e6  # 11 programs of about 1.3 MB each, and the package
COMPILES = re.compile(r".*(g\+\+|gcc|c\+\+|cc|cpp|clang.*|make|as|ld.*|zig)(-[\d.]+)?")
FIRST_POSTERIOR = """
from bdr_stan import BDR
from bdr_stan.datasets import digits_bags

bags, y = digits_bags(300, seed=1, split="train")
model = BDR(40, bandwidth="median", bandwidth_scale=0.75)
model.fit(bags, y, seed=1, chains=4, warmup=200, draws=500)
print(model.summary(["sigma"]).to_string())
"""
EDITED = """
from bdr_stan.cmdstan.programs import compile_program, eject

program, *_ = eject("blr", "mine")
program.write_text(program.read_text() + "// edited\\n")
try:
    print("compiled", compile_program(program).exe_file)
except RuntimeError as error:
    print(error)
"""
FIT_EDITED = """
from bdr_stan import BLR
from bdr_stan.datasets import digits_bags

bags, y = digits_bags(100, seed=1, split="train")
model = BLR(10, method="nuts", stan_file="mine/blr.stan")
model.fit(bags, y, seed=1, chains=2, warmup=200, draws=200)
print("fitted by", model.idata.posterior.attrs["engine"])
"""


def main(wheel):
    size = wheel.stat().st_size
    print(f"{wheel.name}: {size / 1e6:.1f} MB")
    if size > MOST_BYTES:
        sys.exit(f"more than {MOST_BYTES / 1e6:.0f} MB")
    with tempfile.TemporaryDirectory(prefix="clean install (") as folder:
        home = Path(folder)
        python = home / "environment" / "bin" / "python"
        subprocess.run([sys.executable, "-m", "venv", python.parents[1]], check=True)
        install(python, wheel, "plots")
        programs_but_compilers(home / "bin")
        installed = time.monotonic()
        use(home, python, "-c", FIRST_POSTERIOR)
        print(f"first posterior {time.monotonic() - installed:.1f} s after the installation")
        use(home, python.with_name("bdr-stan"), "doctor")
        use(home, python.with_name("bdr-stan"), "demo", "--quick")
        use(home, python, TESTS / "clean_install.py", "--fit-all", PYTHONPATH=str(TESTS))
        said = use(home, python, "-c", EDITED)
        if "run install_cmdstan" not in said:
            sys.exit("an edited program does not say what to do")
        install(python, wheel, "stanli")
        use(home, python.with_name("bdr-stan"), "doctor")
        if "fitted by stanli" not in use(home, python, "-c", FIT_EDITED):
            sys.exit("an edited program does not run on stanli")


def install(python, wheel, extra):
    package = f"bdr-stan[{extra}] @ {wheel.resolve().as_uri()}"
    pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, package], check=True)


def programs_but_compilers(folder):
    """A folder of links to the programs on the PATH that do not compile."""
    folder.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for program in Path(place).glob("*"):
            if not COMPILES.fullmatch(program.name) and not (folder / program.name).is_symlink():
                (folder / program.name).symlink_to(program)


def use(home, *command, **environment):
    """Run a command without compilers and in a home of its own; what it printed."""
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        list(map(str, command)),
        cwd=home,
        env={"PATH": f"{Path(command[0]).parent}:{home / 'bin'}", "HOME": str(home), **environment},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(
        done.stdout + f"[{time.monotonic() - began:.1f} s, {spent:.1f} processor seconds]",
        flush=True,
    )
    if done.returncode:
        sys.exit(f"{command[1:]} ended with {done.returncode}")
    return done.stdout


# ------------------------------------------------------------------ in the clean environment


def fit_all():
    """Fit every public estimator, as it is by default, and aggregate models of every program."""
    from builders.problems import beside, location_bags, predictions, quick, supervised
    from sklearn.base import BaseEstimator

    import bdr_stan
    from bdr_stan import BDR, BLR, AggregateRegressor, BDRClassifier, BLRClassifier

    needed = {
        "Stacked": {"models": [BLR(), BDR()]},
        "StackedClassifier": {"models": [BLRClassifier(), BDRClassifier()]},
    }
    public = {name: getattr(bdr_stan, name) for name in bdr_stan.__all__}
    models = [
        each(**needed.get(name, {}))
        for name, each in public.items()
        if isinstance(each, type) and issubclass(each, BaseEstimator)
    ]
    bags, centres = location_bags(80)
    print(f"{bdr_stan.__file__}: {len(models)} estimators")
    for model in [*models, AggregateRegressor("negative binomial", "exp")]:
        with timed(model):
            given = supervised(model, bags, centres)
            model.fit(*given, **beside(model, bags), **quick(model))
            predictions(model, bags)
    binomial = AggregateRegressor("binomial")
    with timed(binomial):
        binomial.fit(bags, (centres > 0).astype(int) * 5, trials=[9] * len(bags), **quick(binomial))


@contextmanager
def timed(model):
    """Say how long a fit took; it says nothing of how well it mixed."""
    began = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield
    print(f"{time.monotonic() - began:6.1f} s  {type(model).__name__}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["--fit-all"]:
        fit_all()
    else:
        main(Path(sys.argv[1]))
