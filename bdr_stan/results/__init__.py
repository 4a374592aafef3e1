"""What a fit leaves: draws, the ArviZ object, files, diagnostics, stacking."""
