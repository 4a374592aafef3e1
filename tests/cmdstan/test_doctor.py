"""doctor: content after a setup, else it says how to fix what is wrong."""

import importlib.metadata

from bdr_stan import cmdstan


def test_doctor_is_content_after_setup():
    assert [finding for finding in cmdstan.doctor() if not finding.ok] == []


def test_doctor_says_how_to_fix_what_is_wrong(monkeypatch, no_cmdstan):
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setenv("MAKE", "no-such-make")
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "1.0")
    bad = {finding.what: finding for finding in cmdstan.doctor() if not finding.ok}
    assert set(bad) == {"CmdStan", "C++ compiler", "make", "stanli"}
    assert bad["stanli"].fix == "pip install 'bdr-stan[stanli]'"
    assert bad["C++ compiler"].fix == "sudo apt-get install g++"
    assert bad["make"].fix == "sudo apt-get install make"
    assert bad["CmdStan"].detail == "not found"
    assert bad["CmdStan"].fix.startswith("install_cmdstan, a command of CmdStanPy, or in a chec")


def test_doctor_sees_a_stanc_that_does_not_run(quick_home):
    stanc = quick_home / "bin" / "stanc"
    stanc.unlink()
    finding = next(f for f in cmdstan.doctor() if f.what == "CmdStan")
    assert finding.detail == f"{stanc} does not run: No such file or directory"
    stanc.write_text("#!/bin/sh\necho for another system >&2; exit 1\n")
    stanc.chmod(0o755)
    finding = next(f for f in cmdstan.doctor() if f.what == "CmdStan")
    assert finding.detail == f"{stanc} does not run: for another system"
    assert finding.fix.startswith(f"rm -r {quick_home}, then install_cmdstan")


def test_doctor_sees_a_cache_that_cannot_be_written(monkeypatch, no_cmdstan, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("BDR_STAN_CACHE", str(tmp_path / "file"))
    folder = next(f for f in cmdstan.doctor() if f.what == "cache folder")
    assert not folder.ok
    assert folder.fix.startswith("export BDR_STAN_CACHE=")


def test_doctor_does_not_ask_for_stanli(monkeypatch):
    def version(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    stanli = cmdstan.doctor()[-1]
    assert (stanli.what, stanli.ok) == ("stanli", True)
    assert stanli.detail == "not installed, and optional: pip install 'bdr-stan[stanli]'"
