"""domains, collect and sample: the verbs as functions; nothing is written on bad input."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softrobust.cli.data import collect, domains, sample
from softrobust.cli.main import run
from softrobust.data import read_log
from softrobust.errors import InputError
from softrobust.models import load_models
from softrobust.models.gaussian import load_gaussian
from softrobust.posterior import Fitted, load_posterior, population
from softrobust.problem import Problem


def test_domains(capsys: pytest.CaptureFixture[str]) -> None:
    domains()
    assert "softrobust/PestControl-v0" in capsys.readouterr().out
    domains(json=True)
    assert {row["name"] for row in json.loads(capsys.readouterr().out)} >= {"cancer", "inventory"}


def test_collect_sample_and_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, out = tmp_path / "log.csv", tmp_path / "models.npz"
    collect("riverswim", log, seed=4, set_=["variant=craam", "steps=40"])
    assert read_log(log).n_rows == 40
    sample(log, out, domain="riverswim", models=7, set_=["variant=craam"], save=tmp_path / "p.npz")
    assert "7 models" in capsys.readouterr().out
    problem = Problem(load_models(out))
    assert (problem.gamma, problem.n_states, problem.n_models) == (0.9, 20, 7)
    again = load_posterior(tmp_path / "p.npz").sample(7, 0)
    np.testing.assert_array_equal(again.prob, load_models(out).prob)  # type: ignore[union-attr]


def test_a_plain_posterior_keeps_the_rewards_of_the_log(tmp_path: Path) -> None:
    log, out = tmp_path / "log.npz", tmp_path / "models.npz"
    collect("random", log, set_=["n_states=5", "steps=300"], quiet=True)
    sample(log, out, set_=["strength=2"], models=3, quiet=True)
    assert Problem(load_models(out), gamma=0.9).n_models == 3


def test_continuous(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, out = tmp_path / "log.csv", tmp_path / "models.npz"
    collect("cancer", log)
    sample(log, out, domain="cancer", models=4)
    assert load_gaussian(out).n_models == 4
    assert "'Qp'" in capsys.readouterr().err
    sample(log, out, posterior="regression", models=4, quiet=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"posterior": "population"}, "must be those of Pest control"),
        ({"posterior": "demand"}, "must be those of The inventory"),
        ({"posterior": "stan"}, "Unknown posterior"),
        ({"posterior": "tied", "domain": "riverswim"}, "not both"),
        ({"set_": ["strength"]}, "name=value"),
        ({"set_": ["strength=-1"]}, "positive prior mass"),
        ({"models": 0}, "whole number"),
    ],
)
def test_nothing_is_written(options: dict[str, object], message: str, tmp_path: Path) -> None:
    log, out = tmp_path / "log.csv", tmp_path / "models.npz"
    collect("riverswim", log, quiet=True)
    with pytest.raises(InputError, match=message):
        sample(log, out, **options)  # type: ignore[arg-type]
    assert not out.exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("pest-control --set steps=abc", "steps must be a whole number ≥ 1; it is 'abc'."),
        ("pest-control --set steps=2.5", "steps must be a whole number ≥ 1; it is 2.5."),
        ("pest-control --set batch_start=77", "batch_start must be a whole number in 0…50"),
        ("riverswim --set n_states=abc", "n_states must be a whole number ≥ 3; it is 'abc'."),
        ("inventory --set capacity=abc", "capacity must be a whole number"),
        ("cancer --set noise=abc", "noise must be a finite number ≥ 0"),
        ("riverswim --seed -1", "--seed must be a whole number ≥ 0"),
    ],
)
def test_wrong_settings_are_bad_input(
    words: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "log.csv"
    assert run(["collect", *words.split(), "--out", str(out)]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert message in said
    assert "bug" not in said
    assert not out.exists()


def test_continuous_models_are_not_solved_yet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, out = tmp_path / "log.csv", tmp_path / "c2.npz"
    collect("cancer", log, quiet=True)
    sample(log, out, domain="cancer", models=2, quiet=True)
    assert run(["solve", str(out), "--out", str(tmp_path / "run")]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "c2.npz holds continuous models" in said
    assert "--continuous" in said
    assert not (tmp_path / "run").exists()


def test_nothing_is_written_when_the_chains_diverge(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real fit whose gradient is false by 1e30: every transition of NUTS is thrown far off."""
    pytest.importorskip("numpyro")
    own = population._model

    def pushed(data: Any) -> None:
        import jax
        import numpyro

        with numpyro.handlers.trace() as sites:
            own(data)
        mu = sites["mu"]["value"]
        numpyro.factor("push", 1e30 * (mu - jax.lax.stop_gradient(mu)))  # 0, of slope 1e30

    monkeypatch.setattr(population, "_model", pushed)
    log, out, save = tmp_path / "log.csv", tmp_path / "models.npz", tmp_path / "posterior.npz"
    collect("pest-control", log, set_=["steps=20"], quiet=True)
    words = ["sample", str(log), "--posterior", "population", "--models", "2"]
    words += ["--out", str(out), "--save", str(save)]
    chains = tmp_path / "chains.npz"
    for setting in ("chains=1", "warmup=5", "draws=5", "block=5", f"checkpoint={chains}"):
        words += ["--set", setting]
    assert run(words) == 1
    assert "100% of its transitions diverged" in " ".join(capsys.readouterr().err.split())
    assert [path.name for path in tmp_path.iterdir()] == ["log.csv"]


def test_folders_are_checked_first(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no folder"):
        sample(tmp_path / "log.csv", tmp_path / "no" / "models.npz")
    with pytest.raises(InputError, match="no folder"):
        collect("riverswim", tmp_path / "no" / "log.csv")


def test_sample_writes_both_files_or_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log, out = tmp_path / "log.csv", tmp_path / "models.npz"
    assert run(["collect", "riverswim", "--out", str(log)]) == 0
    out.write_bytes(b"what was there")
    words = ["sample", str(log), "--models", "3", "--out", str(out), "--save"]
    monkeypatch.setattr(Fitted, "save", no_room)
    assert run([*words, str(tmp_path / "fit.npz")]) != 0
    assert "No space left" in capsys.readouterr().err
    assert sorted(file.name for file in tmp_path.iterdir()) == ["log.csv", "models.npz"]
    assert out.read_bytes() == b"what was there"


def no_room(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")
