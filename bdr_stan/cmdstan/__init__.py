"""Find CmdStan; find, compile and cache Stan programs."""

from bdr_stan.cmdstan.cache import cache_directory as cache_directory
from bdr_stan.cmdstan.discovery import find as find
from bdr_stan.cmdstan.doctor import Finding as Finding
from bdr_stan.cmdstan.doctor import doctor as doctor
from bdr_stan.extras import ToolchainError

__all__ = ["ToolchainError"]
