from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import softrobust as sr
from softrobust.certificate import certify
from softrobust.data import read_log
from softrobust.errors import InputError
from softrobust.models.model_set import ModelSet
from softrobust.objective import SoftRobust
from softrobust.problem import Problem
from softrobust.report import Report, certificate_sentences, in_words
from softrobust.report.policy import policy_table
from softrobust.report.sections import answer, returns
from softrobust.report.words import Figures, no_choice, other_questions
from softrobust.solvers import LocalSearch
from softrobust.study.frontier import frontier
from softrobust.study.review import review
from tests.report.builders import (
    HANDLER,
    HOSTILE,
    first_actions,
    from_log,
    hostile_log,
    make_page,
    ring,
    stock_log,
    uniform,
)

SECTIONS = ["answer", "policy", "returns", "why", "asked", "certificate", "rerun"]
VOID = {"meta", "br", "img", "link", "input", "hr"}


class _Structure(HTMLParser):
    """Collects tags and ids, and checks that every element is closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.ids: list[str] = []
        self.attributes: set[str] = set()
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)
        self.ids += [value for name, value in attrs if name == "id" and value]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "script"):
            self.text.append(data)


def parse(page: Report) -> _Structure:
    found = _Structure()
    found.feed(page.html)
    found.close()
    assert found.open == []
    assert len(found.ids) == len(set(found.ids))
    assert [i for i in found.ids if i in SECTIONS] == SECTIONS
    return found


def words(page: Report) -> str:
    return re.sub(r"\s+", " ", "".join(parse(page).text))


def svgs(page: Report, kind: str = "density") -> list[str]:
    every = re.findall(r"<svg.*?</svg>", page.html, flags=re.DOTALL)
    return [svg for svg in every if f'class="{kind}"' in svg]


def values(page: Report) -> list[str]:
    """The figures of the tiles."""
    return re.findall(r'<span class="value">([^<]*)<', page.html)


def test_structure_and_content_from_a_log() -> None:
    log = stock_log()
    problem, test, posterior = from_log(log)
    page = make_page(
        problem, [first_actions(problem)], heldout=test, log=log, posterior=posterior,
        notes=["A note of the caller."], title="Shelf", settings={"seed": 7},
    )  # fmt: skip
    text = words(page)
    for fact in ("Shelf", "A note of the caller.", log.data_hash, *in_words(log.notes)):
        assert fact in text, fact
    for line in certificate_sentences(certify(problem, first_actions(problem).policy, test)):
        assert re.sub(r"\s+", " ", line) in text
    assert "Seed7" in text.replace(" ", "")
    assert len(svgs(page)) == 2
    row = log.states.index("n=3")
    seen = log.pair_counts[row, np.argmax(problem.allowed[row])]
    assert f"{seen} of {log.pair_counts[row].sum()}" in text
    for state in log.states:
        assert f"<bdi>{state}</bdi>" in page.html


def test_pictures_are_well_formed_and_take_their_colours_from_the_page() -> None:
    log = stock_log()
    problem, test, posterior = from_log(log)
    page = make_page(problem, [first_actions(problem)], test, log, posterior)
    for svg in re.findall(r"<svg.*?</svg>", page.html, flags=re.DOTALL):
        ElementTree.fromstring(svg)
        assert "#" not in svg
        assert "style=" not in svg
    for svg in svgs(page):
        for name in ("curve k1", "curve k2", "curve k3", ">this policy<", ">nominal<"):
            assert name in svg


def test_everything_has_a_name_for_those_who_cannot_see_it() -> None:
    log = stock_log()
    problem, test, posterior = from_log(log)
    solution = LocalSearch().solve(problem)
    made = frontier(problem, (0.0, 0.5, 1.0), (0.9,), LocalSearch(), also=[solution.policy])
    html = make_page(problem, [solution], test, log, posterior, frontier=made).html
    pictures = re.findall(r"<svg(?![^>]*aria-hidden).*?</svg>", html, flags=re.DOTALL)
    assert len(pictures) >= 4
    for svg in pictures:
        assert 'role="img"' in svg
        assert re.search(r"<title>[^<]{5,}</title>\s*<desc>", svg)
    for table in re.findall(r"<table.*?</thead>", html, flags=re.DOTALL):
        assert re.search(r'<caption class="hidden">[^<]{5,}</caption>', table)
        assert "scope=" in table
    for scrolled in re.findall(r'<div class="scroll"[^>]*>', html):  # by keys, too
        assert 'tabindex="0" role="region" aria-label="' in scrolled
    for field in re.findall(r'<input(?! type="checkbox")[^>]*>', html):
        name = re.search(r'id="(\w+)"', field)
        assert "aria-label" in field or (name and f'for="{name[1]}"' in html)
    assert html.count("<h1>") == html.count("<main>") == 1
    assert "prefers-reduced-motion" in html


def test_words_stand_out_from_their_ground() -> None:
    """By WCAG 2, at least 4.5 in light, dark and print, for all inks that words are written in."""
    sheet = resources.files("softrobust.report").joinpath("style.css").read_text(encoding="utf-8")
    themes = [
        dict(re.findall(r"--(\w+): (#\w+);", block))
        for block in re.findall(r":root \{(.*?)\}", sheet, flags=re.DOTALL)
    ]
    assert len(themes) == 3
    for theme in themes:
        for ink in ("ink", "soft", "accent", "other", "third", "warn"):
            for ground in ("paper", "card"):
                assert contrast(theme[ink], theme[ground]) >= 4.5, (ink, ground)


def contrast(one: str, other: str) -> float:
    """Of two colours such as #1b2027, as WCAG 2 defines it."""
    light = []
    for colour in (one, other):
        digits = colour[1:] if len(colour) == 7 else "".join(2 * c for c in colour[1:])
        parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        light.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    return (max(light) + 0.05) / (min(light) + 0.05)


