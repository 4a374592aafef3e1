"""Cells of donors by single-cell sequencing, whose mix and state say how ill the donor is.

    severity s ~ normal(0, 1), one a donor
    share of each of three cell types ~ softmax(0, -1 + 0.7 s + noise, noise)
    counts of gene g in a cell of type k ~ Poisson(depth exp(program_kg + 0.4 s [k = 0, g < 3]))
    columns of the table: log(1 + 1000 counts / depth of the cell)

So the label shows in which cells there are (the second type) and in what a type does (three genes
of the first), not in one cell alone. Donors have 10 to 400 cells.
"""

import numpy as np
import pandas as pd

GENES = ("IFIT1", "ISG15", "MX1", "CD3E", "CD8A", "GZMB", "CD14", "LYZ", "CD19", "MS4A1")
_N_TYPES = 3


def donor_cells(n_donors=150, *, seed=1):
    """One row a cell, in random order.

    Parameters
    ----------
    n_donors : int, >= 1
    seed : int, >= 0

    Returns
    -------
    pandas.DataFrame, columns donor (text), `GENES` (log counts per thousand) and severity (the
    donor's label, no unit)
    """
    rng = np.random.default_rng(seed)
    severity = rng.normal(size=n_donors)
    sizes = np.exp(rng.uniform(np.log(10), np.log(400), n_donors)).astype(int)
    donor = np.repeat(np.arange(n_donors), sizes)
    score = rng.normal(0, 0.3, (n_donors, _N_TYPES))
    score[:, 1] += 0.7 * severity - 1
    shares = np.exp(score) / np.exp(score).sum(axis=1, keepdims=True)
    kind = (rng.random((len(donor), 1)) > shares[donor].cumsum(axis=1)[:, :-1]).sum(axis=1)

    log_rate = rng.normal(-3, 1.2, (_N_TYPES, len(GENES)))[kind]
    log_rate[:, :3] += 0.4 * (severity[donor] * (kind == 0))[:, None]
    depth = np.exp(rng.normal(6, 0.4, (len(donor), 1)))
    counts = rng.poisson(depth * np.exp(log_rate))
    cells = pd.DataFrame(np.log1p(1000 * counts / depth), columns=list(GENES))
    cells.insert(0, "donor", [f"donor {d}" for d in donor])
    cells["severity"] = severity[donor]
    return cells.sample(frac=1, random_state=seed).reset_index(drop=True)
