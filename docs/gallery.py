"""Draw the pictures of the examples for tutorials/index.md, and make large pictures of docs/ small.

python docs/gallery.py              all examples: `make gallery`
python docs/gallery.py influence    one
python docs/gallery.py none         none: pictures of docs/ that an experiment has written
"""

import io
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

DOCS = Path(__file__).resolve().parent
LARGEST = 120_000  # bytes of a picture
# Picture in docs/ -> program of the environment, its argument, and the picture that it writes.
EXAMPLES = {
    "demo": ("bdr-stan", "demo", "demo_output/demo.png"),
    "influence": ("python", DOCS.parent / "examples/influence.py", "influence.png"),
    "maps": ("python", DOCS.parent / "examples/map_from_files.py", "maps/rates.png"),
    "space_time": ("python", DOCS.parent / "examples/space_time.py", "space_time.png"),
}


def pictures():
    """Paths of the pictures of the pages."""
    return sorted(p for p in DOCS.rglob("*.png") if "_build" not in p.parts)


def draw(name):
    """Run an example in an empty folder, and copy its picture to docs/."""
    program, argument, picture = EXAMPLES[name]
    with TemporaryDirectory() as folder:
        command = [Path(sys.executable).with_name(program), argument]
        subprocess.run(command, cwd=folder, check=True)
        shutil.copyfile(Path(folder) / picture, DOCS / f"{name}.png")


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
    sys.exit(f"{path} stays above {LARGEST / 1000:.0f} kB: draw it with a lower dpi")


def main(names):
    for name in names or EXAMPLES:
        if name != "none":
            draw(name)
    for path in pictures():
        shrink(path)


if __name__ == "__main__":
    main(sys.argv[1:])
