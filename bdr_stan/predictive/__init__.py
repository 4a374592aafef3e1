"""Predictive distributions: of labels, classes, totals and rates at points."""
