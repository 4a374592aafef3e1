"""Find CmdStan; find, compile and cache Stan programs."""

from bdr_stan.cmdstan.cache import ToolchainError, cache_directory
from bdr_stan.cmdstan.discovery import find
from bdr_stan.cmdstan.doctor import Finding, doctor

__all__ = ["Finding", "ToolchainError", "cache_directory", "doctor", "find"]
