"""A run: a solved problem with its certificate and all it came from; its folder and its page.

    solution.json   policy, certificate, notes and how it was made (`schemas/solution.schema.json`)
    policy.csv      the policy of a table; policy.npz that of vectors
    problem.npz     the problem of a table; models.npz the models of vectors, reference.npz the
                    policy that they are measured against
    heldout.npz, log.parquet or log.csv, posterior.json: what it was checked on and drawn from
    posterior.npz   the fit, where settings and log alone do not make it again at once
    visits.json, bins.npz: how a table of visits became the log, so that new visits can, too
    report.html     the page; search.npz open nodes of `exact`; update.json what new rows changed

Models that a posterior of tables drew are kept as seeds (in problem.npz and posterior.json), and
drawn again where a command needs them; older folders hold the models themselves.

Later verbs add `checks.json`, `rehearsal/` and `report.pdf`. A folder that is written again loses
all of these that the new run does not have: nothing of another run survives in it. A folder that
holds files of these names which no run put there is refused.
"""

from __future__ import annotations

import glob
import os
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, final

import numpy as np

from softrobust._core.arguments import names_arguments
from softrobust._core.files import locked, rebuilding
from softrobust._core.limits import time_bound
from softrobust._core.notes import Level, Note, read_notes
from softrobust._core.schema import published, read_json
from softrobust._core.settings import instance
from softrobust._core.show import facts_text
from softrobust.bounds.reduction import rounding
from softrobust.certificate import Certificate
from softrobust.certificate import record as disk
from softrobust.certificate.record import FILE, understood
from softrobust.data import Bins, TransitionLog, read_continuous_log, read_log, save_log
from softrobust.data.log import reward_noise
from softrobust.errors import InputError
from softrobust.models import LinearReward, ModelSet, load_models, save_models
from softrobust.models.gaussian import GaussianModels, load_gaussian, save_gaussian
from softrobust.models.lookahead import load_continuous_policy
from softrobust.posterior import Diagnostics, DirichletPosterior, FittedDirichlet, LearnedPosterior
from softrobust.posterior.base import CHECKING, Posterior
from softrobust.posterior.diagnostics import FOLDS, foresight
from softrobust.posterior.learned import FittedLearned
from softrobust.posterior.registry import POSTERIORS, load_posterior
from softrobust.posterior.sampling import Draws, origin
from softrobust.problem import ContinuousProblem, Problem, load_problem, save_problem
from softrobust.report import Report, in_words, make_report
from softrobust.report.sections import check_lines, rehearsal_lines
from softrobust.report.words import rows_and_dates
from softrobust.run.jobs.store import check_folder
from softrobust.run.options import folder_command
from softrobust.run.setup import FLAGS, coverage_notes
from softrobust.solvers import Improve, Solution, Status
from softrobust.solvers.baselines.behaviour import RARE, rare_share
from softrobust.study import review as reviews
from softrobust.study.checks import load_checks
from softrobust.study.foreign import SUMMARY, load_rehearsal
from softrobust.study.validation import Validation

SEARCH, FIT, REFERENCE = "search.npz", "posterior.npz", "reference.npz"
FORGOTTEN = 3600.0  # seconds after which a folder that is being written is one of a killed writer
NEW, MOVING = ".new", ".moving"  # a whole new run on its way into a folder that exists
FILES = ("solution.json", "policy.csv", "policy.npz", "problem.npz", "models.npz", REFERENCE,
         "heldout.npz", "log.parquet", "log.csv", "posterior.json", FIT, "report.html", SEARCH,
         "update.json", "checks.json", "rehearsal", "report.pdf", "visits.json",
         "bins.npz")  # fmt: skip
