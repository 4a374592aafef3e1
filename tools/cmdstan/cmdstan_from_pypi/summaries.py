"""CmdStan's programs stansummary and diagnose, which CmdStanPy calls, based on ArviZ.

Run as ``python summaries.py stansummary [options] FILE ...`` with one Stan CSV file per chain. A
home has a copy of this file. Table and texts are those of CmdStan 2.36 and later, with
rank-normalised diagnostics.

Source: Vehtari, Gelman, Simpson, Carpenter, Burkner (2021), Rank-normalization, folding, and
localization: an improved R-hat.
"""

import argparse
import csv
import sys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from cmdstanpy.utils import stancsv
from numpy.typing import NDArray

_MAX_RHAT, _MIN_ESS_PER_CHAIN, _MIN_BFMI = 1.01, 100, 0.3  # CmdStan's limits


class Draws(NamedTuple):
    """Contents of Stan CSV files."""

    names: list[str]  # columns as Stan prints them, "beta[1,2]"
    values: NDArray[np.float64]  # shape (chain, draw, column), without warmup
    seconds: float  # sampling time of all chains
    max_depth: int  # largest tree depth the sampler was allowed


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program named by the first argument; returns its exit code."""
    program, *rest = sys.argv[1:] if arguments is None else arguments
    try:
        return {"stansummary": stansummary, "diagnose": diagnose}[program](rest)
    except (OSError, ValueError) as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 1


# ------------------------------------------------------------------ the files


def read_draws(files: Sequence[str]) -> Draws:
    """Draws after warmup of one or more chains, truncated to the shortest."""
    names, chains, seconds, settings = zip(*map(_read_chain, files), strict=True)
    for file, columns in zip(files, names, strict=True):
        if columns != names[0]:
            raise ValueError(f"{file} has other columns than {files[0]}: name chains of one fit")
    shortest = min(map(len, chains))
    if shortest == 0:
        raise ValueError("there are no draws after warmup: run the sampler for longer")
    values = np.stack([draws[:shortest] for draws in chains])
    depth = settings[0].get("max_depth", 10)
    return Draws([_pretty(name) for name in names[0]], values, sum(seconds), depth)


def _read_chain(file):
    """Columns, draws after warmup, seconds of sampling and settings of a CSV file."""
    comments, header, rows = stancsv.parse_comments_header_and_draws(file)
    if header is None:
        raise ValueError(f"{file} has no draws: it is not an output of Stan, or its run failed")
    columns, settings = header.split(","), stancsv.parse_config(comments)
    rows = [row for row in rows if row.strip()]
    if rows and rows[-1].count(b",") != len(columns) - 1:
        rows.pop()  # incomplete where the run was ended
    warmup = 0
    if settings.get("save_warmup"):
        warmup = -(-settings.get("num_warmup", 0) // settings.get("thin", 1))
    values = np.empty((0, len(columns)))
    if rows[warmup:]:
        values = np.loadtxt(rows[warmup:], delimiter=",", ndmin=2)
    return columns, values, stancsv.parse_timing_lines(comments).get("Sampling", 0.0), settings


def _pretty(name):
    """Stan's name of a CSV column: beta.1.2 is beta[1,2], z.real is unchanged."""
    name, *rest = name.split(".")
    indices = ",".join(part for part in rest if part.isdigit())
    fields = "".join(f".{part}" for part in rest if not part.isdigit())
    return f"{name}[{indices}]{fields}" if indices else f"{name}{fields}"


def _bulk_and_tail(x):
    """Bulk and tail ESS of draws, shape (chain, draw)."""
    import arviz

    tails = (0.05, 0.95)  # those of ArviZ 1.x are others, or have to be named
    return float(arviz.ess(x, method="bulk")), float(arviz.ess(x, method="tail", prob=tails))


# ------------------------------------------------------------------ stansummary