def test_the_page_asks_for_nothing_from_outside() -> None:
    log = stock_log()
    problem, test, posterior = from_log(log)
    html = make_page(problem, [uniform(problem)], heldout=test, log=log, posterior=posterior).html
    addresses = set(re.findall(r"https?://[^\"' )>]+", html))
    assert addresses <= {"http://www.w3.org/2000/svg"}
    found = parse(Report(html))
    assert not found.tags & {"link", "img", "iframe", "object", "embed", "form"}
    assert html.count("<script") == html.count("<style") == 1
    for tag in ("script", "style"):
        [inline] = re.findall(f"<{tag}>(.*?)</{tag}>", html, flags=re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in html
    assert not [name for name in found.attributes if name.startswith("on") or name == "src"]
    assert "@import" not in html
    assert "default-src 'none'" in html


def test_labels_are_shown_and_never_become_markup() -> None:
    log = hostile_log()
    problem, test, posterior = from_log(log)
    page = make_page(
        problem, [uniform(problem, solver=HANDLER)], heldout=test, log=log, posterior=posterior,
        title=HOSTILE, notes=[HOSTILE], settings={HOSTILE: HANDLER},
    )  # fmt: skip
    found = parse(page)
    assert "img" not in found.tags
    text = "".join(found.text)
    assert HOSTILE in text
    assert HANDLER in text
    assert page.html.count("<script") == 1
    assert "alert(1)</script>" not in page.html
    assert "lost · no recommendation" in re.sub(r"\s+", " ", text)
    assert "(end)" in text
    assert "<bdi>(end)</bdi>" not in page.html


@pytest.mark.parametrize(
    "objective", [SoftRobust(lam, alpha) for lam, alpha in ((0, 0.9), (1, 0.9), (0.5, 1), (0.5, 0))]
)
def test_edges_of_the_objective(objective: SoftRobust) -> None:
    log = stock_log()
    problem, test, posterior = from_log(log, objective)
    page = make_page(problem, [uniform(problem)], heldout=test, log=log, posterior=posterior)
    text = words(page)
    assert "nan" not in text.lower().replace("nominal", "")
    # Without a tail there is no bad case to show beside the average.
    assert page.html.count('<span class="value">') == (2 if objective.tail == 1 else 3)


def equal_returns(n_models: int, reward: float) -> Problem:
    P = np.ones((n_models, 1, 2, 1))
    return Problem(ModelSet.from_dense(P), rewards=np.full((1, 2), reward), gamma=0.5)


@pytest.mark.parametrize("n_models", [1, 5])
@pytest.mark.parametrize("reward", [0.0, -3.0, 1e9])
def test_one_state_and_all_equal_returns(n_models: int, reward: float) -> None:
    problem = equal_returns(n_models, reward)
    page = make_page(problem, [uniform(problem)], heldout=problem.models)
    assert {0.0: "0", -3.0: "−6", 1e9: "2,000,000,000"}[reward] in values(page)
    found = review(problem, [uniform(problem)], problem.models)
    assert found.certificate.nothing_better
    assert all(panel["flat"] for panel in returns(found, Figures(0))["panels"])


def test_some_returns_equal_and_others_not() -> None:
    P = np.zeros((4, 2, 2, 2))
    P[:, :, 0, 0] = 1.0
    P[:, :, 1, 1] = np.linspace(0.2, 0.8, 4)[:, None]
    P[:, :, 1, 0] = 1 - P[:, :, 1, 1]
    problem = Problem(ModelSet.from_dense(P), rewards=np.array([[1.0, 0.0], [0.0, 3.0]]), gamma=0.9)
    page = make_page(problem, [first_actions(problem), uniform(problem)])
    assert len(svgs(page)) == 1
    assert "nan" not in svgs(page)[0]


def test_models_of_weight_zero_have_no_say() -> None:
    P = np.full((3, 1, 1, 1), 1.0)
    R = np.array([1.0, 1.0, 50.0])
    models = ModelSet.from_dense(P, [0.5, 0.5, 0.0], rewards=sr.Rewards.of_models(R, 1, 1))
    problem = Problem(models, gamma=0.5)
    [panel] = returns(review(problem, uniform(problem)), Figures(0))["panels"]
    assert panel["flat"]


def test_nominal_alone_has_no_rival() -> None:
    problem, _, _ = from_log(stock_log())
    found = review(problem, [first_actions(problem, solver="nominal")])
    assert found.nominal is None
    assert not policy_table(found, None)["has_nominal"]


def test_a_log_with_one_action_per_state_leaves_nothing_to_choose() -> None:
    log = sr.TransitionLog.from_arrays(["a", "b"] * 5, ["x", "y"] * 5, ["b", "a"] * 5, [1, 2] * 5)
    problem, test, posterior = from_log(log)
    assert no_choice(problem) is not None
    assert review(problem, [uniform(problem)], test, log, posterior).reasons == {}
    assert no_choice(from_log(stock_log())[0]) is None


def test_a_solution_found_for_another_question_is_named() -> None:
    problem, _, _ = from_log(stock_log())
    other = replace(problem, objective=SoftRobust(0.25, 0.75))
    [line] = other_questions(problem, review(problem, [uniform(other)]).compared)
    assert "λ = 0.25, α = 0.75" in line
    assert line in words(make_page(problem, [uniform(other)]))


def test_many_solutions_share_colours_and_names_sensibly() -> None:
    problem, test, _ = from_log(stock_log())
    many = [uniform(problem, "mine") for _ in range(3)] + [first_actions(problem, "mine")]
    found = review(problem, many, test)
    assert [c.name for c in found.compared[:1]] + [c.name for c in found.compared[2:]] == [
        "mine", "mine (2)", "mine (3)", "mine (4)",
    ]  # fmt: skip
    shown = returns(found, Figures(2))
    # Twins of the first share its curve.
    assert [row["ink"] for row in shown["panels"][0]["rows"]].count("") == 2


def test_500_states_stay_below_2_mb() -> None:
    problem = ring(500, n_actions=30)
    page = make_page(problem, [uniform(problem)], heldout=problem.models)
    assert len(page.html.encode()) < 2_000_000
    assert page.html.count('scope="row" rowspan') == 500
    assert "and 25 more" in page.html


def test_2000_states_are_summarised() -> None:
    problem = ring(2000)
    page = make_page(problem, [first_actions(problem)])
    assert page.html.count('scope="row" rowspan') == 200
    assert "200 of the 2,000 states" in words(page)
    assert '<a href="policy.csv" download>' not in page.html
    linked = make_page(problem, [first_actions(problem)], policy_csv="policy.csv")
    assert '<a href="policy.csv" download>' in linked.html


def test_saved_atomically_and_the_same_every_time(tmp_path: Path) -> None:
    log = stock_log()
    problem, test, posterior = from_log(log)
    chosen = first_actions(problem)
    pages = [make_page(problem, [chosen], test, log, posterior) for _ in range(2)]
    target = pages[0].save(tmp_path / "report.html")
    assert target.read_text(encoding="utf-8") == pages[0].html == pages[1].html
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_no_absolute_path_gets_in(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    rows = "\n".join(f"{i % 3},go,{(i + 1) % 3},1" for i in range(9))
    file.write_text("state,action,next_state,reward\n" + rows + "\n")
    log = read_log(file)
    problem, test, posterior = from_log(log)
    settings = {"input": str(file), "windows": "C:\\data\\log.csv"}
    page = make_page(problem, [uniform(problem)], test, log, posterior, settings=settings)
    assert str(tmp_path) not in page.html
    assert "C:\\" not in page.html
    assert "log.csv" in page.html


def test_a_page_in_a_notebook_is_a_frame() -> None:
    problem, _, _ = from_log(stock_log())
    page = sr.make_report(sr.study.review.review(problem, [uniform(problem)]))
    assert isinstance(page, Report)
    assert "srcdoc=" in page._repr_html_()
    assert HOSTILE not in page._repr_html_()


def test_bad_input_says_what_to_do() -> None:
    problem, _, _ = from_log(stock_log())
    with pytest.raises(InputError, match="at least one solution"):
        make_page(problem, [])
    with pytest.raises(InputError, match="needs solutions"):
        make_page(problem, [problem])  # type: ignore[list-item]
    with pytest.raises(InputError, match="Give the log that the models were made from"):
        make_page(problem, [uniform(problem)], log=hostile_log())
    wrong = certify(problem, uniform(problem).policy)
    with pytest.raises(InputError, match="Certify the first solution"):
        make_page(problem, [first_actions(problem)], certificate=wrong)


def test_riverswim_without_a_log(shared_data: Path) -> None:
    models = sr.read_models(shared_data / "riverswim" / "training.csv")
    test = sr.read_models(shared_data / "riverswim" / "test.csv")
    problem = Problem(models, gamma=0.9, objective=SoftRobust(0.5, 0.7))
    text = words(make_page(problem, [uniform(problem)], heldout=test))
    assert {note.code for note in models.notes} >= {"p0_from_beside"}
    for line in in_words(models.notes):
        assert line in text
    assert "seen here" not in text


def test_a_policy_worse_than_chance_is_called_so() -> None:
    problem, _, _ = from_log(stock_log())
    found = review(problem, [first_actions(problem)])
    assert found.certificate.gap_share is not None
    assert found.certificate.gap_share > 1
    assert "at random" in answer(found, Figures(2))["tiles"][-1]["beside"][0]
