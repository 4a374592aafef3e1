"""Size of an interactive map, and its frames per second in headless Chromium.

    python benchmarks/map_page.py            10^6 pixels, 5 layers, 500 districts
    python benchmarks/map_page.py --quick    10,000 pixels, 50 districts

Writes the files of a generated country to a temporary folder and removes it. The posterior of each
pixel is lognormal about the true rate, with independent noise, which compresses badly. The map is
1400 x 900 pixels, drawn by the processor; each frame of a moving map has an event of the wheel.
"""

import tempfile
import time
from pathlib import Path

import click
import geopandas as gpd
import numpy as np
import rioxarray
from scipy.stats import norm

from bdr_stan.datasets import country_files
from bdr_stan.maps import write_map_page
from tests.builders.browser import BROWSER, framed, visit

MEASURE = """
<script>
const begin = performance.now(), next = () => new Promise(requestAnimationFrame);
addEventListener("load", async () => {
  const page = document.querySelector("iframe").contentDocument;
  const canvas = page.querySelector("canvas"), title = page.getElementById("legend-title");
  while (!title.textContent) await next();
  const shown = performance.now(), before = title.textContent, gaps = [];
  page.querySelectorAll("input[name=layer]")[1].click();
  while (title.textContent === before) await next();
  const layer = performance.now() - shown, box = canvas.getBoundingClientRect();
  for (let i = 0, last = performance.now(); i < 200; i++) {
    const place = {clientX: box.x + 300 + i, clientY: box.y + 300, deltaY: i % 50 < 25 ? -40 : 40};
    canvas.dispatchEvent(new WheelEvent("wheel", {...place, cancelable: true}));
    await next();
    gaps.push(performance.now() - last);
    last = performance.now();
  }
  fetch("/", {method: "POST", body: JSON.stringify({first: shown - begin, layer, gaps})});
});
</script>"""


def country_maps(folder, side, n_districts):
    """Five layers of a lognormal posterior, and the districts."""
    files = country_files(folder, side=side, n_districts=n_districts)
    rng, rate = np.random.default_rng(1), rioxarray.open_rasterio(files / "rate.tif")[0]
    noise = rng.normal(size=rate.shape)
    f, sd = np.log(rate) + 0.1 * noise, 0.3 + 0.02 * rng.normal(size=rate.shape)
    mean = np.exp(f + sd**2 / 2)
    maps = {
        "mean": mean,
        "sd": mean * np.sqrt(np.expm1(sd**2)),
        "quantile_0.025": np.exp(f - 1.96 * sd),
        "quantile_0.975": np.exp(f + 1.96 * sd),
        "exceedance_0.1": rate.copy(data=norm.sf((np.log(0.1) - f) / sd)),
    }
    table = gpd.read_file(files / "districts.gpkg").set_index("district")
    return rate.to_dataset(name="mean").assign(maps), table


@click.command(help=__doc__)
@click.option("--quick", is_flag=True)
def main(quick):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        side, n_districts = (100, 50) if quick else (1000, 500)
        maps, table = country_maps(folder / "country", side, n_districts)
        start = time.perf_counter()
        page = write_map_page(folder / "map.html", maps, table, log=True)
        seconds = time.perf_counter() - start
        print(
            f"{side**2:,} pixels, {len(maps)} layers, {n_districts} districts: written in ", end=""
        )
        print(f"{seconds:.1f} s, {page.stat().st_size / 1e6:.1f} MB")
        if BROWSER is None:
            print("no frames are measured without Chromium")
            return
        found, _ = visit(framed({"map": page}, [1400], dark=False) + MEASURE, folder)
        gaps = np.array(found["gaps"])
        print(f"first picture after {found['first']:.0f} ms, a new layer {found['layer']:.0f} ms")
        print(f"{len(gaps)} frames: median {np.median(gaps):.0f} ms, ", end="")
        print(f"95% below {np.quantile(gaps, 0.95):.0f} ms, longest {gaps.max():.0f} ms")


if __name__ == "__main__":
    main()
