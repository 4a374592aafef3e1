"""home: assembled from the wheel, repaired, and its makefile, which builds as cmdstanpy asks."""

import hashlib
import os
import stat

import pytest

from bdr_stan import cmdstan
from bdr_stan.cmdstan import home
from bdr_stan.cmdstan.compiler import run_make


def driver(path):
    """Something that stands for a compiled driver."""
    (path / "driver_1.o").write_text("driver")
    (path / "driver_1.o.sha256").write_text(hashlib.sha256(b"driver").hexdigest() + "  -\n")
    return path / "driver_1.o"


def test_headers_that_moved_are_linked_anew(assembled):
    wheel = home.find_wheel()
    assert (assembled / "include").readlink() == wheel / "include"
    (assembled / "include").unlink()
    (assembled / "include").symlink_to("/nowhere")
    assert "Stan's headers are gone" in home.faults(assembled)[0]
    driver(assembled)
    home.assemble()
    assert (assembled / "include").readlink() == wheel / "include"
    assert (assembled / "driver_1.o").exists()  # the costly part is kept


def test_libraries_and_stanc_are_copies(assembled):
    for name in ("bin/stanc", "lib/libtbb.so.2", "lib/libsundials_cvodes.a"):
        assert (assembled / name).is_file()
        assert not (assembled / name).is_symlink()


def test_what_a_killed_process_left_is_cleared(no_cmdstan):
    stale = no_cmdstan / f"{home.home_directory().name}.building-1"
    stale.mkdir(parents=True)
    home.assemble()
    assert home.faults(home.home_directory()) == ["the driver is not compiled"]
    assert not stale.exists()


def recipe(path, *arguments):
    """What make would run for a program."""
    program = path.parent / "coin"
    program.with_suffix(".stan").touch()
    code, output = run_make(path, "-n", *arguments, str(program))
    assert code == 0, output
    return output


def test_make_builds_as_cmdstanpy_asks(assembled):
    output = recipe(assembled, "STANCFLAGS+=--filename-in-msg=coin.stan", "STANCFLAGS+=--O1", "O=0")
    assert "bin/stanc --filename-in-msg=coin.stan --O1 --o=" in output
    assert " -O0 " in output
    program = str(assembled.parent / "coin")
    link = next(line for line in output.splitlines() if f"{assembled}/lib" in line)
    assert link.index(f"{program}.o") < link.index("driver_")  # the model's object comes first
    assert "-Wl,--disable-new-dtags" in link


def test_every_combination_of_flags_has_its_own_driver(assembled):
    def driver(*flags):
        return run_make(assembled, "-s", *flags, "driver-object")[1].split()[-1]

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
    code, output = run_make(assembled, "STAN_OPENCL=1", "build")
    assert code != 0
    assert "STAN_OPENCL and STAN_MPI need the official CmdStan" in output


# ------------------------------------------------------------------ damage


def detail():
    return next(f for f in cmdstan.doctor() if f.what == "CmdStan").detail


@pytest.mark.parametrize(
    "file",
    ["makefile", "manifest.json", "bin/stanc", "lib/libtbb.so.2", "lib/libsundials_idas.a"],
)
@pytest.mark.parametrize("harm", ["gone", "empty", "half"])
def test_damage_to_the_home_is_found_and_repaired(assembled, file, harm):
    kept, path = driver(assembled), assembled / file
    assert home.faults(assembled) == []
    whole, mode = path.read_bytes(), stat.S_IMODE(path.stat().st_mode)
    if harm == "gone":
        path.unlink()
    else:
        path.write_bytes(whole[: len(whole) // 2 if harm == "half" else 0])
    assert f"{file} is {'missing' if harm == 'gone' else 'damaged'}"[:15] in detail()
    assert cmdstan.find() is None
    home.assemble()
    assert path.read_bytes() == whole
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert home.faults(assembled) == []
    assert kept.read_text() == "driver"  # the costly part is kept


def test_a_stanc_that_is_not_executable_is_repaired(assembled):
    (assembled / "bin" / "stanc").chmod(0o644)
    assert "bin/stanc is not executable" in detail()
    home.assemble()
    assert os.access(assembled / "bin" / "stanc", os.X_OK)


def test_a_damaged_driver_is_seen_and_compiled_again(assembled, quick_make):
    cmdstan.setup(progress=False)
    assert home.faults(assembled) == []
    path = next(assembled.glob("driver*.o"))
    whole = path.read_bytes()
    path.write_bytes(whole[:5])
    assert f"{path.name} is damaged" in detail()
    cmdstan.setup(progress=False)
    assert path.read_bytes() == whole
    assert home.faults(assembled) == []


def test_the_tools_of_another_python_are_written_anew(assembled):
    tool = assembled / "bin" / "stansummary"
    tool.write_text("#!/nowhere/python\n")
    home.assemble()
    assert "bdr_stan.cmdstan.summaries" in tool.read_text()
    assert os.access(tool, os.X_OK)