REFITTED = (LearnedPosterior.name, DirichletPosterior.name)  # by `fitted_again`
GOAL = ("criterion", "lam", "alpha", "against")  # what objectives are told apart by
CUT = (Status.TIME_LIMIT, Status.NODE_LIMIT, Status.INTERRUPTED)
MOST_FORESEEN = 1000  # entries of the models up to which folds of the log are fitted for a page
WHY_SECONDS = 15.0  # for explanations and rules on a full page
SAME = 1e-6  # of a figure: what another machine's rounding may change
MUCH = 0.1  # share of decisions on rarely seen pairs that deserves a word of caution


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Run:
    """A solved problem with its certificate: all that a summary, a page or a folder needs.

    What depends on the kind of states (a table, or vectors) has no narrower type here.

    Attributes
    ----------
    source : str
        The file that was solved.
    log, posterior, heldout
        None where the run started from models, or no other models are known.
    notes : tuple of Note
        What was assumed, and what to be careful about.
    seed : int
        Of its draws, so that they can be made again.
    command : str
        What makes the same run again; empty where no command does.
    path : Path or None
        The folder that it was read from.
    r2 : float or None
        Of a reward that was fitted to a log of vectors.
    simulated : VectorReview or None
        Returns of vectors, while they are at hand.
    updates : tuple
        Records of the updates that led here.
    validation : Validation or None
        What held-out data say, where it was asked for.
    visits : mapping or None
        Of a table of visits: the `rules` by which it became the log (settings of `TrajectoryRules`,
        bins apart), how its file was `read`, and the `states`, column → values.
    bins : Bins or None
        How numbers of visits became parts of states.
    """

    problem: Any
    solution: Solution[Any]
    certificate: Certificate
    source: str = ""
    log: Any = None
    posterior: Any = None
    heldout: Any = None
    notes: tuple[Note, ...] = ()
    seed: int = 0
    command: str = ""
    path: Any = None
    r2: float | None = None
    simulated: reviews.VectorReview | None = None
    updates: tuple[Mapping[str, Any], ...] = ()
    validation: Validation | None = None
    visits: Mapping[str, Any] | None = None
    bins: Bins | None = None

    @property
    def continuous(self) -> bool:
        """Whether states are vectors."""
        return isinstance(self.problem, ContinuousProblem)

    @property
    def search_open(self) -> bool:
        """Whether there is a search to go on with."""
        return self.solution.status in CUT and bool(self.solution.stats.get("open_nodes"))

    def __str__(self) -> str:
        facts = {"source": self.source or None, "status": self.solution.status}
        return facts_text(f"Run by {self.solution.solver}", facts | self.certificate.to_dict())

    __repr__ = __str__

    def page(self) -> Report:
        """Its page, whose `pictures` can be shown or saved one by one."""
        return run_page(self, Path("report.html"))

    def _repr_html_(self) -> str:
        return self.page()._repr_html_()

    def record(self) -> dict[str, Any]:
        """What `solution.json` holds."""
        certificate = replace(self.certificate, notes=self.notes)
        more: dict[str, Any] = {"seed": self.seed, "source": self.source, "command": self.command}
        if self.continuous:
            more |= _vectors_record(self.problem, self.r2)
        if self.validation is not None:
            more["validation"] = self.validation.to_dict()
        return disk.solution_record(self.solution, certificate, more)

    def save(self, folder: str | Path, *, force: bool = False, search: Path | None = None) -> None:
        """Write the run folder.

        Everything is written beside its place first: a new folder appears complete or not at all,
        and into a folder that exists (`force`) each file is moved whole, once all are there.

        Parameters
        ----------
        search : Path, optional
            The open nodes of `exact`; kept where there is something to go on with.
        """
        out = Path(folder)
        check_out(out, force)
        target = out.resolve()
        inside = target.exists()  # a folder of its own may be on another disk
        place = target if inside else target.parent
        for left in place.glob(f".{glob.escape(target.name)}.????????"):
            with suppress(FileNotFoundError):  # another one was quicker
                if left.is_dir() and time.time() - left.stat().st_mtime > FORGOTTEN:
                    shutil.rmtree(left, ignore_errors=True)
        work = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=place))
        try:
            _write(self, work, target.name)
            if search is not None and self.search_open:
                shutil.copy2(search, work / SEARCH)
            os.chmod(work, 0o755)  # mkdtemp makes private folders
            if inside or not _renamed(work, target):
                with locked(target):
                    finish(target)  # what a killed one left
                    os.rename(work, target / NEW)  # from here on the new run counts
                    finish(target)
        finally:
            shutil.rmtree(work, ignore_errors=True)

    @classmethod
    def load(cls, folder: str | Path) -> Run:
        """Read a run folder."""
        return load_run(folder)


