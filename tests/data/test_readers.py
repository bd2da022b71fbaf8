"""Every format of a log, read right."""

import gzip
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from softrobust._core.notes import Note
from softrobust.data import END, TransitionLog, read_labels, read_log, save_log
from softrobust.data.columns import MISSING_TEXTS
from softrobust.data.readers import kind_of
from softrobust.data.table import opened, read_table
from softrobust.errors import InputError

TEXT = """state,action,next_state,reward,episode,terminal
n=10,wait,n=2,1.5,a,false
n=2,spray,n=10,-2,a,False
n=2,wait,n=2,1.5e0,b,TRUE
"""


def write(path: Path, text: str | bytes = TEXT) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def check(log: TransitionLog) -> None:
    """The log of TEXT, however it was stored."""
    assert log.states.names == ("n=2", "n=10", END)
    assert log.actions.names == ("spray", "wait")
    np.testing.assert_array_equal(log.s, [1, 0, 0])
    np.testing.assert_array_equal(log.a, [1, 0, 1])
    np.testing.assert_array_equal(log.s_next, [0, 1, 2])
    np.testing.assert_array_equal(log.reward, [1.5, -2.0, 1.5])
    np.testing.assert_array_equal(log.episode, [0, 0, 1])
    np.testing.assert_array_equal(log.p0, [0.5, 0.5, 0])


def pandas_frame() -> Any:
    pd = pytest.importorskip("pandas")
    return pd.DataFrame(
        {
            "state": ["n=10", "n=2", "n=2"],
            "action": pd.Categorical(["wait", "spray", "wait"]),
            "next_state": ["n=2", "n=10", None],
            "reward": [1.5, -2, 1.5],
            "episode": [7, 7, 3],
            "terminal": [False, False, True],
        },
        index=[5, 6, 7],
    )


def arrow_table() -> Any:
    import pyarrow as pa

    return pa.table(
        {
            "next_state": ["n=2", "n=10", "n=2"],
            "state": ["n=10", "n=2", "n=2"],
            "action": pa.array(["wait", "spray", "wait"]).dictionary_encode(),
            "reward": ["1.5", "-2", "1.5"],
            "episode": ["a", "a", "b"],
            "terminal": [0, 0, 1],
        }
    )


def parquet_of(table: Any, path: Path) -> Path:
    from pyarrow import parquet

    parquet.write_table(table, path)
    return path


SOURCES: dict[str, Callable[[Path], Any]] = {
    "csv": lambda d: write(d / "log.csv"),
    "gz": lambda d: write(d / "log.csv.gz", gzip.compress(TEXT.encode())),
    "xz": lambda d: write(d / "log.csv.xz", lzma.compress(TEXT.encode())),
    "gz without its name": lambda d: write(d / "log.csv", gzip.compress(TEXT.encode())),
    "text path": lambda d: str(write(d / "log.csv")),
    "crlf": lambda d: write(d / "log.csv", TEXT.replace("\n", "\r\n")),
    "no last newline": lambda d: write(d / "log.csv", TEXT.rstrip("\n")),
    "bom": lambda d: write(d / "log.csv", b"\xef\xbb\xbf" + TEXT.encode()),
    "semicolon": lambda d: write(d / "log.csv", TEXT.replace(",", ";")),
    "tab": lambda d: write(d / "log.tsv", TEXT.replace(",", "\t")),
    "quotes": lambda d: write(d / "log.csv", TEXT.replace("n=2", '"n=2"')),
    "spaces": lambda d: write(d / "log.csv", TEXT.replace(",", " , ")),
    "blank lines": lambda d: write(d / "log.csv", "\n" + TEXT.replace("\n", "\n\n")),
    "pandas": lambda d: pandas_frame(),
    "arrow": lambda d: arrow_table(),
    "parquet": lambda d: parquet_of(arrow_table(), d / "log.parquet"),
    "mapping": lambda d: arrow_table().to_pydict(),
}


@pytest.mark.parametrize("name", SOURCES)
def test_formats(name: str, tmp_path: Path) -> None:
    check(read_log(SOURCES[name](tmp_path)))


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
@pytest.mark.parametrize("name", ["csv", "pandas"])
def test_saved_logs_come_back_whole(name: str, suffix: str, tmp_path: Path) -> None:
    log = read_log(SOURCES[name](tmp_path), reward_default=3.0)
    log = log.with_initial({"n=2": 1.0})
    path = tmp_path / f"saved{suffix}"
    save_log(log, path)
    back = read_log(path)
    same(back, log)
    assert sniff(path) == "log"
    assert sorted(p.name for p in tmp_path.iterdir() if "saved" in p.name) == [path.name]


