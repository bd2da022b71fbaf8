"""Accidents that happen to files: of JSON, arrays, tables, text and plain bytes."""

from __future__ import annotations

import copy
import datetime
import gzip
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Rng = np.random.Generator
JUNK: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 10**30, -(10**400), 1e308, -1e308, 1e-320, 0.5, float("nan"),
    float("inf"), float("-inf"), "", "0", "nan", "<script>alert(1)</script>", "../../etc/passwd",
    "x" * 5000, "\x00", "\ud800", "=1+1", [], {}, [[]], [None], [1, "a"], {"a": {}}, [[1.0]],
    [1e308] * 3, {"value": "<script>"}, "1970-01-01", "state", "optimal",
)  # fmt: skip
TOKENS = (
    b'"', b",", b"\n", b"\r\n", b"\x00", b"\xef\xbb\xbf", b"\xff\xfe", b"nan", b"inf", b"-1",
    b"9" * 40, b"{", b"}", b"[", b"PK\x03\x04", b"PAR1", b"<script>", b"\x80", b"=", b"null",
    b"[" * 20_000, b'{"a":' * 20_000,
)  # fmt: skip
TEXTS = (
    "", "nan", "inf", "-1", "0", "1e308", "1e-320", "<script>alert(1)</script>", "x" * 3000,
    '"', "s0", "=1+1", "\x00", "99999999999999999999999", "(end)", "é", "true", "0.5", "2",
    '["exact", "nope"]', "{}", "[]", "[-1]", "1e9", "5000000", "[" * 20_000 + "]" * 20_000,
)  # fmt: skip


def pick(rng: Rng, items: Any) -> Any:
    """One of them."""
    return items[int(rng.integers(len(items)))]


