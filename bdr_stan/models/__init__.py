"""Statistical models as classes, each with its data; no scikit-learn."""
