"""Statistical models as values: one file for each, no scikit-learn."""
