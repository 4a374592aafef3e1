"""files: groups and configuration to one NetCDF file and back, under either ArviZ version."""

import errno
import json
import os
import pickle
import platform
import signal
import subprocess
import sys

import h5py
import numpy as np
import pytest
import xarray as xr

from bdr_stan.results import files
from bdr_stan.results.files import read, write
from bdr_stan.results.inference_data import arviz, as_groups, build, dataset


def test_file_returns_the_same_groups_and_configuration(groups, tmp_path):
    config = {
        "kernel": "rbf",
        "eta": None,
        "center": True,
        "nested": {"a": [1, 2]},
        "bandwidth": np.float64(0.5),
        "sizes": np.arange(3),
        "long": "x" * 200_000,  # HDF5 keeps short attributes up to 64 kB
    }
    write(tmp_path / "fit.nc", groups, config)
    read_back, found = read(tmp_path / "fit.nc")
    assert found == {**config, "sizes": [0, 1, 2]}
    assert set(read_back) == set(groups)
    for name, group in read_back.items():
        assert group.identical(groups[name]), name
    assert read_back["sample_stats"]["diverging"].dtype == bool
    assert [p.name for p in tmp_path.iterdir()] == ["fit.nc"]


def test_read_groups_do_not_need_its_file(groups, tmp_path):
    path = tmp_path / "fit.nc"
    write(path, groups, {})
    read_back, _ = read(path)
    write(path, read_back, {"again": 1})  # fails where the file is still open
    path.unlink()
    np.testing.assert_array_equal(read_back["posterior"]["w"], groups["posterior"]["w"])
    assert pickle.loads(pickle.dumps(read_back))["posterior"].identical(read_back["posterior"])


def test_arviz_itself_reads_the_file(groups, tmp_path):
    write(tmp_path / "fit.nc", as_groups(build(groups)), {})
    idata = arviz().from_netcdf(tmp_path / "fit.nc")
    np.testing.assert_array_equal(idata["posterior"]["w"], groups["posterior"]["w"])
    idata.close()


@pytest.mark.parametrize("labels", [["a", "b", "ü"], [3, 1, 2], ["a", 1, None], [(1, 2)] * 3])
def test_labels_of_any_kind_can_be_saved(labels, tmp_path):
    values = np.empty(3, dtype=object)
    values[:] = labels
    group = dataset({"y": np.zeros(3)}, {"y": ["bag"]}, {"bag": values}, sample=False)
    write(tmp_path / "fit.nc", {"observed_data": group}, {})
    read_back, _ = read(tmp_path / "fit.nc")
    assert read_back["observed_data"]["bag"].values.tolist() == [str(label) for label in labels]


def test_what_a_killed_process_wrote_is_gone_after_the_next_write(groups, tmp_path):
    ended = subprocess.Popen(["true"])
    ended.wait()
    names = {
        pid: f".fit[1].nc.{platform.node()}-{pid}-0a.partial" for pid in (ended.pid, os.getppid())
    }
    other_files = {f".fit.nc.{platform.node()}-{ended.pid}.partial", ".fit[1].nc.mine.partial"}
    for name in {*names.values(), *other_files}:
        (tmp_path / name).touch()
    write(tmp_path / "fit[1].nc", groups, {})
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"fit[1].nc", names[os.getppid()], *other_files}


