"""Commands other than fits: a demonstration, and Stan with its programs."""

import sys
from pathlib import Path

import click

from bdr_stan.cli.group import example

SETUP_PROGRAMS = ("blr", "bdr")  # compiled by `setup`; classifiers' programs when first used


@click.command(
    short_help="See what the package does, in half a minute.",
    epilog=example("bdr-stan demo --quick"),
)
@click.option("--quick", is_flag=True, help="Fewer bags and draws.")
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default="demo_output",
    show_default=True,
    metavar="DIR",
)
def demo(quick, output):
    """Fit BLR and BDR to bags of handwritten digits; compare their intervals by bag size."""
    from bdr_stan.demo import run

    run(output, quick=quick)


@click.command(short_help="Make Stan ready to use.", epilog=example("bdr-stan setup"))
def setup():
    """Compile the programs of the models, unless they came with the package or are done already.

    Compiling needs a CmdStan that CmdStanPy finds; without one the error has advice.
    """
    from bdr_stan.cmdstan.programs import compile_program

    for program in SETUP_PROGRAMS:
        compile_program(program)
    click.echo(f"Stan is ready, with {' and '.join(SETUP_PROGRAMS)} compiled")


@click.command(short_help="Check everything that Stan needs.", epilog=example("bdr-stan doctor"))
def doctor():
    """Check everything that Stan needs; exit code 1, with advice, if something is wrong."""
    from bdr_stan import cmdstan

    findings = cmdstan.doctor()
    for finding in findings:
        detail = " ".join(finding.detail.split())
        click.echo(f"{'ok   ' if finding.ok else 'WRONG'}  {finding.what}: {detail}")
        if not finding.ok:
            click.echo(f"       fix it with: {finding.fix}")
    sys.exit(0 if all(finding.ok for finding in findings) else 1)


@click.command(short_help="List the Stan programs.", epilog=example("bdr-stan models"))
def models():
    """List the plain Stan programs, to read and edit, and the accelerated ones that fits run."""
    from bdr_stan.cmdstan.programs import program_names, title

    for fast, heading in ((False, "Plain, for eject:"), (True, "Accelerated, for eject --fast:")):
        click.echo(heading)
        for name in program_names(fast=fast):
            click.echo(f"  {name}: {title(name, fast=fast)}")


@click.command(
    short_help="Copy a Stan program to edit.", epilog=example("bdr-stan eject bdr my_bdr.stan")
)
@click.argument("name")
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--fast", is_flag=True, help="The accelerated program, which predicts no labels.")
@click.option("--force", is_flag=True, help="Overwrite existing files.")
def eject(name, target, fast, force):
    """Write the plain Stan program NAME, one of `bdr-stan models`, to TARGET (.stan or a folder).

    Fit your variant with: bdr-stan fit --stan-file TARGET
    """
    from bdr_stan.cmdstan.programs import eject as write

    for path in write(name, target, fast=fast, force=force):
        click.echo(f"Wrote {path}")


@click.command(
    "compile",
    short_help="Compile Stan programs.",
    epilog=example("bdr-stan compile inverse my_bdr.stan"),
)
@click.argument("programs", metavar="NAME_OR_PATH...", nargs=-1, required=True)
def compile_(programs):
    """Compile programs of the package, by name, or your own, by path, unless done already."""
    from bdr_stan.cmdstan.programs import compile_program

    for program in programs:
        click.echo(f"{program}: {compile_program(program).exe_file}")
