"""The posterior of a fit in the layout of posteriordb: program, data, draws, descriptions.

Source: https://github.com/stan-dev/posteriordb for layout and the definition of reference draws.
"""

import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import orjson

from bdr_stan.cmdstan.data_file import write_data
from bdr_stan.cmdstan.programs import resolved_text
from bdr_stan.results.diagnostics import e_bfmi, summary
from bdr_stan.results.inference_data import dataset
from bdr_stan.results.result import Result
from bdr_stan.types import Array, PathName, as_path, saving_to

_DRAWS = "reference_posteriors/draws"


def program_of_fit(
    program: PathName,
    data: Mapping[str, Any],
    drawn: Mapping[str, Array],
    kept: Mapping[str, Array],
) -> dict[str, Any]:
    """What `write_posterior` needs of a run of Stan besides the draws that a fit keeps.

    `drawn` are those of the program, `kept` those of the fit, both (chain, draw, ...): only what
    differs is stored a second time.
    """
    return {
        "name": Path(program).stem,
        "code": resolved_text(program),
        "data": dict(data),
        "sizes": {name: int(np.prod(v.shape[2:])) for name, v in drawn.items()},
        "draws": {name: v for name, v in drawn.items() if kept.get(name) is not v},
    }


def write_posterior(folder: PathName, result: Result, author: str) -> None:
    """Write the posterior of a fit, and its draws by NUTS, to a folder that is new or empty."""
    folder = _checked_folder(folder)
    program = result.settings["stan_program"]
    data_name, model_name = _safe(folder.name, "data"), _safe(program["name"], "model")
    name = f"{data_name}-{model_name}"
    added = {"added_by": author, "added_date": date.today().isoformat()}
    draws = _reference_draws(result)
    texts: dict[str, Any] = {
        f"posteriors/{name}.json": {
            "name": name,
            "keywords": [],
            "model_name": model_name,
            "data_name": data_name,
            "reference_posterior_name": name if draws else None,
            "dimensions": program["sizes"],
            **added,
        },
        f"models/info/{model_name}.info.json": {
            "name": model_name,
            "title": _title(program["code"]) or model_name,
            "model_implementations": {"stan": {"model_code": f"models/stan/{model_name}.stan"}},
            **added,
        },
        f"data/info/{data_name}.info.json": {
            "name": data_name,
            "title": f"{data_name}: {result.settings.get('label_name') or 'label'} of "
            f"{len(result.labels)} bags",
            "data_file": f"data/data/{data_name}.json",
            **added,
        },
    }
    if draws:
        texts[f"{_DRAWS}/info/{name}.info.json"] = _about_draws(name, draws, result, added)
    temporary = TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.")
    with saving_to(folder), temporary as partial:
        root = Path(partial) / "posterior"
        for path, content in texts.items():
            _new(root / path).write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2) + b"\n")
        code = _new(root / f"models/stan/{model_name}.stan")
        code.write_text(program["code"], encoding="utf-8")
        write_data(Path(partial) / "data.json", program["data"])
        _zip(root / f"data/data/{data_name}.json", (Path(partial) / "data.json").read_bytes())
        if draws:
            _zip(root / f"{_DRAWS}/draws/{name}.json", _as_json(draws))
        folder.mkdir(exist_ok=True)  # one that is there may be the current folder
        for part in sorted(root.iterdir()):
            part.rename(folder / part.name)


def _checked_folder(folder):
    """The absolute path of a folder that is new or empty; an OSError for any other."""
    folder = as_path(folder, "folder").absolute()
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder} is a file: name a new folder")
    if not folder.parent.is_dir():
        raise FileNotFoundError(f"the folder {folder.parent} does not exist: create it first")
    if folder.is_dir() and any(folder.iterdir()):
        raise FileExistsError(f"the folder {folder} is not empty: name a new one")
    return folder


def _safe(name, otherwise):
    """A name of letters, digits and underscores, which files and databases take."""
    return re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_") or otherwise


