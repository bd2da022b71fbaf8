"""Ctrl-C is answered in the same words at any moment, also while modules are half imported."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from softrobust._core import interrupts
from softrobust.cli.main import run
from tests.instances import LOG

LISTENING = "softrobust._core.interrupts"  # among the imports that Python tells of


def interrupted(folder: Path, seconds: float) -> tuple[int, str]:
    """The exit code and the words of a command, struck so many seconds after it began."""
    (folder / "log.csv").write_text(LOG)
    code = "from softrobust.__main__ import main; main()"  # as the command does
    words = [sys.executable, "-X", "importtime", "-c", code, "solve", "log.csv"]
    process = subprocess.Popen(
        [*words, "--gamma", ".9", "--replications", "0", "--seed", str(round(1e6 * seconds))],
        cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    while LISTENING not in process.stderr.readline() and process.poll() is None:
        pass
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=120)
    own = [line for line in told.splitlines() if not line.startswith("import time:")]
    return process.returncode, "\n".join(own)


@pytest.mark.parametrize("times", [5, pytest.param(80, marks=pytest.mark.slow)])
def test_an_interrupt_is_called_one(times: int, tmp_path: Path) -> None:
    for seconds in np.random.default_rng(times).uniform(0.05, 1.2, times):
        code, told = interrupted(tmp_path, float(seconds))
        assert code in (0, 130), (seconds, told)  # a quick machine may be done before
        assert told == ("softrobust: Interrupted; nothing was written." if code else "")


def test_what_fails_after_an_interrupt_is_no_bug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise AttributeError("partially initialized module")

    line = sys.modules[run.__module__]
    monkeypatch.setattr(line, "app", lambda **_: fail())
    assert run(["domains"]) == 1
    assert "An unexpected AttributeError" in capsys.readouterr().err
    monkeypatch.setattr(interrupts, "_CAME", [2])
    for words, said in (["domains"], "nothing was written"), (["sweep"], "what was done is kept"):
        assert run(words) == 130
        assert said in capsys.readouterr().err
    monkeypatch.setattr(line, "app", lambda **_: 130)  # the parser, which says nothing
    assert run(["domains"]) == 130
    assert "Interrupted" in capsys.readouterr().err