def same(back: TransitionLog, log: TransitionLog) -> None:
    assert back.data_hash == log.data_hash
    assert back.notes == log.notes
    assert (back.rewards is None) == (log.rewards is None)
    if back.rewards is not None and log.rewards is not None:
        for layer in ("pairs", "known", "nexts", "next_listed", "by_next", "keys", "triples"):
            np.testing.assert_array_equal(
                getattr(back.rewards, layer), getattr(log.rewards, layer), strict=True
            )


def test_saved_log_takes_other_rewards_and_start(tmp_path: Path) -> None:
    path = tmp_path / "log.npz"
    save_log(read_log(write(tmp_path / "log.csv")), path)
    log = read_log(path, initial={"n=10": 1.0}, rewards=lambda s, a: 1.0, reward_default=0.0)
    assert log.p0[1] == 1
    assert log.rewards is not None
    assert log.rewards.pairs[0, 0] == 1
    with pytest.raises(InputError, match="carries its own labels"):
        read_log(path, states=["n=2", "n=10"])


def test_logs_of_version_1_had_sentences(tmp_path: Path) -> None:
    """Their notes stay what they are; that p0 was given is known."""
    import json

    from softrobust.data.readers import log_to_arrays
    from softrobust.report.sentences import sentence

    log = read_log(write(tmp_path / "log.csv"))
    for words, code in (
        ("given in start.csv", "p0_given"),
        ("given by the user", "p0_given"),
        ("the 2 episode starts", "p0_recorded"),
    ):
        arrays = log_to_arrays(log)
        meta = json.loads(arrays["meta"]) | {"p0_source": words, "remarks": ["1 row was odd."]}
        old = {"format_version": 1, "meta": json.dumps(meta), "reward_note": "Rewards are r(s,a)."}
        np.savez(tmp_path / "old.npz", **(arrays | old))
        back = read_log(tmp_path / "old.npz")
        assert back.data_hash == log.data_hash
        assert back.p0_source.code == code
        assert sentence(back.p0_source) == f"The start distribution p0 is {words}."
        assert sentence(back.remarks[0]) == "1 row was odd."
        assert back.rewards is not None
        assert sentence(back.rewards.notes[0]) == "Rewards are r(s,a)."


def test_npz_of_plain_columns(tmp_path: Path) -> None:
    np.savez(tmp_path / "plain.npz", obs=[0, 1], action=["a", "b"], next_obs=[1, 0], r=[1.0, 2.0])
    log = read_log(tmp_path / "plain.npz")
    assert log.states.names == ("0", "1")
    np.testing.assert_array_equal(log.reward, [1.0, 2.0])


@pytest.mark.parametrize(
    "header",
    ["s,a,s_next", "idstatefrom,idaction,idstateto", " OBS ,Action,Next_Obs", "state,a,sp"],
)
def test_aliases(header: str, tmp_path: Path) -> None:
    log = read_log(write(tmp_path / "log.csv", f"{header}\n1,x,0\n0,y,1\n"))
    np.testing.assert_array_equal(log.s, [1, 0])
    np.testing.assert_array_equal(log.a, [0, 1])
    np.testing.assert_array_equal(log.s_next, [0, 1])
    assert log.reward is None
    assert log.rewards is None


