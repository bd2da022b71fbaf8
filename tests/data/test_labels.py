import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softrobust._core.notes import Note
from softrobust.data.labels import Labels, natural_key, order_names
from softrobust.errors import InputError


def test_positions_names_and_equality() -> None:
    labels = Labels(("dry", "wet"), noun="state")
    assert labels.index("wet") == 1
    assert labels[0] == "dry"
    assert list(labels) == ["dry", "wet"]
    assert len(labels) == 2
    assert "wet" in labels
    assert "fog" not in labels
    assert labels == Labels(("dry", "wet"))
    assert hash(labels) == hash(Labels(("dry", "wet")))
    assert labels != Labels(("wet", "dry"))


def test_an_integer_is_a_name_not_a_position() -> None:
    labels = Labels(("10", "20"))
    assert labels.index(20) == 1
    assert labels.index(np.int64(10)) == 0
    with pytest.raises(InputError, match="Unknown label '1'"):
        labels.index(1)


@pytest.mark.parametrize("label", [1.0, True, None])
def test_other_types_are_no_names(label: object) -> None:
    with pytest.raises(InputError, match="must be a string or an integer"):
        Labels.range(3).index(label)  # type: ignore[arg-type]


def test_unknown_label_suggests_close_ones() -> None:
    labels = Labels(("spray", "wait"), noun="action")
    with pytest.raises(InputError, match=r"Unknown action 'sprya'. Did you mean 'spray'\?"):
        labels.index("sprya")
    with pytest.raises(InputError, match="The 2 known actions are 'spray', 'wait'"):
        labels.index("xyz")


@pytest.mark.parametrize(
    ("names", "message"),
    [(("a", "a"), "twice"), (("a", ""), "non-empty"), (("a", "\ud800"), "half a character")],
)
def test_names_are_distinct_and_not_empty(names: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Labels(names, noun="state")


def test_a_single_text_is_no_list_of_names() -> None:
    with pytest.raises(InputError, match="not the single text 'abc'"):
        Labels.of("abc", noun="state")


def test_a_million_labels() -> None:
    labels = Labels.range(1_000_000)
    assert labels.index(999_999) == 999_999
    with pytest.raises(InputError, match="Did you mean '999999'"):
        labels.index("9999999")


def test_integers_are_filled_from_zero_for_states_only() -> None:
    ordered = order_names(["3", "1"], "state", fill=True)
    assert ordered.labels.names == ("0", "1", "2", "3")
    assert ordered.positions == [3, 1]
    facts = {"noun": "state", "largest": 3, "added": 2}
    assert ordered.notes == (Note("integers_filled", facts=facts),)
    actions = order_names(["100", "0", "50"], "action", fill=False)
    assert actions.labels.names == ("0", "50", "100")
    assert actions.notes == ()


@pytest.mark.parametrize(
    ("names", "order"),
    [
        (["5", "-1", "3"], ("-1", "3", "5")),
        (["7", "123456789012"], ("7", "123456789012")),
        (["40", "0", "20"], ("0", "20", "40")),
        (["650", "600", "701"], ("600", "650", "701")),
    ],
)
def test_negative_integers_steps_and_those_far_apart_are_not_filled(
    names: list[str], order: tuple[str, ...]
) -> None:
    ordered = order_names(names, "state", fill=True)
    assert ordered.labels.names == order
    assert ordered.notes[0].code == "integers_not_filled"
    assert ordered.notes[0]["smallest"] == int(order[0])
    assert ordered.notes[0]["largest"] == int(order[-1])


def test_whole_floats_are_integers_if_all_labels_are() -> None:
    ordered = order_names(["1.0", "0", "1"], "state", fill=True)
    assert ordered.labels.names == ("0", "1")
    assert ordered.positions == [1, 0, 1]
    facts = {"noun": "state", "example": "1.0"}
    assert ordered.notes == (Note("names_as_integers", facts=facts),)
    mixed = order_names(["1.0", "1.5"], "state", fill=True)
    assert mixed.labels.names == ("1.0", "1.5")


@pytest.mark.parametrize("names", [["007", "8"], ["1" * 30, "2" * 30], ["9" * 5000, "1"]])
def test_codes_made_of_digits_stay_text(names: list[str]) -> None:
    assert set(order_names(names, "state", fill=True).labels) == set(names)


def test_natural_order() -> None:
    ordered = order_names(["n=10", "b", "n=2", "N=3"], "state", fill=True)
    assert ordered.labels.names == ("b", "n=2", "N=3", "n=10")


@given(st.lists(st.text(min_size=1), unique=True))
def test_order_is_a_permutation_and_total(names: list[str]) -> None:
    assert sorted(sorted(names, key=natural_key)) == sorted(names)
    other_way = names[::-1]
    assert sorted(other_way, key=natural_key) == sorted(names, key=natural_key)


@given(st.lists(st.integers(0, 10**12), unique=True, min_size=1))
def test_numbers_in_names_compare_as_numbers(numbers: list[int]) -> None:
    names = [f"n={number}" for number in numbers]
    assert sorted(names, key=natural_key) == [f"n={number}" for number in sorted(numbers)]
