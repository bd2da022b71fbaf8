"""What a file is, what is suspicious in it, and what to run next."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softrobust import DirichletPosterior, Problem, SoftRobust, read_log, save_models
from softrobust.data import Bins
from softrobust.data.inspection import Inspection
from softrobust.data.profile import alike, odd_numbers
from softrobust.errors import InputError
from softrobust.problem import save_problem
from softrobust.report.inspection import inspection_record
from softrobust.run.inspect import inspect_file

CLINIC = Path(__file__).resolve().parents[2] / "examples" / "clinic"
LOG = (
    "state,action,next_state,reward,episode\n" + "a,x,b,1,0\nb,y,a,2,0\na,y,b,1,1\nb,x,b,0,1\n" * 4
)
MODELS = "idstatefrom,idaction,idstateto,idoutcome,probability,reward\n0,0,0,0,1,1\n0,0,0,1,1,1\n"


def put(folder: Path, text: str, name: str = "f.csv") -> Path:
    (folder / name).write_text(text)
    return folder / name


def visits(n_ids: int = 6, n_times: int = 6, seed: int = 0) -> list[list[Any]]:
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(n_ids):
        for t in range(n_times):
            rows.append(
                [f"p{i}", 10 * t, rng.choice(["lo", "hi"]), rng.choice(["u", "v"]), rng.integers(5)]
            )
    return rows


def table(rows: list[list[Any]], header: str = "patient,day,level,dose,reward") -> str:
    return header + "\n" + "".join(",".join(map(str, row)) + "\n" for row in rows)


def codes(found: Inspection) -> set[str]:
    return {finding.code for finding in found.findings}


def flags(found: Inspection) -> dict[str, str]:
    """The choices for visits as the next command says them."""
    words = inspection_record(found)["flags"]
    return dict(zip(words[::2], words[1::2], strict=True))


# -------------------------------------------------------------------- what it is
def test_kinds(tmp_path: Path) -> None:
    log = read_log(put(tmp_path, LOG))
    models = DirichletPosterior().fit(log).sample(3, 0)
    problem = Problem(models, rewards=log.rewards, p0=log.p0, gamma=0.9, objective=SoftRobust())
    save_problem(tmp_path / "p.npz", problem)
    save_models(tmp_path / "m.npz", models)
    Bins.from_cuts({"x": [1.0, 2.0]}).save(tmp_path / "b.npz")
    kinds = {
        "f.csv": "log",
        "p.npz": "problem",
        "m.npz": "models",
        "b.npz": "bins",
        put(tmp_path, MODELS, "m.csv").name: "models",
        put(tmp_path, table(visits()), "v.csv").name: "visits",
        put(tmp_path, "state,action,probability\na,x,1\n", "policy.csv").name: "policy",
        put(tmp_path, "x,action,next_x\n1,u,2\n2,u,3\n", "c.csv").name: "continuous log",
    }
    for name, kind in kinds.items():
        found = inspect_file(tmp_path / name)
        assert found.kind == kind
        record = json.loads(json.dumps(inspection_record(found), allow_nan=False))
        assert record["headline"].startswith(name)


def test_a_table_that_could_be_anything(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot be told from its columns, 'x', 'y'") as error:
        inspect_file(put(tmp_path, "x,y\n1,2\n"))
    assert {"columns", "id", "time", "action"} == set(error.value.arguments)
    with pytest.raises(InputError, match="folder without solution"):
        inspect_file(tmp_path)
    with pytest.raises(InputError, match="There is no file"):
        inspect_file(tmp_path / "absent.csv")


def test_options_that_do_not_belong(tmp_path: Path) -> None:
    path = put(tmp_path, LOG)
    with pytest.raises(InputError, match="Only a table of visits takes grid, write_log"):
        inspect_file(path, visits={"grid": "7d"}, write_log_to="x.csv")
    with pytest.raises(InputError, match="Only a log takes columns"):
        inspect_file(put(tmp_path, MODELS, "m.csv"), columns={"state": "x"})


# -------------------------------------------------------------------- logs
def test_a_log(tmp_path: Path) -> None:
    found = inspect_file(put(tmp_path, LOG))
    assert found.facts["coverage"] == {
        "rows": 16, "states": 2, "actions": 2, "pairs_seen": 4, "pairs_never_seen": 0,
        "pairs_seen_few": 4, "few": 5, "action_names": ["x", "y"],
        "counts": {"a": [4, 4], "b": [4, 4]},
    }  # fmt: skip
    assert found.facts["behaviour"]["actions"] == {"x": 8, "y": 8}
    assert found.facts["markov"]["verdict"] == "cannot tell"
    assert not found.blocked


def test_suspicious_rows(tmp_path: Path) -> None:
    lines = ["state,action,next_state,reward,episode,done"]
    lines += [f"s{i % 5},{'uv'[i % 2]},s{(i + 1) % 5},{i % 3},{i // 10},0" for i in range(60)]
    lines[13] = "s2,u,s3,999,1,0"  # a code for missing
    lines[25] = "s4,u,s2,0,2,0"  # a chain that breaks
    lines[35] = "s4,u,s0,0,3,1"  # an end in the middle
    found = inspect_file(put(tmp_path, "\n".join(lines) + "\n"))
    by_code = {finding.code: finding for finding in found.findings}
    assert by_code["codes_for_missing"]["rows"] == [14]
    assert by_code["codes_for_missing"]["examples"] == [999.0]
    assert by_code["torn"]["rows"] == [27]
    assert by_code["rows_after_end"]["rows"] == [37]
    assert by_code["torn"]["source"] == "f.csv"


def test_nothing_to_choose(tmp_path: Path) -> None:
    found = inspect_file(put(tmp_path, "s,a,s_next,r\n" + "p,x,q,1\nq,x,p,1\n" * 6))
    assert {"one_action", "equal_rewards"} <= codes(found)


@pytest.mark.parametrize(("reward", "ends"), [("1", True), ("-1", True), ("0", False)])
def test_equal_rewards_are_worth_something_where_they_can_end(
    tmp_path: Path, reward: str, ends: bool
) -> None:
    rows = f"p,x,q,{reward},0\nq,y,p,{reward},0\nq,x,,{reward},1\n"
    found = inspect_file(put(tmp_path, "s,a,s_next,r,done\n" + rows * 6))
    told = {note.code: note for note in found.findings}
    assert told["equal_rewards"]["ends"] is ends


def test_no_rewards_blocks_with_advice(tmp_path: Path) -> None:
    found = inspect_file(put(tmp_path, "s,a,s_next\np,x,q\n"))
    assert found.blocked is not None
    assert "reward table" in str(found.blocked)
    assert not found.steps


def test_every_bad_cell_of_a_log_is_listed(tmp_path: Path) -> None:
    text = LOG + "a,,b,1,0\na,x,b,lots,0\n,x,b,NaN,0\na,x,b,2,0\nb,x,a,few,1\n"
    found = inspect_file(put(tmp_path, text))
    empty = {n["role"]: n["rows"] for n in found.findings if n.code == "empty_cells"}
    assert empty == {"action": [18], "reward": [20], "state": [20]}
    assert [n["rows"] for n in found.findings if n.code == "no_numbers"] == [[19, 22]]
    assert "row 19" in str(found.blocked)
    flags = "s,a,s_next,done\np,x,q,0\np,x,q,maybe\np,x,q,\n"
    found = inspect_file(put(tmp_path, flags))
    assert {"no_flags", "empty_cells"} <= codes(found)


def test_names_that_are_alike() -> None:
    assert list(alike(["High", "high ", "low", "n=1", "n=2", "<7", ">7"])) == [["High", "high "]]


def test_odd_numbers() -> None:
    values = np.concatenate([np.linspace(0, 1, 200), [50.0, -99.0]])
    found = {code: places.tolist() for code, places, _ in odd_numbers(values)}
    assert found == {"codes_for_missing": [201], "far_numbers": [200]}
    assert not list(odd_numbers(np.concatenate([np.zeros(100), np.ones(100)])))
    assert not list(odd_numbers(np.array([1.0, 1e9])))


# -------------------------------------------------------------------- visits
def test_visits_are_guessed_by_name(tmp_path: Path) -> None:
    found = inspect_file(put(tmp_path, table(visits())))
    assert found.kind == "visits"
    assert flags(found) == {
        "--id": "patient", "--time": "day", "--action": "dose", "--reward": "reward",
        "--measurements": "level",
    }  # fmt: skip
    assert found.facts["trajectories"]["n_transitions"] == 30
    assert found.facts["trajectories"]["gaps"]["median"] == 10.0
    assert [step.verb for step in found.steps] == ["solve"]


@pytest.mark.parametrize(
    ("header", "role", "column", "other"),
    [
        ("patient,subject,date,level,dose", "id", "patient", "subject"),
        ("patient,day,level,dose,therapy", "action", "dose", "therapy"),
        ("patient,day,dose,reward,outcome", "reward", "reward", "outcome"),
    ],
)
def test_a_guess_says_what_fits_next_best(
    header: str, role: str, column: str, other: str, tmp_path: Path
) -> None:
    rows = [[f"p{i % 3}", i, i % 2, (i + i // 3) % 3, i % 4] for i in range(24)]
    if header.startswith("patient,subject"):
        rows = [[f"p{i % 3}", f"q{i % 4}", i, i % 2, (i + i // 3) % 2] for i in range(24)]
    found = inspect_file(put(tmp_path, table(rows, header)))
    notes = {note["role"]: note for note in found.facts["guesses"] if note.code == "guessed_role"}
    assert notes[role]["column"] == column
    assert any(other in text for text in notes[role]["others"])


def test_german_headings_are_understood(tmp_path: Path) -> None:
    acts = ["Salbe" if i % 7 < 3 else "abwarten" for i in range(90)]
    rows = [f"{i // 6},{i % 6 + 1:02d}.03.2024,{i % 5},{a},{i % 9}" for i, a in enumerate(acts)]
    table = "\n".join(["Proband,Datum,Stufe,Maßnahme,Kosten", *rows])
    found = inspect_file(put(tmp_path, table))
    rules = found.facts["rules"]
    assert (rules.id, rules.time, rules.action) == ("Proband", "Datum", "Maßnahme")
    assert rules.reward == "-Kosten"


def test_the_users_word_goes_first(tmp_path: Path) -> None:
    rows = [[f"p{i % 3}", f"q{i % 2}", i, i % 2, i % 2, i % 3] for i in range(24)]
    path = put(tmp_path, table(rows, "patient,subject,date,level,dose,reward"))
    found = inspect_file(path, visits={"id": "subject", "measurements": ["level"]})
    assert found.facts["trajectories"]["n_ids"] == 2


def test_of_many_columns_a_few_make_the_state(tmp_path: Path) -> None:
    rows = [[f"p{i % 3}", i, *(i % k for k in range(2, 9))] for i in range(60)]
    header = "patient,day,dose," + ",".join(f"c{j}" for j in range(6))
    found = inspect_file(put(tmp_path, table(rows, header)))
    (note,) = [n for n in found.facts["guesses"] if n.facts.get("role") == "measurements"]
    assert set(note["column"]) | set(note["others"]) <= {f"c{j}" for j in range(6)}
    assert len(note["column"]) < 6


def test_messy_visits_get_lenient_choices_and_say_so(tmp_path: Path) -> None:
    rows = visits(12, 8)
    rows[3][2] = ""  # a measurement
    rows[20][3] = ""  # an action
    rows.append(list(rows[10]))  # twice
    rows.append([*rows[11][:3], "w", 1])  # same time, another action
    rows.append(["", 3, "lo", "u", 1])  # nobody
    found = inspect_file(put(tmp_path, table(rows)))
    given = flags(found)
    assert given["--missing-measurement"] == "carry"
    assert given["--duplicates"] == "last"
    assert given["--missing-rows"] == "drop"
    assert "--after-end" not in given
    assert {
        "missing_actions",
        "duplicates",
        "same_time",
        "rows_incomplete",
        "carried_cells",
    } <= codes(found)


def test_a_column_of_numbers_and_text_blocks_with_its_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows: list[list[Any]] = [
        [f"p{i % 4}", i, f"{rng.normal(7, 1):.2f}", "uv"[i % 2], 1] for i in range(80)
    ]
    rows[5][2], rows[9][2] = "n.m.", ">9"
    found = inspect_file(put(tmp_path, table(rows)))
    finding = next(f for f in found.findings if f.code == "no_numbers")
    assert (finding["column"], finding["rows"]) == ("level", [7, 11])
    assert "row 7 of f.csv has 'n.m.'" in str(found.blocked)


def test_irregular_visits_go_on_a_grid_unless_told_not_to(tmp_path: Path) -> None:
    rows = visits(8, 8)
    rng = np.random.default_rng(1)
    for row in rows:
        row[1] += int(rng.integers(-2, 3)) if row[1] else 0
    path = put(tmp_path, table(rows))
    assert "--grid" in flags(inspect_file(path))
    assert "--grid" not in flags(inspect_file(path, visits={"grid": "none"}))


def test_ends_are_guessed_from_names_only(tmp_path: Path) -> None:
    rows = [[*row, int(row[1] == 50)] for row in visits()]
    path = put(tmp_path, table(rows, "patient,day,level,dose,reward,died"))
    found = inspect_file(path)
    assert found.facts["trajectories"]["n_ended"] == 6
    assert inspect_file(path, visits={"terminal": "none"}).facts["trajectories"]["n_ended"] == 0


def test_the_clinic() -> None:
    found = inspect_file(
        CLINIC / "visits.csv",
        visits={"events": CLINIC / "events.csv", "bins": {"hba1c": [7.0, 8.0, 9.0]}},
    )
    assert not found.blocked
    facts = found.facts["coverage"]
    assert facts["pairs_never_seen"] / 48 == pytest.approx(0.4, abs=0.05)
    assert found.facts["markov"]["verdict"] in ("no sign", "a trace")  # stale cells leave one
    assert found.facts["trajectories"]["n_ended"] > 0
    assert "min_count" not in found.steps[0].options  # not shown to help in known worlds


@pytest.mark.parametrize("step", [0.0, 1e306])
def test_numbers_too_large_to_subtract_are_looked_at_without_a_warning(
    step: float, tmp_path: Path
) -> None:
    """Warnings are errors here."""
    rows = [[i // 5, i % 5, (-1) ** i * (1.7e308 - i * step), i % 2, i] for i in range(60)]
    assert inspect_file(put(tmp_path, table(rows))).kind == "visits"


def test_what_is_left_for_the_state_is_said_without_gaps(tmp_path: Path) -> None:
    rows = [[i // 5, i % 5, "", i % 2, ""] for i in range(60)]
    with pytest.raises(InputError, match=r"beside day, dose, patient\. Say"):
        inspect_file(put(tmp_path, table(rows)))