def places(value: Any, where: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where everything inside a value of JSON lies."""
    found = [where]
    if isinstance(value, dict):
        for key in value:
            found += places(value[key], (*where, key))
    elif isinstance(value, list):
        for i in range(min(len(value), 6)):
            found += places(value[i], (*where, i))
    return found


def mutate_json(value: Any, rng: Rng) -> tuple[Any, str]:
    """The value with one accident, and where."""
    whole = copy.deepcopy(value)
    where = pick(rng, places(whole)[1:] or [()])
    if not where:
        return pick(rng, JUNK), "everything"
    inner = whole
    for step in where[:-1]:
        inner = inner[step]
    old, last = inner[where[-1]], where[-1]
    kind = pick(rng, ["junk", "junk", "junk", "gone", "name", "wrap", "empty", "long", "scale"])
    if kind == "gone":
        del inner[last]
    elif kind == "name" and isinstance(inner, dict):
        inner[f"{last}_"] = inner.pop(last)
    elif kind == "wrap":
        inner[last] = [old]
    elif kind == "empty":
        inner[last] = type(old)() if isinstance(old, list | dict | str) else 0
    elif kind == "long" and isinstance(old, list):
        inner[last] = old + old if rng.random() < 0.5 else old[: len(old) // 2]
    elif kind == "scale" and isinstance(old, int | float) and not isinstance(old, bool):
        inner[last] = old * pick(rng, [-1, 10**6, 1e-9, 0.5])
    else:
        inner[last] = pick(rng, JUNK)
    return whole, ".".join(map(str, where))


def mutate_array(array: Any, rng: Rng) -> Any:
    """An array with one accident."""
    if array.dtype.kind in "US" and array.ndim == 0:
        text = str(array)
        if text.startswith(("{", "[")):
            try:
                return np.array(json.dumps(mutate_json(json.loads(text), rng)[0]))
            except ValueError:
                pass
        return np.array(pick(rng, TEXTS))
    flat = np.array(array).copy()
    kind = int(rng.integers(9))
    if kind == 0 or flat.size == 0:
        return flat[:0] if flat.ndim else np.array([])
    if kind == 1:
        return flat.astype("U20")
    if kind == 2:
        return flat[..., None] if rng.random() < 0.5 else flat.reshape(-1)
    if kind == 3:
        return flat[: flat.shape[0] // 2] if flat.ndim else np.array([flat, flat])
    if kind == 4:
        return np.concatenate([flat, flat]) if flat.ndim else np.array(np.nan)
    if kind == 5:
        return flat.astype(pick(rng, ["f4", "i8", "?", "c16", "i1", "M8[s]", "S3"]))
    if kind == 6:
        return np.array(pick(rng, [0, -1, 2**62, 1e308, np.nan, "<script>", True]))
    place = tuple(int(rng.integers(n)) for n in flat.shape)
    if flat.dtype.kind == "f":
        flat[place] = pick(rng, [np.nan, np.inf, -np.inf, -1.0, 0.0, 1e308, 2.0, 0.3])
    elif flat.dtype.kind in "iu":
        flat[place] = pick(rng, [-1, 0, 1, 99, np.iinfo(flat.dtype).max])
    elif flat.dtype.kind in "US":
        flat[place] = pick(rng, TEXTS)
    else:
        flat = ~flat if flat.dtype.kind == "b" else flat[::-1]
    return flat


def mutate_npz(path: Path, rng: Rng) -> str:
    """Change, lose or rename one array of a file."""
    with np.load(path, allow_pickle=False) as file:
        arrays = dict(file)
    name, kind = pick(rng, sorted(arrays)), rng.random()
    if kind < 0.15:
        del arrays[name]
    elif kind < 0.2:
        arrays[f"{name}_"] = arrays.pop(name)
    else:
        arrays[name] = mutate_array(arrays[name], rng)
    with path.open("wb") as raw:
        np.savez(raw, allow_pickle=False, **arrays)
    return str(name)


def mutate_parquet(path: Path, rng: Rng) -> str:
    """Change, lose or rename one column of a file, or what its head says."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    head = dict(table.schema.metadata or {})
    kind, what = int(rng.integers(6)), ""
    if kind <= 1 and head:
        what = key = pick(rng, sorted(head))
        text = head.pop(key)
        if rng.random() < 0.8:
            try:
                text = json.dumps(mutate_json(json.loads(text), rng)[0]).encode()
            except ValueError:
                text = damage(text, rng)
            head[key] = text
        table = table.replace_schema_metadata(head)
    else:
        at = int(rng.integers(table.num_columns))
        what = name = table.column_names[at]
        values = np.array(table.column(at).to_pylist(), dtype=object)
        if kind == 2:
            table = table.drop_columns([name])
        elif kind == 3:
            table = table.rename_columns([n + "_" * (n == name) for n in table.column_names])
        elif kind == 4:
            table = table.slice(0, int(rng.integers(2)))
        else:
            new = pick(rng, [np.nan, -1, 99, 2**40, "<script>", None, 1e308])
            values[int(rng.integers(len(values)))] = new
            try:
                column = pa.array(values.tolist())
            except (pa.ArrowInvalid, pa.ArrowTypeError):
                column = pa.array([str(v) for v in values])
            table = table.set_column(at, name, column)
    pq.write_table(table, path)
    return str(what)


def mutate_workbook(path: Path, rng: Rng) -> str:
    """Change, lose or add a cell, a row, a column or a sheet."""
    from openpyxl import load_workbook

    book = load_workbook(path)
    sheet: Any = book.active
    kind = int(rng.integers(7))
    i = int(rng.integers(1, sheet.max_row + 1))
    j = int(rng.integers(1, sheet.max_column + 1))
    if kind == 0:
        sheet.delete_rows(i, int(rng.integers(1, sheet.max_row + 1)))
    elif kind == 1:
        sheet.delete_cols(j)
    elif kind == 2:
        sheet.insert_rows(i)
    elif kind == 3:
        sheet.title = "odd"
        book.create_sheet("more", int(rng.integers(2)))
    elif kind == 4:
        sheet.merge_cells(start_row=i, end_row=i + 1, start_column=j, end_column=j + 1)
    else:
        dates = (datetime.datetime(2020, 1, 2), datetime.time(3), datetime.timedelta(5))
        sheet.cell(i, j).value = pick(rng, [*dates, "=1/0", "#N/A", -1, 1e308, True, "", "x" * 999])
    book.save(path)
    return f"row {i}, column {j}"


def mutate_gzip(path: Path, rng: Rng) -> str:
    """An accident to the table that was packed."""
    inner = path.with_suffix("")
    inner.write_bytes(gzip.decompress(path.read_bytes()))
    where = mutate_text(inner, rng)
    path.write_bytes(gzip.compress(inner.read_bytes()))
    return where


def mutate_text(path: Path, rng: Rng) -> str:
    """Change one cell or one word of a table or of settings."""
    raw = path.read_bytes().decode("utf-8")
    sign = "=" if path.suffix == ".toml" else ","
    lines = raw.splitlines()
    i = int(rng.integers(len(lines)))
    cells = lines[i].split(sign)
    j, kind = int(rng.integers(len(cells))), rng.random()
    if kind < 0.1:
        del lines[i]
    elif kind < 0.2:
        lines.insert(i, lines[i])
    elif kind < 0.3:
        del cells[j]
        lines[i] = sign.join(cells)
    else:
        cells[j] = pick(rng, TEXTS)
        lines[i] = sign.join(cells)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return f"line {i + 1}"


def damage(data: bytes, rng: Rng) -> bytes:
    """Bytes after a few accidents."""
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(len(data) + 1))
        to = min(len(data), at + int(rng.integers(12)))
        kind = int(rng.integers(5))
        if kind == 0:
            data = data[:at] + rng.bytes(int(rng.integers(12))) + data[to:]
        elif kind == 1:
            data = data[:at] + pick(rng, TOKENS) + data[at:]
        elif kind == 2:
            data = data[:to] + data[at:]
        elif kind == 3 and rng.random() < 0.4:
            data = data[:at]
        elif at < len(data):
            data = data[:at] + bytes([data[at] ^ int(rng.integers(1, 256))]) + data[at + 1 :]
    return data