def check_out(out: Path, force: bool, names: Sequence[str] = FILES) -> None:
    """Refuse before any work is done what could not be written afterwards.

    So are folders that hold files with `names` of a run, but not of the run there: a new one would
    replace or remove them, or be read together with them.
    """
    check_folder(out, force, "force")
    if not out.is_dir():
        return
    with locked(out, shared=True):  # not while another process moves its run there
        places = (out, out / NEW, out / MOVING)  # a killed move is gone on with
        own = {name for place in places for name in _own_files(place)}
        strange = [name for name in names if name not in own and os.path.lexists(out / name)]
    if strange:
        raise InputError(
            f"'{out / strange[0]}' is no file of a run that '{FILE}' there records, and a new run "
            "would replace or remove it. Choose another folder, or move it away and try again.",
            arguments={"out": "FOLDER"},
        )


def _own_files(folder: Path) -> list[str]:
    """Names of files that belong to the run in a folder; none where there is no run."""
    try:
        record: Any = read_json(folder / FILE) if (folder / FILE).is_file() else None
    except InputError:  # damaged: what it listed is not known
        return list(FILES)
    if not isinstance(record, dict) or "format_version" not in record:
        return []
    if not isinstance(record.get("files"), dict):  # an older version, or damaged
        return list(FILES)
    loose = [name for name in FILES if name == SEARCH or not name.endswith(disk.SEALED)]
    vectors = record.get("kind") == disk.CONTINUOUS
    own = {*loose, *record["files"]} - (set() if vectors else {"log.csv"})
    return [name for name in FILES if name in own]


def refuse_file_of_run(path: Path) -> None:
    """Refuse to write something else over a file of a run."""
    if path.name in FILES and (path.resolve().parent / FILE).is_file():
        raise InputError(
            f"'{path}' belongs to the run in its folder, which alone writes it. Choose another "
            "name or folder."
        )


def _write(run: Run, work: Path, name: str) -> None:
    if run.continuous:
        run.solution.policy.save(work / "policy.npz")
        if run.problem.objective.reference is not None:
            run.problem.objective.reference.policy.save(work / REFERENCE)
        if isinstance(run.problem.models, GaussianModels):
            save_gaussian(work / "models.npz", run.problem.models)
        if run.heldout is not None:
            save_gaussian(work / "heldout.npz", run.heldout)
        if run.log is not None:
            run.log.save_csv(work / "log.csv")
    else:
        save_problem(work / "problem.npz", run.problem)
        run.solution.policy.save(work / "policy.csv")
        if isinstance(run.heldout, ModelSet):
            save_models(work / "heldout.npz", run.heldout)
        if run.log is not None:
            save_log(run.log, work / "log.parquet")
    if run.posterior is not None:  # with the log, enough to draw the same models again
        held = None if run.heldout is None else run.heldout.n_models
        drawn = {"seed": run.seed, "models": run.problem.n_models, "heldout_models": held}
        drawn["command"] = run.command
        if isinstance(run.heldout, Draws):
            drawn["heldout"] = run.heldout.record()
        if isinstance(run.posterior, FittedLearned):
            drawn["learned"] = run.posterior.learned()
        disk.write_json(work / "posterior.json", run.posterior.describe() | drawn)
        settings = getattr(run.posterior, "settings", None)
        if isinstance(settings, Posterior) and settings.name not in ("", *REFITTED):
            run.posterior.portable().save(work / FIT)
    if run.updates:
        disk.write_json(work / "update.json", list(run.updates))
    if run.visits is not None:
        disk.write_json(work / "visits.json", dict(run.visits))
    if run.bins is not None:
        run.bins.save(work / "bins.npz")
    record = run.record()
    disk.write_json(
        work / FILE, record | {"files": {FILE: disk.decision_digest(record)} | disk.digests(work)}
    )
    hint = f"`softrobust report {name}` adds the frontier, the value of data and checks."
    page = work / "report.html"
    run_page(replace(run, path=None), page, name=name, hint=hint).save(page)


def _renamed(work: Path, target: Path) -> bool:
    """Whether the new folder could take its place: another process may have made one since."""
    try:
        os.rename(work, target)
    except OSError:
        if not target.is_dir():
            raise
        return False
    return True


