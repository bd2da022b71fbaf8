"""What leaves the house: a policy applied to a table, or alone in a file; a run as a workbook; PDF.

Nothing that is written here needs this package to be read: a workbook opens anywhere, the policy as
JSON is a list of states, and the policy as Python is one file that knows no other. Its rules for
names and intervals are those of the package, word for word.
"""

import contextlib
import inspect
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from softrobust._core.files import FORMULA, atomic_write, write_csv, write_workbook
from softrobust.data.bins import held, interval_of, state_parts
from softrobust.data.columns import MISSING
from softrobust.data.labels import DASHES, as_typed
from softrobust.data.table import opened
from softrobust.errors import InputError
from softrobust.models.policy import Policy, TimedPolicy
from softrobust.report.sentences import TEXTS, in_words, sorted_notes
from softrobust.report.summary import summary_lines
from softrobust.run.folder import Run, refuse_file_of_run
from softrobust.solvers.baselines.behaviour import behaviour_policy

STATE, ACTION, CHANCES, NOTE = "policy_state", "policy_action", "policy_chances", "policy_note"
Columns = dict[str, list[Any]]


# -- a table of cases ------------------------------------------------------------------------------


def apply_table(
    policy: Policy, source: Any, columns: Mapping[str, str] | None = None, seed: int | None = None
) -> Columns:
    """The cells of a table, and beside each row what the policy does there.

    The state of a row is its column `state`, or the measurements that states are made of; `columns`
    names them where they are called otherwise. A row without a recommendation says why in its note;
    where the policy mixes, an action is drawn with `seed`, and without one the chances stand alone.
    """
    with opened(source) as table:
        read = table.cells(table.names)
    names = list(read.names)
    cells = {
        name: ["" if c == MISSING else read.names[name][c] for c in read.codes[name]]
        for name in names
    }
    known = set().union(*(state_parts(name) for name in policy.states)) - {""}
    given = {"state": "state"} | {c: c for c in known} | dict(columns or {})
    absent = [name for name in (columns or {}).values() if name not in cells]
    if absent:
        raise InputError(f"There is no column '{absent[0]}'; there are {', '.join(names)}.")
    by_label = given["state"] in cells and not (columns and "state" not in columns)
    if not by_label and not (known and all(given[c] in cells for c in known)):
        wanted = f", or the measurements {', '.join(sorted(known))}" if known else ""
        raise InputError(
            f"The state of a row must be in the table: a column 'state'{wanted}. There are "
            f"{', '.join(names)}.",
            arguments={"columns": "state=…"},
        )
    needed = ["state"] if by_label else sorted(known)
    rows = list(zip(*(cells[given[c]] for c in needed), strict=True))
    rng = None if seed is None else np.random.default_rng(seed)
    found: dict[tuple[str, ...], tuple[int | None, str]] = {}
    for row in rows:
        if row not in found:
            found[row] = _place(policy, row[0] if by_label else dict(zip(needed, row, strict=True)))
    made = []
    for row in rows:
        s, note = found[row]
        state, mix = ("", {}) if s is None else (policy.states[s], policy.mix(s))
        action: Any = "" if s is None else policy.actions.value(int(policy.decision[s]))
        told = ""
        if len(mix) > 1:
            note = "several actions" if rng is None else "drawn"
            action = "" if rng is None else policy.action(state, rng)
            told = "; ".join(f"{a}: {p:.4g}" for a, p in mix.items())
        made.append((state, action, told, note))
    added = enumerate((STATE, ACTION, CHANCES, NOTE))
    return cells | {name: [row[i] for row in made] for i, name in added}


def _place(policy: Policy, case: str | dict[str, str]) -> tuple[int | None, str]:
    """The state of a case, or why it has none."""
    if not case or (isinstance(case, dict) and not all(case.values())):
        return None, "a cell is empty"
    if isinstance(case, str) and policy.states.find(case) < 0:
        case = {"state": case}  # of states without columns: a raw measurement, not a label
    try:
        s = policy.index(case)
    except InputError as error:
        return None, str(error)
    if not policy.decided[s]:
        return None, "this state was never left in the data: nothing can be recommended"
    return s, ""


