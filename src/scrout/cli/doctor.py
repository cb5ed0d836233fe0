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
"""Name prefix of findings about fixers."""
_MARK = {"ok": ("ok", "green"), "advice": ("--", "yellow"), "missing": ("!!", "red")}


Status = Literal["ok", "advice", "missing"]


class DoctorFinding(FrozenModel):
    name: str
    status: Status
    """`missing`: scrout cannot work without it."""
    detail: str
    next_step: str = ""


class DoctorReport(FrozenModel):
    version: str
    findings: tuple[DoctorFinding, ...]


@click.command(name="doctor")
@click.option("--strict", is_flag=True, help="Also exit with 1 if a configured fixer cannot work.")
@options.common
def command(repo: Path, strict: bool, as_json: bool) -> int:
    """Example: scrout doctor --strict

    List what this machine has and what is missing, with the next step. Exit code 1 if something needed is missing.

    It shows names of key variables, never keys. It asks the pool's endpoints for their list of models.
    """
    settings = completed(options.read_settings(repo), render.say)
    with render.working() as progress:
        progress("looking around")
        report = DoctorReport(version=__version__, findings=tuple(examine(repo, settings)))
    render.show(report, _view(report), as_json=as_json)
    return 1 if any(_fails(finding, strict) for finding in report.findings) else 0


def _fails(finding: DoctorFinding, strict: bool) -> bool:
    return finding.status == "missing" or (strict and finding.status != "ok" and finding.name.startswith(FIXER))


def examine(repo: Path, settings: Settings) -> Iterator[DoctorFinding]:
    """Everything that a run depends on, most important first."""
    yield _finding("python", f"{platform.python_version()} on {platform.system()}")
    yield _git()
    yield _sandbox(settings)
    yield from _tiers(settings)
    yield _disk()
    yield _environment(repo, settings)
    yield _keys(settings)
    for fixer in settings.fixers:
        yield _fixer(fixer)


def _finding(name: str, detail: str, next_step: str = "", *, status: Status | None = None) -> DoctorFinding:
    """A finding with a next step is advice, unless `level` says otherwise."""
    return DoctorFinding(
        name=name, status=status or ("advice" if next_step else "ok"), detail=detail, next_step=next_step
    )


def _git() -> DoctorFinding:
    try:
        return _finding("git", git_version())
    except ScroutError as error:
        return _finding("git", str(error), "Install git 2.30 or later.", status="missing")


def _sandbox(settings: Settings) -> DoctorFinding:
    try:
        found = probe(settings.sandbox)
    except (OSError, ScroutError) as error:  # doctor must work on a machine where this fails
        return _finding("sandbox", str(error), "Install coreutils, bash and git.", status="missing")
    status: Status = "missing" if found.tier is None else "advice" if found.tier.weakness else "ok"
    return _finding("sandbox", found.detail, found.remedy, status=status)


def _tiers(settings: Settings) -> Iterator[DoctorFinding]:
    """Every tier that scrout may choose automatically, and why it works or not."""
    try:
        for found in probe_all(settings.sandbox):
            yield _finding(f"tier {found.name}", found.detail, status="advice" if found.tier is None else "ok")
    except (OSError, ScroutError):  # in the sandbox's own finding
        return


def _disk() -> DoctorFinding:
    folder = cache_folder()
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    detail = f"{free / 1024**3:.1f} GB free for {folder}; ledger in {data_folder()}"
    return _finding("disk", detail, "Free some room or set XDG_CACHE_HOME." if free < _LOW_DISK_BYTES else "")


def _environment(repo: Path, settings: Settings) -> DoctorFinding:
    try:
        source = find_source(repo)
        found = find_environment(source.repo, settings.environment, make_base(source.repo, source.head))
    except ScroutError as error:
        return _finding("environment", str(error), "Pass --repo.")
    if not found.python:
        return _finding("environment", found.label, "Install Python 3, or make a .venv in the repository.")
    return _finding("environment", f"{source.repo}: {found.label}", found.missing)


def _keys(settings: Settings) -> DoctorFinding:
    names = {name for name in os.environ if name.endswith(_KEY_NAMES)}
    names |= {fixer.key_env for fixer in settings.fixers if read_key(fixer.key_env)}
    return _finding("keys", ", ".join(sorted(names)) or "no variable that looks like a key")


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
        return _finding(name, "embedded, $0, no endpoint", step, status="ok")
    cost = _cost(fixer)
    if missing := fixer.missing():
        return _finding(name, f"{missing}; {cost}", status="advice")
    if fixer.price is None and not fixer.subscription:
        return _finding(name, cost, unpriced(fixer), status="advice")
    key = read_key(fixer.key_env) or ""
    if fixer.key_env and not key:
        return _finding(name, f"{fixer.key_env} is not set; {cost}", f"Export {fixer.key_env}.")
    if not all("!" <= character <= "~" for character in key):
        detail = f"the key in {fixer.key_env} holds characters no header can carry; {cost}"
        return _finding(name, detail, f"Export {fixer.key_env} again.")
    if fixer.model_file:
        return _model_file(name, Path(fixer.model_file).expanduser(), cost)
    answer = missing_model(list_models(fixer.base_url, _auth(fixer, key), fixer.key_env), fixer.model)
    if answer.problem:
        return _finding(name, f"{answer.problem}; {cost}", answer.next_step, status="advice")
    told = f"serves {fixer.model}" if answer.models else "answers and lists no models"
    return _finding(name, f"{shown_url(fixer.base_url)} {told}; {cost}")


def _model_file(name: str, path: Path, cost: str) -> DoctorFinding:
    if find_spec("xllamacpp") is None:
        return _finding(name, "a model file needs xllamacpp, which is not installed", local_server.INSTALL)
    if not path.is_file():
        return _finding(name, f"{path} does not exist", "Set `model_file` to a file that ends in .gguf.")
    return _finding(name, f"{path.name}, {path.stat().st_size / 1e9:.1f} GB; {cost}")


def _auth(fixer: Fixer, key: str) -> dict[str, str]:
    if not key:
        return {}
    if (fixer.auth or ("x-api-key" if fixer.api == "messages" else "bearer")) == "x-api-key":
        return {"x-api-key": key, "anthropic-version": "2023-06-01"}
    return {"Authorization": f"Bearer {key}"}


def _view(report: DoctorReport) -> Text:
    lines = [Text(f"scrout {report.version}")]
    for finding in report.findings:
        mark, style = _MARK[finding.status]
        lines.append(Text.assemble((f"{mark:3}", style), f"{finding.name}: {render.inert(finding.detail)}"))
        if finding.next_step:
            lines.append(Text(f"     {render.inert(finding.next_step)}", "dim"))
    return Text("\n").join(lines)
