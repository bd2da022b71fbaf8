"""Corrupted and odd files of models, and tables of visits; see `corpus` for what a case is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.fuzz.corpus import Case, Row, npz, text

M_HEAD = "idstatefrom,idaction,idstateto,idoutcome,probability,reward\n"
M_BODY = "0,0,0,0,0.5,1\n0,0,1,0,0.5,0\n1,0,0,0,1,0\n0,0,0,1,0.25,1\n0,0,1,1,0.75,0\n1,0,0,1,1,0\n"
M_GOOD = M_HEAD + M_BODY
M_ROWS: list[Row] = [tuple(line.split(",")) for line in M_BODY.split()]

MODELS: dict[str, Callable[[], Case]] = {
    "plain": lambda: text(M_GOOD, M_ROWS),
    "bom and semicolons": lambda: text(M_GOOD.replace(",", ";"), M_ROWS, code="utf-8-sig"),
    "columns in another order": lambda: text(
        "probability,idoutcome,idstateto,reward,idaction,idstatefrom\n1,0,0,2,0,0\n",
        [("0", "0", "0", "0", "1", "2")],
    ),
    "no models column": lambda: text(
        "idstatefrom,idaction,idstateto,probability,reward\n0,0,0,1,2\n",
        [("0", "0", "0", "0", "1", "2")],
    ),
    "names": lambda: text(
        M_HEAD + "dry,wait,wet,a,1,1\nwet,wait,dry,a,1,0\n",
        [("dry", "wait", "wet", "a", "1", "1"), ("wet", "wait", "dry", "a", "1", "0")],
    ),
    "twice, summed": lambda: text(
        M_HEAD + "0,0,0,0,0.5,1\n0,0,0,0,0.5,1\n", [("0", "0", "0", "0", "1", "1")], "duplicate row"
    ),
    "twice, two rewards": lambda: text(
        M_HEAD + "0,0,0,0,0.5,1\n0,0,0,0,0.5,2\n", words="rewards 1 and 2"
    ),
    "misses one": lambda: text(M_GOOD.replace("0.75", "0.65"), words="sums to 0.9"),
    "misses one by a little": lambda: text(M_GOOD.replace("0.75", "0.7500001"), words="sum to 1"),
    "above one": lambda: text(M_GOOD.replace("0,0.5,1", "0,1.5,1"), words="[0, 1]"),
    "negative": lambda: text(M_GOOD.replace("0,0.5,1", "0,-0.5,1"), words="[0, 1]"),
    "nan": lambda: text(M_GOOD.replace("0.75", "nan"), words="row 6"),
    "blank probability": lambda: text(M_GOOD.replace("0.75", ""), words="row 6"),
    "infinite reward": lambda: text(M_GOOD.replace("0.75,0", "0.75,inf"), words="row 6"),
    "pair missing in a model": lambda: text(
        M_GOOD.replace("1,0,0,1,1,0\n", ""), words="missing in model 1"
    ),
    "state without actions": lambda: text(M_HEAD + "0,0,1,0,1,0\n", words="state '1' has none"),
    "header only": lambda: text(M_HEAD, words="at least one"),
    "ragged": lambda: text(M_GOOD + "1,0\n", words="row 8"),
    "huge ids": lambda: text(
        M_HEAD + f"{10**17},0,{10**17},0,1,1\n", [(str(10**17), "0", str(10**17), "0", "1", "1")]
    ),
    "ids beyond 64 bits": lambda: text(
        M_HEAD + f"{10**40},0,{10**40},0,1,1\n", [(str(10**40), "0", str(10**40), "0", "1", "1")]
    ),
    "negative ids": lambda: text(M_HEAD + "-1,0,-1,0,1,1\n", [("-1", "0", "-1", "0", "1", "1")]),
    "probabilities beneath doubles": lambda: text(
        M_HEAD + "0,0,0,0,1,1\n0,0,1,0,1e-400,0\n1,0,0,0,1,0\n",
        [("0", "0", "0", "0", "1", "1"), ("1", "0", "0", "0", "1", "0")],
    ),
    "a cycle": lambda: text(
        M_HEAD + "".join(f"{i},0,{(i + 1) % 5},0,1,{i}\n" for i in range(5)),
        [(str(i), "0", str((i + 1) % 5), "0", "1", str(i)) for i in range(5)],
    ),
    "rewards by model": lambda: text(
        M_GOOD.replace("0,0,0,1,0.25,1", "0,0,0,1,0.25,9"),
        [(*row[:5], "9") if row[:5] == ("0", "0", "0", "1", "0.25") else row for row in M_ROWS],
    ),
    "start that misses one": lambda: Case(
        M_GOOD.encode(), words="sum to 1", beside={"initial.csv": b"idstate,probability\n0,0.5\n"}
    ),
    "start of an unknown state": lambda: Case(
        M_GOOD.encode(), words="has '7'", beside={"initial.csv": b"idstate,probability\n7,1\n"}
    ),
    "start that is no table": lambda: Case(
        M_GOOD.encode(), words="initial.csv", beside={"initial.csv": b"\x00\x01\x02"}
    ),
    "parameters that are no numbers": lambda: Case(
        M_GOOD.encode(), words="parameters.csv",
        beside={"parameters.csv": b"parameter,value\ndiscount,high\n"}, gamma=False,
    ),
    "a discount above one": lambda: Case(
        M_GOOD.encode(), words="between 0 and 1", gamma=False,
        beside={"parameters.csv": b"parameter,value\ndiscount,2\n"},
    ),
    "npz cut off": lambda: Case(
        npz(format="softrobust-models", format_version=1, prob=np.ones(99))[:-60],
        words="f.npz", name="f.npz",
    ),
    "npz with half its arrays": lambda: Case(
        npz(format="softrobust-models", format_version=1, prob=np.ones(9)),
        words="f.npz", name="f.npz",
    ),
    "npz of a negative pointer": lambda: Case(
        npz(
            format="softrobust-models", format_version=1, indptr=np.array([0, -1]),
            next_states=np.array([0]), prob=np.ones(1), f=np.ones(1), states=np.array(["a"]),
            actions=np.array(["x"]), sinks=np.zeros(1, bool),
        ),
        words="f.npz", name="f.npz",
    ),
    "npz of an absurd shape": lambda: Case(
        npz(
            format="softrobust-models", format_version=1, indptr=np.array([0, 1]),
            next_states=np.array([7]), prob=np.ones((1, 1, 1)), f=np.ones(1),
            states=np.array(["a"]), actions=np.array(["x"]), sinks=np.zeros(1, bool),
        ),
        words="f.npz", name="f.npz",
    ),
    "problem with half its arrays": lambda: Case(
        npz(
            format="softrobust-problem", format_version=1, indptr=np.array([0, 1]),
            next_states=np.array([0]), prob=np.ones(1), f=np.ones(1), states=np.array(["a"]),
            actions=np.array(["x"]), sinks=np.zeros(1, bool),
        ),
        words="f.npz", name="f.npz",
    ),
}  # fmt: skip

V_HEAD = "patient,date,level,dose,reward\n"
V_BODY = (
    "p,2024-01-01,lo,u,1\np,2024-01-08,hi,v,2\np,2024-01-15,lo,u,3\n"
    "q,2024-01-02,hi,u,4\nq,2024-01-09,lo,v,5\n"
)
V_GOOD = V_HEAD + V_BODY
V_ROWS: list[Row] = [("lo", "u", "hi", "1"), ("hi", "v", "lo", "2"), ("hi", "u", "lo", "4")]

VISITS: dict[str, Callable[[], Case]] = {
    "plain": lambda: text(V_GOOD, V_ROWS),
    "bom, semicolons, crlf": lambda: text(
        V_GOOD.replace(",", ";").replace("\n", "\r\n"), V_ROWS, code="utf-8-sig"
    ),
    "other dates": lambda: text(V_GOOD.replace("2024-01-08", "08/01/2024"), words="'date'"),
    "no such day": lambda: text(V_GOOD.replace("2024-01-08", "2024-02-31"), words="row 3"),
    "only numbers for dates": lambda: text(V_GOOD.replace("-", ""), V_ROWS),
    "no action anywhere": lambda: text(
        V_HEAD + "p,2024-01-01,lo,,1\np,2024-01-08,hi,,2\n", words="--action"
    ),
    "one visit each": lambda: text(
        V_HEAD + "p,2024-01-01,lo,u,1\nq,2024-01-08,hi,v,2\n", words="--id"
    ),
    "one visit": lambda: text(V_HEAD + "p,2024-01-01,lo,u,1\n", words="f.csv"),
    "header only": lambda: text(V_HEAD, words="f.csv"),
    "reward is a word": lambda: text(V_GOOD.replace("v,2", "v,fine"), words="f.csv"),
    "huge numbers": lambda: text(V_GOOD.replace("v,2", "v,1e400"), words="row 3"),
    "unicode columns": lambda: text(
        V_GOOD.replace("level", "état|é=1").replace("lo,", "ça va,"),
        [("ça va", "u", "hi", "1"), ("hi", "v", "ça va", "2"), ("hi", "u", "ça va", "4")],
    ),
    "years before Christ": lambda: text(V_GOOD.replace("2024-01-08", "-0044-03-15"), words="date"),
    "the year 9999": lambda: text(
        V_GOOD.replace("2024-01-15", "9999-12-31"),
        [("lo", "u", "hi", "1"), ("hi", "u", "lo", "4")],  # a hole of the grid of a week
    ),
    "ragged": lambda: text(V_GOOD + "p,2024\n", words="row 7"),
    "nul": lambda: text(V_GOOD + "p\x00,2024-01-22,lo,u,1\n", words="not a text file"),
}  # fmt: skip