def write_table(path: Path, columns: Columns) -> None:
    """Columns as CSV or as a workbook, by the name of the file."""
    refuse_file_of_run(path)
    if path.suffix.lower() == ".xlsx":
        cells = {name: [_as_number(cell) for cell in column] for name, column in columns.items()}
        write_workbook(path, {"policy": cells})
    elif path.suffix.lower() == ".csv":
        write_csv(path, columns, people=True)
    else:
        raise InputError(f"A table is written as .csv or .xlsx; the file is '{path.name}'.")


def _as_number(cell: Any) -> Any:
    """The number that a text is, written as a sheet would write it: 7, but not 007."""
    for number in (int, float):
        with contextlib.suppress(ValueError, TypeError):
            if str(number(cell)) == cell:
                return number(cell)
    return cell


# -- the policy alone ------------------------------------------------------------------------------


def policy_record(policy: Policy) -> dict[str, Any]:
    """A policy for programs that do not know this package; chances null where none is recommended.

    `where` says what the name of a state holds of each column of measurements.
    """
    states = []
    for s, name in enumerate(policy.states):
        chances = policy.mix(s) if policy.decided[s] else None
        states.append({"state": name, "where": state_parts(name), "probabilities": chances})
    return {
        "format": "softrobust-policy",
        "format_version": 1,
        "actions": list(policy.actions),
        "integer_actions": policy.actions.integers,
        "states": states,
    }


def standalone(policy: Policy, name: str = "policy.py") -> str:
    """The policy as one Python file that needs nothing but Python."""
    rules = "\n\n".join(_bare(f) for f in (as_typed, interval_of, held))
    template = Path(__file__).with_name("standalone.py.txt").read_text(encoding="utf-8")
    return template.format(
        name=name,
        stem=Path(name).stem,
        formula=repr(FORMULA),
        dashes=repr(DASHES),
        record=repr(json.dumps(policy_record(policy))),
        rules=rules,
    )


def _bare(function: Any) -> str:
    """The source of a function, without types."""
    import ast

    tree = ast.parse(inspect.getsource(function))
    made: Any = tree.body[0]
    made.returns = None
    for argument in made.args.args:
        argument.annotation = None
    made.body = made.body[1:]  # the docstring, whose examples are tested where it stands
    return ast.unparse(tree) + "\n"


def export(run: Run, path: Path) -> None:
    """Write a run's policy (.py, .json, .csv), or all that a person reads of it (.xlsx)."""
    refuse_file_of_run(path)
    kind = path.suffix.lower()
    policy = run.solution.policy
    if kind not in (".py", ".json", ".csv", ".xlsx"):
        raise InputError(
            f"A run is exported as .xlsx (a workbook), or its policy as .py, .json or .csv; the "
            f"file is '{path.name}'."
        )
    if kind == ".xlsx":
        write_workbook(path, workbook(run))
    elif isinstance(policy, TimedPolicy) and kind == ".csv":
        policy.save(path)
    elif isinstance(policy, TimedPolicy):
        raise InputError(
            f"A policy with a rule for each step is a table with a column 'time': export it as "
            f".csv, or the run as .xlsx; the file is '{path.name}'."
        )
    elif not isinstance(policy, Policy):
        raise InputError(
            "A policy for continuous states is a function of vectors, which no table holds: its "
            "file is policy.npz in the run folder. A workbook (.xlsx) of the run can be written."
        )
    elif kind == ".csv":
        policy.save(path)
    else:
        plain = json.dumps(policy_record(policy), indent=1, ensure_ascii=False) + "\n"
        with atomic_write(path) as file:
            file.write(standalone(policy, path.name) if kind == ".py" else plain)


# -- the run as a workbook -------------------------------------------------------------------------


def workbook(run: Run) -> dict[str, Columns]:
    """The sheets: the answer, the policy, figures, cautions and notes."""
    record = run.record()
    lines = [line for line in summary_lines(run) if line[0] in ("head", "text", "row", "caution")]
    cautions, assumed, promise = sorted_notes(run.notes)
    figures = {told: _figure(record, key) for key, told in TEXTS["figures"].items()}
    known = {told: value for told, value in figures.items() if value is not None}
    notes = [("caution", text) for text in in_words(cautions)]
    notes += [("note", text) for text in in_words([*promise, *assumed])]
    sheets: dict[str, Columns] = {
        "answer": {"in words": [f"{'  ' * (kind == 'row')}{text}" for kind, text in lines]}
    }
    if not run.continuous:
        sheets["policy"] = _policy_sheet(run)
    return sheets | {
        "figures": {"figure": list(known), "value": list(known.values())},
        "cautions": {"level": [n[0] for n in notes], "in words": [n[1] for n in notes]},
        "about": {
            "what": ["solver", "status", "source", "command"],
            "value": [record["solver"], record["status"], run.source, run.command],
        },
    }


