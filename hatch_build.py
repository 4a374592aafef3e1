"""A wheel for one platform, with the compiled programs in the folder that BDR_STAN_PREBUILT names.

Without that variable the wheel is a pure one, for any platform: its programs are compiled where
it is installed.
"""

import os
import platform
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PrebuiltPrograms(BuildHookInterface):
    def initialize(self, version, build_data):
        named = os.environ.get("BDR_STAN_PREBUILT")
        if not named or version == "editable":
            return
        folder = Path(named).absolute()
        if not (folder / "notice.txt").is_file():
            raise FileNotFoundError(
                f"BDR_STAN_PREBUILT is {named!r}, which holds no prebuilt programs: "
                "tools/cmdstan makes them (make wheel)"
            )
        machine = platform.machine()
        build_data["pure_python"] = False
        # The programs ask for no newer glibc than 2.17; the second name is for older pips.
        build_data["tag"] = f"py3-none-manylinux_2_17_{machine}.manylinux2014_{machine}"
        build_data["force_include"][str(folder)] = "bdr_stan/prebuilt"
