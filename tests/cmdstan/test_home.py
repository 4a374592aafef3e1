"""home: assembled from the wheel, mended, and its makefile, which builds as cmdstanpy asks."""

from bdr_stan.cmdstan import home
from bdr_stan.cmdstan.compiler import run_make


def test_headers_that_moved_are_linked_anew(assembled):
    wheel = home.find_wheel()
    assert (assembled / "include").readlink() == wheel / "include"
    (assembled / "include").unlink()
    (assembled / "include").symlink_to("/nowhere")
    assert "Stan's headers are gone" in home.faults(assembled)[0]
    (assembled / "driver_1.o").touch()
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
    code, said = run_make(path, "-n", *arguments, str(program))
    assert code == 0, said
    return said


def test_make_builds_as_cmdstanpy_asks(assembled):
    said = recipe(assembled, "STANCFLAGS+=--filename-in-msg=coin.stan", "STANCFLAGS+=--O1", "O=0")
    assert "bin/stanc --filename-in-msg=coin.stan --O1 --o=" in said
    assert " -O0 " in said
    program = str(assembled.parent / "coin")
    link = next(line for line in said.splitlines() if f"{assembled}/lib" in line)
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
    said = recipe(assembled, "STANCFLAGS+=--allow-undefined", "USER_HEADER=/a/b.hpp")
    assert "-include /a/b.hpp" in said
    said = recipe(assembled, "STANCFLAGS+=--allow-undefined")
    assert f"-include {assembled.parent}/user_header.hpp" in said


def test_opencl_is_refused(assembled):
    code, said = run_make(assembled, "STAN_OPENCL=1", "build")
    assert code != 0
    assert "STAN_OPENCL and STAN_MPI need the official CmdStan" in said