def mutate_bytes(path: Path, rng: Rng) -> str:
    """Damage of the bytes, wherever they are."""
    path.write_bytes(damage(path.read_bytes(), rng))
    return "bytes"


def mutate_place(path: Path, rng: Rng) -> str:
    """The file is gone, empty, a folder, or another file of the same folder."""
    kind = int(rng.integers(4))
    others = sorted(p for p in path.parent.iterdir() if p.is_file() and p != path)
    if kind == 0:
        path.unlink()
    elif kind == 1:
        path.write_bytes(b"")
    elif kind == 2:
        path.unlink()
        path.mkdir()
    elif others:
        shutil.copy(pick(rng, others), path)
    return ("gone", "empty", "a folder", "another file")[kind]


def _json(path: Path, rng: Rng) -> str:
    value, where = mutate_json(json.loads(path.read_text(encoding="utf-8")), rng)
    out = io.StringIO()
    json.dump(value, out)
    path.write_text(out.getvalue(), encoding="utf-8")
    return where


def mutate(path: Path, rng: Rng) -> str:
    """One accident to a file, such as its kind is prone to; returns where."""
    own: dict[str, Callable[[Path, Rng], str]] = {
        ".json": _json, ".npz": mutate_npz, ".parquet": mutate_parquet, ".csv": mutate_text,
        ".toml": mutate_text, ".jsonl": mutate_text, ".txt": mutate_text, ".gz": mutate_gzip,
        ".xlsx": mutate_workbook,
    }  # fmt: skip
    chance = rng.random()
    if chance < 0.75 and path.suffix in own:
        try:
            return own[path.suffix](path, rng)
        except (ValueError, TypeError, OverflowError, ArithmeticError):
            pass  # an accident that this very file cannot have
    return (mutate_bytes if chance < 0.9 else mutate_place)(path, rng)