def finish(target: Path) -> None:
    """Move a new run that lies whole in the folder to its place; a killed move is gone on with.

    First what the new run does not have goes, then its files are moved, one by one. A folder that
    holds `NEW` or `MOVING` is read only after this: no mixture of two runs is ever read.
    """
    new, moving = target / NEW, target / MOVING
    if new.is_dir():
        shutil.rmtree(moving, ignore_errors=True)
        for name in FILES:
            stale = target / name
            if stale.is_dir() and not stale.is_symlink():
                shutil.rmtree(stale)
            elif not (new / name).exists():
                stale.unlink(missing_ok=True)
        os.rename(new, moving)
    if moving.is_dir():
        for file in sorted(moving.iterdir()):
            os.replace(file, target / file.name)
        moving.rmdir()


def _vectors_record(problem: ContinuousProblem, r2: float | None) -> dict[str, Any]:
    """What `solution.json` says of a problem with continuous states."""
    reward, clip, names = problem.reward, problem.models.clip, list(problem.variables)
    said: dict[str, Any] = {"kind": "function"}
    if isinstance(reward, LinearReward):
        said = {
            "kind": "linear",
            "now": dict(zip(names, reward.now.tolist(), strict=True)),
            "next": dict(zip(names, reward.next.tolist(), strict=True)),
            "constant": reward.constant,
            "r2": r2,
        }
        if reward.action is not None:
            said["action"] = dict(zip(problem.actions, reward.action.tolist(), strict=True))
        if problem.models.end_reward:
            said["end"] = problem.models.end_reward
    return {
        "horizon": problem.horizon,
        "allowed": [problem.actions[int(a)] for a in np.flatnonzero(problem.allowed)],
        "reward": said,
        "clip": None if clip is None else [side.tolist() for side in clip],
    }


# -- A run read back ---------------------------------------------------------------------------


def check_run(folder: Path) -> None:
    """Refuse a folder that is not there."""
    if not folder.is_dir():
        raise InputError(
            f"There is no run folder '{folder}'. Give one that `softrobust solve --out` wrote."
        )


@names_arguments
def load_run(path: str | Path) -> Run:
    """Read a run folder that `softrobust solve --out` or `Run.save` wrote, of either kind."""
    instance("path", path, str, Path, hint="Give the name of a run folder.")
    folder = Path(path)
    check_run(folder)
    if (folder / NEW).is_dir() or (folder / MOVING).is_dir():  # a process was killed here
        with locked(folder):
            finish(folder)
    if not (folder / FILE).exists():
        raise InputError(f"'{folder}' is not a run folder: it has no {FILE}. Solve again.")
    with disk.run_folder(folder), locked(folder, shared=True):
        run = _read(folder)
        if odd := disk.changed(folder):
            raise apart(folder, f"{odd[0]} is not the file that {FILE} was written with")
        return run


def _read(folder: Path) -> Run:
    record, file = disk.read_record(folder)
    known = folder / "posterior.json"
    drawn = read_json(known, published("posterior")) if known.exists() else {}
    solution = disk.solution_of(record, file)
    vectors = record["kind"] == disk.CONTINUOUS
    run = (_vectors if vectors else _table)(folder, record, solution, drawn)
    seed = int(record.get("seed", drawn.get("seed", 0)))
    command = record.get("command", drawn.get("command"))
    if command is None and not vectors:
        command = folder_command(folder.resolve().name, solution.solver, seed)
    updates = folder / "update.json"
    visits = folder / "visits.json"
    with rebuilding("solution", file):
        in_words(run.notes)  # a note without its facts is found here, not in the midst of a page
        rows_and_dates(() if run.log is None else run.log, run.notes)
    return replace(
        run,
        source=record.get("source", ""),
        seed=seed,
        command=command or "",
        path=folder,
        updates=tuple(read_json(updates, published("update"))) if updates.exists() else (),
        visits=read_json(visits, published("visits")) if visits.exists() else None,
        bins=Bins.load(folder / "bins.npz") if (folder / "bins.npz").exists() else None,
    )


