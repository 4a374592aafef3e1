"""Estimators: one file per family of models. `bdr_stan` imports each on first use."""
