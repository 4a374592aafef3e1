"""The name under which older versions had the baselines of the papers."""

raise ImportError(
    "bdr_stan.baselines is now experiments.papers: use `from experiments.papers import DFDR` and "
    "such in a checkout"
)
