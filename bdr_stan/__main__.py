"""``python -m bdr_stan`` is the command ``bdr-stan``."""

from bdr_stan.cli import main

if __name__ == "__main__":
    main(prog_name="bdr-stan")
