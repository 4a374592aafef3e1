"""Names that older versions had here say where they are now."""

import bdr_stan

__getattr__ = bdr_stan.__getattr__
