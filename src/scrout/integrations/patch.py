"""Decides whether a patch may be published, and commits it with git's plumbing commands.

It examines the difference between two trees after git applied the patch (names, modes and lines), and not the patch's
own text. Nothing is checked out, so no hook, filter or program of the repository runs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from scrout.integrations.forge import ForgeError
from scrout.integrations.markdown import code, plain
from scrout.integrations.remote import Remote, RemoteError
from scrout.redact import redact

MAX_FILES = 100
MAX_LISTED = 5
REGULAR, EXECUTABLE, NOTHING = "100644", "100755", "000000"

_HARMLESS_DOTS = "gitignore|gitkeep|keep|editorconfig|dockerignore|npmignore|prettierignore|eslintignore|clang-format"
_KEPT_OUT = re.compile(
    rf"""
    # Whatever begins with a dot configures a tool: of hooks, CI, editors, agents, shells, or one that comes tomorrow.
      (^|/)\.(?!({_HARMLESS_DOTS})$)[^/]
    | (^|/)[^/]{{0,8}}~[0-9]+[ .]*(\.[^/]{{0,3}})?(/|$)        # the short name of another file on a disk of Windows
    | (^|/)(azure-pipelines|bitbucket-pipelines|appveyor|bitrise|buddy|buildspec|cloudbuild|codecov|codefresh|codemagic)
      [\w.-]*\.ya?ml$
    | (^|/)(screwdriver|shippable|wercker|zuul|pipeline|dependabot|action|buildkite|circle|codeship|garnix|magnum)
      [\w.-]*\.ya?ml$
    | (^|/)(lefthook|simple-git-hooks|husky\.config|commitlint\.config|grumphp)[\w.-]*\.(ya?ml|toml|json|[cm]?[jt]s)$
    | (^|/)[\w.-]*(\.gocd|gitlab-ci)\.(ya?ml|json)$ | (^|/)cloudbuild[\w.-]*\.json$
    | (^|/)(prek\.toml|hk\.pkl|gradle-wrapper\.properties|nuget\.config|pip\.conf)$
    | (^|/)(jenkinsfile|captainhook\.json|codeowners|renovate\.json5?|scrout\.toml)[\w.-]*$
    | (^|/)(claude|agents?|gemini|qwen|crush|warp|iflow|codebuddy|replit|copilot-instructions)([.-][\w-]+)?\.md$
    | (^|/)(mcp|codebuff|crush|gemini-extension|opencode)\.jsonc?$
    | (^|/)(dockerfile|containerfile|earthfile|procfile|vagrantfile|tiltfile)(\.[\w-]+)?$
    | (^|/)[\w.-]*\.(dockerfile|tf|tfvars|hcl|nix|nomad|pth)$
    | (^|/)(docker-)?compose[\w.-]*\.ya?ml$
    | (^|/)(app|chart|helmfile|kustomization|render|serverless|skaffold|template|werf)\.ya?ml$
    | (^|/)(amplify|apphosting|apprunner|appspec|devfile|heroku|pulumi|readthedocs|snapcraft)(\.[\w-]+)?\.ya?ml$
    | (^|/)(app|now|vercel|firebase|wrangler|cdk|dagger|devbox|docker-bake|railway)\.jsonc?$
    | (^|/)(bors|bunfig|fly|mise|netlify|nixpacks|pixi|railway|rust-toolchain|samconfig|uv|wrangler)(\.[\w-]+)?\.toml$
    | (^|/)(rust-toolchain|mise/config\.toml|devenv\.ya?ml|pnpmfile\.c?js)$
    | (^|/)(sitecustomize|usercustomize)\.py$
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Files that run automatically, decide who reviews, or change how a change is displayed."""
_ODD_NAME = re.compile(
    r"[\0-\x1f\x7f-\x9f\\:*?\"<>|\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufffd]|[ .](/|$)"
)
_TURNED = re.compile("[\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True)
class TreeChange:
    """A path that differs between two trees."""

    path: str
    old_mode: str
    new_mode: str
    """As git writes them; zeros: the file does not exist."""
    is_binary: bool


@dataclass(frozen=True)
class PreparedPatch:
    """A commit that may be pushed."""

    commit: str
    files: tuple[str, ...]
    notes: tuple[str, ...]
    """Remarks for a reviewer, as Markdown by scrout."""


@dataclass(frozen=True)
class HeldPatch:
    """A patch that must not be published, and the reason, as Markdown by scrout."""

    reasons: tuple[str, ...]


def prepare(remote: Remote, base: str, patch: str, message: str, at: datetime) -> PreparedPatch | HeldPatch:
    """Apply a patch to a commit of the remote, in a separate index, and examine the result."""
    remote.fetch(base)
    index = {"GIT_INDEX_FILE": str(remote.folder / "scrout.index")}
    remote.git("read-tree", base, env=index)
    try:
        remote.git("apply", "--cached", "--whitespace=nowarn", "-", stdin=patch.encode(), env=index)
    except RemoteError as error:
        said = plain(str(error).rpartition("error: ")[2], 200)
        return HeldPatch((f"it does not apply to {base[:10]}: {code(said)}",))
    tree = remote.git("write-tree", env=index).decode().strip()
    changes = read_changes(remote, base, tree)
    reasons = (*refusals(changes), *_of_lines(remote, base, tree))
    if reasons:
        return HeldPatch(reasons)
    made = tuple(one.path for one in changes if one.new_mode == EXECUTABLE != one.old_mode)
    notes = (f"it makes {_named(made)} executable",) if made else ()
    files = tuple(one.path for one in changes)
    return PreparedPatch(remote.commit(tree, (base,), message, at), files, notes)


def read_changes(remote: Remote, base: str, tree: str) -> tuple[TreeChange, ...]:
    """The differences, by git's own comparison of trees."""
    diff = ("diff-tree", "-r", "-z", "--no-renames", "--no-ext-diff", "--no-textconv")
    binary = set()
    for row in remote.git(*diff, "--numstat", base, tree).split(b"\0"):
        added, _, rest = row.partition(b"\t")
        if added == b"-":
            binary.add(rest.partition(b"\t")[2])
    fields = remote.git(*diff, "--raw", base, tree).split(b"\0")
    changes = []
    for head, path in zip(fields[::2], fields[1::2], strict=False):
        old, new = head.decode().lstrip(":").split(" ")[:2]
        changes.append(TreeChange(path.decode(errors="replace"), old, new, path in binary))
    return tuple(changes)


