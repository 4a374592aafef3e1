"""Lines of Markdown over 100 columns: prints them and exits with 1. Run by `make lint`.

Tables, code blocks, and pages that experiments write are exempt.
"""

import re
import sys
from pathlib import Path

WIDTH = 100
ROOT = Path(__file__).parents[1]


def long_lines(text):
    """Numbers of the lines of prose that are too long."""
    in_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r"\s*(```|~~~)", line):
            in_code = not in_code
        elif len(line) > WIDTH and not in_code and not re.match(r"\||    ", line):
            yield number


if __name__ == "__main__":
    folders = ("docs", "docs/api", "docs/tutorials", "docs/explanation", "benchmarks", ".")
    paths = [path for folder in folders for path in sorted((ROOT / folder).glob("*.md"))]
    found = [
        f"{path.relative_to(ROOT)}:{number}: longer than {WIDTH} columns"
        for path in paths
        for number in long_lines(path.read_text())
    ]
    print("\n".join(found) or "All lines of Markdown are within 100 columns")
    sys.exit(bool(found))
