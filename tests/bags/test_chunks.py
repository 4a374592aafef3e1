"""Chunks of the stack against the plain list of every point's bag."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_array_equal, assert_equal

from bdr_stan.bags import Bags


@pytest.mark.parametrize("n_points", [1, 2, 3, 4, 7, 16, 59, 60, 61])
def test_chunks_cover_every_point_in_order(several, n_points):
    chunks = several.chunks(n_points)
    bag_of_point = [i for i, size in enumerate(several.sizes) for _ in range(size)]
    assert [row for chunk in chunks for row in range(chunk.start, chunk.stop)] == list(
        range(len(several.points))
    )
    for chunk in chunks:
        assert 1 <= chunk.stop - chunk.start <= n_points
        assert_array_equal(chunk.bag, bag_of_point[chunk.start : chunk.stop])
        assert_array_equal(np.unique(chunk.bag), range(chunk.first, chunk.last))
        for i, a, b in zip(range(chunk.first, chunk.last), chunk.cuts, chunk.cuts[1:]):
            assert_array_equal(np.flatnonzero(chunk.bag == i), range(a, b))
        assert chunk.cuts[0] == 0 and chunk.cuts[-1] == chunk.stop - chunk.start


@pytest.mark.parametrize("n_points", [1, 2, 3, 4, 7, 16, 59, 60, 61])
def test_chunks_hold_whole_bags_or_a_piece_of_one(several, n_points):
    chunks = several.chunks(n_points)
    for chunk in chunks:
        whole = several.offsets[chunk.last] - several.offsets[chunk.first]
        assert chunk.stop - chunk.start == whole or chunk.last == chunk.first + 1
        pieces = [c.stop - c.start for c in chunks if c.first == chunk.first]
        assert len(pieces) == (1 if whole <= n_points else -(-whole // n_points))
        assert max(pieces) - min(pieces) <= 1
    for chunk, following in itertools.pairwise(chunks):
        # The next bag did not fit.
        assert several.offsets[following.first + 1] - chunk.start > n_points


def test_chunks_of_an_example():
    bags = Bags.from_points(np.zeros((20, 1)), sizes=[2, 3, 1, 10, 4])
    chunks = bags.chunks(5)
    ends = [(chunk.start, chunk.stop, chunk.first, chunk.last) for chunk in chunks]
    assert ends == [(0, 5, 0, 2), (5, 6, 2, 3), (6, 11, 3, 4), (11, 16, 3, 4), (16, 20, 4, 5)]
    assert_equal([list(c.cuts) for c in chunks], [[0, 2, 5], [0, 1], [0, 5], [0, 5], [0, 4]])
    assert_array_equal(chunks[0].bag, [0, 0, 1, 1, 1])
    assert_array_equal(chunks[3].bag, [3, 3, 3, 3, 3])


def test_a_chunk_holds_a_point(bags):
    with pytest.raises(ValueError, match="must have at least one point, found n_points=0"):
        bags.chunks(0)
