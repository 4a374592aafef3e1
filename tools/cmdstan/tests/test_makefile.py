"""makefile: it builds as CmdStanPy asks."""

import os
import subprocess

import pytest


def make(home, *arguments):
    done = subprocess.run(
        ["make", *arguments], cwd=home, capture_output=True, text=True, check=False,
        env={k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL")},
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def recipe(home, *arguments):
    """What make would run for a program."""
    program = home.parent / "coin"
    program.with_suffix(".stan").touch()
    code, output = make(home, "-n", *arguments, str(program))
    assert code == 0, output
    return output


def test_it_builds_as_cmdstanpy_asks(assembled):
    output = recipe(assembled, "STANCFLAGS+=--filename-in-msg=coin.stan", "STANCFLAGS+=--O1", "O=0")
    assert "bin/stanc --filename-in-msg=coin.stan --O1 --o=" in output
    assert " -O0 " in output
    program = str(assembled.parent / "coin")
    link = next(line for line in output.splitlines() if f"{assembled}/lib" in line)
    assert link.index(f"{program}.o") < link.index("driver_")  # the model's object comes first
    assert "-Wl,--disable-new-dtags" in link


def test_every_combination_of_flags_has_its_own_driver(assembled, monkeypatch):
    monkeypatch.delenv("CXXFLAGS", raising=False)

    def driver(*flags):
        words = recipe(assembled, *flags).split()
        return next(word for word in words if word.startswith("driver") and word.endswith(".o"))

    combinations = [
        (),
        ("STAN_THREADS=True",),
        ("STAN_NO_RANGE_CHECKS=1",),
        ("CXXFLAGS=-march=native",),
    ]
    assert len({driver(*flags) for flags in combinations}) == len(combinations)
    assert driver("O=1") == driver()
    assert "-DSTAN_THREADS" in recipe(assembled, "STAN_THREADS=False")  # set is set
    assert " -I include " in recipe(assembled, "CXXFLAGS=-g")


def test_user_header(assembled):
    output = recipe(assembled, "STANCFLAGS+=--allow-undefined", "USER_HEADER=/a/b.hpp")
    assert "-include '/a/b.hpp'" in output
    output = recipe(assembled, "STANCFLAGS+=--allow-undefined")
    assert f"-include '{assembled.parent}/user_header.hpp'" in output


def test_opencl_is_refused(assembled):
    code, output = make(assembled, "STAN_OPENCL=1", "build")
    assert code != 0
    assert "STAN_OPENCL and STAN_MPI need the official CmdStan" in output


@pytest.mark.parametrize("name", ["it's here", "a,b", "$HOME & (copy)"])
def test_a_home_may_have_any_name_that_make_takes(assembled, quick_compiler, tmp_path, name):
    home = assembled.rename(tmp_path / name)
    (tmp_path / "mine.stan").write_text("parameters { real x; }\nmodel { x ~ normal(0, 1); }\n")
    code, output = make(home, str(tmp_path / "mine"))
    assert code == 0, output
