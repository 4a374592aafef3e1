"""The generated country of `data_gen.malaria` as the files that mappers have.

    covariates/NAME.tif   the 18 covariates; elevation in whole metres, no data -9999
    population.tif        people of each pixel; NaN, which is no data, off the land
    rate.tif              the truth: expected cases per person and year
    districts.gpkg        polygons with columns district and cases

``python -m data_gen.map_files --help`` writes them.
"""

import shutil
import tempfile
from pathlib import Path

import click
import numpy as np

from data_gen.malaria import FEATURES, N_DISTRICTS, N_PIXELS, load_country, write_country

CRS = "EPSG:32736"  # UTM 36 south, in metres
NODATA = -9999


def make_map_files(folder, *, n_pixels=N_PIXELS, n_districts=N_DISTRICTS, seed=1):
    """Make a country by `write_country` and write its files, as `write_map_files` does."""
    with tempfile.TemporaryDirectory() as made:
        write_country(made, n_pixels=n_pixels, n_districts=n_districts, seed=seed)
        return write_map_files(load_country(made), folder)


def write_map_files(country, folder, *, simplify=1.0):
    """Write rasters and polygons of a country.

    Parameters
    ----------
    country : data_gen.malaria.Country
    folder : str or Path, which does not exist yet
    simplify : float, >= 0, pixels
        By how much borders, which follow the pixels, are straightened; with 0 they cut no pixels.

    Returns
    -------
    dict: "covariates" -> dict, name -> Path; "population", "rate", "districts" -> Path

    Raises
    ------
    FileExistsError : the folder exists.
    FileNotFoundError : there is no folder to make it in.
    """
    folder = Path(folder)
    if folder.exists():
        raise FileExistsError(f"{folder} exists: remove it, or choose another folder")
    if not folder.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {folder.parent}: create it first")
    names = FEATURES[:-2]
    # The folder appears under its name when it is complete.
    partial = folder.with_name(f".partial-{folder.name}")
    try:
        (partial / "covariates").mkdir(parents=True, exist_ok=True)
        transform = _transform(country)
        for k, name in enumerate(names):
            image = country.image(country.bags.points[:, k])
            if name == "elevation":
                image = np.where(np.isnan(image), NODATA, np.round(image)).astype(np.int16)
            path = partial / "covariates" / f"{name}.tif"
            _write_raster(path, image, transform, NODATA if name == "elevation" else np.nan)
        people = country.image(1000 * country.bags.weights)
        _write_raster(partial / "population.tif", people, transform, np.nan)
        _write_raster(partial / "rate.tif", country.image(country.rate / 1000), transform, np.nan)
        _districts(country, transform, simplify).to_file(partial / "districts.gpkg")
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return {
        "covariates": {name: folder / "covariates" / f"{name}.tif" for name in names},
        **{name: folder / f"{name}.tif" for name in ("population", "rate")},
        "districts": folder / "districts.gpkg",
    }


def _transform(country):
    """From pixels to coordinates: the middle of the country is that of the zone, 1,500 km south."""
    from affine import Affine

    side, (rows, cols) = 1000 * country.pixel_km, country.shape
    return Affine(side, 0, 500_000 - side * cols / 2, 0, -side, 8_500_000 + side * rows / 2)


def _write_raster(path, image, transform, nodata):
    import rasterio

    image = image if image.dtype == np.int16 else image.astype(np.float32)
    options = {"dtype": image.dtype, "nodata": nodata, "compress": "deflate", "tiled": True}
    rows, cols = image.shape
    with rasterio.open(
        path, "w", "GTiff", cols, rows, 1, crs=CRS, transform=transform, **options
    ) as file:
        file.write(image, 1)


def _districts(country, transform, simplify):
    """Polygons around the pixels of each district, without gaps or overlaps."""
    import geopandas as gpd
    import shapely
    from rasterio import features

    n = len(country.bags)
    number = country.image(np.arange(n))
    land = np.isfinite(number)
    parts = features.shapes(np.where(land, number, -1).astype(np.int32), mask=land)
    shapes, district = zip(*((shapely.geometry.shape(shape), int(k)) for shape, k in parts))
    shapes, district = np.array(shapes), np.array(district)
    # Neighbours must have the same corners before their common borders are simplified.
    shapes = shapely.transform(shapely.segmentize(shapes, 1), np.round)
    whole = np.array([shapely.union_all(shapes[district == k]) for k in range(n)])
    if simplify:
        whole = shapely.coverage_simplify(whole, simplify)
    scale, corner = np.array([transform.a, transform.e]), np.array([transform.c, transform.f])
    whole = shapely.transform(whole, lambda xy: xy * scale + corner)
    names = [f"D{k:03d}" for k in range(n)]
    return gpd.GeoDataFrame({"district": names, "cases": country.y}, geometry=whole, crs=CRS)


@click.command()
@click.option("--pixels", "n_pixels", default=N_PIXELS, show_default=True)
@click.option("--districts", "n_districts", default=N_DISTRICTS, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
@click.option("-o", "--output", required=True, help="Folder to make.")
def main(n_pixels, n_districts, seed, output):
    """Write a synthetic country as GeoTIFFs and a GeoPackage."""
    try:
        make_map_files(output, n_pixels=n_pixels, n_districts=n_districts, seed=seed)
    except (ValueError, OSError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"{output}: {n_districts} districts, {n_pixels} pixels")


if __name__ == "__main__":
    main()
