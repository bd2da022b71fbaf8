"""What leaves the house: tables of cases, policies by themselves, workbooks, PDF."""

from __future__ import annotations

import csv
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softrobust._core.files import defused, write_csv, write_workbook
from softrobust.cli.main import run as run_cli
from softrobust.data import TransitionLog, write_log_csv
from softrobust.data.bins import Bins, interval_of, measured_state, state_parts
from softrobust.data.labels import Labels
from softrobust.errors import InputError
from softrobust.models.policy import Policy, read_policy
from softrobust.run.export import apply_table, export, find_browser, print_pdf, standalone
from softrobust.run.folder import Run, load_run

CELLS = [("low", "<2"), ("low", "2–4"), ("high", "2–4"), ("high", "≥4")]
NAMES = (*(f"risk={risk}|bili={bili}" for risk, bili in CELLS), "(end)")
HOSTILE = "=HYPERLINK(1)"


def small_policy() -> Policy:
    """Pure, mixed, and a state without advice; labels that a spreadsheet would run."""
    actions = Labels((HOSTILE, "watch", "-treat"), noun="action")
    probs = np.array([[1, 0, 0], [0, 0.25, 0.75], [0, 0, 1], [0, 1, 0], [1, 0, 0]], dtype=float)
    decided = np.array([True, True, True, True, False])
    return Policy(probs, Labels(NAMES, noun="state"), actions, decided)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Run:
    where = tmp_path_factory.mktemp("export")
    rng = np.random.default_rng(0)
    s, a, t = rng.integers(0, 4, 200), rng.integers(0, 2, 200), rng.integers(0, 4, 200)
    log = TransitionLog.from_arrays(
        [NAMES[i] for i in s], ["-treat" if i else "watch" for i in a], [NAMES[i] for i in t],
        t - 0.5 * a,
    )  # fmt: skip
    write_log_csv(log, where / "log.csv")
    words = "--gamma 0.8 --models 30 --test-models 100 --replications 0 --quiet --out"
    assert run_cli(["solve", str(where / "log.csv"), *words.split(), str(where / "run")]) == 0
    return load_run(where / "run")


def test_intervals_and_states_are_read_from_names() -> None:
    spans = {"<7": (-np.inf, 7), "7–8": (7, 8), "≥ 8": (8, np.inf), "7-8": (7, 8),
             "-5–-3": (-5, -3), "1e-05–2": (1e-05, 2), "any": (-np.inf, np.inf)}  # fmt: skip
    assert {text: interval_of(text) for text in spans} == spans
    assert interval_of("high") is interval_of("7") is interval_of("") is None
    bins = Bins.from_cuts({"x": [1, 2], "y": [5]})
    for x in ([0.5, 4], [1, 5], [3, 9]):
        there = measured_state(bins.states, dict(zip("xy", x, strict=True)))
        assert there == int(bins.index(x))
    assert state_parts("wet") == {"": "wet"}
    assert measured_state(Labels(("n=6", "n=7")), {"n": 7}) == 1
    assert measured_state(Labels(("<30000", "30000–60000")), {"km": "45000"}) == 1


def test_plain_typed_labels_and_measurements_find_their_state() -> None:
    policy = small_policy()
    for state in ("risk=high|bili=≥4", "risk=high|bili=>=4", "risk=high | bili = >= 4"):
        assert policy.action(state) == "watch"
    assert policy.action({"risk": "high", "bili": 3.2}) == "-treat"
    assert policy.action({"risk": "high", "bili": "4"}) == "watch"
    assert policy.action({"risk": "high", "bili": "3,2"}) == "-treat"
    for wrong, told in (
        ({"risk": "low", "bili": 7}, "never seen"),
        ({"risk": "none", "bili": 3}, "Known are risk: low, high"),
        ({"risk": "low"}, "'bili' is missing"),
        ({"risk": "low", "bil": 1}, "there is no 'bil'"),
    ):
        with pytest.raises(InputError, match=told):
            policy.action(wrong)
    assert Labels(("a-b", "a–b")).find("a—b") == -1  # two fit: neither is taken


def test_actions_come_back_in_the_type_they_came_in(tmp_path: Path) -> None:
    gymnasium = pytest.importorskip("gymnasium")
    from softrobust.data.environments import roll_out

    env = gymnasium.make("FrozenLake-v1", is_slippery=False)
    log = roll_out(env, steps=50)
    assert isinstance(log, TransitionLog)
    policy = Policy.from_decision(np.full(log.n_states, 2), log.states, log.actions)
    obs, _ = env.reset(seed=0)
    action = policy.action(obs)
    assert action == 2
    assert isinstance(action, int)
    env.step(action)
    words = TransitionLog.from_arrays(["x"], ["2"], ["x"], [1.0])
    assert Policy.from_decision([0], words.states, words.actions).action("x") == "2"


