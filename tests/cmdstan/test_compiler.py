"""compiler: g++, else zig of the PyPI package; exceptions stay on their side of libtbb."""

import importlib.metadata
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from bdr_stan import cmdstan
from bdr_stan.cmdstan import ToolchainError, compiler, home
from bdr_stan.cmdstan.programs import compile_program

COIN = Path(__file__).parents[1] / "stan" / "driver_coin.stan"
NEEDED_BY_MAKE = ("make", "sh", "rm", "mv", "sha256sum", "cksum", "echo", "sleep", "chmod", "mkdir")


@pytest.fixture
def no_gcc(tmp_path, monkeypatch):
    """A PATH with make, but no compiler."""
    (tmp_path / "few").mkdir()
    for name in NEEDED_BY_MAKE:
        (tmp_path / "few" / name).symlink_to(shutil.which(name))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "few"))


@pytest.fixture
def zig(quick_make, no_gcc, tmp_path, monkeypatch):
    """Something that stands for the package ziglang, in a folder with a blank."""
    folder = tmp_path / "site packages" / "ziglang"
    folder.mkdir(parents=True)
    log = tmp_path / "log"
    quick_make.rename(folder / "zig")
    text = (folder / "zig").read_text().replace("in --version", "in *--version")
    cache = "$ZIG_LOCAL_CACHE_DIR"
    leaves = f'echo "$*" >> {log}\n[ -z "{cache}" ] || mkdir -p "{cache}/o"'
    (folder / "zig").write_text(text.replace("#!/bin/sh\n", f"#!/bin/sh\n{leaves}\n"))
    monkeypatch.setattr(compiler, "zig_directory", lambda: folder)
    return folder


def test_zig_compiles_where_there_is_no_gcc(no_cmdstan, zig, tmp_path, monkeypatch):
    executable = Path(compile_program(COIN, progress=False).exe_file)
    compiled = [line for line in (tmp_path / "log").read_text().splitlines() if " -c " in line]
    assert len(compiled) == 2  # program and driver
    for line in compiled:
        assert line.startswith("c++ -target ")
        assert ".2.17 " in line
        assert "-include guarded_tbb.hpp" in line
        assert "native" not in line
    left = {path.name for path in executable.parent.iterdir()}
    assert left == {"driver_coin", "driver_coin.stan", "manifest.json"}
    found = next(finding for finding in cmdstan.doctor() if finding.what == "C++ compiler")
    assert found.detail == "quick 1.0, of the PyPI package ziglang 0.12.1"
    moved = zig.rename(tmp_path / "elsewhere")
    monkeypatch.setattr(compiler, "zig_directory", lambda: moved)
    assert Path(compile_program(COIN, progress=False).exe_file) == executable


def test_gcc_and_what_cxx_names_go_first(zig, monkeypatch):
    monkeypatch.setenv("CXX", "clang++ -O2")
    assert compiler.cxx_program() == "clang++ -O2"
    monkeypatch.delenv("CXX")
    assert compiler.cxx_program() == compiler.zig_program()
    (Path(os.environ["PATH"]) / "g++").symlink_to("/bin/true")
    assert compiler.cxx_program() == "g++"


def test_another_zig_is_not_used(no_cmdstan, no_gcc, monkeypatch):
    real = importlib.metadata.version
    monkeypatch.setattr(
        importlib.metadata, "version", lambda name: "0.13.0" if name == "ziglang" else real(name)
    )
    with pytest.raises(
        ToolchainError, match=r"needs g\+\+, not found .*'bdr-stan\[compiler\]'; or"
    ):
        compile_program(COIN, progress=False)


# ------------------------------------------------------------------ guarded_tbb.hpp

