"""Programs that zig compiles for the wheel: exceptions stay on their side of libtbb."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from cmdstan_from_pypi import BuildError, home, prebuild

HERE = Path(prebuild.__file__).parent


def test_zig_compiles_for_any_processor_and_old_systems(monkeypatch, tmp_path):
    monkeypatch.setattr(prebuild, "_zig_directory", lambda: tmp_path)
    environment = prebuild.zig_environment(tmp_path / "cache")
    assert environment["CXX"].startswith("zig c++ -target ")
    assert ".2.17 " in environment["CXX"]
    assert "-include guarded_tbb.hpp" in environment["CXX"]
    assert "native" not in environment["CXX"]
    assert environment["PATH"].startswith(f"{tmp_path}:")


def test_another_zig_is_not_used(monkeypatch, tmp_path):
    spec = importlib.util.spec_from_file_location("ziglang", tmp_path / "__init__.py")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.13.0")
    with pytest.raises(BuildError, match="ziglang 0.12.1, found 0.13.0: pip install 'ziglang=="):
        prebuild.zig_environment(tmp_path)


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
    """By g++, for which the guard is right though not needed."""
    (tmp_path / "throws.cpp").write_text(THROWS)
    guard = HERE / "guarded_tbb.hpp"
    libraries, source = assembled / "lib", tmp_path / "throws.cpp"
    command = ["g++", "-std=c++17", "-O1", "-pthread", "-I", home.find_wheel().folder / "include"]
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
    header = HERE / "int128_division.hpp"
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
    header = (HERE / "guarded_tbb.hpp").read_text()
    assert all(f"#define {name} guarded_{name}\n" in header for name in guarded)
    unguarded = ("parallel_invoke", "parallel_scan", "parallel_sort", "parallel_pipeline")
    unguarded += ("parallel_do", "parallel_for_each", "task_group", "flow::", "execute(")
    include = home.find_wheel().folder / "include" / "stan"
    for path in include.rglob("*.hpp"):
        for line in path.read_text(errors="replace").splitlines():
            if "tbb::" in line:
                assert not any(name in line for name in unguarded), (path, line)


REJECTING = """
import sys
import numpy as np
import cmdstanpy

y = np.random.default_rng(1).normal(size=1000)
model = cmdstanpy.CmdStanModel(exe_file=sys.argv[1])
for apart in (False, True):
    fit = model.sample(
        {"N": 1000, "y": y}, chains=4, threads_per_chain=4, seed=1, show_progress=False,
        force_one_process_per_chain=apart,
    )
    rejected = open(fit.runset.stdout_files[0]).read().count("Exception: Exception: mu is ")
    print("rejected values:", rejected > 0, "mean right:", abs(fit.mu.mean() - y.mean()) < 0.02)
"""


@pytest.mark.slow
def test_a_program_of_zig_whose_threads_reject_values(compiled, monkeypatch):
    pytest.importorskip("ziglang", reason="make wheel installs it")
    for name, value in prebuild.zig_environment(home.default_home().parent / ".zig").items():
        monkeypatch.setenv(name, value)
    executable = compiled(Path(__file__).with_name("rejecting_parts.stan"), "STAN_THREADS=TRUE")
    said = subprocess.run(
        [sys.executable, "-c", REJECTING, executable], capture_output=True, text=True, check=True
    ).stdout
    assert said.count("rejected values: True mean right: True") == 2
