"""Arrays on a memory-mapped file are told from others, and their pages let go."""

import numpy as np
import pytest

from bdr_stan.bags.chunks import memory_map, release


def test_views_lie_on_the_map(mapped):
    for view in (mapped, mapped[3:], mapped[2:, :1].T, np.asarray(mapped)[::2]):
        assert memory_map(view) is not None
        assert memory_map(view).shape == (20, 2)
    for array in (np.array(mapped), mapped[[0, 1]], mapped + 1, np.ones(3), [1, 2], None):
        assert memory_map(array) is None


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_released_pages_keep_what_was_read_and_written(mapped, tmp_path, mode):
    expected = np.array(mapped)
    points = np.load(tmp_path / "points.npy", mmap_mode=mode)
    if mode != "r":
        points[4] = expected[4] = 7.0
    release(points[2:])
    np.testing.assert_array_equal(points, expected)


def test_nothing_to_release():
    release(np.ones(3))
