"""The report of a fit: one HTML file for who did not make it."""
