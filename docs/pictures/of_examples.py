"""Pictures of the examples and of the demonstration."""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import numpy as np
from common import DOCS, png
from matplotlib.colors import LogNorm

# Name -> program of the environment, its argument, and the picture that it writes.
EXAMPLES = {
    "demo": ("bdr-stan", "demo", "demo_output/demo.png"),
    "influence": ("python", DOCS.parent / "examples/influence.py", "influence.png"),
    "maps": ("python", DOCS.parent / "examples/map_from_files.py", "maps/rates.png"),
    "space_time": ("python", DOCS.parent / "examples/space_time.py", "space_time.png"),
}


def run(name, folder):
    """Run an example in an empty folder."""
    program, argument, _ = EXAMPLES[name]
    subprocess.run([Path(sys.executable).with_name(program), argument], cwd=folder, check=True)


def example(name):
    """The picture that an example writes."""
    with TemporaryDirectory() as folder:
        run(name, folder)
        return (Path(folder) / EXAMPLES[name][-1]).read_bytes()


def maps():
    """True rate and posterior mean, from the files of the example."""
    with TemporaryDirectory() as folder:
        run("maps", folder)
        return true_and_estimated(Path(folder))


def true_and_estimated(folder):
    """True rate and posterior mean of the pixels, with the borders of the districts."""
    import geopandas as gpd
    import rioxarray

    rates = {
        "true rate": rioxarray.open_rasterio(folder / "country/rate.tif")[0],
        "posterior mean": rioxarray.open_rasterio(folder / "maps/rates.tif")[0],
    }
    borders = gpd.read_file(folder / "maps/districts.gpkg")
    ends = [float(end(rate)) for end in (np.min, np.max) for rate in rates.values()]
    norm = LogNorm(1000 * min(ends), 1000 * max(ends))
    bar = {"label": "cases per 1,000 people", "location": "bottom", "format": "%g", "pad": 0.02}
    figure, panels = plt.subplots(1, 2, figsize=(8, 4.6), layout="compressed")
    for ax, (title, rate) in zip(panels, rates.items(), strict=True):
        (1000 * rate).plot(ax=ax, norm=norm, cbar_kwargs=bar)
        borders.boundary.plot(ax=ax, color="0.3", linewidth=0.25)
        ax.set(title=title, aspect="equal")
        ax.axis("off")
    return png(figure, 1050)  # few colours of many pixels would be bands
