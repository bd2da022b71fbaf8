"""Raw tables as people have them: every shape reaches a policy, and no variant changes it."""

from __future__ import annotations

import csv
import datetime
import json
import re
import shlex
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softrobust._core.arrays import Rows
from softrobust._core.notes import Level
from softrobust.cli.main import run
from softrobust.data import TableFile, read_log, read_trajectories
from softrobust.data.columns import Columns
from softrobust.data.formula import reward_formula
from softrobust.data.inspection import log_alarms
from softrobust.data.times import guess_form, read_times
from softrobust.errors import InputError
from softrobust.report.commands import command_line
from softrobust.run.inspect import inspect_file
from tests.data.visits import read

Row = list[Any]
DAY = datetime.date(2024, 1, 1)


def put(path: Path, head: str, rows: list[Row], sep: str = ",", code: str = "utf-8") -> Path:
    with path.open("w", newline="", encoding=code) as file:
        writer = csv.writer(file, delimiter=sep)
        writer.writerows([head.split(","), *rows])
    return path


# -------------------------------------------------------------------- shapes of real files
def diary(rng: np.random.Generator) -> tuple[str, list[Row]]:
    rows: list[Row] = []
    for i in range(40):
        for t in range(20):
            rows.append([len(rows) + 1, i, t - 5, 700 + t, ["Aura", "No Aura"][i % 2], 30 + i % 20,
                         float(rng.integers(5, 60)), rng.choice(["continuing", "reduced", "none"]),
                         rng.choice(["yes", "no"])])  # fmt: skip
    return "rownames,id,time,dos,hatype,age,airq,medication,headache", rows


def trial(rng: np.random.Generator) -> tuple[str, list[Row]]:
    rows = []
    for i in range(60):
        n, dead = int(rng.integers(3, 8)), int(rng.choice([0, 1, 2]))
        futime = 360 * n + int(rng.integers(0, 300))
        for k in range(n):
            bili = round(float(rng.gamma(2 + 2 * (dead == 2), 2)), 1)
            rows.append([i, futime, dead, 1 + i % 2, 40 + i / 7, "fm"[i % 2], 360 * k, bili,
                         int(rng.integers(2))])  # fmt: skip
    return "id,futime,status,trt,age,sex,day,bili,edema", rows


def farms(rng: np.random.Generator) -> tuple[str, list[Row]]:
    rows = [
        [i, round(float(rng.gamma(2, 1)), 3), rng.choice(["owner", "share"]),
         rng.choice(["trad", "high", "mixed"]), int(rng.integers(0, 900)),
         int(rng.gamma(2, 500)), ["west", "east"][i % 2],
         int(rng.random() < 0.3) * int(rng.integers(50, 9000))]
        for i in range(80) for _ in range(6)
    ]  # fmt: skip
    return "id,size,status,varieties,urea,noutput,region,pesticide", rows


def engines(rng: np.random.Generator) -> tuple[str, list[Row]]:
    rows: list[Row] = []
    for bus in range(10):
        odometer = since = 0
        for month in range(60):
            miles = int(rng.integers(1500, 3500))
            odometer += miles
            since += miles
            over = since > 60_000 and rng.random() < 0.2
            since = miles if over else since
            rows.append([4287 + bus, f"{1974 + month // 12}-{month % 12 + 1:02d}", odometer, since,
                         "yes" if over else "no"])  # fmt: skip
    return "bus,month,odometer,miles_since_overhaul,replaced", rows


def stores(rng: np.random.Generator) -> tuple[str, list[Row]]:
    rows = [
        [s, b, w, round(float(rng.normal(9, 1)), 3), round(float(rng.uniform(1, 4)), 2),
         int(rng.integers(2)), round(float(rng.normal(20, 5)), 2)]
        for s in range(8) for b in range(4) for w in range(40, 70)
    ]  # fmt: skip
    return "store,brand,week,logmove,price1,deal,profit", rows


def centres(rng: np.random.Generator) -> tuple[str, list[Row]]:
    rows = [
        [c, i, "PA"[(i + c) % 2], "MF"[i % 2], 20 + i, v, int(rng.integers(2))]
        for c in (1, 2) for i in range(40) for v in range(1, 5)
    ]  # fmt: skip
    return "center,id,treat,sex,age,visit,outcome", rows


