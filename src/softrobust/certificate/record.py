"""`solution.json`: a solution with its certificate, readable without log, models or this package.

The JSON Schema is `softrobust/schemas/solution.schema.json`. Version 3 is one format for tables and
for continuous states, whose policy lies beside it in `policy.npz`; versions 1 and 2, and version 1
of runs with continuous states, are read too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from softrobust._core.files import atomic_write, naming, rebuilding
from softrobust._core.notes import RECORDED, Level, Note, read_notes
from softrobust._core.schema import check, published, read_json
from softrobust.bounds import Bound, Covers, PaperErrors
from softrobust.certificate.certify import ROUNDING, Certificate
from softrobust.certificate.comparison import Comparison
from softrobust.certificate.intervals import FIGURES, Estimate, Quality, Sample
from softrobust.certificate.posterior import PosteriorCertificate
from softrobust.data.labels import Labels
from softrobust.errors import InputError
from softrobust.models.lookahead import load_continuous_policy
from softrobust.models.policy import Policy, TimedPolicy, policy_of
from softrobust.objective import Objective, Reference, make_objective
from softrobust.solvers.base import Solution, Status
from softrobust.solvers.promise import Gain, Promise, Verdict

FORMAT_VERSION = 3  # 3: one format for tables and vectors; notes, nominal, how it was made
FILE, POLICY_FILE = "solution.json", "policy.npz"
TABULAR, CONTINUOUS = "tabular", "continuous"
T = TypeVar("T")
# Files that nobody edits: solution.json keeps their digests
SEALED = (".npz", ".parquet", "posterior.json", "visits.json")
AGAIN = "To make the run again"


def solution_record(
    solution: Solution[Any], certificate: Certificate, more: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """What `solution.json` holds; bound and gaps are the certificate's.

    `more` is what a run adds: where it came from, and what is known of its problem.
    """
    policy, objective = solution.policy, solution.objective
    if isinstance(policy, Policy | TimedPolicy):
        kind, own = TABULAR, {
            "n_states": len(policy.states),
            "states": list(policy.states),
            "policy": policy.probs.tolist(),
            "decided": np.asarray(policy.decided).tolist(),
            "v": None if solution.v is None else solution.v.tolist(),
        }  # fmt: skip
    else:
        kind, own = CONTINUOUS, {
            "variables": list(policy.variables),
            "policy_file": POLICY_FILE,
            "policy_kind": policy.kind,
        }  # fmt: skip
    if solution.horizon is not None:
        own["horizon"] = solution.horizon
    return {
        "format_version": FORMAT_VERSION,
        "kind": kind,
        "solver": solution.solver,
        "status": str(solution.status),
        "gamma": solution.gamma,
        **{name: getattr(objective, name) for name in ("criterion", "alpha", "tail", "lam")},
        "reference": objective.against,
        "n_models": certificate.n_models,
        "n_actions": len(policy.actions),
        "actions": list(policy.actions),
        "integer_actions": policy.actions.integers,
        "model_value": solution.model_value,
        **certificate.to_dict(),
        **own,
        "stats": dict(solution.stats),
        "notes": [note.to_dict() for note in certificate.notes],
        **(more or {}),
    }


def write_json(path: Path, record: Any) -> None:
    """Write a file of JSON, atomically."""
    with atomic_write(path) as file:
        file.write(json.dumps(record, indent=1, allow_nan=False) + "\n")


def save_solution(path: str | Path, solution: Solution[Any], certificate: Certificate) -> None:
    """Write `solution.json`, atomically."""
    write_json(Path(path), solution_record(solution, certificate))


def load_solution(path: str | Path) -> Solution[Any]:
    """Read a solution back from `solution.json`, or from the run folder that holds it."""
    folder = Path(path) if Path(path).is_dir() else Path(path).parent
    with run_folder(folder):
        return solution_of(*read_record(path))


def read_record(path: str | Path) -> tuple[dict[str, Any], Path]:
    """What a `solution.json` of this or an earlier version holds, and the file itself."""
    file = Path(path)
    file = file / FILE if file.is_dir() else file
    if not file.is_file():
        raise InputError(f"There is no solution at {file}. Is it the folder of a run?")
    record = read_json(file)
    if not isinstance(record, dict) or "format_version" not in record:
        raise InputError(f"{file} is not a {FILE}: it has no format_version.")
    version = record["format_version"]
    if not isinstance(version, int) or isinstance(version, bool):
        raise InputError(f"{file}: format_version must be a whole number.")
    if version > FORMAT_VERSION:
        raise InputError(
            f"{file} was written by a newer softrobust (format {version}). Upgrade: pip install -U "
            "softrobust"
        )
    record = {"kind": TABULAR} | record
    if version == FORMAT_VERSION:
        check(record, published("solution"), file)
        kept: Any = record.get("files", {})
        own = decision_digest(record)
        if kept.get(FILE, own) != own:
            raise InputError(
                f"{file}: states, actions or policy are not those that it was written with."
            )
    return record, file


def decision_digest(record: Mapping[str, Any]) -> str:
    """SHA-256 of what a user acts on: states, actions and the policy."""
    parts = [record.get(name) for name in ("states", "actions", "policy", "decided")]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def understood(make: Callable[[], T], file: Path) -> T:
    """What `make` makes of a record; what it lacks or garbles is an error that names the file."""
    with rebuilding("solution", file):
        return make()


@contextmanager
def run_folder(folder: Path) -> Iterator[None]:
    """Read files of a run: an error also says which command makes the run again."""
    try:
        yield
    except InputError as error:
        if AGAIN in str(error):
            raise
        odd, words, command = changed(folder), str(error), "solve"
        if odd and not any(name in words for name in odd):
            words = f"{odd[0]}: {words}"
        for name in (FILE, "posterior.json"):  # either may be the damaged one
            with suppress(InputError, TypeError, KeyError):
                found = str(read_json(folder / name)["command"])
                if found.startswith("softrobust ") and found.isprintable() and len(found) < 1000:
                    command = f"{found} --out {folder} --force"
                    break
        raise InputError(f"{words} {AGAIN}: `{command}`.", arguments=error.arguments) from None


def digests(folder: Path, of: Mapping[str, Any] | None = None) -> dict[str, str]:
    """SHA-256 of the sealed files in a folder, or of those named in `of`."""
    found = {}
    for file in sorted(folder.iterdir()):
        if file.name.endswith(SEALED) and file.is_file() and (of is None or file.name in of):
            with naming(file), file.open("rb") as raw:
                found[file.name] = hashlib.file_digest(raw, "sha256").hexdigest()
    return found


def changed(folder: Path) -> list[str]:
    """Sealed files of a run that are not as they were written; none where nothing is known."""
    kept: Any = None
    with suppress(InputError, TypeError, KeyError):
        kept = read_json(folder / FILE)["files"]
    if not isinstance(kept, dict):
        return []
    now = digests(folder, kept)
    return [name for name, digest in kept.items() if name != FILE and now.get(name) != digest]


def solution_of(record: Mapping[str, Any], file: Path) -> Solution[Any]:
    """The solution in a record; where states are vectors, its policy lies beside the file."""
    vectors = record["kind"] == CONTINUOUS
    found = load_continuous_policy(file.parent / POLICY_FILE) if vectors else None
    return understood(lambda: _solution(record, found), file)


def _solution(record: Mapping[str, Any], policy: Any) -> Solution[Any]:
    plain = ("solver", "gamma", "n_models", "model_value", "stats")
    common: dict[str, Any] = {name: record[name] for name in plain}
    common |= {"status": Status(record["status"]), "objective": objective_of(record)}
    common["horizon"] = record.get("horizon")
    if policy is not None:
        return Solution(policy=policy, **common)
    value, bound, least = record["static"]["objective"], record["bound"], record.get("rounding", 0)
    if value - bound > max(least, ROUNDING * max(abs(value), abs(bound))):
        raise InputError(f"the bound {bound:.6g} is below the value {value:.6g} that it bounds.")
    probs = np.array(record["policy"], dtype=np.float64)
    policy = policy_of(
        probs,
        Labels(tuple(record["states"]), noun="state"),
        Labels(tuple(record["actions"]), "action", record.get("integer_actions", False)),
        np.array(record["decided"], dtype=bool),
    )
    return Solution(
        policy=policy,
        value=value,
        uniform_value=record["uniform_value"],
        v=None if record["v"] is None else np.array(record["v"], dtype=np.float64),
        bound=Bound(bound, Covers(record["bound_covers"]), record["bound_method"]),
        rounding=least,
        **common,
    )


def objective_of(record: Mapping[str, Any], policy: Any = None) -> Objective:
    """The objective in a record, which names the reference; its `policy` lies elsewhere."""
    name = record.get("reference")
    against = None if name is None else Reference(name, policy)
    return make_objective(record["criterion"], record["lam"], record["alpha"], against)


def certificate_of(record: Mapping[str, Any]) -> Certificate:
    """The certificate in a record."""
    goal = objective_of(record)

    def part(name: str, read: Callable[[Any], T]) -> T | None:
        return None if record.get(name) is None else read(record[name])

    def versus(found: Mapping[str, Any]) -> Comparison:
        return Comparison.from_dict(found, goal)

    if record["kind"] == CONTINUOUS:
        low = part("lower_bound", lambda found: Estimate(found["value"], found["low"]))
        outer = {"optimism": record["optimism"], "lower_bound": low}
        constant = record["against_constant"]
        return Certificate(
            sample=_sample(record["train"]),
            objective=goal,
            heldout=part("heldout", lambda found: _sample(found, **outer)),
            practice=part("practice", versus),
            constant={name: Estimate(**found) for name, found in constant.items()},
        )
    return Certificate(
        sample=Sample.exact(record["n_models"], record["static"]),
        objective=goal,
        bound=Bound(record["bound"], Covers(record["bound_covers"]), record["bound_method"]),
        uniform_value=record["uniform_value"],
        rounding=record.get("rounding", 0.0),
        heldout=part("heldout", _heldout),
        practice=part("practice", versus),
        nominal=part("nominal", versus),
        posterior=part("posterior", PosteriorCertificate.from_dict),
        promise=part("promise", _promise),
        indicative=part("indicative", _errors),
    )


def _promise(found: Mapping[str, Any]) -> Promise:
    gain, same = found["gain"], ("level", "return_low", "chance", "optimism", "shuffled", "unit")
    return Promise(
        Verdict(found["verdict"]),
        return_value=found["return"],
        gain=Gain(gain["value"], gain["low"]),
        bad_gain=gain["bad"],
        n_splits=found["splits"],
        hidden=found.get("hidden", 0.0),
        **{name: found[name] for name in same},
    )


def _heldout(found: Mapping[str, Any]) -> Sample:
    low = found["lower_bound"]
    return _sample(found, optimism=found["optimism"], lower_bound=low and Estimate(**low))


def _sample(found: Mapping[str, Any], **more: Any) -> Sample:
    figures = (Estimate(**found[name]) if name in found else None for name in FIGURES)
    if "episodes" in found:
        more["simulation"] = Quality(**{f.name: found[f.name] for f in fields(Quality)})
    made: Any = dict(zip(FIGURES, figures, strict=True))
    return Sample(found["n_models"], **made, **more)


def _errors(found: Mapping[str, Any]) -> PaperErrors:
    eps1, eps2, r_max = (found[name] for name in ("eps1", "eps2", "r_max"))
    return PaperErrors(eps1, eps2, r_max, found["corollary"], tuple(found["policies"]))


def notes_of(record: Mapping[str, Any]) -> tuple[Note, ...] | None:
    """The notes on record; None where an earlier version kept none."""
    if "notes" not in record:
        return None
    cautions = record.get("cautions", ())
    old = tuple(Note(RECORDED, Level.CAUTION, {"text": text}) for text in cautions)
    return (*read_notes(record["notes"]), *old)
