"""Errors with the new place of names that older versions had here."""

import bdr_stan

__getattr__ = bdr_stan.__getattr__
