"""`sweep.toml`: every mistake gets the rule, what came, and the nearest name."""

from __future__ import annotations

from pathlib import Path

import pytest

from softrobust.errors import InputError
from softrobust.run.sweep import sweep_tasks
from softrobust.run.sweep_file import read_sweep

ROOT = Path(__file__).resolve().parents[3]
SOURCE = '[[source]]\ndomain = "riverswim"\n'
SWEEP = '[sweep]\nsolvers = ["nominal"]\n'


def read(folder: Path, text: str) -> None:
    (folder / "s.toml").write_text(text, encoding="utf-8")
    read_sweep(folder / "s.toml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[sweep", "cannot be read as TOML"),
        ("x = " + "[" * 9999 + "]" * 9999, "cannot be read as TOML"),
        ("", "[sweep] is missing"),
        (SWEEP, "no [[source]]"),
        ('[sweep]\nsolvers = ["nominal"]\n[source]\ndomain = "riverswim"', "Mind the double"),
        ("[sweep]\n" + SOURCE, "needs solvers"),
        ("[swep]\n" + SOURCE, "no setting 'swep'. Did you mean 'sweep'?"),
        (SWEEP + "lamdas = [0.5]\n" + SOURCE, "no setting 'lamdas'. Did you mean 'lambdas'?"),
        (SWEEP + "time_limit = 5\n" + SOURCE, "no setting 'time_limit'"),
        ('[sweep]\nsolvers = ["nominl"]\n' + SOURCE, "Did you mean 'nominal'?"),
        ('[sweep]\nsolvers = "nominal"\n' + SOURCE, "solvers must be a list"),
        ("[sweep]\nsolvers = []\n" + SOURCE, "at least one entry"),
        (SWEEP + "lambdas = [0.5, 0.5]\n" + SOURCE, "0.5 twice"),
        (SWEEP + "lambdas = [1.5]\n" + SOURCE, "1.5"),
        (SWEEP + "alphas = [-0.1]\n" + SOURCE, "-0.1"),
        (SWEEP + 'alphas = ["x"]\n' + SOURCE, "alpha must be"),
        (SWEEP + "seeds = 0\n" + SOURCE, "seeds must be a whole number in 1…100000"),
        (SWEEP + "seeds = [1, -1]\n" + SOURCE, "a seed must be a whole number ≥ 0"),
        (SWEEP + "heldout = 0\n" + SOURCE, "heldout must be"),
        (SWEEP + "models = 1.5\n" + SOURCE, "models must be"),
        (SWEEP + "node_limit = -1\n" + SOURCE, "node_limit must be"),
        (SWEEP + SOURCE + SOURCE, 'Two sources are called "riverswim"'),
        (SWEEP + "[[source]]\n", "needs either domain"),
        (SWEEP + SOURCE + 'log = "a.csv"\n', "and not both"),
        (SWEEP + '[[source]]\ndomain = "riverswin"\n', "Did you mean 'riverswim'?"),
        (SWEEP + '[[source]]\ndomain = "cancer"\n', "continuous states"),
        (SWEEP + SOURCE + "settings = 3\n", "settings must be a table"),
        (SWEEP + SOURCE + "settings = { n_state = 6 }\n", "no setting 'n_state'"),
        (SWEEP + SOURCE + "gamma = 0.9\n", "no setting 'gamma'"),
        (SWEEP + '[[source]]\nlog = "no.csv"\ngamma = 0.9', "there is no file"),
        (SWEEP + '[[source]]\nlog = "log.csv"\n', "Add gamma"),
        (SWEEP + '[[source]]\nlog = "log.csv"\ngamma = 1.0', "give the horizon too"),
        (SWEEP + '[[source]]\nlog = "log.csv"\ngamma = 1.5\nhorizon = 3', "gamma must be"),
        (SWEEP + SOURCE + "horizon = 0\n", "horizon must be a whole number"),
        ('[sweep]\nsolvers = ["exact"]\n' + SOURCE + "horizon = 3\n", "know of horizons: improve"),
        (
            SWEEP + 'reference = "optimum"\n[[source]]\nlog = "log.csv"\ngamma = 0.9\n'
            'reference = "log.csv"',
            "Leave one out",
        ),
        (SWEEP + '[[source]]\nlog = "log.csv"\ngamma = 0.9\ncolumns = ["a"]', "table of names"),
        (SWEEP + '[[source]]\nlog = "log.csv"\ngamma = 0.9\nsupport = "some"', "neighbours"),
        (SWEEP + '[[source]]\nlog = "log.csv"\ngamma = 0.9\ninitial = 3', "name of a file"),
        (SWEEP + '[[source]]\nlog = "log.csv"\ngamma = 0.9\nname = ""', "name must be a word"),
    ],
)
def test_mistakes(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "log.csv").touch()
    with pytest.raises(InputError) as error:
        read(tmp_path, text)
    assert message in str(error.value)
    assert str(error.value).startswith("s.toml")


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="There is no file"):
        read_sweep(tmp_path / "no.toml")


def test_the_example(tmp_path: Path) -> None:
    sweep = read_sweep(ROOT / "examples" / "sweep.toml")
    tasks = sweep_tasks(sweep)
    assert len(tasks) == 5 * 3 * 1 * 4 * 2  # solvers × λ × α × seeds × sources
    assert any(task.files for task in tasks)  # the user's own log is among the sources


def test_defaults_and_keys(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(SWEEP + "lambdas = [0, 0.25]\nseeds = [7]\n" + SOURCE)
    sweep = read_sweep(tmp_path / "s.toml")
    assert (sweep.alphas, sweep.models, sweep.heldout, sweep.node_limit) == ((0.9,), 100, 400, 200)
    assert [task.key for task in sweep_tasks(sweep)] == [
        "riverswim-seed7-nominal-lam0-alpha0.9",
        "riverswim-seed7-nominal-lam0.25-alpha0.9",
    ]
