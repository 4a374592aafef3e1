"""The command line: ``bdr-stan --help``. Slow imports are in the commands."""

from bdr_stan.cli.fitting import basis, fit, fit_sums, summarise
from bdr_stan.cli.group import main
from bdr_stan.cli.predicting import design, predict, report, summary
from bdr_stan.cli.ready import compile_, demo, doctor, eject, models, setup

for _command in (
    *(fit, predict, summary, report, design),
    *(basis, summarise, fit_sums),
    *(demo, setup, doctor, models, eject, compile_),
):
    main.add_command(_command)
