"""Draw the pictures of the pages, docs/NAME.png, of at most 120 kB each.

python docs/pictures                    all pictures: `make gallery`
python docs/pictures concept terms      some of them, by their names
python docs/pictures none               none: make pictures small that an experiment has written
"""

import sys

import matplotlib as mpl
from catalogue import PICTURES
from common import DOCS, all_pictures, shrink


def main(names):
    mpl.use("Agg")
    for name in names or PICTURES:
        if name != "none":
            (DOCS / f"{name}.png").write_bytes(PICTURES[name]())
    for path in all_pictures():
        shrink(path)


if __name__ == "__main__":
    main(sys.argv[1:])