def load_table_run(path: str | Path) -> Run:
    """The same, for what is known of tables of states only."""
    run = load_run(path)
    if run.continuous:
        raise InputError(
            f"'{path}' is a run with continuous states, and this is for tables of states only: it "
            "counts rows of pairs and changes single actions, and vectors have neither. Such a run "
            "has report, apply and export; for the rest, cut the states into bins and solve those."
        )
    return run


def _table(folder: Path, record: dict[str, Any], solution: Solution, drawn: Any) -> Run:
    if not (folder / "problem.npz").exists():
        raise InputError(f"'{folder}' is not a whole run folder: it has no problem.npz.")
    problem = load_problem(folder / "problem.npz")
    certificate = understood(lambda: disk.certificate_of(record), folder / FILE)
    log = read_log(folder / "log.parquet") if (folder / "log.parquet").exists() else None
    if log is not None and drawn.get("data_hash", log.data_hash) != log.data_hash:
        raise apart(folder, "log.parquet has other rows than posterior.json was learned from")
    with rebuilding("log", folder / "log.parquet"):
        in_words(() if log is None else log.notes)  # as with those of the run
        rows_and_dates((), () if log is None else log.remarks)
    with rebuilding("posterior", folder / "posterior.json"):
        known = origin(problem.models)
        posterior = None
        if log is not None and drawn:
            posterior = fitted_again(drawn, log, folder / FIT, known and known.posterior)
    heldout = _heldout(folder, posterior, drawn)
    held, own = None if isinstance(heldout, Draws) else heldout, problem.models
    for name, part in ((FILE, solution.policy), ("heldout.npz", held), ("log.parquet", log)):
        if part is not None and (part.states, part.actions) != (own.states, own.actions):
            raise apart(folder, f"{name} has other states or actions than problem.npz")
    steps, goals = problem.horizon, (solution.objective, problem.objective)
    for what, said, is_so in (
        ("discount", solution.gamma, problem.gamma),
        ("horizon", record.get("horizon", steps), steps),
        *((name, *(getattr(goal, name) for goal in goals)) for name in GOAL),
        ("number of models", solution.n_models, problem.n_models),
        ("number of steps", getattr(solution.policy, "horizon", steps), steps),
    ):
        if said != is_so:
            raise apart(folder, f"the {what} is {said} in {FILE} and {is_so} in problem.npz")
    notes = understood(lambda: disk.notes_of(record), folder / FILE)
    if notes is None:  # an older version kept none
        noted = [] if log is None else coverage_notes(log, problem)
        notes = (*noted, *found_notes(problem, solution, log, diagnosed(posterior)))
    held_out = None
    if "validation" in record:
        held_out = understood(lambda: Validation.from_dict(record["validation"]), folder / FILE)
    if "rounding" not in record:  # an older version
        certificate = replace(certificate, rounding=rounding(problem))
    return Run(
        problem, solution, certificate, "", log, posterior, heldout, notes, validation=held_out
    )


def _heldout(folder: Path, posterior: Any, drawn: Mapping[str, Any]) -> ModelSet | Draws | None:
    """Models that were handed in, or how to draw those that were drawn."""
    file = folder / "heldout.npz"
    if file.exists():
        return load_models(file)
    if posterior is None or "heldout" not in drawn:
        return None
    held, known = posterior.share(CHECKING), folder / "posterior.json"
    found = understood(lambda: Draws.again(held, drawn["heldout"]), known)
    if drawn.get("heldout_models", found.n_models) != found.n_models:
        raise InputError(f"{known.name}: heldout_models and heldout.models are two numbers.")
    return found


def apart(folder: Path, why: str) -> InputError:
    """The error that files of a folder are of two runs."""
    return InputError(f"The files of '{folder}' do not belong together: {why}.")


