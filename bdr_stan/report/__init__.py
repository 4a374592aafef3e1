"""The report of a fit: one HTML file for who did not make it."""

from bdr_stan.report.document import write_report

__all__ = ["write_report"]
