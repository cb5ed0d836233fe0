"""`scrout demo`: the whole job on a project that comes with scrout."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

import scrout
from scrout.cli import options, render
from scrout.cli.fix import deliver, solve_with_progress
from scrout.config.folders import cache_folder
from scrout.config.settings import Settings
from scrout.git import GitDir, make_git_dir

_AUTHOR = {
    **{f"GIT_{who}_NAME": "larder" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_EMAIL": "larder@localhost" for who in ("AUTHOR", "COMMITTER")},
    # A fixed date, so that the example is the same commit every time and its base is found in the cache.
    **{f"GIT_{who}_DATE": "2026-01-01T12:00:00+0000" for who in ("AUTHOR", "COMMITTER")},
}


@click.command(name="demo")
@options.as_json
def command(as_json: bool) -> int:
    """Example: scrout demo

    Run the whole job on a bundled example: a small project with a bug, and an issue about it.

    It needs no key, no model and no network. It copies the example out of the package, as a git repository.
    """
    example = Path(scrout.__file__).parent / "example"
    repo = _lay_out(example / "larder", cache_folder() / "demo" / "larder")
    text = (example / "issue.md").read_text(encoding="utf-8")
    if not as_json:
        render.say(text)
    settings = Settings()
    run = solve_with_progress(repo, text, settings)
    deliver(run, settings, as_json=as_json)
    return 0 if run.outcome == "solved" else 1


def _lay_out(project: Path, repo: Path) -> Path:
    shutil.rmtree(repo, ignore_errors=True)
    shutil.copytree(project, repo, ignore=shutil.ignore_patterns("__pycache__"))
    make_git_dir(repo / ".git")
    git = GitDir.of(repo).with_variables(**_AUTHOR)
    git("add", "--all")
    git("commit", "-q", "-m", "larder 0.4.1")
    return repo
