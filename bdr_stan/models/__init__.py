"""Estimators: one file per family of models."""

from bdr_stan.models.base import load
from bdr_stan.models.bdr import BDR, Shrinkage
from bdr_stan.models.blr import BLR

__all__ = ["BDR", "BLR", "Shrinkage", "load"]