def stansummary(arguments: Sequence[str]) -> int:
    """Print a table of all columns, or write it as CSV where a name is given."""
    parser = argparse.ArgumentParser("stansummary", description=stansummary.__doc__)
    parser.add_argument("files", nargs="+", metavar="FILE", help="Stan CSV files, one per chain")
    parser.add_argument("-c", "--csv_filename", metavar="FILE", help="write the table here")
    parser.add_argument("-p", "--percentiles", default="5,50,95", metavar="A,B,...")
    parser.add_argument("-s", "--sig_figs", type=int, metavar="N", help="digits, 1 to 18")
    given = parser.parse_args(arguments)
    percentiles = [float(text) for text in given.percentiles.replace(" ", "").split(",") if text]
    if not all(0 <= p <= 100 for p in percentiles):
        raise ValueError(f"percentiles lie between 0 and 100, found {given.percentiles}")
    draws = read_draws(given.files)
    table = [("name", *_columns(percentiles)), *_rows(draws, percentiles, given.sig_figs)]
    if given.csv_filename:
        with open(given.csv_filename, "w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows(table)
    else:
        widths = [max(len(str(row[i])) for row in table) for i in range(len(table[0]))]
        for row in table:
            cells = (str(cell).rjust(width) for cell, width in zip(row, widths, strict=True))
            print("  ".join(cells))
    return 0


def _columns(percentiles):
    quantiles = [f"{p:g}%" for p in percentiles]
    return [
        *("Mean", "MCSE", "StdDev", "MAD"),
        *quantiles,
        *("ESS_bulk", "ESS_tail", "ESS_bulk/s", "R_hat"),
    ]


def _rows(draws, percentiles, sig_figs):
    import arviz

    for i, name in enumerate(draws.names):
        x = draws.values[:, :, i]
        if np.ptp(x) == 0:  # a constant has nothing to mix
            bulk = tail = mcse = rhat = np.nan
        else:
            bulk, tail = _bulk_and_tail(x)
            mcse, rhat = float(arviz.mcse(x, method="mean")), float(arviz.rhat(x))
        mad = 1.482602218505602 * np.median(np.abs(x - np.median(x)))
        sd = np.std(x, ddof=1) if x.size > 1 else np.nan
        per_second = bulk / draws.seconds if draws.seconds else np.nan
        numbers = [x.mean(), mcse, sd, mad, *np.percentile(x, percentiles)]
        numbers += [bulk, tail, per_second, rhat]
        yield name, *(float(f"{number:.{sig_figs or 6}g}") for number in numbers)


# ------------------------------------------------------------------ diagnose


def diagnose(arguments: Sequence[str]) -> int:
    """Check draws for common problems, and say what can be done."""
    parser = argparse.ArgumentParser("diagnose", description=diagnose.__doc__)
    parser.add_argument("files", nargs="+", metavar="FILE", help="Stan CSV files, one per chain")
    files = parser.parse_args(arguments).files
    draws = read_draws(files)
    print(f"Processing csv files: {', '.join(files)}\n")
    column = dict(zip(draws.names, np.moveaxis(draws.values, 2, 0), strict=True))
    checks = []  # texts, each with whether it reports a problem
    if "treedepth__" in column:
        checks.append(_treedepth(column["treedepth__"], draws.max_depth))
    if "divergent__" in column:
        checks.append(_divergences(column["divergent__"]))
    if "energy__" in column:
        checks.append(_energy(column["energy__"]))
    parameters = {k: v for k, v in column.items() if not k.endswith("__") and np.ptp(v) > 0}
    checks += [_effective_sizes(parameters), _rhats(parameters)]
    print("\n\n".join(text for text, _ in checks))
    problem = any(found for _, found in checks)
    print("\nProcessing complete" + ("." if problem else ", no problems detected."))
    return 0


def _treedepth(depth, limit):
    title = "Checking sampler transitions treedepth.\n"
    n, hits = depth.size, int((depth >= limit).sum())
    if not hits:
        return title + "Treedepth satisfactory for all transitions.", False
    return (
        f"{title}{hits} of {n} ({100 * hits / n:.2f}%) transitions hit the maximum treedepth "
        f"limit of {limit}, or 2^{limit} leapfrog steps.\n"
        "Trajectories that are prematurely terminated due to this limit will result in slow "
        "exploration.\nFor optimal performance, increase this limit."
    ), True


def _divergences(divergent):
    title = "Checking sampler transitions for divergences.\n"
    n, hits = divergent.size, int((divergent > 0).sum())
    if not hits:
        return title + "No divergent transitions found.", False
    return (
        f"{title}{hits} of {n} ({100 * hits / n:.2f}%) transitions ended with a divergence.\n"
        "These divergent transitions indicate that HMC is not fully able to explore the "
        "posterior distribution.\nTry increasing adapt delta closer to 1.\n"
        "If this doesn't remove all divergences, try to reparameterize the model."
    ), True


def _energy(energy):
    title = "Checking E-BFMI - sampler transitions HMC potential energy.\n"
    with np.errstate(invalid="ignore", divide="ignore"):
        ebfmi = np.square(np.diff(energy, axis=1)).mean(axis=1) / energy.var(axis=1)
    low = [
        f"Chain {i}: E-BFMI = {value:.3f}" for i, value in enumerate(ebfmi, 1) if value < _MIN_BFMI
    ]
    if not low:
        return title + "E-BFMI satisfactory.", False
    return (
        f"{title}"
        + "\n".join(low)
        + f"\nThe E-BFMI is below the nominal threshold of {_MIN_BFMI}, "
        "which suggests that HMC may have trouble exploring the target distribution.\n"
        "If possible, try to reparameterize the model."
    ), True


def _effective_sizes(parameters):
    # a sample too short for its effective size has none
    low = [
        k
        for k, x in parameters.items()
        if not np.min(_bulk_and_tail(x)) >= _MIN_ESS_PER_CHAIN * len(x)
    ]
    if not low:
        return (
            "Rank-normalized split effective sample size satisfactory for all parameters.",
            False,
        )
    return (
        "The following parameters had rank-normalized split effective sample size less than "
        f"{_MIN_ESS_PER_CHAIN} per chain:\n  {', '.join(low)}\n"
        "Such low values indicate that the effective sample size estimates may be biased high "
        "and actual performance may be substantially lower than quoted."
    ), True


def _rhats(parameters):
    import arviz

    high = [k for k, x in parameters.items() if not float(arviz.rhat(x)) <= _MAX_RHAT]
    if not high:
        return "Rank-normalized split R-hat values satisfactory for all parameters.", False
    return (
        f"The following parameters had rank-normalized split R-hat greater than {_MAX_RHAT}:\n"
        f"  {', '.join(high)}\nSuch high values indicate incomplete mixing and biased "
        "estimation.\nYou should consider regularizing your model with additional prior "
        "information or a more effective parameterization."
    ), True


if __name__ == "__main__":
    sys.exit(main())