def test_named_columns_go_before_aliases(tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", "s,site,dose,next\n9,a,1,b\n9,b,2,a\n")
    log = read_log(path, columns={"state": "site", "action": "dose", "next_state": "Next"})
    assert log.states.names == ("a", "b")
    assert Note("columns_not_used", facts={"columns": ["s"]}) in log.notes


def test_row_index_and_step_are_passed_over(tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", '"",step,s,a,s_next,weather\n"1",0,0,0,0,fine\n')
    assert Note("columns_not_used", facts={"columns": ["weather"]}) in read_log(path).notes


def test_delimiter_is_said(tmp_path: Path) -> None:
    log = read_log(write(tmp_path / "log.csv", TEXT.replace(",", ";")))
    assert Note("delimiter", facts={"delimiter": "semicolon"}) in log.notes


def test_labels_with_delimiters_newlines_and_unicode(tmp_path: Path) -> None:
    text = 's,a,s_next\n"a,1","x\ny","«é»"\n«é»,"say ""hi""","a,1"\n'
    log = read_log(write(tmp_path / "log.csv", text))
    assert set(log.states) == {"a,1", "«é»"}
    assert set(log.actions) == {"x\ny", 'say "hi"'}


def test_states_file_sets_the_order_and_adds(tmp_path: Path) -> None:
    names = write(tmp_path / "states.txt", "n=10\n\nn=5\n n=2 \n")
    log = read_log(write(tmp_path / "log.csv"), states=names, actions=["wait", "spray", "burn"])
    assert log.states.names == ("n=10", "n=5", "n=2", END)
    assert log.actions.names == ("wait", "spray", "burn")
    np.testing.assert_array_equal(log.s, [0, 2, 2])


def test_states_file_without_names(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"states.txt lists no states. Put one on each line"):
        read_labels(write(tmp_path / "states.txt", "\n \n"), "state")


def test_initial_file(tmp_path: Path) -> None:
    path = write(tmp_path / "initial.csv", "probability,idstate\n0.25,n=10\n0.75,n=2\n")
    log = read_log(write(tmp_path / "log.csv"), initial=path)
    np.testing.assert_array_equal(log.p0, [0.75, 0.25, 0])
    assert log.p0_source == Note("p0_given", facts={"source": "initial.csv"})


def test_reward_table_goes_before_the_column(tmp_path: Path) -> None:
    table = write(tmp_path / "rewards.csv", "state,action,reward\nn=10,spray,8\nn=2,wait,9\n")
    log = read_log(write(tmp_path / "log.csv"), reward_table=table)
    assert log.rewards is not None
    np.testing.assert_array_equal(log.rewards.pairs, [[-2, 9], [8, 1.5], [0, 0]])
    assert log.rewards.known.all()
    assert log.rewards.notes[0] == Note("rewards_table", facts={"source": "rewards.csv"})
    assert log.rewards.notes[1]["elsewhere"]


def test_reward_table_with_next_states(tmp_path: Path) -> None:
    table = {"s": ["n=2"], "a": ["wait"], "s_next": ["n=10"], "r": [9.0]}
    log = read_log(write(tmp_path / "log.csv"), reward_table=table, reward_default=-1.0)
    assert log.rewards is not None
    value, known = log.rewards.at([0, 0, 1], [1, 1, 0], [1, 2, 0])
    np.testing.assert_array_equal(value, [9.0, 1.5, -1.0])
    assert known.all()


def test_reward_table_alone(tmp_path: Path) -> None:
    table = {"s": ["0"], "a": ["0"], "r": [9.0]}
    log = read_log({"s": [0], "a": [0], "s_next": [1]}, reward_table=table)
    assert log.rewards is not None
    np.testing.assert_array_equal(log.rewards.known, [[True], [False]])


def test_floats_and_booleans_as_labels() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"s": [0.0, 1.0], "a": [True, False], "s_next": [1.0, 2.0]})
    log = read_log(frame)
    assert log.states.names == ("0", "1", "2")
    assert set(log.actions) == {"true", "false"}


def test_unused_categories_are_no_labels() -> None:
    pd = pytest.importorskip("pandas")
    s = pd.Categorical(["b", "a"], categories=["z", "a", "b"])
    log = read_log(pd.DataFrame({"s": s, "a": s, "s_next": s}))
    assert log.states.names == log.actions.names == ("a", "b")


def test_many_batches_agree_with_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    lines = [
        f"s{i},{j},s{k},{r!r},{'e' if n > 300 else ''}{n // 7}"
        for n, (i, j, k, r) in enumerate(
            zip(
                rng.integers(0, 50, 500).tolist(),
                rng.integers(0, 4, 500).tolist(),
                rng.integers(0, 50, 500).tolist(),
                rng.normal(size=500).tolist(),
                strict=True,
            )
        )
    ]
    path = write(tmp_path / "log.csv", "s,a,s_next,r,episode\n" + "\n".join(lines))
    whole = read_log(path)
    monkeypatch.setattr("softrobust.data.table._BLOCK_BYTES", 300)
    assert read_log(path).data_hash == whole.data_hash
    assert whole.episode is not None
    assert whole.episode.max() == len({line.rsplit(",")[-1] for line in lines}) - 1


def sniff(path: Path) -> str:
    with opened(path) as table:
        return kind_of(table)


