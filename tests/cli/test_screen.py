"""The screen: labels are shown as they are by every verb, and figures are never cut."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from softrobust.cli.main import run as run_cli
from softrobust.cli.screen import make_console, show_table, table_width, visible

ROOT = Path(__file__).resolve().parents[2]
CLI = ROOT / "src" / "softrobust" / "cli"
STATES = ["[/n0]", "[bold]n1[/bold]", ":smile: n2", "\x1b[31mred\x1b[0m"]
ACTIONS = ["[spot]", "[/]:bug:"]
RED = r"\x1b[31mred\x1b[0m"


def calls(path: Path, name: str) -> list[ast.Call]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
    ]


def test_consoles_are_made_in_one_place() -> None:
    made = [path for path in (ROOT / "src").rglob("*.py") if calls(path, "Console")]
    # The bar of a run shows counts and constant titles only.
    assert {path.name for path in made} == {"screen.py", "run.py"}
    (call,) = calls(CLI / "screen.py", "Console")
    off = {k.arg for k in call.keywords if isinstance(k.value, ast.Constant) and not k.value.value}
    assert off >= {"markup", "highlight", "emoji"}


def test_text_leaves_by_the_screen() -> None:
    """`print` would let control characters through: only JSON, the version and errors use it."""
    left = {path.name for path in CLI.glob("*.py") if calls(path, "print")}
    assert left <= {"screen.py", "main.py", "solve.py", "study.py", "use.py"}
    for name in left - {"screen.py", "main.py"}:
        for call in calls(CLI / name, "print"):
            text = ast.unparse(call)
            assert "dumps" in text or text == "print(text)"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty episodes over labels that look like markup, emoji codes and escapes."""
    rng = np.random.default_rng(0)
    rows = ["episode,state,action,next_state,reward"]
    for episode in range(40):
        s = int(rng.integers(4))
        for _ in range(6):
            a = int(rng.integers(2))
            to = int(rng.choice(4, p=[[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1]][(s + a) % 2]))
            rows.append(f"{episode},{STATES[s]},{ACTIONS[a]},{STATES[to]},{to - 0.3 * a}")
            s = to
    path = tmp_path_factory.mktemp("labels") / "[b]log.csv"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def run(log: Path) -> Path:
    out = log.parent / "[x]run"
    words = "--gamma 0.8 --solver local-search --models 20 --test-models 60 --quiet --out"
    assert run_cli(["solve", str(log), *words.split(), str(out)]) == 0
    return out


