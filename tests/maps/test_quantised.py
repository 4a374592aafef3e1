"""Rasters as codes and text: decoded back, within the stated rounding."""

import numpy as np
import pytest
from builders.map_pages import decoded, values_of_codes

from bdr_stan.maps.page_data import Scale, compressed


def test_codes_come_back_from_the_text(rng):
    codes = rng.integers(0, 2**16, (7, 11)).astype(np.uint16)
    np.testing.assert_array_equal(decoded(compressed(codes), codes.shape), codes)


def test_values_are_rounded_by_at_most_what_is_stated(rng):
    x = np.append(rng.gamma(2, 3, (40, 30)) + 0.01, np.full((1, 30), np.nan), axis=0)
    for log in (False, True):
        scale = Scale(np.nanmin(x), np.nanmax(x), log)
        codes = scale.codes(x)
        assert codes.dtype == np.uint16 and set(codes[-1]) == {0}
        assert (codes[:-1].min(), codes[:-1].max()) == (1, 65535)
        errors = np.abs(values_of_codes(codes[:-1], *scale) - x[:-1])
        errors = errors / x[:-1] if log else errors
        assert 0.9 * scale.rounding < errors.max() <= scale.rounding * (1 + 1e-9)


@pytest.mark.parametrize("log", [False, True])
def test_a_layer_of_one_value(log):
    scale = Scale(2.0, 2.0, log)
    np.testing.assert_array_equal(scale.codes([[2.0, np.nan]]), [[1, 0]])
    assert scale.rounding == 0


def test_smooth_maps_compress_well():
    row, col = np.mgrid[:200, :200] / 200
    codes = Scale(0.0, 2.0).codes(row + np.sin(3 * col) ** 2)
    assert len(compressed(codes)) < 0.2 * codes.nbytes