def refusals(changes: Sequence[TreeChange]) -> tuple[str, ...]:
    """Why these changes must not be published; empty: they may."""
    if not changes:
        return ("it changes nothing",)
    if len(changes) > MAX_FILES:
        return (f"it changes {len(changes):,} files; at most {MAX_FILES} are published",)
    modes = {one.path: {one.old_mode, one.new_mode} for one in changes}
    usual = {REGULAR, EXECUTABLE, NOTHING}
    rules = (
        ("it changes what runs by itself or decides who reviews", [p for p in modes if _KEPT_OUT.search(p)]),
        ("it has names that are not what they look like", [p for p in modes if _ODD_NAME.search(p)]),
        ("it changes links or submodules", [p for p, both in modes.items() if not both <= usual]),
        ("it changes binary files", [one.path for one in changes if one.is_binary]),
    )
    return tuple(f"{words}: {_named(paths)}" for words, paths in rules if paths)


def _of_lines(remote: Remote, base: str, tree: str) -> tuple[str, ...]:
    diff = remote.git("diff-tree", "-r", "-p", "--no-renames", "--no-ext-diff", "--no-textconv", "--text", base, tree)
    added = "\n".join(line for line in diff.decode(errors="replace").split("\n") if line.startswith("+"))
    reasons = []
    if redact(added) != added:
        reasons.append("it adds what looks like a secret")
    if _TURNED.search(added):
        reasons.append("it adds characters that turn the direction of text, so that it reads as something else")
    return tuple(reasons)


def _named(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - MAX_LISTED} more" if len(paths) > MAX_LISTED else ""
    return ", ".join(code(path, 150) for path in paths[:MAX_LISTED]) + more


def branch_of(issue: int, key: str) -> str:
    if not re.fullmatch(r"[0-9]{1,20}-[0-9]{1,6}", key):
        raise ForgeError(f"{plain(key, 40)!r} is not a run of a forge.")
    return f"scrout/issue-{issue}-{key}"