def test_sniff(tmp_path: Path) -> None:
    assert sniff(write(tmp_path / "log.csv")) == "log"
    models = write(tmp_path / "m.csv", "idstatefrom,idaction,idstateto,probability\n0,0,0,1\n")
    assert sniff(models) == "models"
    other = write(tmp_path / "o.csv", "idstatefrom;idaction;idstateto;Probability\n0;0;0;1\n")
    assert sniff(other) == "models"
    np.savez(tmp_path / "m.npz", format="softrobust-models")
    assert sniff(tmp_path / "m.npz") == "models"
    with pytest.raises(InputError, match="has a column 'probability': it describes models"):
        read_log(models)
    with pytest.raises(InputError, match="holds 'softrobust-models'; it should be"):
        read_log(tmp_path / "m.npz")


label = st.text(
    st.characters(codec="utf-8", exclude_categories=["C"], exclude_characters="\u2028\u2029\x85"),
    min_size=1,
    max_size=5,
).filter(lambda x: x == x.strip() and x.casefold() not in MISSING_TEXTS)
number = st.floats(-1e9, 1e9)


@st.composite
def logs(draw: st.DrawFn) -> TransitionLog:
    n = draw(st.integers(1, 12))
    names = label | st.integers(0, 5).map(str)
    s, a, s_next = (draw(st.lists(names, min_size=n, max_size=n)) for _ in range(3))
    rewards = draw(st.none() | st.lists(number, min_size=n, max_size=n))
    episodes = draw(st.none() | st.lists(st.integers(0, 3), min_size=n, max_size=n))
    terminals = draw(st.none() | st.lists(st.booleans(), min_size=n, max_size=n))
    return TransitionLog.from_arrays(s, a, s_next, rewards, episodes, terminals)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(log=logs())
def test_round_trip_through_files(log: TransitionLog, tmp_path_factory: Any) -> None:
    folder = tmp_path_factory.mktemp("log")
    for suffix in (".npz", ".parquet"):
        save_log(log, folder / f"log{suffix}")
        same(read_log(folder / f"log{suffix}"), log)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(log=logs())
def test_round_trip_through_csv(log: TransitionLog, tmp_path_factory: Any) -> None:
    import csv

    path = tmp_path_factory.mktemp("log") / "log.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        extra = {"reward": log.reward, "episode": log.episode}
        writer.writerow(["s", "a", "s_next", *(k for k, v in extra.items() if v is not None)])
        for i in range(log.n_rows):
            cells = [log.states[log.s[i]], log.actions[log.a[i]], log.states[log.s_next[i]]]
            writer.writerow([*cells, *(repr(v[i].item()) for v in extra.values() if v is not None)])
    back = read_log(path, states=log.states, actions=log.actions)
    assert back.data_hash == log.data_hash


def test_public_logs(shared_data: Path) -> None:
    log = read_log(shared_data / "population_log.csv")
    assert log.n_rows == 300
    assert log.shape == (28, 5)
    raw = np.genfromtxt(shared_data / "population_log.csv", delimiter=",", skip_header=1)
    np.testing.assert_array_equal(log.s, raw[:, 1])
    np.testing.assert_array_equal(log.a, raw[:, 2])
    np.testing.assert_array_equal(log.s_next, raw[:, 3])
    np.testing.assert_array_equal(log.reward, raw[:, 4])
    assert log.p0[10] == 1
    assert log.p0_source == Note("p0_episode_starts", facts={"n_starts": 1})
    assert log.rewards is not None
    assert log.rewards.kind == "pair"

    river = read_log(shared_data / "riverswim_log.csv")
    assert river.n_rows == 15
    assert river.shape == (6, 2)
    assert river.rewards is not None
    np.testing.assert_array_equal(river.rewards.pairs[:, 0], [5, 5, 5, 5, 5, 5])
    np.testing.assert_array_equal(river.rewards.known[:, 1], [True] * 5 + [False])
    assert sniff(shared_data / "riverswim" / "training.csv") == "models"


def test_a_table_of_other_roles(tmp_path: Path) -> None:
    """What the reader of models builds on: any roles, with rows for messages."""
    from softrobust.data.columns import ACTION, NEXT_STATE, STATE, Role

    roles = (
        STATE,
        ACTION,
        NEXT_STATE,
        Role("model", ("idoutcome",), "label", "model", required=False),
        Role("probability", ("probability",), "number"),
    )
    text = "idoutcome,probability,idaction,idstateto,idstatefrom\n0,0.5,1,2,3\n1,1,1,2,0\n"
    table = read_table(write(tmp_path / "m.csv", text), roles)
    np.testing.assert_array_equal(table.numbers["probability"], [0.5, 1.0])
    assert [table.names["state"][i] for i in table.codes["state"]] == ["3", "0"]
    assert [table.names["model"][i] for i in table.codes["model"]] == ["0", "1"]
    assert table.rows.where(1) == "row 3 of m.csv"
