"""Time and memory of bags from rasters and polygons, against zonal sums by other means.

    python benchmarks/rasters.py            10^6 pixels, 18 covariates and population, 957 districts
    python benchmarks/rasters.py --quick    3,000 pixels, 20 districts

Writes the files of a generated country to a temporary folder and removes it. Reading has a process
of its own, so that its peak memory is its own. The zonal sums are areas of intersections by
shapely, pixel by pixel, of the given number of districts.
"""

import resource
import tempfile
import time
from functools import partial
from pathlib import Path

import click
import geopandas as gpd
import numpy as np
import rasterio
import shapely
from embedding import in_own_process

from bdr_stan import Bags
from data_gen.malaria import N_DISTRICTS, N_PIXELS
from data_gen.map_files import make_map_files


def read(files):
    """What the bags are, their totals, wall and processor seconds, peak memory in MB."""
    wall, cpu = time.perf_counter(), time.process_time()
    bags = Bags.from_rasters(files["covariates"], files["districts"], files["population"])
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return repr(bags), dict(zip(bags.ids, bags.totals)), wall, cpu, peak


def zonal_sums(files, ids):
    """People of some districts: sums of population x area of pixel within district."""
    table = gpd.read_file(files["districts"]).set_index("district").loc[ids]
    with rasterio.open(files["population"]) as file:
        people, transform = file.read(1, masked=True).filled(0).astype(float), file.transform
    row, col = np.nonzero(np.nan_to_num(people))
    left, top = transform.c + transform.a * col, transform.f + transform.e * row
    cells = shapely.box(left, top + transform.e, left + transform.a, top)
    tree = shapely.STRtree(cells)
    sums = []
    for district in table.geometry:
        shapely.prepare(district)
        near = tree.query(district, predicate="intersects")
        inside = shapely.contains_properly(district, cells[near])
        cut = shapely.area(shapely.intersection(cells[near[~inside]], district))
        share = np.ones(len(near))
        share[~inside] = cut / abs(transform.a * transform.e)
        sums.append(people[row[near], col[near]] @ share)
    return np.array(sums)


@click.command()
@click.option("--pixels", "n_pixels", default=N_PIXELS, show_default=True)
@click.option("--districts", "n_districts", default=N_DISTRICTS, show_default=True)
@click.option("--check", "n_checked", default=100, show_default=True, help="Districts to check.")
@click.option("--quick", is_flag=True, help="3,000 pixels, 20 districts, 10 of them checked.")
def main(n_pixels, n_districts, n_checked, quick):
    """Print what was read, its cost, and how far totals lie from zonal sums."""
    if quick:
        n_pixels, n_districts, n_checked = 3000, 20, 10
    with tempfile.TemporaryDirectory() as folder:
        make = partial(make_map_files, n_pixels=n_pixels, n_districts=n_districts)
        files = in_own_process(make, Path(folder) / "maps")
        summary, totals, wall, cpu, peak = in_own_process(read, files)
        print(summary)
        print(f"read in {wall:.1f} s, {cpu:.1f} s of processor time, peak memory {peak:.0f} MB")
        ids = list(totals)[:: max(1, len(totals) // n_checked)][:n_checked]
        sums = zonal_sums(files, ids)
        error = np.abs(np.array([totals[name] for name in ids]) / sums - 1).max()
        print(
            f"people of {len(ids)} districts: at most {error:.1e} from shapely's zonal sums, "
            "relative"
        )


if __name__ == "__main__":
    main()
