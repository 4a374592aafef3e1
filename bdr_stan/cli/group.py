"""The program ``bdr-stan``, and how its commands report errors."""

import os
import re
import shlex
import sys
import warnings

import click

from bdr_stan import __version__

# Errors that the package raises on purpose, and errors of reading and writing files.
EXPECTED_ERRORS = (ValueError, TypeError, OSError, ImportError, RuntimeError)

# For example missing='drop' or draws=200.
_ARGUMENT = re.compile(
    r"""\b(?P<name>\w+)=(?:(?P<quote>['"])(?P<text>[^'"]*)(?P=quote)|(?P<number>\d[\d.]*\d|\d))"""
)


class OneSentence(click.Group):
    """Group of commands that report only the message of an expected error, exit code 1."""

    def invoke(self, ctx):
        sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115 - closed, by ``>&-``
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.simplefilter("ignore", FutureWarning)
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = lambda message, *_, **__: click.echo(
                f"Warning: {self._in_options(ctx, message)}", err=True
            )
            try:
                return super().invoke(ctx)
            except click.UsageError as error:  # some of Click's are in several lines
                text = " ".join(error.format_message().split())
                raise click.UsageError(text, error.ctx) from error
            # Click's own ends: a help page, and ``bdr-stan summary fit.nc | head``.
            except (click.exceptions.Exit, BrokenPipeError):
                raise
            except EXPECTED_ERRORS as error:
                if ctx.params["debug"]:
                    raise
                _discard_unwritten()
                text = re.sub(r"^\[Errno \d+\] ", "", str(error)) or type(error).__name__
                raise click.ClickException(self._in_options(ctx, text)) from error

    def resolve_command(self, ctx, args):
        """The command of the arguments: ``fit`` of summaries has options of its own."""
        if args[:1] == ["fit"] and any(word.endswith(".sums") for word in args):
            args = ["fit-sums", *args[1:]]
        return super().resolve_command(ctx, args)

    def _in_options(self, ctx, text):
        """A message with the options of the command instead of arguments in Python."""
        command = self.commands.get(ctx.invoked_subcommand)
        options = {p.name: p.opts[0] for p in command.params} if command else {}
        options["n_landmarks"] = options.get("landmarks")

        def option(argument):
            name = options.get(argument["name"])
            value = shlex.quote(argument["text"] or argument["number"])
            return argument[0] if name is None else f"{name} {value}"

        return _ARGUMENT.sub(option, str(text))


def _discard_unwritten():
    """Output that a full disk refuses; otherwise Python fails on it again at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def example(*lines: str) -> str:
    """Lines of shell at the end of a help page."""
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)


COMPLETION = """\b
Commands and options complete themselves once your shell has read
  eval "$(_BDR_STAN_COMPLETE=bash_source bdr-stan)"
which belongs in ~/.bashrc; zsh_source and fish_source are for zsh and fish.
"""


@click.group(
    cls=OneSentence, context_settings={"help_option_names": ["-h", "--help"]}, epilog=COMPLETION
)
@click.version_option(__version__, prog_name="bdr-stan")
@click.option(
    "--debug", is_flag=True, envvar="BDR_STAN_DEBUG", help="Show the traceback of an error."
)
def main(debug: bool) -> None:
    """Regression from bags of points to labels, with calibrated uncertainty for small bags.

    Start with: bdr-stan setup, then bdr-stan demo.
    """
