"""An inspection in words: a headline, sections to read, commands to run next, all of it as JSON."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, final

from softrobust._core.notes import Note
from softrobust.data.inspection import Inspection
from softrobust.data.markov import FEWEST_GROUPS, FEWEST_ROWS
from softrobust.report.commands import command_line, flags
from softrobust.report.sentences import LOST, TEXTS, UNUSED, phrase, sentence, told
from softrobust.report.words import percent


@final
class Grid(NamedTuple):
    """A table for the screen; `counts` are shaded by how often something was seen."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    counts: bool = False


@final
class Section(NamedTuple):
    """A heading, sentences below it, and perhaps a table or a histogram."""

    title: str
    sentences: tuple[str, ...] = ()
    grid: Grid | None = None
    bars: tuple[tuple[str, int], ...] = ()


WHY = TEXTS["steps"]
AT_STAKE = 0.01  # share of the rows


def inspection_record(found: Inspection) -> dict[str, Any]:
    """An inspection as plain values for JSON: facts, and their words beside them."""
    facts = dict(found.facts)
    if "rules" in facts:
        facts["flags"] = flags(facts.pop("rules").given())
    if facts.get("markov"):
        facts["markov"] = facts["markov"] | {"words": list(markov_words(facts["markov"]))}
    for name in ("notes", "guesses"):
        if name in facts:
            facts[name] = [note_record(note) for note in facts[name]]
    return {
        "source": found.source,
        "kind": found.kind,
        "headline": headline(found),
        **facts,
        "findings": [note_record(note) for note in found.findings],
        "blocked": None if found.blocked is None else str(found.blocked),
        "next": [
            {"why": WHY[step.code], "line": command_line(step.verb, step.file, step.options)}
            for step in found.steps
        ],
    }


def note_record(note: Note) -> dict[str, Any]:
    """A note as plain values, with its words."""
    return note.to_dict() | {"text": sentence(note)}


def headline(found: Inspection) -> str:
    """What a file is, in one sentence."""
    facts: dict[str, Any] = {"source": found.source, **found.facts}
    kind = found.kind
    if kind in ("log", "visits"):
        kind = kind if "coverage" in facts else f"bad {kind}"
    if kind == "log":
        facts |= facts["coverage"]
    if kind == "visits":
        low, high = facts["trajectories"]["span"]
        facts |= {"n_ids": facts["trajectories"]["n_ids"], "low": low, "high": high}
    if kind == "run":
        facts["status"] = facts["status"].replace("_", " ")
    if kind == "continuous log":
        facts["names"] = ", ".join(facts["variables"])
    return phrase(f"headlines.{kind}", **facts)


def at_stake(found: Inspection) -> list[Note]:
    """What concerns many rows, most of them first: it decides what the rest is about."""
    notes = [*found.facts.get("guesses", ()), *found.findings]
    shares = [(_share(note, found.facts), note) for note in notes]
    return [note for share, note in sorted(shares, key=lambda x: -x[0]) if share >= AT_STAKE]


def _share(note: Note, facts: Mapping[str, Any]) -> float:
    """The share of the rows that a note is about."""
    if note.code == "split_id":
        return float(note["share"])
    n = note.facts.get("n_rows")
    total = facts.get("rows") or facts.get("coverage", {}).get("rows")
    return 0.0 if n is None or not total else n / total


def sections(found: Inspection) -> Iterator[Section]:
    """What is in the file, to read; first what is at stake."""
    facts = found.facts
    stake = [f"{percent(_share(note, facts))}: {sentence(note)}" for note in at_stake(found)]
    lost = facts.get("trajectories", {}).get("lost", {})
    if lost:
        made, n = facts["trajectories"]["n_transitions"], sum(lost.values())
        stake.append(phrase("inspected.lost", share=percent(n / (made + n)), n=n))
    if stake:
        yield _section("stake", stake)
    if found.kind == "visits":
        yield _columns(facts)
        if "trajectories" in facts:
            yield from _gaps(facts["trajectories"])
            yield _section("made", _transitions(facts))
    elif found.kind == "log" and "coverage" in facts:
        yield _section("log", _log_words(facts))
    if "coverage" in facts:
        yield _coverage(facts["coverage"])
        yield _behaviour(facts["behaviour"], facts["coverage"]["rows"])
        if facts.get("markov"):
            yield _section("markov", markov_words(facts["markov"]))
    if found.kind in ("models", "problem"):
        yield _section(found.kind, _model_words(facts))
    elif found.kind == "run":
        size = "states" if "states" in facts else "variables"
        files = f"Files: {', '.join(facts['files'])}."
        yield _section("run", (files, f"{facts[size]} {size}."))
    elif found.kind == "bins":
        made = phrase("inspected.bins_made", **facts, of=", ".join(facts["variables"]))
        yield _section("bins", (made, *facts["names"]))


def _section(key: str, sentences: Iterable[str], **more: Any) -> Section:
    return Section(phrase(f"inspected.{key}"), tuple(sentences), **more)


def _log_words(facts: Mapping[str, Any]) -> Iterator[str]:
    for key in ("episodes", "ends", "rewards"):
        if facts[key] is not None:
            yield phrase(f"inspected.{key}", **facts)
    # The pairs never seen have a section of their own.
    yield from (sentence(note) for note in facts["notes"] if note.code != "pairs_never_seen")


