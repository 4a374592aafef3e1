"""The wheel: a pure one, or one for a platform where it carries prebuilt programs."""

import os
import platform
import shutil
import zipfile
from email import message_from_string
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[1]
MANYLINUX = f"manylinux_2_17_{platform.machine()}.manylinux2014_{platform.machine()}"


def build(folder, root=ROOT):
    (path,) = WheelBuilder(str(root)).build(directory=str(folder), versions=["standard"])
    wheel = zipfile.ZipFile(path)
    (info,) = (name for name in wheel.namelist() if name.endswith(".dist-info/WHEEL"))
    return Path(path), wheel, message_from_string(wheel.read(info).decode())


def test_a_pure_wheel_has_the_stan_programs(tmp_path, monkeypatch):
    monkeypatch.delenv("BDR_STAN_PREBUILT", raising=False)
    path, wheel, info = build(tmp_path)
    assert path.name.endswith("-py3-none-any.whl")
    assert info["Root-Is-Purelib"] == "true"
    assert {"bdr_stan/stan/bdr.stan", "bdr_stan/cmdstan/programs.py"} <= set(wheel.namelist())
    assert not [name for name in wheel.namelist() if "prebuilt/" in name]


def test_a_wheel_with_prebuilt_programs_is_one_for_the_platform(tmp_path, monkeypatch):
    folder = tmp_path / "pre built"
    (folder / "bdr-0").mkdir(parents=True)
    (folder / "notice.txt").write_text("notice")
    (folder / "bdr-0" / "bdr").write_text("program")
    (folder / "bdr-0" / "bdr").chmod(0o755)
    monkeypatch.setenv("BDR_STAN_PREBUILT", str(folder))
    path, wheel, info = build(tmp_path)
    assert path.name.endswith(f"-py3-none-{MANYLINUX}.whl")
    assert info["Root-Is-Purelib"] == "false"
    assert set(info.get_all("Tag")) == {f"py3-none-{each}" for each in MANYLINUX.split(".")}
    assert wheel.read("bdr_stan/prebuilt/notice.txt") == b"notice"
    program = wheel.getinfo("bdr_stan/prebuilt/bdr-0/bdr")
    assert program.external_attr >> 16 & 0o111 == 0o111  # pip makes it executable


def test_builds_from_two_folders_at_two_times_are_the_same_file(tmp_path, monkeypatch):
    monkeypatch.delenv("BDR_STAN_PREBUILT", raising=False)
    (tmp_path / "pre").mkdir()
    (tmp_path / "pre" / "notice.txt").write_text("notice")
    copy = tmp_path / "my project (copy)"
    for name in ("bdr_stan", "stan"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", ".gitignore"):
        shutil.copyfile(ROOT / name, copy / name)
    for prebuilt in (None, tmp_path / "pre"):
        if prebuilt:
            monkeypatch.setenv("BDR_STAN_PREBUILT", str(prebuilt))
        first = build(tmp_path / "one")[0].read_bytes()
        for path in (*copy.rglob("*.stan"), *tmp_path.glob("pre/*")):
            os.utime(path, (1e9, 1e9))
        assert build(tmp_path / "two", copy)[0].read_bytes() == first


def test_a_folder_without_programs_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("BDR_STAN_PREBUILT", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="holds no prebuilt programs: tools/cmdstan"):
        build(tmp_path)
    assert not list(tmp_path.glob("*.whl"))