def kinetics(rng: np.random.Generator) -> tuple[str, list[Row]]:
    rows = []
    for i in range(40):
        for k in range(10):
            rows.append([i, 6 * k, round(float(rng.gamma(3, 1)), 1), rng.choice([100, 200, 300]),
                         rng.choice(["poor", "good"]), ["no", "yes"][i % 2]])  # fmt: skip
    return "Subject,time,conc,dose,status,Smoke", rows


SHAPES: dict[str, tuple[Callable[[np.random.Generator], tuple[str, list[Row]]], dict[str, Any]]] = {
    "diary": (diary, {"id": "id", "time": "time", "action": "medication"}),
    "trial": (trial, {"terminal": "status=2", "end_time": "futime", "action": "trt"}),
    "farms": (farms, {"time": "none", "action": "varieties", "reward": "noutput"}),
    "engines": (engines, {"id": "bus", "action": "replaced", "action_at": "end"}),
    "stores": (stores, {"id": ("store", "brand"), "action": "deal", "reward": "profit"}),
    "centres": (centres, {"id": ("id", "center"), "reward": "next(outcome)"}),
    "kinetics": (kinetics, {"action": "dose", "reward": "next(status)=poor:0,good:1"}),
}


@pytest.mark.parametrize("name", SHAPES)
def test_one_proposed_command_reaches_a_policy(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, known = SHAPES[name]
    monkeypatch.chdir(tmp_path)
    put(Path("f.csv"), *make(np.random.default_rng(0)))
    (step,) = inspect_file("f.csv").steps
    for role, value in known.items():
        got = step.options[role]
        assert set(got) == set(value) if isinstance(value, tuple) else got == value, role
    words = shlex.split(command_line(step.verb, step.file, step.options))
    quick = ["--solver", "nominal", "--models", "5", "--replications", "0", "--quiet"]
    quick += ["--posterior", "dirichlet", "--test-models", "5"]
    assert run([*words[1:], *quick]) == 0
    assert Path("run/policy.csv").is_file()


# -------------------------------------------------------------------- variants of one table
HEAD = "patient,date,level,dose,score"


def base() -> list[Row]:
    rng = np.random.default_rng(1)
    return [
        [f"p{i}", (DAY + datetime.timedelta(7 * k)), ["lo", "hi"][int(rng.integers(2))],
         "uv"[int(rng.integers(2))], float(rng.integers(1, 9)) + 0.5]
        for i in range(6) for k in range(9)
    ]  # fmt: skip


def log_of(path: Any, **more: Any) -> list[tuple[str, str, str, float]]:
    rules = {"id": "patient", "time": "date", "action": "dose", "measurements": "level"}
    log = read_trajectories(path, **(rules | {"reward": "score"} | more)).log
    assert log.reward is not None
    names = ([labels[int(k)] for k in codes] for codes, labels in
             ((log.s, log.states), (log.a, log.actions), (log.s_next, log.states)))  # fmt: skip
    return list(zip(*names, log.reward.tolist(), strict=True))


@pytest.fixture
def expected(tmp_path: Path) -> list[tuple[str, str, str, float]]:
    return log_of(put(tmp_path / "base.csv", HEAD, base()))


@pytest.mark.parametrize(
    "form", ["%d.%m.%Y", "%m/%d/%Y", "%d-%b-%y", "%Y%m%d", "%Y/%m/%d 08:30", "%B %d, %Y"]
)
def test_local_dates(form: str, tmp_path: Path, expected: Any) -> None:
    rows = [[who, day.strftime(form), *rest] for who, day, *rest in base()]
    assert log_of(put(tmp_path / "f.csv", HEAD, rows)) == expected
    (step,) = inspect_file(tmp_path / "f.csv", visits={"measurements": ["level"]}).steps
    assert step.options["dates"] in ("dmy", "mdy", "ymd")


@pytest.mark.parametrize("code", ["utf-8-sig", "utf-16", "utf-16-le", "cp1252"])
def test_encodings(code: str, tmp_path: Path, expected: Any) -> None:
    rows = [[f"é{who}", *rest] for who, *rest in base()]
    assert log_of(put(tmp_path / "f.csv", HEAD, rows, code=code)) == expected


def test_decimal_commas(tmp_path: Path, expected: Any) -> None:
    rows = [[*rest, str(score).replace(".", ",")] for *rest, score in base()]
    assert log_of(put(tmp_path / "f.csv", HEAD, rows, sep=";")) == expected
    grouped = [[*rest, "1,234"] for *rest, _ in base()]  # a thousand or a little over one?
    with pytest.raises(InputError, match=r"finite number: row 2 of f\.csv has '1,234'"):
        log_of(put(tmp_path / "f.csv", HEAD, grouped))


def test_workbooks(tmp_path: Path, expected: Any) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.title = "read me"
    sheet = book.create_sheet("visits")
    sheet.append(["Export of 2024", None])
    sheet.append([])
    for row in [HEAD.split(","), *base()]:
        sheet.append(row)
    book.save(tmp_path / "f.xlsx")
    assert log_of(tmp_path / "f.xlsx") == expected
    assert log_of(TableFile(tmp_path / "f.xlsx", sheet="visits", header_row=3)) == expected
    with pytest.raises(InputError, match=r"no sheet 'absent'.*'read me', 'visits'"):
        log_of(TableFile(tmp_path / "f.xlsx", sheet="absent"))
    whole = (tmp_path / "f.xlsx").read_bytes()
    for size in ("A1:B2", "A1:XFD1048576"):  # what a sheet says of its size may be anything
        with (
            zipfile.ZipFile(tmp_path / "f.xlsx") as old,
            zipfile.ZipFile(tmp_path / "g.xlsx", "w") as new,
        ):
            for name in old.namelist():
                new.writestr(name, re.sub(rb'ref="A1:[A-Z0-9]+"', f'ref="{size}"'.encode(),
                                          old.read(name)))  # fmt: skip
        assert log_of(tmp_path / "g.xlsx") == expected
    for at in range(30, len(whole), len(whole) // 40):  # in headers, in packed cells, in the index
        (tmp_path / "f.xlsx").write_bytes(whole[:at] + b"\xff\x00\xff" + whole[at + 3 :])
        try:
            log_of(tmp_path / "f.xlsx")
        except InputError as error:
            assert "f.xlsx" in str(error)  # noqa: PT017 (some bytes do not matter)


@pytest.mark.parametrize("name", ["\ud800.csv", "a\x00.csv"])
def test_a_name_that_no_file_can_have(name: str) -> None:
    with pytest.raises(InputError, match="cannot be opened"):
        read_log(name)


def test_rows_that_stand_twice_are_counted_and_count_once(tmp_path: Path, expected: Any) -> None:
    path = put(tmp_path / "f.csv", HEAD, [*base(), *base()])
    assert log_of(path) == expected
    (note,) = [n for n in inspect_file(path).findings if n.code == "duplicates"]
    assert note["n_rows"] == len(base())


def test_mixed_types_are_refused_with_their_row(tmp_path: Path) -> None:
    rows = base()
    rows[4][-1] = "n.a. (lost)"
    with pytest.raises(InputError, match=r"row 6 of f\.csv has 'n\.a\. \(lost\)'"):
        log_of(put(tmp_path / "f.csv", HEAD, rows))


# -------------------------------------------------------------------- times
def test_dates_that_can_be_read_in_two_ways_are_asked_for(tmp_path: Path) -> None:
    rows: list[Row] = [["p", f"0{k}/0{j}/2024", "lo", "u", 1] for k, j in ((1, 2), (2, 1), (3, 3))]
    path = put(tmp_path / "f.csv", HEAD, rows)
    with pytest.raises(InputError, match="two ways") as error:
        log_of(path)
    assert error.value.arguments == {"dates": "dmy"}
    codes, names = np.arange(3, dtype=np.int32), [str(row[1]) for row in rows]
    assert guess_form(codes, names) == ("dmy", "mdy")
    days = {form: _days(names, form) for form in ("dmy", "mdy")}
    assert days == {"dmy": [0, -30, 31], "mdy": [0, 30, 61]}


def _days(names: list[str], form: str) -> list[float]:
    t = read_times(_cells(names), "date", form=form).values
    return [float(x) for x in t - t[0]]


def _cells(names: list[str]) -> Columns:
    return Columns(Rows("f"), {"date": np.arange(len(names), dtype=np.int32)}, {"date": names})


def test_months_and_weeks_are_regular() -> None:
    for text in (
        "1974-12 1975-01 1975-02", "2024-Q1 2024-Q2 2024-Q3", "2020-W52 2020-W53 2021-W01",
        "Nov-1999 Dec-1999 Jan-2000",
    ):  # fmt: skip
        steps = np.diff(read_times(_cells(text.split()), "date").values)
        assert steps[0] == steps[1] > 0


def test_a_calendar_grid_follows_months() -> None:
    made = read(
        "id,t,x,a,r\np,2024-01-31,lo,u,1\np,2024-02-01,hi,v,2\np,2024-02-28,lo,u,4\n"
        "p,2024-03-15,hi,u,8\np,2024-05-01,lo,v,16\np,2024-06-30,lo,v,0\n",
        grid="1month", reward="r",
    )  # fmt: skip
    assert made.log.reward is not None
    # February has two visits: the last of them counts, with the rewards of both; April is a hole.
    assert made.log.reward.tolist() == [1, 6, 16]
    assert made.report.lost == {"hole": 1}


@pytest.mark.parametrize(("rule", "paid"), [("sum", 6.0), ("mean", 3.0), ("last", 4.0)])
def test_rewards_of_visits_that_share_a_point(rule: str, paid: float) -> None:
    text = "id,t,x,a,r\np,0,lo,u,1\np,9,hi,v,2\np,11,lo,u,4\np,20,hi,u,8\n"
    made = read(text, grid=10, reward="r", several_rewards=rule)
    assert made.log.reward is not None
    assert made.log.reward.tolist() == [1, paid]
    assert "shared_rewards" in [note.code for note in made.report.findings]


# -------------------------------------------------------------------- ends, ids, actions
def test_an_end_that_is_followed_up_comes_after_the_last_visit_before_it() -> None:
    text = ("id,t,x,a,s,f\np,0,lo,u,2,25\np,10,hi,v,2,25\nq,0,lo,u,0,30\nq,10,lo,v,0,30\n"
            "r,0,hi,u,2,90\nr,10,hi,v,2,90\n")  # fmt: skip
    rules = {"terminal": "s=2", "end_time": "f", "measurements": "x"}
    made = read(text, **rules)
    assert (made.report.n_ended, made.report.n_censored, made.report.n_terminal) == (2, 1, 2)
    late = read(text, **rules, grid=10)  # r died eight steps after its last visit, and did die
    assert late.report.n_terminal == 2
    (note,) = [n for n in late.report.findings if n.code == "late_ends"]
    assert note["n_rows"] == 2
    with pytest.raises(InputError, match="changes between"):
        read(text.replace("p,10,hi,v,2,25", "p,10,hi,v,0,25"), **rules)


def test_ids_of_two_columns_and_of_none() -> None:
    text = "shop,brand,t,x,a\n1,a,0,lo,u\n1,b,0,hi,v\n1,a,1,hi,u\n1,b,1,lo,v\n"
    both = read(text, id=("shop", "brand"), measurements="x")
    assert both.ids.names == ("1 / a", "1 / b")
    assert both.log.n_rows == 2
    alone = read("t,x,a\n0,lo,u\n1,hi,v\n2,lo,u\n", id="none")
    assert alone.log.n_rows == 2
    in_order = read("id,x,a\np,lo,u\np,hi,v\nq,lo,u\nq,hi,u\n", time="none")
    assert in_order.log.n_rows == 2


def test_an_action_that_led_to_its_row() -> None:
    text = "id,t,x,a\np,0,old,no\np,1,new,yes\np,2,old,no\n"
    log = read(text, action_at="end").log
    steps = [(log.states[int(s)], log.actions[int(a)]) for s, a in zip(log.s, log.a, strict=True)]
    assert steps == [("old", "yes"), ("new", "no")]


def test_a_column_of_mostly_zeros_is_cut_beside_them() -> None:
    """Quantiles would all be 0: one action, and nothing to choose."""
    rows = "".join(f"p,{t},lo,{(t % 4 == 0) * t}\n" for t in range(40))
    log = read(f"id,t,x,a\n{rows}", action_bins=3).log
    assert log.actions.names == ("<4", "4–20", "≥20")
    assert log.pair_counts.sum(axis=0).tolist() == [30, 4, 5]


def test_steps_that_take_longer_are_named() -> None:
    rows = "".join(f"p,{t},lo,u\n" for t in (0, 1, 2, 3, 9, 10))
    (note,) = (n for n in read(f"id,t,x,a\n{rows}").report.findings if n.code == "long_steps")
    assert (note["n_rows"], note["rows"], note["usual"]) == (1, [4], "1")
    cut = read(f"id,t,x,a\n{rows}", max_gap="2").report
    assert cut.lost == {"gap": 1}
    assert not any(n.code == "long_steps" for n in cut.findings)
    lost = next(n for n in cut.notes if n.code == "steps_lost")
    assert lost.level is Level.CAUTION  # one of five: it belongs under the answer


def test_numbers_as_actions_are_cut() -> None:
    log = read("id,t,x,a\np,0,lo,1\np,1,hi,15\np,2,lo,30\np,3,lo,9\n", action_bins=[10, 20]).log
    assert log.actions.names == ("<10", "10–20", "≥20")  # in their own order


# -------------------------------------------------------------------- rewards in words
NOW = "id,t,x,a,h,b\np,0,lo,u,yes,1\np,1,hi,v,no,2.5\np,2,lo,u,yes,4\n"


@pytest.mark.parametrize(
    ("reward", "cost", "paid"),
    [
        ("h=yes:-1,no:0", None, [-1, 0]),
        ("next(h)=yes:-1,no:0", None, [0, -1]),
        ("b", None, [1, 2.5]),
        ("next(b) - b", None, [1.5, 1.5]),
        ("2*b - 3*(x=hi) + 1", None, [3, 3]),
        ("-b/2", {"u": 1, "v": 10}, [-1.5, -11.25]),
        ("1 - end", None, [1, 1]),
    ],
)
def test_rewards_in_words(reward: str, cost: Any, paid: list[float]) -> None:
    made = read(NOW, reward=reward, cost=cost, measurements="x").log
    assert made.reward is not None
    assert made.reward.tolist() == pytest.approx(paid)


@pytest.mark.parametrize(
    ("reward", "words"),
    [
        ("h=yes:-1", "has 'no' in column 'h'"),  # a category that the mapping misses
        ("h=yes:1,no:0,yes:2", "stands twice"),
        ("b*b", "formulas are linear"),
        ("__import__('os').system('true')", "no column '__import__'"),
        ("b; 1", "has no meaning"),
        ("lambda", "no column 'lambda'"),
        ("bb", "did you mean 'b'"),
        ("h", "finite number"),
        ("2*h", "takes numbers"),
        ("b +", "is needed"),
        ("(x=high)", "Did you mean 'hi'"),
        ("b/0", "divides by 0"),
        ("1e999*b", "a number in it is too large"),
        ("h=yes:1e400,no:0", "a number in it is too large"),
        ("", "empty"),
    ],
)
def test_words_that_are_no_reward(reward: str, words: str) -> None:
    with pytest.raises(InputError) as error:
        read(NOW, reward=reward, measurements="x")
    assert words in str(error.value)


def test_costs_name_every_action() -> None:
    with pytest.raises(InputError, match="action 'v' has none"):
        read(NOW, reward="b", cost={"u": 1}, measurements="x")


def test_formulas_of_a_log(tmp_path: Path) -> None:
    path = put(tmp_path / "log.csv", "state,action,next_state,x,next_x,mood",
               [["a", "u", "b", 1, 3, "good"], ["b", "v", "a", 3, 2, "bad"]])  # fmt: skip
    for reward, paid in (("next(x) - x", [2, -1]), ("mood=good:1,bad:-1", [1, -1]),
                         ("x - 5*(action=v)", [1, -2]), ("x", [1, 3])):  # fmt: skip
        log = read_log(path, reward=reward)
        assert log.reward is not None
        assert log.reward.tolist() == paid
    log = read_log(path, cost={"u": 1, "v": 2})
    assert log.reward is not None
    assert log.reward.tolist() == [-1, -2]


def test_formulas_are_data() -> None:
    formula = reward_formula("'a b' - 0.5*next(c)", ["a b", "c"])
    assert formula is not None
    assert [(t.weight, t.column, t.later) for t in formula.terms] == [
        (1.0, "a b", False), (-0.5, "c", True)
    ]  # fmt: skip


# -------------------------------------------------------------------- alarms
LOG_HEAD = "episode,state,action,next_state,reward"


def chain(n: int = 60, seed: int = 0) -> list[Row]:
    rng = np.random.default_rng(seed)
    rows = []
    for e in range(n):
        s = int(rng.integers(4))
        for _ in range(10):
            a = int(rng.integers(2))
            to = (s + 1) % 4 if a else int(rng.choice([s, (s + 2) % 4]))
            rows.append([e, f"s{s}", ["wait", "spray"][a], f"s{to}", float(s == 0)])
            s = to
    return rows


def alarms(path: Path) -> dict[str, Level]:
    return {note.code: note.level for note in log_alarms(read_log(path))}


def test_a_clean_log_has_no_alarm(tmp_path: Path) -> None:
    assert alarms(put(tmp_path / "f.csv", LOG_HEAD, chain())) == {}


def test_what_must_stand_under_an_answer(tmp_path: Path) -> None:
    spoilt = chain()
    spoilt[7][4] = 99999
    spoilt[8][2] = "SPRAY"
    found = alarms(put(tmp_path / "f.csv", LOG_HEAD, spoilt))
    assert found["codes_for_missing"] is Level.ALARM
    assert found["alike"] is Level.CAUTION
    early = [*(row[2] for row in chain()[1:]), "wait"]  # actions a row too early
    back = [[*row[:2], a, *row[3:]] for row, a in zip(chain(), early, strict=True)]
    assert alarms(put(tmp_path / "f.csv", LOG_HEAD, back))["actions_shifted"] is Level.ALARM
    torn = [[e, s, a, f"s{k % 4}", r] for k, (e, s, a, _, r) in enumerate(chain())]
    assert alarms(put(tmp_path / "f.csv", LOG_HEAD, torn))["torn"] is Level.ALARM
    twice = [row[1:] for row in [*chain(), *chain()]]
    assert alarms(put(tmp_path / "f.csv", LOG_HEAD[8:], twice))["repeated_rows"] is Level.ALARM


def test_the_worst_stop_and_a_flag_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = chain(12)
    rows[7][4] = 99999
    path = put(tmp_path / "f.csv", LOG_HEAD, rows)
    line = ["solve", str(path), "--gamma", ".9", "--models", "5", "--replications", "0"]
    line += ["--solver", "nominal"]
    assert run(line) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "99999" in said
    assert "--anyway" in said
    assert run([*line, "--anyway"]) == 0
    assert "99999" in capsys.readouterr().out


def test_a_state_that_is_not_enough_is_said_under_the_answer(tmp_path: Path) -> None:
    rng, rows = np.random.default_rng(3), []
    for e in range(60):
        last, s = 0, 1
        for _ in range(10):
            to = last if rng.random() < 0.9 else 1 - last  # what was before decides what follows
            rows.append([e, f"s{s}", rng.choice(["u", "v"]), f"s{to}", s])
            last, s = s, to
    assert alarms(put(tmp_path / "f.csv", LOG_HEAD, rows))["not_markov"] is Level.CAUTION


# -------------------------------------------------------------------- visits that come later
QUICK = ["--solver", "nominal", "--models", "5", "--replications", "0", "--quiet"]
QUICK += ["--posterior", "dirichlet", "--test-models", "5"]


def test_update_takes_the_whole_table_of_visits_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows are known by what they hold, cut as those of the run were; twice changes nothing."""
    monkeypatch.chdir(tmp_path)
    head, rows = kinetics(np.random.default_rng(0))
    put(Path("old.csv"), head, rows[:250])
    put(Path("all.csv"), head, rows)
    how = "--id Subject --time time --action dose --action-bins 2 --measurements conc,status"
    how += " --bins conc=3 --reward next(conc) --gamma 0.9 --out run"
    assert run(["solve", "old.csv", *how.split(), *QUICK]) == 0
    capsys.readouterr()
    assert run(["update", "run", "all.csv", "--out", "more"]) == 0
    assert "135 new rows (225 more are in the run already" in capsys.readouterr().out
    assert run(["update", "more", "all.csv", "--out", "again"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "No row is new: 360 rows of the file are in the run already" in out
    assert "Nothing was written: more stays the answer." in out
    assert not Path("again").exists()
    assert run(["update", "more", "all.csv", "--out", "again", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["new_rows"], record["run"], record["written"]) == (0, "more", [])
    assert run(["report", "again"]) == 2
    assert "There is no run folder 'again'" in capsys.readouterr().err


def test_an_action_that_never_changes_is_named(tmp_path: Path) -> None:
    rows = [[*row[:3], "u", row[4]] for row in base()]
    notes = inspect_file(str(put(tmp_path / "f.csv", HEAD, rows))).facts["guesses"]
    (note,) = (note for note in notes if note.code == "constant_action")
    assert (note["column"], note["value"], note["action"]) == ("dose", "u", "level")


def test_a_workbook_whose_first_sheet_holds_nothing_names_the_others(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["notes"])
    book.create_sheet("visits").append(HEAD.split(","))
    book.save(tmp_path / "f.xlsx")
    with pytest.raises(InputError, match="The sheets are 'Sheet', 'visits': name the one"):
        inspect_file(str(tmp_path / "f.xlsx"))