def _coverage(facts: Mapping[str, Any]) -> Section:
    """How well the pairs are covered, with the counts themselves where they fit."""
    seen, never, few = (facts[f"pairs_{name}"] for name in ("seen", "never_seen", "seen_few"))
    shares = {"never": never / max(seen + never, 1), "few_share": few / max(seen, 1)}
    told = {name: percent(share) for name, share in shares.items()}
    grid = None
    if facts["counts"] is not None:
        counts = facts["counts"].items()
        rows = ((state, *(str(n) if n else "·" for n in row)) for state, row in counts)
        grid = Grid(("times seen", *facts["action_names"]), tuple(rows), counts=True)
    words = phrase("inspected.covered", **facts, **told, total=seen + never)
    return _section("coverage", [words], grid=grid)


def _behaviour(facts: Mapping[str, Any], n_rows: int) -> Section:
    """What was usually done."""
    alone = facts["states_with_one_action"]
    words = [
        phrase("inspected.usual", share=percent(facts["rows_with_usual_action"] / n_rows)),
        phrase("inspected.alone", alone=alone, states=facts["states"]),
    ]
    shares = list(facts["actions"].items())
    if len(shares) > 12:
        shares = [*shares[:11], (f"{len(shares) - 11} more", sum(n for _, n in shares[11:]))]
    return _section("behaviour", words, bars=tuple(shares))


TAKEN = {None: "not used", "terminal": "marks ends", "end_time": "when it ended"}


def _columns(facts: Mapping[str, Any]) -> Section:
    rows = []
    for name, c in facts["columns"].items():
        taken = TAKEN.get(c["taken_as"], c["taken_as"])
        rows.append((name, column_words(c), str(c["missing"] or ""), taken))
    grid = Grid(("column", "holds", "missing", "taken as"), tuple(rows))
    guesses = [note for note in facts["guesses"] if note.code != "split_id"]
    return _section("columns", map(sentence, guesses), grid=grid)


def column_words(facts: Mapping[str, Any]) -> str:
    """What a column holds, with its range or examples."""
    texts = [text if len(text) <= 24 else f"{text[:23]}…" for text in facts["examples"]]
    shown = ", ".join(texts) + (" …" if facts["distinct"] > len(texts) else "")
    return told(TEXTS["holds"][facts["holds"]], {**facts, "shown": shown})


def _gaps(facts: Mapping[str, Any]) -> Iterator[Section]:
    gaps, dates = facts["gaps"], facts["clock"] == "dates"
    if gaps is None:
        return

    def text(gap: float) -> str:
        return phrase("inspected.gap_days", gap=gap) if dates else f"{gap:.4g}"

    if gaps["min"] == gaps["max"]:
        always = phrase("inspected.always", gap=text(gaps["median"]))
        yield Section(phrase("inspected.gaps"), (always,))
        return
    ends = {"low": text(gaps["min"]), "high": text(gaps["max"]), "median": text(gaps["median"])}
    bars = (
        (f"{b['from']:g} and more" if b["to"] is None else f"{b['from']:g} to {b['to']:g}", b["n"])
        for b in gaps["histogram"]
    )
    words = (phrase("inspected.gap_range", **ends),)
    yield Section(phrase("inspected.gaps", dates=dates), words, bars=tuple(bars))


def _transitions(facts: Mapping[str, Any]) -> Iterator[str]:
    report = facts["trajectories"]
    made, lost = report["n_transitions"], sum(report["lost"].values())
    yield phrase("inspected.steps", **report, chains=facts["chains"])
    if lost:
        yield phrase("inspected.unused", lost=lost, share=percent(lost / (made + lost)))
        yield from (f"  {n} because {LOST[reason]}" for reason, n in report["lost"].items())
    ends = {name: report[name] for name in ("n_ended", "n_censored")}
    yield sentence(Note("ends", facts=ends))
    rewards = dict(report["rewards"])
    if (used := rewards.pop("used", None)) is not None:
        yield phrase(f"inspected.{'some' if rewards else 'all'}_rewards", n=used["n"])
        for reason, tally in rewards.items():
            yield f"  {tally['n']} (sum {tally['total']:.6g}) {UNUSED[reason]}"


def _model_words(facts: Mapping[str, Any]) -> Iterator[str]:
    yield phrase("inspected.available", **facts)
    if facts["never_left"]:
        yield phrase("inspected.never_left", **facts)
    if facts["distance"] is not None:
        yield phrase("inspected.distance", **facts)
        low, high = facts["weights"]
        if high > low:
            yield phrase("inspected.weights", **facts)
    yield from (sentence(note) for note in facts.get("notes", ()))
    if "lam" in facts:
        yield phrase("inspected.goal", **facts)
    elif facts["gamma"] is None:
        yield phrase("inspected.no_gamma")


def markov_words(facts: Mapping[str, Any]) -> Iterator[str]:
    """Whether the state is enough, from `MarkovCheck.to_dict()`."""
    gains, verdict = facts["gains"], facts["verdict"]
    if verdict == "cannot tell":
        needed = {"rows": FEWEST_ROWS, "groups": FEWEST_GROUPS}
        yield told(TEXTS["markov"][facts["reason"]], {**facts, **needed})
        return
    yield told(TEXTS["markov"][verdict], {**facts, "gain": gains[0]})
    if verdict == "helps":
        parts = [gain for gain in gains[1:] if gain["helps"]]
        best = max(parts, key=lambda gain: float(gain["gain"]), default=None)
        share = 0.0 if best is None else min(best["gain"] / gains[0]["gain"], 1)
        yield phrase("markov.column" if parts else "markov.no_column", best=best, share=share)
