"""Which of the engines that run Stan programs, CmdStan and stanli, runs one."""

import sys
from pathlib import Path
from typing import Any

from bdr_stan.cmdstan.programs import runs_at_once
from bdr_stan.extras import STANLI_VERSION, in_main_thread, require_stanli, stanli_version
from bdr_stan.posterior.settings import ENGINES, STANLI_OPTIONS, SamplerSettings
from bdr_stan.scratch import scratch_folder
from bdr_stan.types import PathName
from bdr_stan.user_warnings import warn


def check_engine(engine: Any) -> None:
    """Raise ValueError or ImportError unless an engine, None for the default, can run."""
    if engine is not None and engine not in ENGINES:
        raise ValueError(f"engine must be None, 'cmdstan' or 'stanli', found {engine!r}")
    if engine == "stanli":
        require_stanli("engine='stanli'")


def engine_of_run(program: PathName, settings: SamplerSettings) -> str:
    """The engine of a run: from the settings, else CmdStan.

    If CmdStan is not set up it is stanli, with a warning, if it is installed, has the options, and
    this is the main thread; on Windows always.
    """
    if settings.engine is not None:
        return settings.engine
    if not set(settings.options) <= set(STANLI_OPTIONS[settings.method]):
        return "cmdstan"
    if stanli_version() != STANLI_VERSION or not in_main_thread():
        return "cmdstan"
    if sys.platform == "win32":
        return "stanli"
    with scratch_folder():  # comes before CmdStanPy, which keeps files there from its import on
        if runs_at_once(program):
            return "cmdstan"
    warn(
        f"CmdStan is not set up, so {Path(program).stem} runs on stanli, an interpreter of Stan "
        "that is still in its alpha stage: install CmdStan by install_cmdstan, or set "
        "engine='stanli' to choose it without this warning"
    )
    return "stanli"