def test_a_policy_is_a_frame() -> None:
    frame = small_policy().to_frame()
    assert list(frame.columns) == ["state", "action", "probability"]
    assert len(frame) == 5
    assert frame.probability.sum() == pytest.approx(4.0)


def test_a_table_of_cases_gets_its_actions(tmp_path: Path) -> None:
    policy = small_policy()
    (tmp_path / "cases.csv").write_text(
        "who,risk,bilirubin\nA,low,1\nB,low,3\nC,high,\nD,high,1\n+E,high,9\n", encoding="utf-8"
    )
    with pytest.raises(InputError, match="column 'state', or the measurements bili, risk"):
        apply_table(policy, tmp_path / "cases.csv")
    made = apply_table(policy, tmp_path / "cases.csv", {"bili": "bilirubin"})
    assert made["policy_action"] == [HOSTILE, "", "", "", "watch"]
    assert made["policy_chances"][1] == "watch: 0.25; -treat: 0.75"
    assert [bool(note) for note in made["policy_note"]] == [False, True, True, True, False]
    drawn = apply_table(policy, tmp_path / "cases.csv", {"bili": "bilirubin"}, seed=0)
    assert drawn["policy_action"][1] in ("watch", "-treat")
    by_label = apply_table(policy, {"state": ["risk=low|bili=<2", "(end)", "?"]})
    assert by_label["policy_action"] == [HOSTILE, "", ""]
    alone = Policy.from_decision([0, 1], Labels(("<2", "≥2")), policy.actions)
    raw = apply_table(alone, {"size": ["1.5", "2", "x"]}, {"state": "size"})
    assert raw["policy_state"] == ["<2", "≥2", ""]