def test_every_verb_shows_labels_as_they_are(
    log: Path, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = log.parent / "[y]"
    place.mkdir()
    policy = place / "mine.csv"
    policy.write_text(
        "state,action\n" + "".join(f"{s},{ACTIONS[1]}\n" for s in STATES), encoding="utf-8"
    )
    toml = place / "s.toml"
    toml.write_text(
        '[sweep]\nsolvers = ["nominal"]\nlambdas = [0.5]\nalphas = [0.8]\nseeds = 1\nmodels = 6\n'
        f'heldout = 10\n[[source]]\nname = "[/mine]"\nlog = "../{log.name}"\ngamma = 0.8\n',
        encoding="utf-8",
    )
    new = place / "new.csv"
    head, *rows = log.read_text(encoding="utf-8").splitlines()
    others = (f"9{row}1" for row in rows[:60])  # a digit more: other rewards, so other rows
    new.write_text("\n".join([head, *others]) + "\n", encoding="utf-8")
    state = STATES[0]
    out = str(place / "out")
    grid = ["--gamma", ".8", "--lambdas", "0,1", "--models", "10", "--solver", "local-search"]
    words = "--gamma .8 --models 10 --test-models 60 --replications 0 --solver local-search"
    lines: dict[str, tuple[list[str], list[str]]] = {
        "inspect": ([str(log)], [*STATES[:3], RED, *ACTIONS, "[b]log.csv"]),
        "solve": ([str(log), *words.split(), "--out", out], [STATES[1], STATES[2], RED, "[y]/out"]),
        "evaluate": ([str(run), "--policy", str(policy)], [ACTIONS[1]]),
        "compare": ([str(run)], ["[x]run (local-search)"]),
        "report": ([str(run), "--quick", "--out", f"{place}/p.html"], ["[y]/p.html"]),
        "apply": ([str(run), "--state", state], ["["]),
        "export": ([str(run), "--out", f"{place}/e.json"], ["[y]/e.json"]),
        "explain": ([str(run), "--state", state], [state, *ACTIONS]),
        "rules": ([str(run), "--max-loss", "0"], ["["]),
        "value-of-data": ([str(run), "--draws", "20"], []),
        "frontier": ([str(log), *grid, "--out", f"{out}-f"], ["[y]/out-f"]),
        "sample": ([str(log), "--models", "3", "--out", f"{place}/m.npz"], ["[y]/m.npz"]),
        "check": ([str(run)], ["hidden causes"]),
        "rehearse": ([str(run), "--times", "2", "--workers", "0"], ["2 known worlds"]),
        "update": ([str(run), str(new), "--out", f"{out}-u"], ["[y]/out-u"]),
        "sweep": ([str(toml), "--workers", "0", "--out", f"{out}-s"], ["[/mine]: the bad case"]),
        "collect": (["riverswim", "--out", f"{place}/c.csv"], ["[y]/c.csv"]),
    }
    for verb, (rest, expected) in lines.items():
        code = run_cli([verb, *rest])
        said = capsys.readouterr()
        assert code == 0, (verb, said.err)
        assert "\x1b" not in said.out + said.err, verb
        assert "\U0001f604" not in said.out, verb
        for text in expected:
            assert text in said.out, (verb, text)


def test_errors_and_scripts(log: Path, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["explain", str(run), "--state", "\x1b[31m[/n9]"]) == 2
    said = capsys.readouterr().err
    assert "\x1b" not in said
    assert r"\x1b[31m[/n9]" in said
    assert run_cli(["apply", str(run), "--state", STATES[3]]) == 0
    assert capsys.readouterr().out.rstrip("\n") in ACTIONS  # untouched in a pipe


@pytest.mark.parametrize("columns", [24, 40, 60, 80])
def test_figures_are_never_cut(
    run: Path, columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_cli(["compare", str(run), "--json"])
    found = json.loads(capsys.readouterr().out)["policies"]
    run_cli(["explain", str(run), "--state", STATES[0], "--json"])
    options = json.loads(capsys.readouterr().out)["options"]
    monkeypatch.setenv("COLUMNS", str(columns))
    for terminal in ("0", "1"):
        monkeypatch.setenv("FORCE_COLOR", terminal)
        assert run_cli(["compare", str(run)]) == 0
        text = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
        for row in found:
            assert f"{row['static']['objective']:.6g}" in text
            assert f"{row['heldout']['cvar']['value']:.5g}" in text
        assert "…" not in text
        table = text.split("The bad")[0].splitlines()
        assert max(len(line) for line in table) <= max(columns, 34)
        assert run_cli(["explain", str(run), "--state", STATES[0]]) == 0
        text = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
        for option in options:
            assert f"{option['objective']:.6g}" in text
            assert f"{option['q_worst']:.5g}" in text


def test_a_pipe_may_name_its_width(
    log: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert table_width(make_console()) is None
    run_cli(["inspect", str(log)])
    wide = capsys.readouterr().out
    assert any(60 < len(line) <= 100 for line in wide.splitlines())
    monkeypatch.setenv("COLUMNS", "60")
    run_cli(["inspect", str(log)])
    narrow = [x for x in capsys.readouterr().out.splitlines() if "softrobust solve" not in x]
    assert max(len(line) for line in narrow) <= 60


def test_a_width_of_nothing_is_none(
    log: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for words in (["inspect", str(log)], ["--help"]):
        run_cli(words)
        plain = capsys.readouterr().out
        assert plain.strip()
        monkeypatch.setenv("COLUMNS", "0")
        run_cli(words)
        assert capsys.readouterr().out == plain


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "ascii", "ascii:surrogateescape"])
def test_no_encoding_is_too_narrow(encoding: str, run: Path) -> None:
    """Letters that it has not are written out."""
    code = "from softrobust.cli import main; main()"
    words = [sys.executable, "-c", code, "compare", str(run)]
    done = subprocess.run(
        words, env=os.environ | {"PYTHONIOENCODING": encoding}, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert rb"\u03bb = " in done.stdout
    words = [sys.executable, "-c", code, "explain", str(run), "--state", "\u03b1"]
    done = subprocess.run(
        words, env=os.environ | {"PYTHONIOENCODING": encoding}, capture_output=True, check=False
    )
    assert done.returncode == 2
    assert rb"\u03b1" in done.stderr


def test_tables(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    head, rows = ("λ", "name", "held-out\nvalue"), [("0", "a long [name]", "1.25"), ("", "b", "10")]
    monkeypatch.setenv("COLUMNS", "40")
    show_table(make_console(), head, rows, words={1})
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "                  held-out",
        "λ  name              value",
        "0  a long [name]      1.25",
        "   b                    10",
    ]
    monkeypatch.setenv("COLUMNS", "23")
    show_table(make_console(), head, rows, words={1})
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()[2:]] == [
        "0  a long          1.25",
        "   [name]",
        "   b                 10",
    ]
    monkeypatch.setenv("COLUMNS", "16")
    show_table(make_console(), head, rows, words={1})
    assert capsys.readouterr().out.splitlines()[:2] == ["λ 0", "  name"]


def test_controls_are_written_out() -> None:
    assert visible("a\x1b[2J\x07\u202eb\nc") == r"a\x1b[2J\x07\u202eb" + "\nc"
