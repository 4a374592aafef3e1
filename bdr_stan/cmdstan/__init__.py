"""Find CmdStan; find, compile and cache Stan programs."""

from bdr_stan.cmdstan.cache import cache_directory
from bdr_stan.cmdstan.discovery import find
from bdr_stan.cmdstan.doctor import Finding, doctor
from bdr_stan.extras import ToolchainError

__all__ = ["Finding", "ToolchainError", "cache_directory", "doctor", "find"]
