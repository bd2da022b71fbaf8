"""Names: what a shell offers, what is meant by a misspelt one, and JSON for every verb."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from softrobust.cli import options as complete
from softrobust.cli.main import app, run
from softrobust.domains import DOMAINS
from softrobust.paper.base import ALL, EXPERIMENTS
from softrobust.posterior.registry import NAMES
from softrobust.solvers.registry import CONTINUOUS_SOLVERS, SOLVERS

ROOT = Path(__file__).resolve().parents[2]


def test_the_lists_are_true() -> None:
    assert set(complete.SOLVERS) == set(SOLVERS)
    assert set(complete.CONTINUOUS) == set(CONTINUOUS_SOLVERS)
    assert set(complete.DOMAINS) == set(DOMAINS)
    assert set(complete.POSTERIORS) == set(NAMES)
    assert list(complete.EXPERIMENTS) == [*EXPERIMENTS, ALL]


def offered(line: str) -> list[str]:
    """What bash would be offered at the end of the line."""
    words = line.split(" ")
    env = os.environ | {
        "_SOFTROBUST_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    code = "from softrobust.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False
    )
    return done.stdout.splitlines()


def test_a_shell_is_offered_names(tmp_path: Path) -> None:
    (tmp_path / "policy.csv").write_text(
        "state,action,probability\ndry,wait,0.5\ndry,spray,0.5\ndamp,spray,1\nwet,spray,1\n"
    )
    assert {"rsvf", "rsvf-simple", "randomized"} <= set(
        offered("softrobust solve log.csv --solver r")
    )
    assert offered("softrobust collect pe") == ["pest-control"]
    assert offered(f"softrobust explain {tmp_path} --state d") == ["dry", "damp"]


def test_completions(tmp_path: Path) -> None:
    context = typer.Context(typer.main.get_command(app))
    assert complete.solvers(context, "s-") == ["s-rect"]
    context.params["continuous"] = True
    assert complete.solvers(context, "sr-") == ["sr-sac"]
    assert complete.solver_list("nominal,sa") == ["nominal,sa-rect"]
    assert complete.posteriors("di") == ["dirichlet"]
    assert complete.experiments("pest-f") == ["pest-frontier"]
    assert complete.states(context, "") == []
    context.params["run"] = tmp_path / "none"
    assert complete.states(context, "") == []


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("collect pest-contrl --out x.csv", "Did you mean 'pest-control'?"),
        ("sample {log} --posterior dirichelt --out m.npz", "Did you mean 'dirichlet'?"),
        ("solve {log} --gamma .9 --solver exat", "Did you mean 'exact'?"),
    ],
)
def test_did_you_mean(words: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = words.format(log=ROOT / "examples" / "pest_log.csv").split()
    assert run(line) == 2
    assert hint in " ".join(capsys.readouterr().err.split())


def test_nothing_asked_is_answered_with_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert "Usage: softrobust" in said.out
    assert "value-of-data" in said.out


def test_examples_of_the_help_name_states_that_exist() -> None:
    from softrobust.cli.study import explain
    from softrobust.cli.use import apply

    log = (ROOT / "examples" / "pest_log.csv").read_text(encoding="utf-8")
    for verb in (apply, explain):
        state = str(verb.__doc__).split('--state "')[1].split('"')[0]
        assert f",{state}," in log


def test_every_verb_speaks_json() -> None:
    for command in app.registered_commands:
        assert command.callback is not None
        assert "json" in command.callback.__annotations__, command.callback.__name__


def test_written_paths_and_figures_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, models = tmp_path / "log.csv", tmp_path / "m.npz"
    assert run(["collect", "riverswim", "--set", "steps=50", "--out", str(log), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == {"domain": "riverswim", "seed": 0, "transitions": 50, "written": [str(log)]}
    assert run(["sample", str(log), "--models", "3", "--out", str(models), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["written"] == [str(models)]
    assert found["models"] == 3
    assert run(["collect", "riverswim", "--set", "steps=1", "--out", str(log)]) == 0
    assert capsys.readouterr().out.startswith("1 transition written")


def test_frontier_takes_min_count(capsys: pytest.CaptureFixture[str]) -> None:
    log = str(ROOT / "examples" / "pest_log.csv")
    rest = ["--gamma", ".9", "--lambdas", "0", "--models", "10", "--solver", "nominal", "--json"]
    values = []
    for least in ("1", "5"):
        assert run(["frontier", log, "--min-count", least, *rest]) == 0
        values.append(json.loads(capsys.readouterr().out)[0]["mean"])
    assert values[0] > values[1]
