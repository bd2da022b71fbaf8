"""Rehearsals of the default line: worlds are what they are called, verdicts follow the figures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softrobust._core.notes import Note
from softrobust.cli.main import run as run_cli
from softrobust.data import TransitionLog
from softrobust.data.readers import write_log_csv
from softrobust.errors import InputError
from softrobust.posterior.belief import Belief
from softrobust.report.sentences import sentence
from softrobust.run.folder import Run, load_run
from softrobust.run.rehearsal import rehearse
from softrobust.solvers.promise import Procedure
from softrobust.study.checks import Verdict
from softrobust.study.foreign import (
    KINDS,
    PULL,
    ForeignRehearsal,
    KindFound,
    extra_noise,
    foreign,
    load_rehearsal,
)
from tests.study.test_checks import visits


def walk(seed: int = 0, n: int = 30, steps: int = 12, noise: float = 0.0) -> TransitionLog:
    """Positions 0 to 5: "up" climbs in most steps, "stay" hardly; the place is the reward."""
    rng = np.random.default_rng(seed)
    rows = []
    for episode in range(n):
        s = int(rng.integers(6))
        for _ in range(steps):
            a = int(rng.random() < 0.3)
            up = rng.random() < (0.8 if a else 0.2)
            to = min(max(s + (1 if up else -1), 0), 5)
            rows.append((s, "up" if a else "stay", to, to + noise * rng.standard_normal(), episode))
            s = to
    return TransitionLog.from_arrays(*zip(*rows, strict=True))


def drawn(log: TransitionLog, seed: int = 0) -> tuple[Procedure, Belief]:
    real = Procedure.of(log, 0.9, None, 1, 1, np.random.default_rng(seed))
    return real, real.belief


def rows_of(world: Belief) -> Any:
    S, A = world.mean_rewards.shape
    out = np.zeros((S * A, S))
    out[np.repeat(np.arange(S * A), np.diff(world.indptr)), world.next_states] = world.prob
    return out.reshape(S, A, S)


@pytest.mark.parametrize("kind", KINDS)
def test_a_log_of_a_world_shows_its_rows_and_rewards(kind: str) -> None:
    """The truth that promises are held against is the one that made the log."""
    real, own = drawn(walk(noise=0.5))
    rng = np.random.default_rng(1)
    world = foreign(own, kind, rng)
    T = rows_of(world)
    np.testing.assert_allclose(T.sum(axis=2), 1.0, atol=1e-9)
    logs = [world.rehearse(0, real.practice, rng) for _ in range(60)]
    seen, paid = np.zeros(T.shape), np.zeros(T.shape[:2])
    for log in logs:
        assert log.reward is not None
        np.add.at(seen, (log.s, log.a, log.s_next), 1.0)
        np.add.at(paid, (log.s, log.a), log.reward)
    n = seen.sum(axis=2)
    often = n > 400
    assert often.sum() >= 6
    error = 5 * np.sqrt(0.25 / n[often])
    assert (np.abs(seen[often] / n[often][:, None] - T[often]).max(axis=1) < error).all()
    assert (np.abs(paid / np.maximum(n, 1) - world.R[:, :, 0])[often] < 12 * error).all()


def test_worlds_are_what_they_are_called() -> None:
    _, own = drawn(walk(n=300))  # a long log: the posterior is narrow
    rng = np.random.default_rng(2)
    T, mean = rows_of(own), rows_of(replace(own, prob=own.mean_prob))
    rough, smooth, shifted = (
        rows_of(foreign(own, kind, rng)) for kind in ("rougher", "smoother", "shifted")
    )
    assert np.abs(rough - mean).sum() > 2 * np.abs(T - mean).sum()

    def apart(rows: Any) -> float:
        return float(np.abs(np.diff(rows, axis=0)).sum())

    assert apart(smooth) < (1 - PULL / 2) * apart(T)
    moved = np.abs(shifted - T).max(axis=(1, 2)) > 1e-9
    assert moved.sum() == 2  # a third of six states
    np.testing.assert_allclose(shifted[moved], T[moved][:, ::-1])


def test_noise_is_doubled_or_brought() -> None:
    assert extra_noise(drawn(walk())[1]) == pytest.approx(0.5 * np.std(walk().s_next))
    noisy = drawn(walk(noise=2.0))[1]
    assert extra_noise(noisy) == pytest.approx(np.sqrt(3) * 2.0, rel=0.15)


def results(n: int, kept: int, better: int, worse: int, chance: float) -> list[dict[str, Any]]:
    """Known figures: practice earns 1, the limit is 1.5 or 3."""
    out = []
    for i in range(n):
        true = 2.0 if i < better else 0.5 if i < better + worse else 1.0
        low = true - 1.0 if i < kept else true + 1.0
        out.append({"kind": "rougher", "verdict": "change", "low": low, "chance": chance,
                    "gain": 0.5, "return": true, "practice": 1.0})  # fmt: skip
    return out


@pytest.mark.parametrize(
    ("figures", "verdict"),
    [
        ((20, 18, 18, 1, 0.9), Verdict.FINE),
        ((20, 20, 0, 0, 0.0), Verdict.FINE),  # practice everywhere
        ((10, 10, 9, 0, 0.9), Verdict.CANNOT_TELL),  # too few worlds
        ((20, 15, 18, 1, 0.9), Verdict.CANNOT_TELL),  # 75 % may be 90 %
        ((20, 10, 18, 1, 0.9), Verdict.CAUTION),  # the limit is not kept
        ((20, 18, 12, 6, 0.6), Verdict.CAUTION),  # too often worse
        ((20, 18, 8, 0, 0.9), Verdict.CAUTION),  # better less often than said
    ],
)
def test_verdicts_follow_the_figures(
    figures: tuple[int, int, int, int, float], verdict: Verdict
) -> None:
    found = KindFound.of("rougher", results(*figures))
    assert found.verdict is verdict
    assert found.kept is not None
    assert found.kept[0] == figures[1] / figures[0]
    fine = KindFound.of("posterior", results(20, 18, 18, 1, 0.9))
    assert ForeignRehearsal(found, (found, fine)).verdict is verdict


def test_nothing_promised_is_nothing_kept() -> None:
    silent = [r | {"low": None, "verdict": "too_small"} for r in results(20, 20, 0, 0, 0.0)]
    found = KindFound.of("rougher", silent)
    assert (found.kept, found.changed, found.verdict) == (None, 0.0, Verdict.CANNOT_TELL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Run:
    where = tmp_path_factory.mktemp("foreign")
    write_log_csv(walk(n=16, steps=8), where / "log.csv")
    line = ["solve", str(where / "log.csv"), "--gamma", "0.9", "--quiet", "--replications", "0"]
    assert run_cli([*line, "--out", str(where / "run")]) == 0
    return load_run(where / "run")


def test_the_verb_keeps_its_verdict_and_the_page_shows_it(
    folder: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Climbing pays in this world whatever the kind: what is promised must come true."""
    assert run_cli(["rehearse", str(folder.path), "--times", "5", "--workers", "0", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    file = folder.path / "rehearsal" / "summary.json"
    assert json.loads(file.read_text(encoding="utf-8")) == record
    assert [kind["kind"] for kind in record["kinds"]] == list(KINDS)
    assert record["total"]["n"] == 5
    assert record["verdict"] != "fine"  # one world of a kind proves nothing
    assert record["total"]["gain_true"] > 0
    found = load_rehearsal(file)
    assert isinstance(found, ForeignRehearsal)
    assert json.loads(json.dumps(found.to_dict())) == record
    page = tmp_path / "page.html"
    assert run_cli(["report", str(folder.path), "--quick", "--out", str(page)]) == 0
    said = page.read_text(encoding="utf-8").split('<section id="policy">')[0]
    assert "In 5 known worlds, 4 of them unlike the models" in said
    for damage in ('{"total": {}}', '{"kinds": []}', json.dumps({"kinds": record["kinds"][1:]})):
        file.write_text(json.dumps(record | json.loads(damage)), encoding="utf-8")
        with pytest.raises(InputError, match="Rehearse the run again"):
            load_rehearsal(file)
    assert load_rehearsal(tmp_path / "none.json") is None


def test_a_time_limit_ends_it_and_a_resume_goes_on(folder: Run, tmp_path: Path) -> None:
    late = rehearse(folder, tmp_path / "r", 4, workers=0, progress=False, time_limit=1e-9)
    assert isinstance(late, Note)
    assert "No world was done within 1e-09 s" in sentence(late)
    first = rehearse(folder, tmp_path / "s", 2, world="shifted", workers=0, progress=False)
    assert isinstance(first, ForeignRehearsal)
    assert [(kind.kind, kind.n) for kind in first.kinds] == [("shifted", 2)]
    (tmp_path / "s" / "results" / "world1.json").unlink()
    again = rehearse(
        folder, tmp_path / "s", 2, world="shifted", workers=1, progress=False, resume=True
    )
    assert again == first


def test_what_cannot_be_rehearsed_says_why(folder: Run, tmp_path: Path) -> None:
    for more, why in (
        ({"solver": "exakt"}, "Did you mean 'exact'"),
        ({"world": "prior"}, "posterior, rougher, smoother, shifted, noisier"),
        ({"times": 0}, "at least once"),
    ):
        with pytest.raises(InputError, match=why):
            rehearse(folder, tmp_path / "x", **more)
    other = replace(folder, solution=replace(folder.solution, solver="given policy"))
    with pytest.raises(InputError, match="was handed in"):
        rehearse(other, tmp_path / "x")


def test_any_solver_is_rehearsed_in_foreign_worlds(folder: Run, tmp_path: Path) -> None:
    found = rehearse(folder, tmp_path / "x", 5, solver="nominal", workers=0)
    assert isinstance(found, ForeignRehearsal)
    assert [kind.n for kind in found.kinds] == [1] * 5
    assert found.total.kept is not None


def test_given_rewards_have_no_noise() -> None:
    log = replace(visits(), reward=None)
    assert extra_noise(drawn(log)[1]) == 0.0
