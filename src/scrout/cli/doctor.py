"""`scrout doctor`: what this machine has, what is missing, and the next step for each thing."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import click
from rich.text import Text

from scrout import __version__
from scrout.base import FrozenModel, ScroutError
from scrout.cli import options, render
from scrout.config.folders import cache_folder, data_folder
from scrout.config.settings import Fixer, Settings, read_key
from scrout.fix.pool import completed, unpriced
from scrout.git import version as git_version
from scrout.models import local_server
from scrout.models.listing import list_models, missing_model, shown_url
from scrout.sandbox.environment import find_environment
from scrout.sandbox.probe import probe, probe_all
from scrout.sandbox.workspace import find_source, make_base
from scrout.text import usd

_LOW_DISK_BYTES = 2 * 1024**3
_KEY_NAMES = ("API_KEY", "AUTH_TOKEN", "ACCESS_TOKEN")
FIXER = "fixer "
"""What the name of a finding about one begins with."""
_MARK = {"ok": ("ok", "green"), "advice": ("--", "yellow"), "missing": ("!!", "red")}


class DoctorFinding(FrozenModel):
    """One thing that was looked at."""

    name: str
    status: Literal["ok", "advice", "missing"]
    """`missing`: scrout cannot work without it."""
    detail: str
    next_step: str = ""


class DoctorReport(FrozenModel):
    """All of them."""

    version: str
    findings: tuple[DoctorFinding, ...]


@click.command(name="doctor")
@options.repository
@options.configuration
@click.option("--strict", is_flag=True, help="Exit with 1 also if a configured fixer cannot work.")
@options.as_json
def command(repo: Path, config: Path | None, overrides: tuple[str, ...], strict: bool, as_json: bool) -> int:
    """List what this machine has and what is missing, with the next step. Exit code 1 if something needed is missing.

    It shows names of key variables, never keys. It asks the pool's endpoints for their list of models.
    """
    settings = completed(options.read_settings(repo, config, overrides), render.say)
    with render.working() as progress:
        progress("looking around")
        report = DoctorReport(version=__version__, findings=tuple(examine(repo, settings)))
    if as_json:
        render.print_json(report)
    else:
        _print(report)
    return 1 if any(_fails(finding, strict) for finding in report.findings) else 0


def _fails(finding: DoctorFinding, strict: bool) -> bool:
    return finding.status == "missing" or (strict and finding.status != "ok" and finding.name.startswith(FIXER))


def examine(repo: Path, settings: Settings) -> Iterator[DoctorFinding]:
    """Everything a run depends on, most needed first."""
    yield DoctorFinding(name="python", status="ok", detail=f"{platform.python_version()} on {platform.system()}")
    yield _git()
    yield _sandbox(settings)
    yield from _tiers(settings)
    yield _disk()
    yield _environment(repo, settings)
    yield _keys(settings)
    for fixer in settings.fixers:
        yield _fixer(fixer)


def _git() -> DoctorFinding:
    try:
        return DoctorFinding(name="git", status="ok", detail=git_version())
    except ScroutError as error:
        return DoctorFinding(name="git", status="missing", detail=str(error), next_step="Install git 2.30 or later.")


def _sandbox(settings: Settings) -> DoctorFinding:
    try:
        found = probe(settings.sandbox)
    except (OSError, ScroutError) as error:  # a machine that lacks this much is what doctor is for
        return DoctorFinding(
            name="sandbox", status="missing", detail=str(error), next_step="Install coreutils, bash and git."
        )
    if found.tier is None:
        return DoctorFinding(name="sandbox", status="missing", detail=found.detail, next_step=found.remedy)
    weaker = bool(found.tier.weakness)
    return DoctorFinding(
        name="sandbox", status="advice" if weaker else "ok", detail=found.detail, next_step=found.remedy
    )


def _tiers(settings: Settings) -> Iterator[DoctorFinding]:
    """Every tier that scrout may choose by itself, and why it can or cannot."""
    try:
        for found in probe_all(settings.sandbox):
            works = found.tier is not None
            yield DoctorFinding(name=f"tier {found.name}", status="ok" if works else "advice", detail=found.detail)
    except (OSError, ScroutError):  # said by the sandbox's own finding
        return


def _disk() -> DoctorFinding:
    folder = cache_folder()
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    detail = f"{free / 1024**3:.1f} GB free for {folder}; ledger in {data_folder()}"
    if free < _LOW_DISK_BYTES:
        return DoctorFinding(
            name="disk", status="advice", detail=detail, next_step="Free some room or set XDG_CACHE_HOME."
        )
    return DoctorFinding(name="disk", status="ok", detail=detail)


def _environment(repo: Path, settings: Settings) -> DoctorFinding:
    try:
        source = find_source(repo)
        found = find_environment(source.repo, settings.environment, make_base(source.repo, source.head))
    except ScroutError as error:
        return DoctorFinding(name="environment", status="advice", detail=str(error), next_step="Pass --repo.")
    if not found.python:
        step = "Install Python 3, or make a .venv in the repository."
        return DoctorFinding(name="environment", status="advice", detail=found.label, next_step=step)
    if found.missing:
        return DoctorFinding(
            name="environment", status="advice", detail=f"{source.repo}: {found.label}", next_step=found.missing
        )
    return DoctorFinding(name="environment", status="ok", detail=f"{source.repo}: {found.label}")


def _keys(settings: Settings) -> DoctorFinding:
    names = {name for name in os.environ if name.endswith(_KEY_NAMES)}
    names |= {fixer.key_env for fixer in settings.fixers if read_key(fixer.key_env)}
    detail = ", ".join(sorted(names)) if names else "no variable that looks like a key"
    return DoctorFinding(name="keys", status="ok", detail=detail)


def _cost(fixer: Fixer) -> str:
    price = fixer.price
    if price is None:
        return "unpriced, by subscription" if fixer.subscription else "no known price"
    paid_in, paid_out = usd(price.input, exact=True), usd(price.output, exact=True)
    return f"{paid_in} in, {paid_out} out per million tokens, {fixer.price_date or 'undated'}"


def _fixer(fixer: Fixer) -> DoctorFinding:
    name = f"{FIXER}{fixer.name}"
    if not fixer.has_model:
        step = "Add a model with `scrout init` for issues that need more than a small edit."
        return DoctorFinding(name=name, status="ok", detail="embedded, $0, no endpoint", next_step=step)
    cost = _cost(fixer)
    if missing := fixer.missing():
        return DoctorFinding(name=name, status="advice", detail=f"{missing}; {cost}", next_step="")
    if fixer.price is None and not fixer.subscription:
        return DoctorFinding(name=name, status="advice", detail=cost, next_step=unpriced(fixer))
    key = read_key(fixer.key_env) or ""
    if fixer.key_env and not key:
        step = f"Export {fixer.key_env}."
        return DoctorFinding(name=name, status="advice", detail=f"{fixer.key_env} is not set; {cost}", next_step=step)
    if not all("!" <= character <= "~" for character in key):
        detail = f"the key in {fixer.key_env} holds characters no header can carry; {cost}"
        return DoctorFinding(name=name, status="advice", detail=detail, next_step=f"Export {fixer.key_env} again.")
    if fixer.model_file:
        return _model_file(name, Path(fixer.model_file).expanduser(), cost)
    answer = missing_model(list_models(fixer.base_url, _auth(fixer, key), fixer.key_env), fixer.model)
    where = shown_url(fixer.base_url)
    if answer.problem:
        detail = f"{answer.problem}; {cost}"
        return DoctorFinding(name=name, status="advice", detail=detail, next_step=answer.next_step)
    told = f"{where} serves {fixer.model}" if answer.models else f"{where} answers and lists no models"
    return DoctorFinding(name=name, status="ok", detail=f"{told}; {cost}")


def _model_file(name: str, path: Path, cost: str) -> DoctorFinding:
    if find_spec("xllamacpp") is None:
        detail = "a model file needs xllamacpp, which is not installed"
        return DoctorFinding(name=name, status="advice", detail=detail, next_step=local_server.INSTALL)
    if not path.is_file():
        step = "Set `model_file` to a file that ends in .gguf."
        return DoctorFinding(name=name, status="advice", detail=f"{path} does not exist", next_step=step)
    return DoctorFinding(name=name, status="ok", detail=f"{path.name}, {path.stat().st_size / 1e9:.1f} GB; {cost}")


def _auth(fixer: Fixer, key: str) -> dict[str, str]:
    if not key:
        return {}
    if (fixer.auth or ("x-api-key" if fixer.api == "messages" else "bearer")) == "x-api-key":
        return {"x-api-key": key, "anthropic-version": "2023-06-01"}
    return {"Authorization": f"Bearer {key}"}


def _print(report: DoctorReport) -> None:
    lines = [Text(f"scrout {report.version}")]
    for finding in report.findings:
        mark, style = _MARK[finding.status]
        lines.append(Text.assemble((f"{mark:3}", style), f"{finding.name}: {render.inert(finding.detail)}"))
        if finding.next_step:
            lines.append(Text(f"     {render.inert(finding.next_step)}", "dim"))
    render.print_view(Text("\n").join(lines))
