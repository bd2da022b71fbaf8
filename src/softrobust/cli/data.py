"""Verbs for data and models: `inspect`, `sample`, `collect` and `domains`."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from softrobust.cli.options import pairs_of, settings_of
from softrobust.cli.output import print_inspection
from softrobust.cli.screen import plain, print_record, say
from softrobust.errors import InputError

if TYPE_CHECKING:
    from softrobust.posterior import Fitted, Posterior


def inspect(
    file: Path, columns: str | None = None, write_log: Path | None = None,
    save_bins: Path | None = None, force: bool = False, json: bool = False, *,
    visits: dict[str, Any], reading: dict[str, Any],
) -> None:  # fmt: skip
    """Say what is in a file, what is suspicious, and what to run next.

    Example: softrobust inspect visits.csv --events events.csv
    """
    from softrobust.report.inspection import inspection_record
    from softrobust.run.inspect import inspect_file

    found = inspect_file(
        file,
        columns=pairs_of(columns),
        visits=visits,
        reading=reading,
        write_log_to=write_log,
        save_bins_to=save_bins,
        force=force,
    )
    if json:
        print_record(inspection_record(found))
    else:
        print_inspection(found)
    if found.blocked is not None:
        raise found.blocked


def sample(
    log: Path, out: Path, posterior: str | None = None, domain: str | None = None,
    models: int = 100, seed: int = 0, set_: list[str] | None = None, save: Path | None = None,
    json: bool = False, quiet: bool = False,
) -> None:  # fmt: skip
    """Fit a posterior to a log and draw models from it.

    Example: softrobust sample log.csv --posterior population --models 200 --out models.npz
    """
    from softrobust._core.settings import whole
    from softrobust.data import TransitionLog
    from softrobust.models.files import save_models
    from softrobust.models.gaussian import GaussianModels, save_gaussian

    if posterior is not None and domain is not None:
        raise InputError("Give --posterior or --domain, not both.")
    for path in (out, save):
        if path is not None and not path.resolve().parent.is_dir():
            raise InputError(f"There is no folder {path.parent} to write {path.name} to.")
    whole("--seed", seed, 0)
    whole("--models", models)  # before a sampler runs for minutes
    fitted = _fit(log, _settings(posterior, domain, settings_of(set_), seed))
    drawn = fitted.sample(models, seed)
    if not isinstance(drawn, GaussianModels):
        own = getattr(fitted, "log", None)
        if drawn.rewards is None and isinstance(own, TransitionLog):
            drawn = replace(drawn, rewards=own.rewards, p0=own.p0)
    with ExitStack() as places:  # both are written before either takes its place
        ready = {}
        for path in (out, save):
            if path is not None:
                place = TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent)
                ready[path] = Path(places.enter_context(place)) / path.name
        (save_gaussian if isinstance(drawn, GaussianModels) else save_models)(ready[out], drawn)
        if save is not None:
            fitted.save(ready[save])
        for path, made in ready.items():
            made.replace(path)
    if not quiet or json:
        _show(fitted, drawn, [path for path in (out, save) if path is not None], json)


def _show(fitted: Fitted, drawn: Any, written: list[Path], as_json: bool) -> None:
    """What was drawn and how well, for people or for machines."""
    from softrobust.report.sentences import in_words

    quality = fitted.diagnostics()
    notes = (*getattr(drawn, "notes", ()), *quality.problems)
    if as_json:
        record = {"models": drawn.n_models, "diagnostics": quality.table()}
        record["notes"] = [note.to_dict() for note in notes]
        print_record({"written": [str(path) for path in written]} | record)
        return
    say(f"{drawn!r} written to {written[0]}.")
    for row in quality.table():
        say(
            f"  {row['parameter']:<12} {row['mean']:>10.4g} ± {row['sd']:<9.3g} R-hat "
            f"{row['rhat']:.3f}, effective size {row['ess_bulk']:.0f}"
        )
    for note in in_words(notes):
        say(f"  · {plain(note)}", error=True)


def _settings(
    posterior: str | None, domain: str | None, settings: dict[str, object], seed: int
) -> Posterior:
    """The posterior that was named; a sampler's chains take the seed, too."""
    from softrobust.domains import make_domain
    from softrobust.posterior.registry import make_posterior, settings_of

    if domain is not None:
        return make_domain(domain, **settings).posterior()
    name = posterior or "dirichlet"
    own = {"seed": seed} if "seed" in settings_of(name) else {}
    return make_posterior(name, **(own | settings))


def _fit(path: Path, posterior: Posterior) -> Any:
    """Read the log that the posterior needs, and fit; its warnings are printed with the result."""
    from softrobust.data import read_log
    from softrobust.data.continuous import read_continuous_log
    from softrobust.posterior import RegressionPosterior
    from softrobust.posterior.base import fit_quietly

    if isinstance(posterior, RegressionPosterior):
        names = None if posterior.frame is None else posterior.frame.actions
        return fit_quietly(posterior, read_continuous_log(path, names))
    return fit_quietly(posterior, read_log(path))


def collect(
    domain: str, out: Path, seed: int = 0, set_: list[str] | None = None, json: bool = False,
    quiet: bool = False,
) -> None:  # fmt: skip
    """Draw the batch of a domain and write it as a log.

    Example: softrobust collect pest-control --seed 0 --out log.csv
    """
    from softrobust._core.settings import whole
    from softrobust.data import TransitionLog, save_log
    from softrobust.data.readers import write_log_csv
    from softrobust.domains import make_domain

    whole("--seed", seed, 0)
    log = make_domain(domain, **settings_of(set_)).collect(seed)
    if out.suffix in (".npz", ".parquet") and isinstance(log, TransitionLog):
        save_log(log, out)
    else:
        write_log_csv(log, out)
    if json:
        print_record(
            {"domain": domain, "seed": seed, "transitions": len(log), "written": [str(out)]}
        )
    elif not quiet:
        many = "1 transition" if len(log) == 1 else f"{len(log)} transitions"
        say(f"{many} written to {out}.")


def domains(json: bool = False) -> None:
    """List the domains, with their settings.

    Example: softrobust domains
    """
    from softrobust.domains import DOMAINS

    table = [
        {
            "name": name,
            "summary": cls.summary,
            "environment": cls.env_id,
            "settings": [field.name for field in fields(cls)],  # type: ignore[arg-type]
        }
        for name, cls in DOMAINS.items()
    ]
    if json:
        print_record(table)
        return
    for row in table:
        say(f"{row['name']:<14}{row['summary']}")
        if row["environment"]:
            say(f"{'':<14}environment: {row['environment']}")
        say(f"{'':<14}settings: {', '.join(row['settings'] or [])}")
