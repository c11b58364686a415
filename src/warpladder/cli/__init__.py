"""Command line: a file for each command, and shared/ for the parts that several commands use.

May import everything, heavy parts inside the commands, so that `--help` is fast. Begin with train.py.
"""

from __future__ import annotations

import errno
import os
import sys
import warnings
from collections.abc import Sequence

import click

from ..errors import DivergedError, Stopped, WarpladderError
from .check import check
from .climb import climb
from .data import data
from .evaluate import evaluate
from .features import features
from .gemm import gemm
from .metrics import metrics
from .nets import nets
from .new import new
from .predict import predict
from .profile import profile
from .report import report
from .reproduce import reproduce
from .run import run
from .rungs import rungs
from .svm import svm
from .train import train

CHECK_FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130


class _InOrder(click.Group):
    """Group of commands, listed in the order of their addition."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each command with its whole first sentence, which may take two lines."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, command.get_short_help_str(limit=200)) for name, command in self.commands.items()]
            )


def _print_version(ctx: click.Context, option: click.Parameter, requested: bool) -> None:
    if requested:
        from .. import __version__

        click.echo(f"warpladder {__version__}")
        ctx.exit()


@click.group(
    cls=_InOrder,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
@click.pass_context
def group(ctx: click.Context) -> None:
    """Train small neural networks at the speed of the hardware, and see where the speed comes from.

    \b
    Start here:
      warpladder climb mlp --data digits
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help(), err=True)
        ctx.exit(BAD_INPUT)


for _command in (
    climb,
    report,
    reproduce,
    train,
    profile,
    evaluate,
    predict,
    features,
    svm,
    nets,
    rungs,
    data,
    check,
    metrics,
    run,
    new,
    gemm,
):
    group.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0, 1 (a check failed), 2 (usage or bad input), 130 (interrupted).

    An error of the user is one line on stderr; an unforeseen error keeps its traceback.
    """
    if sys.stdout is None:  # closed, as by `>&-`: the next file that is opened would take its place
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warn
            result = group.main(args=arguments, prog_name="warpladder", standalone_mode=False)
        sys.stdout.flush()
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "warpladder"
        return _say(f"{error.format_message()} (see '{command} --help')", BAD_INPUT)
    except click.ClickException as error:
        return _say(error.format_message(), BAD_INPUT)
    except click.Abort as abort:
        # click has begun a new line, and the KeyboardInterrupt is the cause of its error.
        stop = abort.__cause__
        if isinstance(stop, EOFError):  # which click takes for Ctrl-D at a prompt, and there is none
            raise stop from None
        return _say(stop, stop.exit_code) if isinstance(stop, Stopped) else _say("interrupted", INTERRUPTED)
    except DivergedError as error:
        return _say(error, CHECK_FAILED)
    except WarpladderError as error:
        return _say(error, BAD_INPUT)
    except (BrokenPipeError, SystemExit):
        # The reader of a pipe has ended (`| head`), and click exits: nothing more is printed, not even when
        # Python flushes at its end.
        sys.stdout = None
        return 0
    except MemoryError as error:
        return _say(f"not enough memory: {error}", BAD_INPUT)
    except OSError as error:
        full = error.errno == errno.ENOSPC
        where = f"{error.filename}: " if error.filename else "the output cannot be written: " if full else ""
        return _say(f"{where}{error.strerror or error}", BAD_INPUT)
    return result if isinstance(result, int) else 0


def _warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: object = None,
    line: str | None = None,
) -> None:
    """Print a warning of warpladder as one line, and a library's warning as Python does."""
    if category is UserWarning:
        _say(message, 0)
    else:
        click.echo(warnings.formatwarning(message, category, filename, lineno, line), err=True, nl=False)


def _say(message: object, code: int) -> int:
    click.echo("warpladder: " + " ".join(str(message).split()), err=True)
    return code
