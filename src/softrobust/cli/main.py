"""`softrobust VERB …`: parse, run, and turn errors into one plain paragraph and an exit code.

0: a usable policy. 2: bad input. 1: failure. 130: interrupted. A traceback only with --debug.
"""

import os
import sys
import textwrap
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from typer import Context

from softrobust._core import __version__
from softrobust._core.interrupts import interrupted, listen
from softrobust.cli.data import collect, domains, inspect, sample
from softrobust.cli.options import spelled_out
from softrobust.cli.screen import visible
from softrobust.cli.solve import solve
from softrobust.cli.study import check, explain, frontier, rehearse, rules, value_of_data
from softrobust.cli.sweep import reproduce, sweep
from softrobust.cli.use import app as work_in_browser
from softrobust.cli.use import apply, compare, evaluate, export, report, update
from softrobust.errors import InputError, SoftRobustError

# What the library calls by the name of a function, and no verb has as an option.
OTHERWISE = {"read_trajectories": "begin with `softrobust inspect`"}
NOT_HERE = {"--continuous": "Vectors are for solve, and their runs for report, apply and export; "
            "this verb asks about a table of states: cut the vectors into bins first."}  # fmt: skip
CREWED = ("solve", "frontier", "evaluate")
INTERRUPTED = 130
LONG = 400  # characters of a word, beyond which it is no word that anybody reads
app = typer.Typer(
    name="softrobust",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    help="Choose a policy from a small log of past decisions, with a certificate.",
    epilog="Start with: softrobust solve log.csv --gamma 0.95 --out run",
)


def _crew(verb: Callable[..., None], options: dict[str, Any]) -> AbstractContextManager[object]:
    """Who draws and evaluates the models of verbs whose tasks are not kept in a folder."""
    workers, cluster = options.get("workers"), options.get("cluster")
    if verb.__name__ not in CREWED or (workers is None and cluster is None):
        return nullcontext()
    from softrobust.run.jobs import Crew

    return Crew(workers, cluster)


KEEPING = ("rehearse", "reproduce", "sweep")  # what they have done is in files, one by one


class _StoppedError(Exception):
    """Ctrl-C as the parser does not know it."""


def _stopped(verb: str) -> str:
    if verb in KEEPING:
        return "Interrupted; what was done is kept, and --resume goes on with the rest."
    return "Interrupted; nothing was written."


def _interruptible(verb: Callable[..., None]) -> Callable[..., None]:
    """Answer Ctrl-C in words: the parser would turn it into an exit code and say nothing."""

    @wraps(verb)
    def answer(*words: Any, **options: Any) -> None:
        from softrobust._core.limits import check_time_limit, stage, within

        try:
            check_time_limit(limit := options.get("time_limit"))
            with within(limit), _crew(verb, options):  # the whole command, not the solver alone
                verb(*words, **options)
        except KeyboardInterrupt as error:  # a run that can go on says so itself
            text = str(error) or _stopped(verb.__name__)
            raise _StoppedError(f"{text}{_flags(error, verb.__name__)}") from None
        finally:
            stage()

    return answer


VERBS = (inspect, solve, evaluate, compare, report, apply, export, explain, rules, value_of_data,
         frontier, sample, domains, collect, check, rehearse, update, reproduce, sweep,
         work_in_browser)  # fmt: skip
for verb in VERBS:
    app.command()(_interruptible(spelled_out(verb)))


def _version(value: bool) -> None:
    if value:
        print(f"softrobust {__version__}")
        raise typer.Exit


@app.callback()
def root(
    context: Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
) -> None:
    """Choose a policy from a small log of past decisions, with a certificate."""


def main(arguments: list[str] | None = None) -> None:
    """Entry point of the `softrobust` command."""
    listen()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            stream.reconfigure(errors="backslashreplace")  # not every encoding has every letter
    words = sys.argv[1:] if arguments is None else arguments
    sys.exit(run(words))


def run(words: list[str]) -> int:
    """Run the command line and return its exit code."""
    debug = "--debug" in words
    words = words or ["--help"]  # nothing was asked: say what can be
    if set(os.environ.get("COLUMNS", "")) == {"0"}:  # as good as not set, for the help as well
        del os.environ["COLUMNS"]
    try:
        code = app(args=words, prog_name="softrobust", standalone_mode=False)
        if code == INTERRUPTED:  # before a verb was called: the parser says nothing
            raise KeyboardInterrupt
        return code if isinstance(code, int) else 0
    except SoftRobustError as error:
        if debug:
            raise
        _say(f"{error}{_flags(error, words[0])}")
        return 2 if isinstance(error, InputError) else 1
    except (KeyboardInterrupt, _StoppedError) as error:
        _say(str(error) or _stopped(words[0]))
        return INTERRUPTED
    except Exception as error:
        return _usage_or_bug(error, words[0], debug)


def _flags(error: BaseException, verb: str) -> str:
    """How what an error asks for is written on the line of a verb: the library names arguments."""
    asked: dict[str, str] = getattr(error, "arguments", {})
    if not asked:
        return ""
    from typer.main import get_command

    from softrobust.report.commands import CALLED

    verbs: dict[str, Any] = getattr(get_command(app), "commands", {})
    options = {name: {o.name: o.opts for o in found.params} for name, found in verbs.items()}
    own = options.get(verb, {})
    found = []
    for argument, example in asked.items():
        name = CALLED.get(argument, argument)
        if name in own:
            found.append(f"{max(own[name], key=len)} {example}".strip())
        elif name in OTHERWISE:
            found.append(OTHERWISE[name])
        elif "set_" in own and not any(name in others for others in options.values()):
            found.append(f"--set {name}={example or '…'}")
    return f" On the command line: {', '.join(found)}." if found else ""


def _usage_or_bug(error: Exception, verb: str, debug: bool) -> int:
    """Usage errors of the parser are bad input; the rest is a failure worth a report.

    After an interrupt it is none: half an import may be at fault. The parser makes an Abort of one.
    """
    message = getattr(error, "format_message", None)
    if callable(message):
        told = message() or str(error)
        _say(". ".join([told, *(why for flag, why in NOT_HERE.items() if told.endswith(flag))]))
        return int(getattr(error, "exit_code", 2)) or 2
    if type(error).__name__ == "Abort":
        _say(_stopped(verb))
        return INTERRUPTED
    if debug:
        raise error
    if isinstance(error, (OSError, MemoryError)):
        reason = getattr(error, "strerror", None) or str(error) or "there is not enough memory"
        place = getattr(error, "filename2", None) or getattr(error, "filename", None)
        where = f" ('{place}')" if place else ""
        _say(f"The system refused: {reason}{where}. Nothing was half written: mend it, run again.")
        return 1
    if interrupted():
        _say(_stopped(verb))
        return INTERRUPTED
    _say(
        f"An unexpected {type(error).__name__} stopped the work: {error}. This is a bug in "
        "softrobust; run again with --debug to see where, and please report it."
    )
    return 1


def _say(text: str) -> None:
    """One plain paragraph on stderr."""
    words = (word if len(word) <= LONG else f"{word[:LONG]}…" for word in text.split())
    paragraph = visible(" ".join(words))
    whole: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}  # names of files
    print(textwrap.fill(f"softrobust: {paragraph}", 100, **whole), file=sys.stderr)
