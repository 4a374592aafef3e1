"""Colours, files and sizes of the pictures of the pages."""

import io
import sys
from pathlib import Path

import matplotlib.pyplot as plt
from PIL import Image

from bdr_stan.plots import COVERS, MISSES

DOCS = Path(__file__).resolve().parents[1]
BLUE, ORANGE, GREEN, GREY = COVERS, MISSES, "#009E73", "0.5"  # of Okabe and Ito
WIDTH = 1400  # pixels; pages show pictures at about 700
LARGEST = 120_000  # bytes of a picture


def axes(n, width, height, **options):
    """A figure with n panels side by side, in inches."""
    return plt.subplots(1, n, figsize=(width, height), layout="constrained", **options)


def png(figure, width=WIDTH):
    """A figure as the content of a PNG file, so many pixels wide."""
    content = io.BytesIO()
    figure.savefig(content, dpi=width / figure.get_figwidth())
    plt.close(figure)
    return content.getvalue()


def all_pictures():
    """Paths of the pictures of the pages."""
    return sorted(p for p in DOCS.rglob("*.png") if "_build" not in p.parts)


def shrink(path):
    """Write a picture of more than `LARGEST` bytes with as many colours as it then may have."""
    if path.stat().st_size <= LARGEST:
        return
    picture = Image.open(path).convert("RGB")
    for n_colours in (256, 128, 64, 32):
        content = io.BytesIO()
        # The palette that covers all colours: by default bars of colours become bands.
        widest = Image.Quantize.MAXCOVERAGE
        fewer = picture.quantize(n_colours, widest, kmeans=1, dither=Image.Dither.NONE)
        fewer.save(content, "PNG", optimize=True)
        if content.tell() <= LARGEST:
            path.write_bytes(content.getvalue())
            print(f"{path}: {n_colours} colours, {content.tell() / 1000:.0f} kB")
            return
    sys.exit(f"{path} stays above {LARGEST / 1000:.0f} kB: draw it with fewer pixels")
