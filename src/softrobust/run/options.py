"""What a user can say about a run, and the command that says it again."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, final

import numpy as np

from softrobust._core.limits import time_bound
from softrobust._core.notes import Note
from softrobust.data import Trajectories
from softrobust.data.table import is_minari
from softrobust.errors import InputError
from softrobust.models.features import PolynomialFeatures
from softrobust.objective import REFERENCES, Objective, Percentile, Reference, make_objective
from softrobust.posterior import Draws, Posterior
from softrobust.report.commands import command_line, flags
from softrobust.solvers.base import Solver
from softrobust.solvers.practice_class import PracticeClass
from softrobust.solvers.registry import CONTINUOUS_SOLVERS, DEFAULT_SECONDS, SOLVERS

TABLES_ONLY = ("states", "initial", "allowed", "reward_table", "reward_default", "weights",
               "normalise", "strength", "per_cell", "support")  # fmt: skip
VECTORS_ONLY = ("actions", "start", "reward_now", "reward_next", "clip")
LOG_ONLY = ("columns", "states", "reward_table", "reward_default", "n_models", "n_test", "strength",
            "per_cell", "support", "min_count", "actions", "posterior", "settings",
            "visits")  # fmt: skip
READING = ("columns", "states", "initial", "reward_table", "reward_default", "actions", "visits",
           "reading", "anyway")  # fmt: skip


@final
@dataclass(frozen=True, slots=True)
class Options:
    """What a user can say about the input; None means "take it from the files, or the default"."""

    gamma: float | None = None
    criterion: str | None = None
    lam: float | None = None
    alpha: float | None = None
    # what returns are measured against: none (default), practice, optimum, or the file of a policy
    reference: str | Path | None = None
    columns: Mapping[str, str] | None = None  # role → column
    # of a table of visits: settings of `TrajectoryRules`. Of a log of transitions: the `reward` as
    # a mapping or formula of its columns, and the `cost` of actions.
    visits: Mapping[str, Any] | None = None
    # sheet, header_row and encoding of the file, see `TableFile`
    reading: Mapping[str, Any] | None = None
    anyway: bool = False  # solve a file in spite of what would make the answer another one
    states: Path | None = None
    initial: Path | None = None
    weights: Path | None = None
    heldout: Path | None = None
    reward_table: Path | None = None
    reward_default: float | None = None
    allowed: Path | None = None
    normalise: bool = False
    # n_models, n_test: models drawn from the posterior of a log, to choose on and to check on
    n_models: int | None = None
    n_test: int | None = None
    seed: int = 0
    time_limit: float | None = None
    # by its name (`posterior.registry`), learned by default (regression for vectors), or one with
    # its settings
    posterior: str | Posterior | None = None
    # of the posterior that was named; strength, per_cell and support are given by themselves, and
    # make the posterior dirichlet where none is named
    settings: Mapping[str, Any] | None = None
    strength: float | None = None
    per_cell: float | None = None
    support: str | None = None
    # pairs seen fewer times get no more probability than practice gives them; 0 has models of pairs
    # never seen, too. Under dirichlet, and for actions of vectors: such are not considered.
    min_count: int | None = None
    continuous: bool = False  # states are vectors: columns x, next_x for every variable
    # steps of an episode: of vectors the longest of the log by default, of tables no end
    horizon: int | None = None
    # vectors: the actions there are; any other in the log is an error
    actions: Sequence[str] | None = None
    # variable → value: vectors: the one state in which episodes start
    start: Mapping[str, float] | None = None
    # reward_now, reward_next: variable → coefficient: vectors: the reward, where it is not to be
    # fitted
    reward_now: Mapping[str, float] | None = None
    reward_next: Mapping[str, float] | None = None
    # variable → (low, high), or a number: vectors: a number is the share by which the range of the
    # data is widened; infinity is no box
    clip: Mapping[str, tuple[float, float]] | float | None = None

    @property
    def reference_file(self) -> Path | None:
        """The file of a policy that is the reference, if one was named."""
        given = self.reference
        return None if given is None or str(given) in REFERENCES else Path(given)

    def objective(self, default: Objective, reference: Reference | None = None) -> Objective:
        """Criterion, λ and α as given, else those of `default`; so the reference.

        `reference` is what was found in the file of one.
        """
        asked: Any = reference
        if reference is None:
            asked = default.reference if self.reference is None else str(self.reference)
        criterion = default.criterion if self.criterion is None else self.criterion
        if criterion == Percentile.criterion and self.lam is not None:
            raise InputError("The percentile criterion has no lambda. Leave it out.")
        lam = default.lam if self.lam is None else self.lam
        alpha = default.alpha if self.alpha is None else self.alpha
        return make_objective(criterion, lam, alpha, asked)

    def given(self, *names: str) -> list[str]:
        """Those of the named options that were given."""
        found = {name: getattr(self, name) for name in names}
        return [name for name, value in found.items() if value is not None and value is not False]

    def refuse(self, names: Sequence[str], meant: str, found: str = "") -> None:
        """An option that is of no use here is an error, not ignored."""
        if given := self.given(*names):
            there = f"; the input holds {found}" if found else ""
            text = f"{', '.join(given)} is for {meant}{there}. Leave it out."
            raise InputError(text, arguments=given)

    def need_gamma(self) -> float:
        """The discount, which a log does not know."""
        if self.gamma is None:
            raise InputError(
                "The discount is not known: a log does not say how much later rewards count. "
                "Give gamma, for example 0.95.",
                arguments=("gamma",),
            )
        return self.gamma


@final
@dataclass(frozen=True, slots=True)
class Setup:
    """A problem and where it came from: a table of states, or vectors.

    `heldout_drawn` says whether held-out models are, or will be, draws of the posterior; `r2` is
    that of a fitted reward; `policies` is the class to choose from, where not all are considered;
    `visits` is how a table of visits became the log; `more_models` says that nobody gave their
    number, so that more may be drawn; `stream` is all the models that were asked for, where the
    problem has only those of them that fit into memory.
    """

    problem: Any
    log: Any = None
    posterior: Any = None
    heldout: Any = None
    notes: tuple[Note, ...] = ()
    test_seed: np.random.SeedSequence | None = None
    source: str = ""
    options: Options | None = None
    heldout_drawn: bool = True
    r2: float | None = None
    policies: PracticeClass | None = None
    visits: Trajectories | None = None
    more_models: bool = False
    stream: Draws | None = None


# --------------------------------------------------------------------------------------------------
# The command line that makes a run again, as far as the run knows it.
#
# Files are named without their folders: where they lie says more of a machine than of the run.

SPELLED = ("gamma", "criterion", "lam", "alpha", "n_models", "seed")  # said in any case


def repeat_command(
    setup: Setup, solver: Solver, named: bool = True, **more: int | str | None
) -> str:
    """`softrobust solve FILE …` with the question spelled out, and every option that was given.

    `more` are options of the line beyond the input's. A number of models that was found without a
    clock is left out: growing up to it belongs to the run. Empty where no command makes it again.
    """
    limited = setup.options is not None and setup.options.time_limit is not None
    said = _solver_words(solver, limited, named)
    if setup.options is None or said is None:
        return ""
    options, problem = setup.options, setup.problem
    goal = {"lam": problem.objective.lam}
    if isinstance(problem.objective, Percentile):
        goal = {"criterion": problem.objective.criterion}
    question = {"gamma": problem.gamma, **goal, "alpha": problem.objective.alpha}
    timed = limited or "--time-limit" in said or time_bound().limit is not None
    if setup.log is not None and (timed or not setup.more_models):  # else the number is found again
        question["n_models"] = (setup.stream or problem).n_models
    if isinstance(options.posterior, Posterior):
        return ""
    given = [f.name for f in fields(options) if f.name not in (*SPELLED, "settings")]
    asked = question | {name: getattr(options, name) for name in options.given(*given)}
    asked |= {"seed": options.seed} | dict(asked.pop("reading", {})) | dict(asked.pop("visits", {}))
    extra = flags({k: v for k, v in more.items() if v is not None})
    head = "posterior." if setup.options.continuous else ""
    for name, value in (options.settings or {}).items():
        said += ["--set", f"{head}{name}={value if isinstance(value, str) else json.dumps(value)}"]
    return command_line("solve", setup.source, {}, *flags(asked, short=True), *said, *extra)


def update_command(run: Path | None, file: Path, solver: Solver, asked: Mapping[str, Any]) -> str:
    """`softrobust update RUN FILE …`; empty where no command makes the run again."""
    given = {name: value for name, value in asked.items() if value is not None}
    said = _solver_words(solver, "time_limit" in given, True)
    if run is None or said is None:
        return ""
    said = [word for word in said if word != "--stationary"]  # the old policy says that
    new = str(file) if is_minari(file) else file.name
    return command_line("update", run.resolve().name, {}, new, *flags(given), *said)


def folder_command(run: str, solver: str, seed: int) -> str:
    """The same for an old run from models, which has the problem itself in its folder."""
    known = {"seed": seed, "solver": solver}
    return command_line("solve", f"{run}/problem.npz", known) if solver in SOLVERS else ""


def _solver_words(solver: Solver, limited: bool, named: bool) -> list[str] | None:
    """The solver's part; None for a solver that the command line does not know."""
    words = ["--solver", solver.name] if named else []
    limit = None if limited else getattr(solver, "time_limit", None)
    words += ["--stationary"] if getattr(solver, "stationary", False) else []
    if limit is not None and (solver.continuous or limit != DEFAULT_SECONDS):
        words += ["--time-limit", f"{limit:g}"]
    if solver.name not in (CONTINUOUS_SOLVERS if solver.continuous else SOLVERS):
        return None
    for f in fields(solver) if solver.continuous else ():  # type: ignore[arg-type]
        name, value, default = f.name, getattr(solver, f.name), f.default
        if isinstance(value, PolynomialFeatures):
            name, value, default = "degree", value.degree, PolynomialFeatures().degree
        if not isinstance(value, (bool, int, float, str, tuple, type(None))):
            return None  # features or states of the user's own
        if name not in ("seed", "time_limit") and value != default:
            words += ["--set", f"{name}={json.dumps(value)}"]
    return words
