"""``python -m bdr_stan`` is the command ``bdr-stan``."""

from bdr_stan.cli import main

main(prog_name="bdr-stan")
