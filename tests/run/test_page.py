"""What `solve` prints and writes and what `report` writes say the same, cautions first of all."""

from __future__ import annotations

import re
import shlex
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from softrobust.cli.main import run as run_cli
from softrobust.report.summary import summary_lines
from softrobust.run import Options, Run, choose, load_run, run_page, set_up
from softrobust.run.options import folder_command
from softrobust.solvers import LocalSearch

HEAD = "state,action,next_state,reward\n"


def noisy_log(path: Path, n: int = 60) -> Path:
    """Sparse, with rewards that vary within a pair: everything to be cautious about."""
    rng = np.random.default_rng(3)
    s, a, to = rng.integers(0, 6, n), rng.integers(0, 3, n), rng.integers(0, 6, n)
    rows = [f"s{i},a{j},s{k},{rng.normal():.3f}\n" for i, j, k in zip(s, a, to, strict=True)]
    path.write_text(HEAD + "".join(rows))
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Path]:
    folder = tmp_path_factory.mktemp("line")
    options = Options(gamma=0.9, n_models=30, n_test=300, min_count=1, posterior="dirichlet")
    setup = set_up(noisy_log(folder / "log.csv"), options)
    run = choose(setup, LocalSearch(time_limit=60.0), replications=0)
    run.save(folder / "run")
    return run, folder / "run"


def answer(html: str) -> str:
    """The visible words of the answer, as the page has them."""
    section = html[html.index('<section id="answer"') : html.index('<section id="policy"')]
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", "", section)))


CAUTIONS = ("of its decisions were seen fewer than", "are too sure of themselves",
            "are surer of next states than the log is")  # fmt: skip


def test_cautions_stand_under_the_first_sentence_everywhere(made: tuple[Run, Path]) -> None:
    run, path = made
    short = (path / "report.html").read_text(encoding="utf-8")
    folder = load_run(path)
    quick = run_page(folder, path / "x.html").html
    printed = " ".join(line for _, line in summary_lines(run))
    assert answer(short) == answer(quick)
    for phrase in CAUTIONS:
        assert phrase in printed
        assert phrase in answer(short)
        assert short.index(phrase.replace("'", "&#39;")) < short.index('<section id="policy"')
    # Said once: no longer hidden among what was assumed.
    assert "too sure of themselves" not in short[short.index('id="asked"') :]


def test_the_terminal_and_the_page_begin_with_the_same_sentence(made: tuple[Run, Path]) -> None:
    run, path = made
    (_, head), (_, first), *_ = summary_lines(run)
    assert head == "In a sentence"
    shown = answer((path / "report.html").read_text(encoding="utf-8"))
    assert shown.strip().startswith(re.sub(r"\s+", " ", first))
    assert run.certificate.promise is not None
    low = f"{abs(run.certificate.promise.gain.low):.4g}"
    assert low in first or first.startswith("Keep doing what you do")


def test_the_command_on_the_page_makes_the_same_run(
    made: tuple[Run, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, path = made
    page = run_page(load_run(path), path / "x.html").html
    found = re.search(r"<dt>command</dt><dd>([^<]*)</dd>", page)
    assert found is not None
    command = unescape(found[1])
    assert command == (
        "softrobust solve log.csv --gamma 0.9 --lambda 0.5 --alpha 0.9 --models 30 "
        "--test-models 300 --posterior dirichlet --min-count 1 --seed 0 --solver local-search "
        "--replications 0"
    )
    assert command in unescape((path / "report.html").read_text(encoding="utf-8"))
    assert "SHA-256 of the log as it was read" in page
    assert "trace" not in page[page.index('id="rerun"') :]
    noisy_log(tmp_path / "log.csv")
    monkeypatch.chdir(tmp_path)
    words = [*shlex.split(command)[1:], "--quiet", "--out", "again"]
    assert run_cli(words) == 0
    again = load_run("again").solution.policy
    np.testing.assert_array_equal(again.probs, run.solution.policy.probs)


def test_a_run_from_models_names_its_problem() -> None:
    assert folder_command("my run", "exact", 3) == (
        "softrobust solve 'my run/problem.npz' --seed 3 --solver exact"
    )
    assert folder_command("run", "given", 0) == ""


def test_one_state_is_one_state(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(HEAD + "a,x,a,1\n" * 9 + "a,y,a,1\n" * 9)
    run = choose(set_up(tmp_path / "log.csv", Options(gamma=0.5)), LocalSearch(), replications=0)
    text = " ".join(line for _, line in summary_lines(run))
    assert "18 rows; 1 state, 2 actions" in text
    run.save(tmp_path / "run")
    page = run_page(load_run(tmp_path / "run"), tmp_path / "page.html", full=True).html
    assert "No pair is worth 10 more observations" in page