def _figure(record: Mapping[str, Any], key: str) -> Any:
    found: Any = record
    for part in key.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _policy_sheet(run: Run) -> Columns:
    """A row for each state and action taken, or taken now; measurements have their columns."""
    policy = run.solution.policy
    if isinstance(policy, TimedPolicy):
        return policy.columns()
    log, states = run.log, run.problem.models.states
    usual = None if log is None else behaviour_policy(run.problem, log)[0].probs
    parts = [state_parts(name) for name in states]
    columns = list(dict.fromkeys(c for part in parts for c in part if c))
    taken = policy.probs > 0 if usual is None else (policy.probs > 0) | (usual > 0)
    s, a = np.nonzero(taken & np.asarray(policy.decided)[:, None])
    out: Columns = {"state": [states[i] for i in s]}
    for column in columns:
        taken = ("state", "action", "probability", "done now", "times seen")
        name = f"{column} " if column in taken else column
        out[name] = [parts[i].get(column, "") for i in s]
    out["action"] = [policy.actions.value(i) for i in a]
    out["probability"] = policy.probs[s, a].tolist()
    if log is not None and usual is not None:
        out["done now"] = usual[s, a].tolist()
        out["times seen"] = np.asarray(log.pair_counts)[s, a].tolist()
    return out


# -- the page as PDF -------------------------------------------------------------------------------

BROWSERS = (
    "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge",
    "microsoft-edge", "brave-browser",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
    r"C:\Program Files\Google\Chrome\Application\chrome.exe",
    r"C:\Program Files (x86)\Microsoft\Edge\Application\msedge.exe",
)  # fmt: skip
PRINT_SECONDS = 120


def find_browser(given: str | Path | None = None) -> str:
    """A browser that prints to PDF: the given one, or the first that is installed."""
    tried = BROWSERS if given is None else (str(given),)
    found = next((path for name in tried if (path := shutil.which(name))), None)
    if found is None:
        what = "none of the known ones is installed" if given is None else f"'{given}' is not one"
        raise InputError(
            "A PDF is printed by a browser (Chromium, Chrome, Edge or Brave), and "
            f"{what}. Install one, give its path, or open report.html in any browser and print it "
            "to a PDF there.",
            arguments={"browser": "PATH"},
        )
    return found


def print_pdf(page: str, out: Path, browser: str) -> None:
    """Print a page (HTML) to a PDF, atomically; whatever is not a whole PDF is an error."""
    with tempfile.TemporaryDirectory(prefix="softrobust-print-") as place:
        source, made = Path(place) / "page.html", Path(place) / "page.pdf"
        source.write_text(page, encoding="utf-8")
        line = [
            browser, "--headless", "--disable-gpu", "--no-pdf-header-footer", "--no-first-run",
            f"--user-data-dir={place}/profile", f"--print-to-pdf={made}", source.as_uri(),
        ]  # fmt: skip
        if getattr(os, "geteuid", lambda: 1)() == 0:
            line.insert(1, "--no-sandbox")  # browsers refuse their sandbox to root
        try:
            done = subprocess.run(line, capture_output=True, timeout=PRINT_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InputError(f"{browser} did not print the page: {error}.") from None
        data = made.read_bytes() if made.exists() else b""
        if not (data.startswith(b"%PDF-") and b"%%EOF" in data[-1024:]):
            words = done.stderr.decode("utf-8", "replace").strip().splitlines()
            raise InputError(
                f"{browser} wrote no PDF (exit code {done.returncode}"
                f"{': ' + words[-1][:200] if words else ''}). Open report.html in a browser and "
                "print it there."
            )
        with atomic_write(out, "wb") as file:
            file.write(data)
