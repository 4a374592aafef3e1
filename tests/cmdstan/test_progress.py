"""progress: two plain lines where there is no terminal."""

import time

from bdr_stan.cmdstan.progress import status


def test_progress_is_two_plain_lines_off_the_terminal(capsys):
    with status("Building"):
        time.sleep(1.2)
    assert capsys.readouterr().err.splitlines() == ["Building ...", "Building: done in 1 s"]
    with status("Looking"):
        pass
    assert capsys.readouterr().err == ""
    with status("Building", show=False):
        pass
    assert capsys.readouterr().err == ""
