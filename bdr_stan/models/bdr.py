"""Bayesian distribution regression, and its mode, shrinkage (Law et al. 2018, section 3)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from bdr_stan.embedding.compression import Rows
from bdr_stan.embedding.terms import NO_TERMS, Terms
from bdr_stan.models.blr import BLRModel, blr_data
from bdr_stan.posterior.latent_gaussian import SAMPLER, SCALE, Variables
from bdr_stan.posterior.mode import Mode
from bdr_stan.posterior.terms import rows_with_terms_last
from bdr_stan.posterior.whitening import with_mode_shift
from bdr_stan.types import Array

# With fewer bags sigma and eta are so uncertain that the mode does not depend on them linearly, and
# coordinates that assume so lead to divergent transitions.
_MIN_BAGS_FOR_MODE_SHIFT = 500


class BDRModel(BLRModel):
    """The model of ``stan/bdr.stan`` with its data: `BLRModel` with uncertain embeddings."""

    program = "bdr"
    uncertain = True

    def variables(self) -> Variables:
        return {**super().variables(), "eta": SCALE, "scale_change": SAMPLER}

    def program_data(self) -> dict[str, Any]:
        return bdr_data(
            self.rows, self.coordinates.lam, self.prior_factor, self.priors, terms=self.terms
        )

    @property
    def follows_scales(self) -> bool:
        """Whether the coordinates follow the mode as the labels' scales change."""
        return len(self.y) >= _MIN_BAGS_FOR_MODE_SHIFT

    def whitening(self, scales: Mapping[str, float], mode: Mode) -> dict[str, Any]:
        whitened = super().whitening(scales, mode)
        if not self.follows_scales:
            return whitened
        return with_mode_shift(
            whitened,
            self.likelihood,
            self.prior_factor,
            mode,
            scales,
            ("sigma", "eta", *self.size_scales),
            sum(self.terms.n_effects),
        )


def bdr_data(
    rows: Rows,
    lam: Array,
    prior_factor: Array,
    priors: Mapping[str, float],
    *,
    terms: Terms = NO_TERMS,
    use_likelihood: bool = True,
) -> dict[str, Any]:
    """Data of ``stan/bdr.stan`` from rows [z, x, v, 1, y], except for whitened coordinates."""
    data = blr_data(
        replace(rows, rows=rows_with_terms_last(rows, terms)),
        priors,
        n_covariates=rows.rows.shape[1] - len(lam) - 2 - sum(terms.n_effects),
        terms=terms,
        use_likelihood=use_likelihood,
    )
    n_followed = 2 + data["size_noise"]
    return {
        **data,
        "lambda": lam,
        "prior_factor": prior_factor,
        "scale_at_mode": np.ones(n_followed),  # these two unless `with_mode_shift` replaces them
        "mode_shift": np.zeros((data["D"] + data["Q"] + 1, n_followed)),
    }
