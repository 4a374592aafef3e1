"""Caches of their own for the tests, and a CmdStan whose compiler takes no time."""

import pytest

from bdr_stan import cmdstan

_MAKEFILE = """CMDSTAN_VERSION := 2.35.0
%: %.hpp
	$(CXX) $(CXXFLAGS) -c $< -o $@.o
	$(CXX) $@.o -o $@
"""
_QUICK = """#!/bin/sh
# What -o names is written, after a while where QUICK_SLEEP says so.
case "$*" in --version|-dump*) echo "quick 1.0"; exit;; esac
while [ $# -gt 0 ]; do [ "$1" = -o ] && out=$2; shift; done
echo "half of it" > "$out"
sleep "${QUICK_SLEEP:-0}"
printf '#!/bin/sh\\necho stan_version_major = 2\\n' > "$out"
chmod +x "$out"
"""


@pytest.fixture
def no_cmdstan(monkeypatch, tmp_path):
    """No CmdStan, and an empty cache."""
    monkeypatch.delenv("CMDSTAN", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.setenv("BDR_STAN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def quick_compiler(tmp_path, monkeypatch):
    """Something that acts as the compiler in no time: its programs only tell what they are."""
    compiler = tmp_path / "bin" / "quick-c++"
    compiler.parent.mkdir()
    compiler.write_text(_QUICK)
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    return compiler


@pytest.fixture(scope="session")
def stanc():
    """The real stanc."""
    return cmdstan.find() / "bin" / "stanc"


@pytest.fixture
def quick_home(stanc, no_cmdstan, quick_compiler, tmp_path, monkeypatch):
    """A CmdStan with the real stanc, for the quick compiler."""
    home = tmp_path / "cmdstan-2.35.0"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "stanc").symlink_to(stanc)
    (home / "makefile").write_text(_MAKEFILE)
    monkeypatch.setenv("CMDSTAN", str(home))
    return home


@pytest.fixture
def quick_cache(quick_home, no_cmdstan):
    """An empty cache, to be filled with what the quick compiler makes."""
    return no_cmdstan