def test_failed_write_leaves_the_old_file_alone(groups, tmp_path, monkeypatch):
    path = tmp_path / "fit.nc"
    write(path, groups, {"version": 1})
    with pytest.raises(TypeError, match="contains a object, which JSON does not support"):
        write(path, groups, {"bad": object()})

    def broken(self, *args, **kwargs):
        raise OSError("disk full")

    monkeypatch.setattr(xr.Dataset, "dump_to_store", broken)
    with pytest.raises(OSError, match="disk full"):
        write(path, groups, {"version": 2})
    monkeypatch.undo()
    assert read(path)[1] == {"version": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["fit.nc"]


def test_file_errors_are_clear(groups, tmp_path):
    with pytest.raises(FileNotFoundError, match="the folder .*nowhere does not exist"):
        write(tmp_path / "nowhere" / "fit.nc", groups, {})
    with pytest.raises(IsADirectoryError, match="it is a folder, give a file name"):
        write(tmp_path, groups, {})
    with pytest.raises(FileNotFoundError, match="there is no file .*absent.nc"):
        read(tmp_path / "absent.nc")
    (tmp_path / "text.nc").write_text(json.dumps({"no": "netcdf"}))
    with pytest.raises(
        ValueError, match="text.nc is not a fit saved by bdr_stan: not a NetCDF file"
    ):
        read(tmp_path / "text.nc")
    xr.Dataset({"x": 1}).to_netcdf(tmp_path / "other.nc", engine="h5netcdf")
    with pytest.raises(ValueError, match="other.nc is not a fit saved by bdr_stan: it has no attr"):
        read(tmp_path / "other.nc")


def test_damage_is_told(groups, tmp_path):
    path = tmp_path / "fit.nc"
    write(path, groups, {})
    content = path.read_bytes()
    for length in (0, 1, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match=r"fit.nc is (not a fit saved by bdr_stan|damaged)"):
            read(path)
    path.write_bytes(content)
    with h5py.File(path, "a") as file:
        del file["posterior/w"]
    with pytest.raises(ValueError, match="fit.nc is damaged, posterior has no w: copy it again"):
        read(path)


def test_a_file_is_no_folder(groups, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match="file is a file, not a folder"):
        write(tmp_path / "file" / "fit.nc", groups, {})
    with pytest.raises(IsADirectoryError, match="is a folder: give the file of a fit"):
        read(tmp_path)


def test_a_fit_needs_no_other_file(groups, tmp_path):
    path, other = tmp_path / "fit.nc", tmp_path / "other.h5"
    with h5py.File(other, "w") as file:
        file["x"] = np.arange(3.0)
    layout = h5py.VirtualLayout((3,), float)
    layout[:] = h5py.VirtualSource(other, "x", (3,))
    added = {
        "posterior/x is a link": lambda g: g.__setitem__("x", h5py.ExternalLink(other, "x")),
        "posterior/y is a link": lambda g: g.__setitem__("y", h5py.SoftLink("/posterior/w")),
        "posterior/z lies in another file": lambda g: g.create_virtual_dataset("z", layout),
        r"posterior/v has 8.0e\+12 bytes, more than its file can hold": lambda g: g.create_dataset(
            "v", shape=(10**12,), dtype="f8", chunks=(10**6,)
        ),
    }
    for said, add in added.items():
        write(path, groups, {})
        with h5py.File(path, "a") as file:
            add(file["posterior"])
        with pytest.raises(ValueError, match=f"{said}; do not load files of unknown origin"):
            read(path)


def test_an_interrupt_waits_for_hdf5_and_leaves_the_old_file(groups, tmp_path, monkeypatch):
    """HDF5 hangs if an interrupt falls into its calls back to Python, so none may."""
    write(tmp_path / "fit.nc", groups, {"before": 1})
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # workers ignore it
    returned = []
    dump_to_store = xr.Dataset.dump_to_store

    def interrupted(self, *arguments, **options):
        signal.raise_signal(signal.SIGINT)
        returned.append(dump_to_store(self, *arguments, **options))

    monkeypatch.setattr(xr.Dataset, "dump_to_store", interrupted)
    try:
        with pytest.raises(KeyboardInterrupt):
            write(tmp_path / "fit.nc", groups, {"before": 0})
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(returned) == len(groups)
    assert [path.name for path in tmp_path.iterdir()] == ["fit.nc"]
    assert read(tmp_path / "fit.nc")[1] == {"before": 1}


@pytest.mark.parametrize("kind", ["fit", "report", "table"])
def test_a_full_disk_ends_in_a_sentence_and_leaves_the_old_file(kind, groups, tmp_path):
    """In a process of its own: HDF5 itself ends in a segmentation fault."""
    writing = {
        "fit": "from bdr_stan.results.files import read, write; write(path, read(whole)[0], {})",
        "report": "from bdr_stan.report.page import write_page; "
        "write_page(path, 'title', 'lead ' * 10**5, [])",
        "table": "from bdr_stan.results.files import written_whole; from pathlib import Path\n"
        "with written_whole(Path(path)) as partial: partial.write_text('1,' * 10**5)",
    }[kind]
    whole, path = tmp_path / "whole.nc", tmp_path / "old"
    write(whole, groups, {})
    path.write_text("old")
    run = subprocess.run(
        [
            sys.executable,
            "-Bc",  # else it would leave half of the byte code of a module for all to read
            "import resource, sys; whole, path = sys.argv[1:]; "
            f"resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)); {writing}",
            whole,
            path,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1, run.stderr
    assert f"OSError: cannot save to {path}: the disk is full; make room" in run.stderr
    assert path.read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["old", "whole.nc"]


def test_a_planted_link_is_not_followed(tmp_path, monkeypatch):
    victim, path = tmp_path / "victim", tmp_path / "fit.nc"
    victim.write_text("precious")
    monkeypatch.setattr(files.secrets, "token_hex", lambda n: "0")
    for name in (f"{os.getpid()}", f"{os.getpid()}-0"):
        path.with_name(f".fit.nc.{platform.node()}-{name}.partial").symlink_to(victim)
    with pytest.raises(FileExistsError), files.written_whole(path) as partial:
        partial.write_text("new")
    assert victim.read_text() == "precious"
    monkeypatch.undo()
    with files.written_whole(path) as partial:
        partial.write_text("new")
    assert (victim.read_text(), path.read_text()) == ("precious", "new")


def test_a_folder_that_cannot_be_written_to_is_named(groups, tmp_path, monkeypatch):
    def refused(*arguments):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(files.os, "open", refused)
    with pytest.raises(
        PermissionError, match=r"cannot save to .*fit.nc: the folder .* \(Permission"
    ):
        write(tmp_path / "fit.nc", groups, {})


def test_modes_of_files_follow_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        with files.written_whole(tmp_path / "page.html") as partial:
            partial.write_text("")
    finally:
        os.umask(before)
    assert (tmp_path / "page.html").stat().st_mode & 0o777 == 0o640


def test_arrays_of_a_configuration_are_a_vector_for_each_type():
    arrays = {
        "matrix": np.arange(6.0).reshape(2, 3).T,
        "flags": np.array([True, False]),
        "none": np.empty((0, 4)),
        "counts": np.array([[3, 4]]),
        "number": np.array(7.5),
        "single": np.array([0.1], np.float32),
    }
    groups, config = files.with_arrays({}, {}, arrays)
    (vectors,) = groups.values()
    assert set(vectors) == {"float64", "bool", "int64", "float32"}
    found = files.arrays_of(groups, json.loads(json.dumps(config)))
    assert list(found) == list(arrays)
    for name, array in found.items():
        assert array.dtype == arrays[name].dtype
        np.testing.assert_array_equal(array, arrays[name], strict=True)
