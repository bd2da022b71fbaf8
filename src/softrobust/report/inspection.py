"""An inspection in words: a headline, sections to read, commands to run next, all of it as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import expm1
from typing import TYPE_CHECKING, Any, NamedTuple, final

from softrobust._core.notes import Note
from softrobust.data.markov import FEWEST_GROUPS, FEWEST_ROWS
from softrobust.report.commands import command_line, flags
from softrobust.report.data_words import LOST, TEXTS, UNUSED, filled
from softrobust.report.sentences import sentence
from softrobust.report.words import count, percent

if TYPE_CHECKING:
    from softrobust.data.inspection import Inspection


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


_OF = "{states:state|states} and {actions:action|actions}"
HEADLINES = {
    "log": "{source} is a log of {rows:transition|transitions} between {visited:state|states}, "
    "with {actions:action|actions}.",
    "bad log": "{source} is a log of transitions with cells that cannot be used.",
    "visits": "{source} is a table of visits: {rows:row|rows}, {n_ids:id|ids}, {low} to {high}.",
    "bad visits": "{source} is a table of visits: {rows:row|rows}.",
    "run": "{path} is the folder of a run: a policy by {solver} ({status}).",
    "bins": "{source} says how numbers become states; give it to inspect with --bins.",
    "continuous log": "{source} is a log of {transitions} transitions between vectors "
    "({variables}), with {actions} actions.",
    "policy": "{source} is a policy: what to do in {states:state|states}, among "
    "{actions:action|actions}.",
    "models": "{source} holds {models:model|models} of " + _OF + ".",
    "problem": "{source} is a whole problem: {models:model|models} of " + _OF + ", with rewards, "
    "start, discount and objective.",
}


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
        facts["variables"] = ", ".join(facts["variables"])
    return filled(HEADLINES[kind], facts)


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
        made = facts["trajectories"]["n_transitions"]
        all_lost = sum(lost.values())
        share = percent(all_lost / (made + all_lost))
        stake.append(f"{share}: {count(all_lost, 'step')} could not be used (reasons below).")
    if stake:
        yield Section("Rows at stake", tuple(stake))
    if found.kind == "visits":
        yield _columns(facts)
        if "trajectories" in facts:
            yield from _gaps(facts["trajectories"])
            yield _transitions(facts)
    elif found.kind == "log" and "coverage" in facts:
        yield Section("The log", tuple(_log_words(facts)))
    if "coverage" in facts:
        yield _coverage(facts["coverage"])
        yield _behaviour(facts["behaviour"], facts["coverage"]["rows"])
        if facts.get("markov"):
            yield Section("Is the state enough?", tuple(markov_words(facts["markov"])))
    if found.kind in ("models", "problem"):
        yield Section(f"The {found.kind}", tuple(_model_words(facts)))
    elif found.kind == "run":
        size = "states" if "states" in facts else "variables"
        words = (f"Files: {', '.join(facts['files'])}.", f"{facts[size]} {size}.")
        yield Section("The run", words)
    elif found.kind == "bins":
        made = f"{facts['states']} states of {', '.join(facts['variables'])}"
        yield Section("The bins", (f"Bins({facts['method']}, {made}).", *facts["names"]))


def _log_words(facts: Mapping[str, Any]) -> Iterator[str]:
    if facts["episodes"] is not None:
        low, median, high = facts["lengths"]
        episodes = count(facts["episodes"], "episode")
        yield f"{episodes} of {low} to {high} transitions (median {median:g})."
    if facts["ends"] is not None:
        ends = count(facts["ends"], "transition")
        yield f"{ends} lead to the end of an episode, '(end)'."
    if facts["rewards"] is not None:
        low, mean, high = facts["rewards"]
        yield f"Rewards from {low:g} to {high:g}, mean {mean:.4g}."
    # The pairs never seen have a section of their own.
    yield from (sentence(note) for note in facts["notes"] if note.code != "pairs_never_seen")


def _coverage(facts: Mapping[str, Any]) -> Section:
    """How well the pairs are covered, with the counts themselves where they fit."""
    seen, never, few = facts["pairs_seen"], facts["pairs_never_seen"], facts["pairs_seen_few"]
    total = seen + never
    words = [
        f"{count(facts['states'], 'state')} with {count(facts['actions'], 'action')} make "
        f"{count(total, 'pair')}: {never} ({percent(never / max(total, 1))}) were never seen, and "
        f"of the {seen} that were, {few} ({percent(few / max(seen, 1))}) were seen fewer than "
        f"{facts['few']} times."
    ]
    grid = None
    if facts["counts"] is not None:
        counts = facts["counts"].items()
        rows = ((state, *(str(n) if n else "·" for n in row)) for state, row in counts)
        grid = Grid(("times seen", *facts["action_names"]), tuple(rows), counts=True)
    return Section("Coverage of states and actions", tuple(words), grid)


def _behaviour(facts: Mapping[str, Any], n_rows: int) -> Section:
    """What was usually done."""
    alone = facts["states_with_one_action"]
    words = [
        f"In {percent(facts['rows_with_usual_action'] / n_rows)} of the rows the action was the "
        "usual one of its state.",
        f"In {count(alone, 'state')} of {facts['states']} only one action was ever seen: there "
        "the log says nothing about doing otherwise."
        if alone
        else "In every state more than one action was seen.",
    ]
    shares = list(facts["actions"].items())
    if len(shares) > 12:
        shares = [*shares[:11], (f"{len(shares) - 11} more", sum(n for _, n in shares[11:]))]
    return Section("What was done", tuple(words), bars=tuple(shares))


def _columns(facts: Mapping[str, Any]) -> Section:
    rows = [
        (
            name,
            column_words(column),
            str(column["missing"] or ""),
            {None: "not used", "terminal": "marks ends", "end_time": "when it ended"}.get(
                column["taken_as"], column["taken_as"]
            ),
        )
        for name, column in facts["columns"].items()
    ]
    grid = Grid(("column", "holds", "missing", "taken as"), tuple(rows))
    guesses = [note for note in facts["guesses"] if note.code != "split_id"]
    return Section("Columns", tuple(sentence(note) for note in guesses), grid)


def column_words(facts: Mapping[str, Any]) -> str:
    """What a column holds, with its range or examples."""
    holds, n = facts["holds"], facts["distinct"]
    if holds == "nothing":
        return "nothing: every cell is empty"
    if holds == "dates":
        return f"dates {facts['low']} to {facts['high']}"
    if holds.startswith("numbers"):
        words = f"numbers {facts['low']:g} to {facts['high']:g}, {n} different"
        if n == 1:
            words = f"the number {facts['low']:g} throughout"
        return words if holds == "numbers" else f"{words}, and text"
    texts = [text if len(text) <= 24 else f"{text[:23]}…" for text in facts["examples"]]
    shown = ", ".join(texts) + (" …" if n > len(texts) else "")
    return f"{n} {'values' if holds == 'categories' else 'different texts'}: {shown}"


def _gaps(facts: Mapping[str, Any]) -> Iterator[Section]:
    gaps = facts["gaps"]
    if gaps is None:
        return
    dates = facts["clock"] == "dates"

    def text(gap: float) -> str:
        if not dates:
            return f"{gap:.4g}"
        return f"{gap:.3g} days" if gap != 1 else "1 day"

    if gaps["min"] == gaps["max"]:
        yield Section("Time between visits", (f"Always {text(gaps['median'])}.",))
        return
    words = f"From {text(gaps['min'])} to {text(gaps['max'])}, median {text(gaps['median'])}."
    bars = (
        (f"{b['from']:g} and more" if b["to"] is None else f"{b['from']:g} to {b['to']:g}", b["n"])
        for b in gaps["histogram"]
    )
    yield Section(f"Time between visits{' (days)' * dates}", (words,), bars=tuple(bars))


def _transitions(facts: Mapping[str, Any]) -> Section:
    report = facts["trajectories"]
    made, lost = report["n_transitions"], sum(report["lost"].values())
    words = [
        f"{count(report['n_steps'], 'step')} of {count(report['n_ids'], 'id')} gave "
        f"{count(made, 'transition')} in {count(facts['chains'], 'unbroken chain')}."
    ]
    if lost:
        words.append(f"{lost} ({percent(lost / (made + lost))}) could not be used:")
        words += [f"  {n} because {LOST[reason]}" for reason, n in report["lost"].items()]
    ends = {name: report[name] for name in ("n_ended", "n_censored")}
    words.append(sentence(Note("ends", facts=ends)))
    rewards = dict(report["rewards"])
    if (used := rewards.pop("used", None)) is not None:
        if rewards:
            words.append(f"{count(used['n'], 'reward')} fell into transitions; not used are:")
        else:
            words.append(f"All {used['n']} rewards fell into transitions.")
        for reason, tally in rewards.items():
            words.append(f"  {tally['n']} (sum {tally['total']:.6g}) {UNUSED[reason]}")
    return Section("From visits to transitions", tuple(words))


def _model_words(facts: Mapping[str, Any]) -> Iterator[str]:
    yield (
        f"{facts['pairs_available']} of {facts['pairs']} pairs of state and action are available, "
        f"with {facts['next_states']:.3g} possible next states each on average."
    )
    if facts["never_left"]:
        yield f"Never left in the data they came from: {count(facts['never_left'], 'state')}."
    if facts["distance"] is not None:
        yield (
            f"Two models differ by {facts['distance']:.3g} per pair on average (L1 distance; 2 is "
            "the most)."
        )
        low, high = facts["weights"]
        if high > low:
            yield f"Weights from {low:.3g} to {high:.3g}."
    yield from (sentence(note) for note in facts.get("notes", ()))
    if "lam" in facts:
        yield (
            f"Discount γ = {facts['gamma']:g}; λ = {facts['lam']:g}, α = {facts['alpha']:g} "
            f"({facts['criterion']})."
        )
    elif facts["gamma"] is None:
        yield "The discount is not in the file: --gamma is yours to choose."


def markov_words(facts: Mapping[str, Any]) -> Iterator[str]:
    """Whether the state is enough, from `MarkovCheck.to_dict()`."""
    n, groups = facts["n_transitions"], facts["n_groups"]
    if facts["verdict"] == "cannot tell":
        reason = "the log has no episodes"
        if facts["reason"] == "too few":
            reason = (
                f"there are {n} transitions with a known predecessor, of {groups} ids or "
                f"episodes; {FEWEST_ROWS} of {FEWEST_GROUPS} are needed"
            )
        yield f"Whether the state is enough (Markov) cannot be told: {reason}."
        return
    top = facts["gains"][0]
    gain = f"{top['gain']:+.4f} ± {top['error']:.4f}"
    held = f"{n} held-out transitions of {groups} ids or episodes"
    if facts["verdict"] == "no sign":
        yield (
            "No sign that the previous state helps to predict the next one: it changes the "
            f"log-likelihood by {gain} per transition ({held})."
        )
    elif facts["verdict"] == "a trace":
        yield (
            "The previous state helps to predict the next one by a trace, "
            f"{100 * expm1(top['gain']):.2g} % in probability (log-likelihood {gain} per "
            f"transition; {held}): the state is Markov for all practical purposes."
        )
    else:
        yield (
            "The previous state helps to predict the next one: the state as defined is not Markov. "
            "It raises the probability of what happened next by "
            f"{100 * expm1(top['gain']):.1f} % (log-likelihood {gain} per transition; {held})."
        )
        yield _markov_advice(facts["gains"])


def _markov_advice(gains: list[dict[str, Any]]) -> str:
    parts = [gain for gain in gains[1:] if gain["helps"]]
    if not parts:
        return (
            "No single column explains it; ids may differ in something that is not measured. "
            "Consider adding the previous state, or what sets ids apart, to the measurements."
        )
    best = max(parts, key=lambda gain: float(gain["gain"]))
    what = "action" if best["before"] == "action" else f"value of '{best['column']}'"
    share = 100 * min(best["gain"] / gains[0]["gain"], 1)
    return (
        f"Consider adding the previous {what} to the measurements: alone it gives {share:.0f} % of "
        f"the gain ({best['gain']:+.4f} ± {best['error']:.4f})."
    )