def _title(code):
    """The first line of a program if it is a comment, else ""."""
    first = code.lstrip().partition("\n")[0]
    return first.lstrip("/ ") if first.startswith("//") else ""


def _new(path):
    """The path of a file, whose folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _zip(path, content):
    """Write a file `path` in a zip file next to where it would be."""
    with ZipFile(_new(path.with_name(path.name + ".zip")), "w", ZIP_DEFLATED) as archive:
        archive.writestr(path.name, content)


def _reference_draws(result):
    """Draws of NUTS by the program's names of elements, each (chain, draw), else none."""
    posterior, program = result.groups["posterior"], result.settings["stan_program"]
    if posterior.attrs.get("inference_method") != "nuts":
        return {}
    elements = {}
    for name in program["sizes"]:
        own = program["draws"].get(name)
        values = posterior[name].values if own is None else own
        for index in np.ndindex(values.shape[2:]):
            subscript = f"[{','.join(str(i + 1) for i in index)}]" if index else ""
            elements[name + subscript] = values[(..., *index)]
    return elements


def _as_json(draws):
    """JSON of draws: for each chain a dict of the elements."""
    n_chains = len(next(iter(draws.values())))
    chains = [
        {name: values[c].astype(float).tolist() for name, values in draws.items()}
        for c in range(n_chains)
    ]
    return orjson.dumps(chains)


def _about_draws(name, draws, result, added):
    """How the draws were made, their diagnostics, and whether they are reference draws."""
    run, stats = result.settings["run"], result.groups["sample_stats"]
    arguments = dict(run["arguments"])
    warmup, n_draws = arguments.pop("warmup"), arguments.pop("draws")
    posterior = dataset(draws, {}, attrs={"inference_method": "nuts"})
    table = summary({"posterior": posterior})
    n_chains, n_kept = next(iter(draws.values())).shape
    n = n_chains * n_kept
    efmi = e_bfmi(stats["energy"].values)
    lag1 = np.array([_lag1_autocorrelation(values) for values in draws.values()])
    ess = table[["ess_bulk", "ess_tail"]].to_numpy()
    return {
        "name": name,
        "inference": {
            "method": "stan_sampling",
            "method_arguments": {
                "chains": arguments.pop("chains"),
                "iter": warmup + n_draws,
                "warmup": warmup,
                "thin": arguments.pop("thin", 1),
                "seed": arguments.pop("seed"),
                "control": arguments,
            },
        },
        "diagnostics": {
            "diagnostic_information": {"names": list(draws)},
            "ndraws": n,
            "nchains": n_chains,
            "effective_sample_size_bulk": table["ess_bulk"].tolist(),
            "effective_sample_size_tail": table["ess_tail"].tolist(),
            "r_hat": table["r_hat"].tolist(),
            "divergent_transitions": stats["diverging"].values.sum(axis=1).tolist(),
            "expected_fraction_of_missing_information": efmi.tolist(),
            "mean_lag1_ac": lag1.tolist(),
        },
        "checks_made": {
            "ndraws_is_10k": n == 10_000,
            "nchains_is_gte_4": n_chains >= 4,
            "ess_within_bounds": bool(np.all(np.abs(ess - n) <= 4 * np.sqrt(7 * n))),
            "r_hat_below_1_01": bool(np.all(table["r_hat"] < 1.01)),
            "efmi_above_0_2": bool(np.all(efmi > 0.2)),
            "abs_mean_lag1_ac_below_0_05": bool(np.all(np.abs(lag1) < 0.05)),
        },
        "comments": ", ".join(f"{library} {v}" for library, v in run["versions"].items()),
        **added,
        "versions": None,
    }


def _lag1_autocorrelation(values):
    """Autocorrelation of successive draws, shape (chain, draw), its average over the chains."""
    e = values - values.mean(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        return np.mean(np.sum(e[:, 1:] * e[:, :-1], axis=1) / np.sum(e**2, axis=1))
