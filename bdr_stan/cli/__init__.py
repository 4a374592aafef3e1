"""The command line: ``bdr-stan --help``. Slow imports are in the commands."""

from bdr_stan.cli.designing import design
from bdr_stan.cli.fitting import fit
from bdr_stan.cli.group import main
from bdr_stan.cli.predicting import predict, report, summary
from bdr_stan.cli.ready import compile_, demo, doctor, eject, models, setup
from bdr_stan.cli.sums import basis, fit_sums, summarise

for _command in (
    *(fit, predict, summary, report, design),
    *(basis, summarise, fit_sums),
    *(demo, setup, doctor, models, eject, compile_),
):
    main.add_command(_command)