THROWS = r"""
#include <cstddef>
#include <iostream>
#include <stdexcept>
#include <vector>

using Range = tbb::blocked_range<std::size_t>;

struct Sum {
  const std::size_t bad;
  long total = 0;
  explicit Sum(std::size_t bad) : bad(bad) {}
  Sum(Sum& other, tbb::split) : bad(other.bad) {}
  void operator()(const Range& range) {
    for (std::size_t i = range.begin(); i != range.end(); ++i) {
      if (i == bad) throw std::domain_error("at " + std::to_string(i));
      total += i;
    }
  }
  void join(const Sum& other) { total += other.total; }
};

template <typename Work>
void tell(const char* name, const Work& work) {
  try {
    const long total = work();
    std::cout << name << " " << total << std::endl;
  } catch (const std::domain_error& error) {
    std::cout << name << " throws " << error.what() << std::endl;
  }
}

int main() {
  for (std::size_t bad : {1000, 77}) {
    tell("reduce", [&] {
      Sum sum(bad);
      tbb::parallel_reduce(Range(0, 1000, 5), sum);
      return sum.total;
    });
    tell("static", [&] {
      Sum sum(bad);
      tbb::simple_partitioner partitioner;
      tbb::this_task_arena::isolate([&] {
        tbb::parallel_deterministic_reduce(Range(0, 1000, 5), sum, partitioner);
      });
      return sum.total;
    });
    tell("for", [&] {
      std::vector<long> seen(1000);
      tbb::parallel_for(Range(0, 1000), [&](const Range& range) {
        Sum one(bad);
        one(range);
        for (std::size_t i = range.begin(); i != range.end(); ++i) seen[i] = i;
      });
      long total = 0;
      for (long each : seen) total += each;
      return total;
    });
  }
}
"""


DIVIDES = r"""
#include <iostream>

using Unsigned = unsigned __int128;
struct Pair { unsigned long a, b, c, d; };

__int128 whole(unsigned long high, unsigned long low) { return Unsigned(high) << 64 | low; }

int main() {
  for (auto [a, b, c, d] : {%s}) {
    const Unsigned quotient = __divti3(whole(a, b), whole(c, d));
    std::cout << static_cast<unsigned long>(quotient >> 64) << "u, "
              << static_cast<unsigned long>(quotient) << "u\n";
  }
}
"""


def test_what_work_throws_reaches_the_caller_of_tbb(assembled, tmp_path):
    """By g++, for which the guard is right though not needed; tests/clean_install.py has zig."""
    (tmp_path / "throws.cpp").write_text(THROWS)
    guard = Path(compiler.__file__).with_name("guarded_tbb.hpp")
    libraries, source = assembled / "lib", tmp_path / "throws.cpp"
    command = ["g++", "-std=c++17", "-O1", "-pthread", "-I", assembled / "include"]
    command += ["-include", guard, source, "-L", libraries, "-ltbb", f"-Wl,-rpath,{libraries}"]
    subprocess.run([*command, "-o", tmp_path / "throws"], check=True)
    output = subprocess.run(
        [tmp_path / "throws"], capture_output=True, text=True, check=True
    ).stdout
    assert output.splitlines() == [
        *("reduce 499500", "static 499500", "for 499500"),
        *("reduce throws at 77", "static throws at 77", "for throws at 77"),
    ]


def test_division_of_128_bits(tmp_path):
    """Ours, as a word from zig's runtime library would bring its slow exp and log, too."""
    numbers = [1, 2, 3, 10, 2**31 - 1, 2**63, 10**9 * 2**40, 2**127 - 1, 3**70]
    pairs = [
        (s * a, t * b) for a in (0, *numbers) for b in numbers for s in (1, -1) for t in (1, -1)
    ]
    source = tmp_path / "divides.cpp"
    source.write_text(DIVIDES % ", ".join(f"Pair{{{words(a)}, {words(b)}}}" for a, b in pairs))
    header = Path(compiler.__file__).with_name("int128_division.hpp")
    command = ["g++", "-std=c++17", "-include", header, source, "-o", tmp_path / "divides"]
    subprocess.run(command, check=True)
    output = subprocess.run(
        [tmp_path / "divides"], capture_output=True, text=True, check=True
    ).stdout
    expected = [abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) for a, b in pairs]
    assert output.splitlines() == [words(quotient) for quotient in expected]


def words(number):
    """A number of 128 bits as two of 64."""
    number %= 2**128
    return f"{number >> 64}u, {number % 2**64}u"


def test_stan_calls_tbb_by_the_guarded_names_alone():
    """What else of TBB takes a function of ours, and might pass on what that throws."""
    guarded = {"parallel_for", "parallel_reduce", "parallel_deterministic_reduce", "isolate"}
    header = (Path(compiler.__file__).with_name("guarded_tbb.hpp")).read_text()
    assert all(f"#define {name} guarded_{name}\n" in header for name in guarded)
    unguarded = ("parallel_invoke", "parallel_scan", "parallel_sort", "parallel_pipeline")
    unguarded += ("parallel_do", "parallel_for_each", "task_group", "flow::", "execute(")
    include = home.find_wheel() / "include" / "stan"
    for path in include.rglob("*.hpp"):
        for line in path.read_text(errors="replace").splitlines():
            if "tbb::" in line:
                assert not any(name in line for name in unguarded), (path, line)
