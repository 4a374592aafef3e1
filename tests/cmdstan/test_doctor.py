"""doctor: content after a setup, else it says how to fix what is wrong."""

import importlib.metadata

from bdr_stan import cmdstan


def test_doctor_is_content_after_setup():
    cmdstan.setup(progress=False)
    assert [finding for finding in cmdstan.doctor() if not finding.ok] == []


def test_doctor_says_how_to_fix_what_is_wrong(monkeypatch, no_cmdstan):
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "1.0")
    bad = {finding.what: finding for finding in cmdstan.doctor() if not finding.ok}
    assert set(bad) == {"C++ compiler", "httpstan package", "CmdStan", "stanli"}
    assert bad["stanli"].fix == "pip install 'bdr-stan[stanli]'"
    assert bad["C++ compiler"].fix.startswith("sudo apt-get install g++, or pip install")
    assert bad["httpstan package"].fix == "pip install 'httpstan==4.13.0'"
    assert bad["CmdStan"].fix == "bdr-stan setup"
    assert "it has not been built" in bad["CmdStan"].detail


def test_doctor_is_content_with_what_an_earlier_version_left(quick_cache):
    """Its entries had no manifest and no digest of the compiler in their names."""
    left = quick_cache / "programs" / "bdr-6b6242cace74bf97"
    left.mkdir(parents=True)
    (left / "bdr").touch()
    programs = next(f for f in cmdstan.doctor() if f.what == "compiled programs")
    assert programs.ok
    assert "0, all complete; 1 of an earlier version, no longer used" in programs.detail
    assert f"rm -r {left.parent} clears" in programs.detail


def test_doctor_sees_headers_that_are_gone(assembled):
    (assembled / "include").unlink()
    stan = next(f for f in cmdstan.doctor() if f.what == "CmdStan")
    assert not stan.ok
    assert "Stan's headers are gone" in stan.detail


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
