"""Files and tables of districts that are refused."""

import pytest
import shapely
from builders.map_files import read


def refused_districts(country):
    """Districts, and the words in which they are refused."""
    table = country.table
    csv = country.folder / "plain.csv"
    table.drop(columns="geometry").to_csv(csv)
    broken = country.folder / "broken.gpkg"
    broken.write_text("no polygons")
    bow = shapely.Polygon([(0, 0), (1000, 1000), (1000, 0), (0, 1000)])
    crossed = table.set_geometry([bow, *table.geometry[1:]], crs=table.crs)
    points = table.set_geometry(table.centroid)
    return [
        (table.to_crs("EPSG:4326"), "the districts are in EPSG:4326, the rasters in EPSG:32736: "
         r"pass geopandas.read_file\(...\).to_crs\('EPSG:32736'\)"),
        (table.set_crs(None, allow_override=True), "the districts have no CRS"),
        (table.rename(columns={"NAME_2": "NAME"}), "no column 'NAME_2': choose by id= from 'NAME'"),
        (table.assign(NAME_2=["a", "b", "a", *"cdefg"]), "the id 'a' is in several rows"),
        (table.assign(NAME_2=[7, 1, 1, 2, 3, 4, 5, 6]), "the id 1 is in several rows"),
        (table.assign(NAME_2=["a", None, None, *"cdefg"]), "'NAME_2' is missing .*2 in total"),
        (table.iloc[:0], "there are no districts"),
        (points, "the district 'Mara 0' is a Point: districts must be polygons"),
        (crossed, "the border of the district 'Mara 0' is not valid .Self-intersection"),
        (table.translate(9e5).to_frame("geometry").assign(NAME_2=table["NAME_2"]),
         "no district has a pixel with data and weight"),
        (country.folder / "no.gpkg", "there is no file"),
        (csv, "plain.csv has no geometries"),
        (broken, "broken.gpkg is not a file that geopandas reads"),
        ([1, 2], "districts must be a GeoDataFrame or a file that geopandas reads, found a list"),
    ]  # fmt: skip


def test_districts_that_cannot_be_used(country):
    for districts, words in refused_districts(country):
        with pytest.raises((ValueError, TypeError, OSError), match=words) as error:
            read(country, districts=districts)
        assert "\n" not in str(error.value)
