"""An HTML report of a fit, for readers who did not run it."""
