"""`softrobust sample LOG`: models drawn from a posterior, as a file that solve reads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from softrobust.cli import complete

if TYPE_CHECKING:
    from softrobust.posterior import Fitted, Posterior


def sample(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="A log of transitions.")],
    out: Annotated[Path, typer.Option(help="The models to write (.npz).")],
    posterior: Annotated[str | None, typer.Option(help="dirichlet (default), tied, hierarchical, demand, population or regression.", autocompletion=complete.posteriors)] = None,
    domain: Annotated[str | None, typer.Option(help="Take the posterior of a domain instead, with its states and rewards.", autocompletion=complete.domains)] = None,
    models: Annotated[int, typer.Option(help="How many models.")] = 100,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of the posterior (or domain), such as draws=2000; may be given again.")] = None,
    save: Annotated[Path | None, typer.Option(help="Also write the fitted posterior, to draw from it again.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print what was written, and the diagnostics, as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback on errors.")] = False,
) -> None:  # fmt: skip
    """Fit a posterior to a log and draw models from it.

    Example: softrobust sample log.csv --posterior population --models 200 --out models.npz
    """
    from dataclasses import replace

    from softrobust.cli.words import settings_of
    from softrobust.data import TransitionLog
    from softrobust.data.settings import whole
    from softrobust.errors import InputError
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
    if isinstance(drawn, GaussianModels):
        save_gaussian(out, drawn)
    else:
        own = getattr(fitted, "log", None)
        if drawn.rewards is None and isinstance(own, TransitionLog):
            drawn = replace(drawn, rewards=own.rewards, p0=own.p0)
        save_models(out, drawn)
    if save is not None:
        fitted.save(save)
    if not quiet or json:
        _show(fitted, drawn, [path for path in (out, save) if path is not None], json)


def _show(fitted: Fitted, drawn: Any, written: list[Path], as_json: bool) -> None:
    """What was drawn and how well, for people or for machines."""
    from softrobust.cli.screen import print_record, say

    quality = fitted.diagnostics()
    notes = [*getattr(drawn, "notes", ()), *quality.problems]
    if as_json:
        record = {"models": drawn.n_models, "diagnostics": quality.table(), "notes": notes}
        print_record({"written": [str(path) for path in written]} | record)
        return
    say(f"{drawn!r} written to {written[0]}.")
    for row in quality.table():
        say(
            f"  {row['parameter']:<12} {row['mean']:>10.4g} ± {row['sd']:<9.3g} R-hat "
            f"{row['rhat']:.3f}, effective size {row['ess_bulk']:.0f}"
        )
    for note in notes:
        say(f"  · {note}", error=True)


def _settings(
    posterior: str | None, domain: str | None, settings: dict[str, object], seed: int
) -> Posterior:
    """The posterior that was named; a sampler's chains take the seed, too."""
    from softrobust.domains import make_domain
    from softrobust.posterior.registry import make_posterior

    if domain is not None:
        return make_domain(domain, **settings).posterior()
    name = posterior or "dirichlet"
    if name in ("population", "regression"):
        settings = {"seed": seed} | settings
    return make_posterior(name, **settings)


def _fit(path: Path, posterior: Posterior) -> Fitted:
    """Read the log that the posterior needs, and fit; its warnings are printed with the result."""
    import warnings

    from softrobust.data import read_log
    from softrobust.data.continuous_file import read_continuous_log
    from softrobust.posterior import PosteriorWarning, RegressionPosterior

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PosteriorWarning)
        if isinstance(posterior, RegressionPosterior):
            names = None if posterior.frame is None else posterior.frame.actions
            return posterior.fit(read_continuous_log(path, names))
        return posterior.fit(read_log(path))
