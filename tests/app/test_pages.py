"""The pages as a user of a simulated browser sees them: quick, no browser, no server."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from nicegui import ui
from nicegui.testing import User

LOG = Path(__file__).resolve().parents[2] / "examples" / "pest_log.csv"
HOSTILE = "<script>alert(1)</script>\"'\u202eevil"


def visit(folder: Path, script: Callable[[User], Awaitable[None]]) -> None:
    """Let a simulated user go through pages of a folder."""
    from nicegui.testing import user_simulation

    from softrobust.app.pages import Desk, build

    async def go() -> None:
        with tempfile.TemporaryDirectory() as scratch:
            desk = Desk(folder.resolve(), Path(scratch), None, lambda: None)
            async with user_simulation() as user:
                build(desk)
                await script(user)
            desk.thread.shutdown()

    asyncio.run(go())


@pytest.fixture(autouse=True)
def begun(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Iterator[list[list[str]]]:
    """Nothing is computed here: what would be begun is written down; and nothing goes wrong."""
    found: list[list[str]] = []
    monkeypatch.setattr(subprocess, "Popen", lambda words, **_: found.append(words))
    yield found
    assert [r.message for r in caplog.get_records("call") if r.exc_info] == []


def test_a_folder_is_shown_and_a_file_looked_at(tmp_path: Path) -> None:
    shutil.copy(LOG, tmp_path)

    async def script(user: User) -> None:
        await user.open("/")
        await user.should_see("pest_log.csv")
        await user.should_see("Nothing was solved here yet.")
        await user.open("/file/pest_log.csv")
        await user.should_see("is a log of 320 transitions", retries=50)
        await user.should_see("Nothing looks wrong.")
        await user.should_see(kind=ui.slider)

    visit(tmp_path, script)


def test_a_column_is_corrected(tmp_path: Path) -> None:
    text = LOG.read_text(encoding="utf-8").replace("action", "deed", 1)
    (tmp_path / "log.csv").write_text(text, encoding="utf-8")

    async def script(user: User) -> None:
        await user.open("/file/log.csv")
        await user.should_see("2 · The columns", retries=50)
        await user.should_not_see("a log of 320 transitions")
        fields = user.find(kind=ui.select).elements
        assert {"state", "next_state"} <= {field.value for field in fields}
        [action] = [field for field in fields if "role-action" in field._markers]
        action.set_value("deed")
        await user.should_see("a log of 320 transitions", retries=50)

    visit(tmp_path, script)


def test_a_table_of_visits_has_its_own_roles(tmp_path: Path) -> None:
    shutil.copy(LOG.parent / "clinic" / "visits.csv", tmp_path)

    async def script(user: User) -> None:
        await user.open("/file/visits.csv")
        await user.should_see("is a table of visits", retries=100)
        known = {
            marker: field.value
            for field in user.find(kind=ui.select).elements
            for marker in field._markers
        }
        assert known["role-id"] == ["patient"]
        assert known["role-action"] == "treatment"
        assert known["role-measurements"] == ["bp", "hba1c"]
        await user.should_see("The rows")

    visit(tmp_path, script)


def test_solve_begins_a_process_and_its_page_tells_of_it(
    tmp_path: Path, begun: list[list[str]]
) -> None:
    shutil.copy(LOG, tmp_path)

    async def script(user: User) -> None:
        await user.open("/file/pest_log.csv")
        await user.should_see(marker="solve", retries=100)
        user.find(marker="solve").click()
        await user.should_see("5 · Solving pest_log.csv", retries=100)
        user.find(marker="stop").click()
        await user.should_see("Stopping", retries=50)
        (tmp_path / ".run-pest-log.solving" / "error.json").write_text('{"error": "no luck"}')
        await user.should_see("no luck", retries=50)
        user.find(marker="forget").click()
        await user.should_see("Nothing was solved here yet.", retries=50)

    visit(tmp_path, script)
    verbs = [next(w for w in words if w in ("frontier", "solve")) for words in begun]
    assert verbs == ["frontier", "solve"]
    assert not list(tmp_path.glob(".*.solving"))
