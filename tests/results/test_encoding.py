"""encoding: arrays as a vector for each type of number, and back."""

import json

import numpy as np

from bdr_stan.results.encoding import packed, unpacked


def test_unpacked_arrays_are_those_that_were_packed():
    arrays = {
        "matrix": np.arange(6.0).reshape(2, 3).T,
        "flags": np.array([True, False]),
        "none": np.empty((0, 4)),
        "counts": np.array([[3, 4]]),
        "number": np.array(7.5),
        "single": np.array([0.1], np.float32),
    }
    vectors, shapes = packed(arrays)
    assert set(vectors) == {"float64", "bool", "int64", "float32"}
    found = unpacked(vectors, json.loads(json.dumps(shapes)))
    assert list(found) == list(arrays)
    for name, array in found.items():
        assert array.dtype == arrays[name].dtype
        np.testing.assert_array_equal(array, arrays[name], strict=True)
