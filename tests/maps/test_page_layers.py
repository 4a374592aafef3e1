"""Layers of a map page: order of rows and columns, titles, scales, ticks, and what is refused."""

import numpy as np
import pytest
import xarray as xr

from bdr_stan.maps import write_map_page
from bdr_stan.maps.page_data import (
    Layer,
    Scale,
    colour_scales,
    common_grid,
    described,
    open_maps,
    read_layers,
    readout,
)


def layer(name, lowest=0.5, highest=8.0, log=False):
    return Layer(name, lowest, (lowest + highest) / 2, highest, log)


def test_rows_run_south_and_columns_east(months):
    june = months["June"]
    for turned in (june[{"y": slice(None, None, -1)}], june.sortby("x", ascending=False)):
        for each in (june, turned):
            opened = open_maps(each)
            transform = common_grid(opened).transform
            assert transform.e < 0 < transform.a
            np.testing.assert_array_equal(opened[""]["mean"], june["mean"])
            assert transform == june.rio.transform()


def test_files_are_maps_too(months, tmp_path):
    path = tmp_path / "june.tif"
    months["June"].rio.to_raster(path)
    layers = open_maps({"June": path})["June"]
    assert list(layers) == list(months["June"].data_vars)
    np.testing.assert_array_equal(layers["sd"], months["June"]["sd"])


def test_layers_have_the_ranges_of_all_times(months):
    layers, filled = read_layers(open_maps(months), log=False)
    both = xr.concat(list(months.values()), "month")
    np.testing.assert_array_equal(filled, both["mean"].notnull().any("month"))
    for each in layers:
        values = both[each.name]
        found = each.lowest, each.average, each.highest
        np.testing.assert_allclose(found, [values.min(), values.mean(), values.max()])


def test_titles_are_those_of_the_names():
    titles = {
        "mean": "Mean",
        "sd": "Standard deviation",
        "quantile_0.025": "2.5% quantile",
        "exceedance_0.1": "Probability above 0.1",
        "exceedance_1e+06": "Probability above 1e+06",
        "exceedance_-2": "Probability above -2",
        "quantile_of_rain": "quantile_of_rain",
        "rain": "rain",
    }
    assert {name: layer(name).title for name in titles} == titles
    assert [name for name in titles if layer(name).is_probability] == list(titles)[3:6]


def test_quantiles_have_the_colours_of_the_mean():
    layers = [
        layer("quantile_0.1", 0.2, 3),
        layer("mean", 1, 5),
        layer("sd", 0.1, 0.4),
        layer("quantile_0.9", 2, 9),
        layer("exceedance_3", 0.25, 0.5),
    ]
    scales = colour_scales(layers)
    assert scales == [(1, 5, False), (1, 5, False), (0.1, 0.4, False), (1, 5, False), (0, 1, False)]
    low, mean, _, high, above = (described(*each, "rate") for each in zip(layers, scales))
    np.testing.assert_allclose(low["colours"], [0.8 / 2.8, 4.8 / 2.8])
    assert (low["beyond"], mean["beyond"], high["beyond"]) == (
        [True, False],
        [False, False],
        [False, True],
    )
    assert mean["colours"] == [0, 1] and above["colours"] == [0, 1]
    assert (mean["unit"], above["unit"]) == ("rate", "")
    assert colour_scales(layers[3:4]) == [(2, 9, False)]


def test_ticks_are_round_numbers_in_their_places():
    ticks = described(layer("rain"), Scale(0.5, 8.0), "")["ticks"]
    assert ticks == [(pytest.approx((x - 0.5) / 7.5), f"{x}") for x in (2, 4, 6, 8)]
    wide = described(layer("mean", 0.05, 20, log=True), Scale(0.05, 20, log=True), "")["ticks"]
    texts = [text for _, text in wide]
    assert texts == ["0.1", "0.3", "1", "3", "10"]
    np.testing.assert_allclose(
        [place for place, _ in wide], np.log(np.array(texts, float) / 0.05) / np.log(400)
    )
    narrow = described(layer("mean", 2, 4, log=True), Scale(2, 4, log=True), "")["ticks"]
    assert narrow[0] == (0, "2") and len(narrow) >= 4
    one = described(layer("mean", 2, 2), Scale(2, 2), "")
    assert one["ticks"] == [(0, "2")] and one["colours"] == [0, 1]


def test_two_quantiles_are_an_interval():
    names = ["mean", "quantile_0.025", "quantile_0.5", "quantile_0.975", "quantile_0.3"]
    assert readout([layer(name) for name in names]) == [
        {"title": "Mean", "layers": [0]},
        {"title": "95% interval", "layers": [1, 3]},
        {"title": "50% quantile", "layers": [2]},
        {"title": "30% quantile", "layers": [4]},
    ]


def test_maps_that_cannot_be_drawn(months, tmp_path):
    june = months["June"]
    empty = june.assign(sd=june["sd"].where(False))
    far = june.assign_coords(x=june.x + 500)
    far = far.rio.write_transform(far.rio.transform(recalc=True))
    zero = june.assign(mean=june["mean"] - june["mean"].min())
    cells = ("y", "x"), np.broadcast_to(1.0, (4097, 4096))
    large = xr.Dataset({"mean": cells}, {"y": -np.arange(4097.0), "x": np.arange(4096.0)})
    cases = [
        (3, {}, TypeError, "maps must be an xarray.Dataset.*found a int"),
        ({}, {}, ValueError, "maps is empty"),
        ({"May": june["mean"]}, {}, TypeError, "the map 'May' must be .*found a DataArray"),
        (june["mean"], {}, TypeError, "found a DataArray"),
        (tmp_path / "no.tif", {}, FileNotFoundError, "there is no file"),
        ({1: june, "1": june}, {}, ValueError, "two maps have the label '1': give each"),
        (june[[]], {}, ValueError, "the map has no layers"),
        ({"May": june[[]]}, {}, ValueError, "the map 'May' has no layers"),
        (june.drop_vars("spatial_ref"), {}, ValueError, "the variable 'mean' has no CRS: set it"),
        (empty, {}, ValueError, "the layer 'sd' has no value to draw$"),
        (months | {"June": empty}, {}, ValueError, "'sd' has no value to draw at 'June'"),
        (zero, {"log": True}, ValueError, "'mean' is 0 at its lowest pixel: log=True needs"),
        (
            june.assign({"exceedance_2": 100 * june["exceedance_1.5"]}),
            {},
            ValueError,
            "the layer 'exceedance_2' has values from .* but probabilities are between 0 and 1",
        ),
        (
            months | {"June": june.drop_vars("sd")},
            {},
            ValueError,
            "the maps 'May <1>' and 'June' do not have the same layers: 'sd' is in one",
        ),
        (months | {"June": far}, {}, ValueError, "the map 'mean of June' has .* cells .* May"),
        (
            months | {"June": june.rio.write_crs("EPSG:4326")},
            {},
            ValueError,
            "'mean of June' is in EPSG:4326, but that of May <1> in EPSG:32736",
        ),
        (large.rio.write_crs("EPSG:32736"), {}, ValueError, "4097 x 4096 cells.*coarsen"),
    ]  # fmt: skip
    for maps, options, kind, message in cases:
        with pytest.raises(kind, match=message) as raised:
            write_map_page(tmp_path / "map.html", maps, **options)
        assert "\n" not in str(raised.value)
        assert not [path for path in tmp_path.iterdir() if path.is_file()]
