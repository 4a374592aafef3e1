"""Which CmdStan is used: the one that cmdstanpy finds, else the home built by this package."""

from pathlib import Path

from bdr_stan.cmdstan.home import assemble, faults, home_directory, is_own


def find() -> Path | None:
    """Home of a CmdStan that is ready, without building anything; None if there is none.

    Examples
    --------
    >>> from bdr_stan.cmdstan import find
    >>> home = find()
    >>> home is None or (home / "bin" / "stanc").exists()
    True
    """
    home = foreign_home()
    if home is not None:
        return home
    return None if faults(home_directory()) else home_directory()


def choose(source: str = "auto") -> Path:
    """Home to use, for a `source` of `setup`; one of ours may not be built yet."""
    foreign = foreign_home() if source == "auto" else None
    return foreign or home_directory()


def foreign_home() -> Path | None:
    """The CmdStan that cmdstanpy finds, unless it was built by this package."""
    import cmdstanpy

    try:
        home = Path(cmdstanpy.cmdstan_path())
    except ValueError:
        return None
    return None if is_own(home) else home


def ready(home: Path) -> None:
    """Make cmdstanpy use a home; one of ours is assembled or repaired, except its driver."""
    import cmdstanpy

    if home == home_directory():
        assemble()
    cmdstanpy.set_cmdstan_path(str(home))