def _vectors(folder: Path, record: dict[str, Any], solution: Solution[Any], _drawn: Any) -> Run:
    names = (FILE, "models.npz", "heldout.npz", "log.csv", FIT)
    file, models, held, log, fit = (folder / name for name in names)
    reward = understood(lambda: record["reward"], file)
    if not models.exists() or reward["kind"] != "linear":
        raise InputError(f"'{folder}' lacks models.npz or a linear reward: it cannot be read back.")
    against = folder / REFERENCE
    known = load_continuous_policy(against) if against.exists() else None
    drawn = load_gaussian(models)
    if drawn.frame.start is None:
        raise InputError(f"{models.name} does not say where episodes start.")
    problem = understood(lambda: _vectors_problem(drawn, reward, record, known), file)
    with rebuilding("log", log):
        seen = read_continuous_log(log, problem.actions) if log.exists() else None
    heldout = load_gaussian(held) if held.exists() else None
    own = (problem.variables, problem.actions)
    for name, part in (("policy.npz", solution.policy), ("heldout.npz", heldout)):
        if part is not None and (part.variables, part.actions) != own:
            raise apart(folder, f"{name} has other variables or actions than models.npz")
    certificate = understood(lambda: disk.certificate_of(record), file)
    notes = understood(lambda: disk.notes_of(record) or (), file)
    fitted, r2 = load_posterior(fit) if fit.exists() else None, reward.get("r2")
    return Run(problem, solution, certificate, "", seen, fitted, heldout, notes, r2=r2)


def _vectors_problem(
    models: GaussianModels, reward: Any, record: Any, reference: Any
) -> ContinuousProblem:
    now, then = ([reward[part][name] for name in models.variables] for part in ("now", "next"))
    action = [reward["action"][name] for name in models.actions] if "action" in reward else None
    earned = LinearReward(now, then, action, constant=reward["constant"])
    asked = (record["gamma"], record["horizon"], disk.objective_of(record, reference))
    allowed = [name in record["allowed"] for name in models.actions]
    return ContinuousProblem(models, None, earned, *asked, allowed)


def fitted_again(
    drawn: Mapping[str, Any], log: TransitionLog, file: Path, known: Any = None
) -> Any:
    """The posterior of a run, from its record or from `file`; None for classes of the user's.

    `known` is a fit that may be the one, as with the models that were drawn from it.
    """
    if drawn["posterior"] == LearnedPosterior.name:
        own = LearnedPosterior(tuple(drawn["strengths"]), drawn["min_count"], drawn["entered"])
        same = isinstance(known, FittedLearned) and astuple(known.settings) == astuple(own)
        if same and known.log.data_hash == log.data_hash:
            return replace(known, log=log)
        return own.fit(log)
    if drawn["posterior"] == DirichletPosterior.name:
        if drawn["support"] == "mask":
            raise InputError("The run used a support mask, which its folder lacks.")
        return DirichletPosterior(**{name: drawn[name] for name in FLAGS}).fit(log)
    return load_posterior(file) if drawn["posterior"] in POSTERIORS and file.exists() else None


# -- what a solved table calls for, and the page -----------------------------------------------


@lru_cache(maxsize=1)  # the run's notes ask, and then its page
def diagnosed(posterior: Any) -> Diagnostics | None:
    """Diagnostics where they cost little: of the closed form, and of chains, which need them."""
    if isinstance(posterior, FittedDirichlet) and time_bound().passed:
        time_bound().note("diagnostics")
        return None
    cheap = isinstance(posterior, FittedDirichlet) or getattr(posterior, "pool", None) is not None
    return posterior.diagnostics() if cheap else None


def own_value_notes(solution: Solution[Any]) -> list[Note]:
    """A solver of the return serves against a reference too, but its own value is of the return."""
    if solution.objective.reference is None or solution.model_value is None:
        return []
    facts = {"solver": solution.solver, "value": solution.model_value}
    return [Note("own_value_of_return", facts=facts | {"reference": solution.objective.against})]


def found_notes(
    problem: Problem, solution: Solution, log: TransitionLog | None, found: Diagnostics | None
) -> list[Note]:
    """What the solver noted, and where much rests on pairs hardly seen, or on noisy rewards."""
    notes = [*read_notes(solution.stats.get("notes", ())), *own_value_notes(solution)]
    if log is not None:
        noise = reward_noise(problem.rewards, log)
        if noise > 0 and not problem.paid.drawn:
            notes.append(Note("rewards_vary", Level.CAUTION, {"deviation": noise}))
        kept = (solution.solver, solution.status) == (Improve.name, Status.GIVEN)  # practice
        if not kept and (share := rare_share(problem, solution.policy, log)[0]) > MUCH:
            facts = {"share": share, "fewer_than": RARE}
            notes.append(Note("decisions_rarely_seen", Level.CAUTION, facts))
    return [*notes, *(() if found is None else read_notes(found.problems))]


