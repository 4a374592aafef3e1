"""What a map page contains, read back from its file."""

import base64
import json
import re
import zlib

import numpy as np


def decoded(text, shape):
    """Codes of a raster from their text, by cumulative sums along rows modulo 2^16."""
    high, low = np.frombuffer(zlib.decompress(base64.b64decode(text)), np.uint8).reshape(2, -1)
    steps = high.astype(int) * 256 + low
    return np.cumsum(steps.reshape(shape), axis=1) % 2**16


def values_of_codes(codes, low, high, log):
    """Values of codes on a scale; NaN for the code 0."""
    place = (np.where(codes == 0, np.nan, codes) - 1) / 65534
    return low * (high / low) ** place if log else low + place * (high - low)


def page_data(path):
    """What the script of the page has, as a dict."""
    found = re.search(r'<script type="application/json" id="map-data">(.*?)</script>',
                      path.read_text(), re.DOTALL)  # fmt: skip
    return json.loads(found.group(1))


def page_values(data):
    """Values in the page, shape (times, layers, rows, columns)."""
    shape = data["rows"], data["columns"]
    return np.array(
        [
            [
                values_of_codes(decoded(text, shape), layer["low"], layer["high"], layer["log"])
                for layer, text in zip(data["layers"], texts)
            ]
            for texts in data["codes"]
        ]
    )