def test_the_verb_reads_measurements_and_files(
    folder: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    run = str(folder.path)
    assert run_cli(["apply", run, "--measure", "risk=low,bili=1.5", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["state"] == NAMES[0]
    assert run_cli(["apply", run, "--measure", "risk=low", "--json"]) == 2
    cases = tmp_path / "cases.csv"
    cases.write_text("risk,bili\nlow,1.5\nhigh,9\n", encoding="utf-8")
    assert run_cli(["apply", run, "--file", str(cases), "--out", str(tmp_path / "out.xlsx")]) == 0
    sheet = openpyxl.load_workbook(tmp_path / "out.xlsx").active
    assert [row[2] for row in sheet.iter_rows(values_only=True)] == [
        "policy_state", NAMES[0], NAMES[3],
    ]  # fmt: skip
    assert run_cli(["apply", run, "--file", str(cases), "--out", str(tmp_path / "out.txt")]) == 2
    assert run_cli(["apply", run, "--file", str(cases), "--state", NAMES[0]]) == 2
    assert run_cli(["apply", run, "--state", NAMES[0], "--out", "x.csv"]) == 2
    assert run_cli(["apply", run, "--file", str(cases)]) == 0


def test_a_policy_alone_says_the_same_in_every_state(tmp_path: Path) -> None:
    policy = small_policy()
    path = tmp_path / "policy.py"
    path.write_text(standalone(policy, path.name), encoding="utf-8")
    alone: dict[str, Any] = runpy.run_path(str(path))
    source = path.read_text(encoding="utf-8")
    assert "import softrobust" not in source
    for s, name in enumerate(policy.states):
        if not policy.decided[s]:
            with pytest.raises(LookupError):
                alone["action"](name)
            continue
        mix = {policy.actions[a]: policy.probs[s, a] for a in np.flatnonzero(policy.probs[s])}
        assert alone["probabilities"](name) == mix
        if len(mix) == 1:
            assert alone["action"](name) == policy.action(name)
    for x in (-1.0, 1.999, 2.0, 3.5, 4.0, 1e9):  # every cut, and both sides of it
        for risk in ("low", "high"):
            measured = {"risk": risk, "bili": x}
            try:
                there = policy.states[policy.index(measured)]
            except InputError:
                with pytest.raises(LookupError):
                    alone["probabilities"](**measured)
                continue
            assert alone["probabilities"](**measured) == alone["probabilities"](there)
    line = [sys.executable, "-I", str(path), "risk=high", "bili=>=4"]  # -I: nothing but Python
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "watch"


def test_integer_actions_survive_every_export(tmp_path: Path) -> None:
    actions = Labels(("0", "1"), "action", True)
    policy = Policy.from_decision([1, 0], Labels(("a'\"\\", "b\n")), actions)
    path = tmp_path / "p.py"
    path.write_text(standalone(policy, "p.py"), encoding="utf-8")
    alone = runpy.run_path(str(path))
    assert [alone["action"](name) for name in policy.states] == [1, 0]


def test_a_run_is_a_workbook_that_runs_nothing(folder: Run, tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    export(folder, tmp_path / "run.xlsx")
    book = openpyxl.load_workbook(tmp_path / "run.xlsx")
    assert book.sheetnames == ["answer", "policy", "figures", "cautions", "about"]
    rows = list(book["policy"].iter_rows(values_only=True))
    assert rows[0] == ("state", "risk", "bili", "action", "probability", "done now", "times seen")
    total = {name: sum(row[4] for row in rows[1:] if row[0] == name) for name in NAMES[:4]}
    assert all(value == pytest.approx(1.0) for value in total.values())
    figures = dict(book["figures"].iter_rows(values_only=True))
    told = "objective on the models it was chosen on"
    assert figures[told] == pytest.approx(folder.certificate.static["objective"])
    for sheet in book:
        assert all(cell.data_type != "f" for row in sheet.iter_rows() for cell in row)
    write_workbook(tmp_path / "x.xlsx", {"x": {"=a": ["=1+1", "+1", 3, "\x07", float("nan")]}})
    cells = [cell for (cell,) in openpyxl.load_workbook(tmp_path / "x.xlsx")["x"].iter_rows()]
    assert [cell.data_type for cell in cells] == ["s", "s", "s", "n", "s", "s"]
    assert cells[1].value == "=1+1"
    assert cells[1].quotePrefix
    assert folder.path is not None
    with pytest.raises(InputError, match="belongs to the run"):
        export(folder, folder.path / "solution.json")
    for name in ("policy.json", "policy.csv", "policy.py"):
        export(folder, tmp_path / name)
    record = json.loads((tmp_path / "policy.json").read_text(encoding="utf-8"))
    assert [row["state"] for row in record["states"]] == list(folder.problem.models.states)
    with pytest.raises(InputError, match=r"\.xlsx"):
        export(folder, tmp_path / "policy.doc")


def test_files_for_spreadsheets_keep_their_characters_and_run_nothing(tmp_path: Path) -> None:
    policy, path = small_policy(), tmp_path / "policy.csv"
    policy.save(path)
    assert path.read_bytes().startswith(b"\xef\xbb\xbf")  # by which Excel knows UTF-8
    with path.open(encoding="utf-8-sig", newline="") as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    assert not any(cell.startswith(("=", "+", "-", "@")) for cell in cells)
    assert f"'{HOSTILE}" in cells
    again = read_policy(path, policy.states, policy.actions, rest=policy)  # and reads back
    np.testing.assert_array_equal(again.probs, policy.probs)
    assert [defused(x) for x in ("-5", "+1e3", -5, "@x", "a=1")] == ["-5", "+1e3", -5, "'@x", "a=1"]
    write_csv(tmp_path / "plain.csv", {"a": ["x"]}, people=True)
    assert (tmp_path / "plain.csv").read_bytes() == b"a\r\nx\r\n"


def test_a_pdf_is_a_real_one_or_an_error(
    folder: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A browser that writes no PDF, and none at all, are errors; nothing is left behind."""
    fake = tmp_path / "browser"
    fake.write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
    fake.chmod(0o755)
    out = tmp_path / "page.pdf"
    with pytest.raises(InputError, match="wrote no PDF"):
        print_pdf("<p>x</p>", out, str(fake))
    assert not out.exists()
    fake.write_text(
        '#!/bin/sh\nfor w in "$@"; do case $w in --print-to-pdf=*) '
        "printf '%%PDF-1.4 ok %%%%EOF' > \"${w#*=}\";; esac; done\n",
        encoding="utf-8",
    )
    line = ["report", str(folder.path), "--quick", "--browser", str(fake), "--quiet"]
    assert run_cli([*line, "--out", str(out)]) == 0
    assert out.read_bytes() == b"%PDF-1.4 ok %%EOF"
    assert not out.with_suffix(".html").exists()
    assert run_cli(line) == 2  # a browser, and nothing to print
    monkeypatch.setenv("PATH", os.devnull)
    monkeypatch.setattr("softrobust.run.export.BROWSERS", ("chromium",))
    with pytest.raises(InputError, match="print it to a PDF"):
        find_browser()
