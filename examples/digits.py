"""BLR and BDR on bags of handwritten digits: the quick form of ``bdr-stan demo``."""

from bdr_stan.demo import run

if __name__ == "__main__":
    run("demo_output", quick=True)
