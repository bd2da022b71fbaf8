"""Where verbs write: never over an input of the same command, nor over a file of a run."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from softrobust.errors import InputError

WRITTEN = ("out", "save", "write_log", "save_bins", "export_milp")  # options that name outputs
RUNS = ("solve", "evaluate", "update")  # verbs whose --out is the folder of a run
FOLDERS = (*RUNS, "frontier", "rehearse", "reproduce", "sweep")
FRONTIER = ("frontier.csv", "frontier.svg", "frontier.png")
PAGES = ("report.html", "report.pdf")  # that the verb report writes into a run


def keep_inputs(verb: str, flags: Mapping[str, Any]) -> None:
    """Refuse, before any work, outputs that would replace or remove what the command reads."""
    outputs = {name: flags[name] for name in WRITTEN if flags.get(name) is not None}
    if not outputs:
        return
    named = [flags.get("reference"), flags.get("bins")]
    named += [word.partition("=")[2] for word in flags.get("set_") or ()]
    given = [x for name, x in flags.items() if name not in WRITTEN and isinstance(x, Path)]
    inputs = [path for path in (*given, *(Path(x) for x in named if x)) if _exists(path)]
    for name, out in outputs.items():
        place = _resolved(out)
        if name == "out" and verb in FOLDERS:
            for path in inputs:
                _keep_apart(verb, path, out, place)
            continue
        for path in inputs:
            if _exists(out) and path.samefile(out):
                raise InputError(
                    f"'{out}' is an input of this command, which must not write over it. Choose "
                    f"another --{name.replace('_', '-')}."
                )
        page = verb == "report" and out.name in PAGES
        if not page and _exists(place.parent / "solution.json"):
            from softrobust.run.folder import refuse_file_of_run

            refuse_file_of_run(out)


def _keep_apart(verb: str, path: Path, out: Path, place: Path) -> None:
    """Refuse a folder where an input has the name of a file that is written or removed there."""
    for found in (path.resolve(), path.parent.resolve() / path.name):  # a link may be in it
        if found == place or not found.is_relative_to(place):
            continue
        names: tuple[str, ...] = FRONTIER if verb == "frontier" else ()
        if verb in RUNS:
            from softrobust.run.folder import FILES  # slow to import, and seldom needed

            names = FILES
        if found.relative_to(place).parts[0] in names:
            raise InputError(
                f"'{path}' is an input of this command and lies in '{out}', where a file of its "
                "name is written or removed. Choose another --out."
            )


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # it is no name of a file
        return False


def _resolved(path: Path) -> Path:
    try:
        with suppress(FileNotFoundError, NotADirectoryError):
            path.stat()  # says what a link in a circle is
        return path.resolve()
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"'{path}' cannot be written ({reason}). Choose another place.") from None
