"""Classes of bags: logistic regression on mean embeddings, and probit BDR (Law et al. 2018)."""

import numpy as np

from bdr_stan.compression import CompressedRows


def blr_logit_data(rows, whitened, priors, *, use_likelihood=True):
    """Data of ``stan/blr_logit.stan``.

    Parameters
    ----------
    rows : CompressedRows
        One row [z, 1, y] a bag, in any groups; y is 0 or 1.
    whitened : dict
        From `whitened_coordinates`.
    priors : dict
        Numbers of the priors by their names in the program.
    use_likelihood : bool, default True
        False samples the prior.

    Returns
    -------
    dict
    """
    z, y = _embeddings_and_labels(rows)
    return {
        "N": len(y),
        "D": z.shape[1],
        "z": z,
        "y": y,
        **whitened,
        **priors,
        "use_likelihood": int(use_likelihood),
    }


def bdr_probit_data(rows, lam, prior_factor, whitened, priors, *, use_likelihood=True):
    """Data of ``stan/bdr_probit.stan``.

    Parameters
    ----------
    rows : CompressedRows
        One row [z, 1, y] a bag, in groups of equal size; y is 0 or 1.
    lam : array, shape (d,)
        Within-bag variances of the joint basis.
    prior_factor : array, shape (d, d)
        P of the prior w ~ N(0, rho^2 (P'P)^-1).
    whitened : dict
        From `whitened_coordinates`.
    priors : dict
        Numbers of the priors by their names in the program.
    use_likelihood : bool, default True
        False samples the prior.

    Returns
    -------
    dict
    """
    z, y = _embeddings_and_labels(rows)
    return {
        "N": len(y),
        "D": z.shape[1],
        "G": len(rows.length),
        "bag_size": rows.bag_size,
        "start": rows.start + 1,  # Stan counts from 1
        "length": rows.length,
        "z": z,
        "y": y,
        "lambda": lam,
        "prior_factor": prior_factor,
        **whitened,
        **priors,
        "use_likelihood": int(use_likelihood),
    }


def rows_by_size(z, y, sizes):
    """Rows [z_i, 1, y_i] of all bags, uncompressed, in groups of equal size.

    Parameters
    ----------
    z : array, shape (n, d)
        Coordinates of the embeddings.
    y : array, shape (n,)
        Labels.
    sizes : array, shape (n,)
        Points per bag.

    Returns
    -------
    CompressedRows
    """
    order = np.argsort(sizes, kind="stable")
    rows = np.column_stack([z, np.ones(len(y)), y])[order]
    bag_size, start, n_bags = np.unique(
        np.asarray(sizes, float)[order], return_index=True, return_counts=True
    )
    return CompressedRows(rows, start, n_bags, n_bags, bag_size)


def _embeddings_and_labels(rows):
    """Embeddings z and whole-number labels y of the rows [z, 1, y]."""
    return rows.rows[:, :-2], rows.rows[:, -1].astype(int)
