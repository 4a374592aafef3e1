"""Warnings that name the line of the user's program, however deep the cause."""

import sys
import warnings

_PASSED_OVER = {"bdr_stan", "sklearn", "joblib"}


def warn(message: str) -> None:
    """Give a UserWarning at the innermost line outside this package and scikit-learn."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _package(frame) in _PASSED_OVER:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, UserWarning, stacklevel=level)


def _package(frame):
    """Name of the top-level package of a frame."""
    return frame.f_globals.get("__name__", "").partition(".")[0]
