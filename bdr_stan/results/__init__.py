"""Results of a fit: draws, the ArviZ object, files, diagnostics, stacking."""
