"""Which CmdStan compiles programs: the one that CmdStanPy finds."""

from pathlib import Path

from bdr_stan.extras import ToolchainError

INSTALL_HINT = (
    "install_cmdstan, a command of CmdStanPy, or in a checkout of bdr_stan make setup; or do "
    "without CmdStan, by pip install 'bdr-stan[stanli]' and engine='stanli'"
)


def find() -> Path | None:
    """Home of the CmdStan that CmdStanPy finds; None if there is none."""
    import cmdstanpy

    try:
        return Path(cmdstanpy.cmdstan_path())
    except ValueError:
        return None


def require_cmdstan() -> Path:
    """The home, or ToolchainError with advice if there is none."""
    home = find()
    if home is None:
        raise ToolchainError(
            f"compiling a Stan program needs CmdStan, and there is none: run {INSTALL_HINT}"
        )
    return home


def identity(home: Path) -> str:
    """Text that changes when programs must be compiled again for this home."""
    files = home / "makefile", home / "make" / "local", Path.home() / ".config/stan/make.local"
    return repr((str(home), [path.read_text() for path in files if path.is_file()]))