def foreseen(run: Run) -> list[Note]:
    """How well the learned prior and plain ones foresee held-out rows, where it takes a second."""
    learned = run.posterior
    if not isinstance(learned, FittedLearned):
        return []
    if run.log.n_rows < FOLDS:
        return [Note("foresight_too_few", facts={"n_rows": run.log.n_rows, "folds": FOLDS})]
    pairs = int((np.asarray(run.log.pair_counts) > 0).sum())
    if pairs * run.log.n_states > MOST_FORESEEN:
        return []
    priors = {
        "learned": replace(learned.settings, min_count=0),
        "dirichlet": DirichletPosterior(min_count=0),
        "uniform": DirichletPosterior(per_cell=1.0, support="all", min_count=0),
    }
    return [Note("prior_foresight", facts={"scores": foresight(run.log, priors)})]


def run_page(
    run: Run,
    out: Path,
    *,
    full: bool = False,
    suppress_small: bool = False,
    observations: int = 10,
    name: str = "",
    hint: str = "",
) -> Report:
    """The page of a run, to be saved as `out`.

    A full one adds the frontier, the value of `observations` more of a pair, and diagnostics,
    unless they would take minutes by their size. `name` is that of a folder yet to be written.
    """
    place = name if run.path is None else run.path.resolve().name
    known = {"command": run.command, "input": run.source, "run": place, "seed": run.seed}
    settings = {key: value for key, value in known.items() if value != ""}
    said = [[n for n in run.notes if (n.level is Level.INFO) == info] for info in (True, False)]
    if run.continuous:
        return make_report(_review_vectors(run), *said, settings=settings)
    more: dict[str, Any] = {"validation": run.validation}
    found, csv = diagnosed(run.posterior), "policy.csv" if run.path is None else None
    if run.path is not None:
        csv = _link(run.path / "policy.csv", out)
        more["checks"] = load_checks(run.path / "checks.json", check_lines)
        more["rehearsal"] = load_rehearsal(run.path / "rehearsal" / SUMMARY, rehearsal_lines)
    if full:
        found = found if run.posterior is None else run.posterior.diagnostics()
        more["frontier"] = reviews.frontier_within(run.problem, run.solution.policy)
        more |= {"data": reviews.data_within(run, observations), "seconds": WHY_SECONDS}
        said[0] += [] if suppress_small else foreseen(run)
    where = (run.problem, run.solution, run.heldout, run.log, run.posterior, run.certificate)
    return make_report(
        reviews.review(*where, diagnostics=found, **more),
        *said,
        settings=settings,
        ask_for_checks=run.path is not None and run.log is not None,
        policy_csv=csv,
        suppress_small=suppress_small,
        hint=hint,
    )


def _review_vectors(run: Run) -> reviews.VectorReview:
    """Simulated again where the run was read back, and found to be the one on record."""
    found, then = run.simulated, run.certificate.sample
    if found is None:
        assert then.simulation is not None  # of vectors
        where = (run.problem, run.solution, run.heldout, run.log)
        with disk.run_folder(run.path or Path()), rebuilding("solution", FILE):
            found = reviews.review_vectors(*where, then.simulation.episodes, run.seed)
        now, old = found.certificate.sample.objective.value, then.objective.value
        if abs(now - old) > SAME * max(abs(now), abs(old), found.train.size):
            raise InputError(
                f"The files of '{run.path}' do not belong together: solution.json says that the "
                f"policy earns {old:.6g} on its training models, and policy.npz earns {now:.6g}. "
                "Solve again."
            )
    found = replace(found, certificate=run.certificate)
    return reviews.follow_rivals(found, run.heldout, run.seed)


def _link(csv: Path, out: Path) -> str | None:
    """Where policy.csv lies, seen from the page; None where the path cannot be relative."""
    if not csv.exists():
        return None
    try:
        return Path(os.path.relpath(csv.resolve(), out.resolve().parent)).as_posix()
    except ValueError:  # another drive
        return None
