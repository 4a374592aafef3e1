"""Killed and interrupted at random moments: the next call works, and nothing is left behind.

BDR_STAN_STRESS is how often compiling, fits and saving are each struck, by three signals in turn:
3 times by default, once by each, and 25 before a release. The seed is fixed.
"""

import itertools
import multiprocessing
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from builders.problems import location_bags

from bdr_stan import BLR, load, scratch
from bdr_stan.cmdstan import programs
from bdr_stan.cmdstan.programs import compile_program

pytestmark = pytest.mark.slow

TIMES = int(os.environ.get("BDR_STAN_STRESS", "3"))
COIN = Path(__file__).with_name("coin.stan")
# An interrupt is for Python alone, as from a notebook or an editor.
SIGNALS = signal.SIGKILL, signal.SIGINT, signal.SIGTERM
SOON = 60  # seconds; a call that waits for its compilers or chains takes longer

COMPILE = """
import sys
from bdr_stan.cmdstan.programs import compile_program
compile_program(sys.argv[1], progress=False)
"""
FIT = """
import sys
from bdr_stan.posterior.model import StanInput
from bdr_stan.posterior.sampling import run
from bdr_stan.posterior.settings import SamplerSettings
print("starts", flush=True)
draws, _, _ = run(
    sys.argv[1],
    StanInput({"N": 2, "y": [0, 1]}, [{"theta": 0.5}] * 4),
    SamplerSettings(warmup=100, draws=int(sys.argv[2]), seed=1, progress=False),
)
print(draws["theta"].shape)
"""


@pytest.fixture
def rng():
    return np.random.default_rng(20)


def struck(process, how, delay):
    """Strike a process after a while; it must end soon."""
    time.sleep(delay)
    process.send_signal(how)
    start = time.monotonic()
    process.wait(SOON)
    return time.monotonic() - start


def well(process):
    output = process.communicate(timeout=300)
    assert process.returncode == 0, output
    return output[0]


def moments(rng, longest):
    return [(SIGNALS[i % len(SIGNALS)], rng.uniform(0, longest)) for i in range(TIMES)]


def test_compiling_that_is_struck(quick_cache, python, temporary, tmp_path, rng, monkeypatch):
    earlier = Path(compile_program(COIN, progress=False).exe_file)
    before, of_this_process = earlier.read_bytes(), set(temporary.glob("bdr_stan-fit-*"))
    for i, (how, delay) in enumerate(moments(rng, 1.2)):
        program = tmp_path / f"mine{i}.stan"
        program.write_text(f"parameters {{ real x{i}; }}\nmodel {{ x{i} ~ normal(0, 1); }}\n")
        monkeypatch.setenv("QUICK_SLEEP", "0.3")
        struck(python(COMPILE, program), how, delay)
        monkeypatch.setenv("QUICK_SLEEP", "0")
        well(python(COMPILE, program))
        assert list(quick_cache.rglob("*.new")) == []
        assert set(temporary.glob("bdr_stan-fit-*")) == of_this_process
        assert working_in_any(temporary) == []
        assert not any(programs.compiled_programs().values())
        assert earlier.read_bytes() == before


def working_in_any(folder):
    """Processes whose temporary files are anywhere in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"TMPDIR={folder}/".encode() in (process / "environ").read_bytes():
                found.append(process.name)
        except OSError:
            continue
    return found


def test_a_fit_that_is_struck(python, temporary, rng):
    compile_program(COIN, progress=False)
    for how, delay in moments(rng, 1.5):
        process = python(FIT, COIN, 10**8)
        assert process.stdout.readline() == "starts\n"
        struck(process, how, delay)
        assert well(python(FIT, COIN, 10)).splitlines()[-1] == "(4, 10)"
        assert chains_in(temporary) == []
        assert os.listdir(temporary) == []


def chains_in(folder):
    return [
        process.name
        for process in Path("/proc").glob("[0-9]*")
        if f"file={folder}".encode() in _command(process)
    ]


def _command(process):
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


def test_an_interrupted_fit_ends_its_chains_at_once(python, temporary):
    process = python(FIT, COIN, 10**8)
    assert process.stdout.readline() == "starts\n"
    while not chains_in(temporary):
        assert process.poll() is None
        time.sleep(0.05)
    struck(process, signal.SIGINT, 0.5)
    assert "KeyboardInterrupt" in process.communicate()[1]
    assert chains_in(temporary) == []
    scratch.remove_stale_folders()
    assert os.listdir(temporary) == []


def save_again_and_again(model, path):
    signal.signal(signal.SIGINT, signal.default_int_handler)  # as in a program of a user's
    for i in itertools.count():
        model.save(path, notes={"saved": i})


def test_saving_that_is_struck(tmp_path, rng):
    bags, centres = location_bags()
    model = BLR(5, method="exact").fit(bags, centres, draws=200, seed=1)
    path = tmp_path / "fits" / "fit.nc"
    path.parent.mkdir()
    model.save(path)
    for how, delay in moments(rng, 0.5):
        process = multiprocessing.get_context("fork").Process(
            target=save_again_and_again, args=(model, path), daemon=True
        )
        process.start()
        time.sleep(delay)
        try:
            os.kill(process.pid, how)
            process.join(SOON)
            assert process.exitcode not in (0, None)
        finally:
            process.kill()
        again = load(path)
        np.testing.assert_array_equal(again.predict(bags), model.predict(bags))
        again.save(path, notes={"saved": -1})
        assert os.listdir(path.parent) == ["fit.nc"]
        assert load(path).notes_ == {"saved": -1}


def test_an_interrupted_compile_ends_its_compiler(quick_cache, python, temporary, monkeypatch):
    monkeypatch.setenv("QUICK_SLEEP", "100")
    process = python(COMPILE, COIN)
    while not list(temporary.glob("*/*/*.o")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    assert struck(process, signal.SIGINT, 0.2) < SOON
    assert working_in_any(temporary) == []
    assert os.listdir(temporary) == []
    assert list(quick_cache.glob("compiled/*")) == []
