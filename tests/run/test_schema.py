"""Our reader of schemas agrees with the reference implementation, and names the field."""

from __future__ import annotations

import json
import math
import re
import zipfile
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from softrobust._core.arrays import frozen
from softrobust._core.notes import Note
from softrobust._core.schema import check, parse, published, read_json
from softrobust.cli.main import run
from softrobust.errors import InputError
from softrobust.report.words import rows_and_dates
from tests.attack.files import prepare
from tests.attack.mutate import mutate_json
from tests.run.test_folder import table_run


def plain(value: Any) -> bool:
    """Whether all numbers are finite doubles: beyond them we are stricter than the standard."""
    if isinstance(value, dict | list):
        return all(map(plain, value.values() if isinstance(value, dict) else value))
    whole = isinstance(value, int) and abs(value) >= 2**63
    return not whole and not (isinstance(value, float) and (value.is_integer() or math.isnan(value)
                                                            or math.isinf(value)))  # fmt: skip


def fault(value: Any, schema: Any, path: Path) -> str | None:
    """What is said of a value that is refused."""
    try:
        check(value, schema, path)
    except InputError as error:
        return str(error)
    return None


def test_it_agrees_with_the_reference(tmp_path: Path) -> None:
    schema, record = published("solution"), json.loads(json.dumps(table_run(tmp_path).record()))
    reference = jsonschema.Draft202012Validator(schema)
    check(record, schema, tmp_path)
    refused = 0
    for seed in range(400):
        changed, where = mutate_json(record, np.random.default_rng(seed))
        last = where.split(".")[-1]
        told = fault(changed, schema, tmp_path)
        fine = told is None
        if told is not None:
            assert last in told or last.isdigit() or "must have" in told
        refused += not fine
        if plain(changed):
            assert fine == reference.is_valid(changed), (where, seed)
    assert refused > 100


@pytest.mark.parametrize("text", ["", "{", "[1, NaN]", "-Infinity", "[" * 5000, "\ud800"])
def test_what_is_no_json(text: str, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(InputError, match=r"x\.json cannot be read as JSON"):
        read_json(file)


@pytest.mark.slow
def test_mutated_files_through_every_verb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    attack = prepare(tmp_path)
    for seed in range(300):
        assert attack(np.random.default_rng([2026, seed])) is None


def test_files_that_are_not_ours_are_refused_by_name(tmp_path: Path) -> None:
    """One that is far too large is not read at all; a member of an archive may be no array."""
    large = tmp_path / "solution.json"
    with large.open("wb") as file:
        file.truncate(2**33)
    with pytest.raises(InputError, match=r"solution\.json has 8192 MiB"):
        read_json(large)
    np.savez(tmp_path / "models.npz", states=np.arange(3))
    with zipfile.ZipFile(tmp_path / "models.npz", "a") as archive:
        archive.writestr("actions.npy", b"hello")
    for words in (["inspect"], ["solve", "--gamma", "0.9"]):
        assert run([words[0], str(tmp_path / "models.npz"), *words[1:]]) == 2


def test_rewards_too_large_to_add_up_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.csv"
    for size in ("1e70", "1e160"):
        rows = [f"s0,x,s1,{sign}{size}" for sign in ("", "-")]
        log.write_text("\n".join(["state,action,next_state,reward", *rows]), encoding="utf-8")
        assert run(["solve", str(log), "--gamma", "0.9"]) == 2
        assert "row 2 of log.csv" in capsys.readouterr().err


def test_whole_numbers_beyond_arrays_are_no_numbers() -> None:
    schema = {"properties": {"x": {"type": "number"}}}
    check({"x": 2**62}, schema, Path("f"))
    for x in (2**63, -(10**400)):
        with pytest.raises(InputError, match="x must be a finite number"):
            check({"x": x}, schema, Path("f"))


def test_half_a_character_is_refused_by_the_name_of_its_file(tmp_path: Path) -> None:
    file = tmp_path / "solution.json"
    file.write_text(r'{"method": "\ud83d\ude00"}', encoding="utf-8")
    assert read_json(file) == {"method": "\U0001f600"}
    file.write_text(r'{"method": "\ud83d"}', encoding="utf-8")
    with pytest.raises(InputError, match=r"solution\.json cannot be read as JSON"):
        read_json(file)


@pytest.mark.parametrize("text", ['{"states": ["\\ud83d"]}', '{"states": ["' + chr(0xD83D) + '"]}'])
def test_half_a_character_in_an_array_of_text_is_no_json(text: str) -> None:
    with pytest.raises(ValueError, match="surrogates"):
        parse(text)


def test_a_note_of_a_file_that_lacks_a_fact_says_so() -> None:
    note = Note.from_dict({"code": "visits_read", "level": "info", "facts": {"low": 1}})
    with pytest.raises(InputError, match="'visits_read' lacks its high"):
        rows_and_dates([1, 2], [note])


@pytest.mark.parametrize("odd", [float("nan"), 1.5, 1e300])
def test_no_fraction_is_taken_for_a_whole_number(odd: float) -> None:
    with pytest.raises(InputError, match=re.escape(f"there is {odd:g}")):
        frozen(np.array([1.0, odd]), np.int64)
    assert frozen(np.array([1.0, 2.0]), np.int64).tolist() == [1, 2]
