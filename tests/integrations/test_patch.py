"""Patches that may be published and patches that may not, applied by real git to a real repository."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from scrout.integrations.ci_environment import CiEnvironment
from scrout.integrations.forge import ForgeError
from scrout.integrations.patch import (
    NOTHING,
    REGULAR,
    HeldPatch,
    PreparedPatch,
    TreeChange,
    branch_of,
    prepare,
    refusals,
)
from scrout.integrations.remote import Remote
from scrout.integrations.result import WorkResult

from .conftest import AT


def new_file(path: str, content: str = "x = 1\n", mode: str = "100644") -> str:
    lines = content.split("\n")
    ends = content.endswith("\n")
    rows = "".join(f"+{line}\n" for line in (lines[:-1] if ends else lines))
    count = len(lines) - ends
    tail = "" if ends else "\\ No newline at end of file\n"
    head = f"diff --git a/{path} b/{path}\nnew file mode {mode}\n--- /dev/null\n+++ b/{path}\n"
    return f"{head}@@ -0,0 +1,{count} @@\n{rows}{tail}"


def prepared(remote: Remote, place: CiEnvironment, patch: str) -> PreparedPatch | HeldPatch:
    return prepare(remote, place.commit, patch, "message\n", AT)


def held(remote: Remote, place: CiEnvironment, patch: str, words: str) -> None:
    found = prepared(remote, place, patch)
    assert isinstance(found, HeldPatch) and words in " ".join(found.reasons), found


def test_a_patch_becomes_a_commit_on_the_base(
    remote: Remote, place: CiEnvironment, result: WorkResult, bare: Path
) -> None:
    found = prepared(remote, place, result.patch)
    assert isinstance(found, PreparedPatch) and found.files == ("larder/expiry.py",) and found.notes == ()
    assert prepared(remote, place, result.patch) == found  # so that a repeated step pushes the same commit
    remote.push(found.commit, "refs/heads/new")
    shown = subprocess.run(["git", "show", "--format=%P %an %s", "new"], cwd=bare, capture_output=True, check=True)
    assert shown.stdout.decode().startswith(f"{place.commit} scrout message") and b"+    if left < 0:" in shown.stdout


@pytest.mark.parametrize(
    "path",
    [
        ".github/workflows/ci.yml",
        ".github/dependabot.yml",
        ".GitHub/Workflows/ci.yml",
        ".github/CODEOWNERS",
        "CODEOWNERS",
        "docs/CODEOWNERS",
        "action.yml",
        "tools/thing/action.yaml",
        ".gitlab-ci.yml",
        "ci/.gitlab-ci.extra.yml",
        ".gitlab/ci.yml",
        ".circleci/config.yml",
        "Jenkinsfile",
        "azure-pipelines.yml",
        ".pre-commit-config.yaml",
        ".husky/pre-commit",
        ".githooks/post-checkout",
        ".gitmodules",
        ".gitattributes",
        "sub/.gitattributes",
        ".vscode/tasks.json",
        ".devcontainer/devcontainer.json",
        ".envrc",
        "renovate.json",
        "scrout.toml",
        ".github/scrout.toml",
        ".devcontainer.json",
        ".lefthook.toml",
        "lefthook.yml",
        ".overcommit.yml",
        "captainhook.json",
        ".cirrus.star",
        ".screwdriver/x",
        "bitrise.yml",
        "codefresh.yaml",
        "ci/pipe.gocd.yaml",
        "Jenkinsfile.release",
        ".claude/settings.json",
        ".cursor/rules/x.mdc",
        ".mcp.json",
        ".zed/tasks.json",
        "sub/.tomorrow/x",
        "AGENTS.md",
        "sub/CLAUDE.md",
        ".npmrc",
        ".gitignore/x",
        "Dockerfile",
        "deploy/Dockerfile.prod",
        "docker-compose.override.yml",
        "fly.toml",
        "vercel.json",
        "infra/main.tf",
        "amplify.yml",
        "appspec.yml",
        "buildkite.yml",
        "circle.yml",
        "codeship-steps.yml",
        "garnix.yaml",
        "heroku.yml",
        "Pulumi.prod.yaml",
        "snapcraft.yaml",
        "lefthook.toml",
        "lefthook-local.json",
        "simple-git-hooks.cjs",
        "husky.config.js",
        "dagger.json",
        "wrangler.jsonc",
        "docker-bake.json",
        "mise.toml",
        "samconfig.toml",
        "Earthfile",
        "flake.nix",
        "CLAUDE.local.md",
        "AGENTS.override.md",
        "sub/QWEN.md",
        "site/sitecustomize.py",
        "x.pth",
        "AGENT.md",
        "replit.md",
        "crush.json",
        "codebuff.json",
        "gemini-extension.json",
        "mise.local.toml",
        "mise/config.toml",
        "cloudbuild.prod.json",
        "ci/tests.gitlab-ci.yml",
        "prek.toml",
        "hk.pkl",
        "bunfig.toml",
        "rust-toolchain",
        "rust-toolchain.toml",
        "uv.toml",
        "nuget.config",
        "gradle/wrapper/gradle-wrapper.properties",
        "devenv.yaml",
        "GITHUB~1/workflows/x.yml",
        "CLAUDE~1.MD",
    ],
)
def test_what_runs_by_itself_or_decides_who_reviews_is_kept_out(path: str) -> None:
    for old, new in ((NOTHING, REGULAR), (REGULAR, NOTHING), (REGULAR, REGULAR)):
        (reason,) = refusals([TreeChange(path, old, new, is_binary=False)])
        assert "runs by itself" in reason and path in reason


@pytest.mark.parametrize(
    "path",
    [
        "github/workflows.py",
        "larder/action.py",
        "docs/owners.md",
        ".gitignore",
        "sub/.editorconfig",
        "larder/dockerfile_parser.py",
        "compose.py",
        "larder/circle.py",
        "docs/claude.html",
        "src/unix.py",
        "docs/agents/x.md",
        "templates/app.html",
        "a..b/x.py",
        "agent.py",
        "src/uv.py",
        "docs/mise.md",
        "notes~backup.txt",
    ],
)
def test_names_that_only_look_similar_are_not(path: str) -> None:
    assert refusals([TreeChange(path, NOTHING, REGULAR, is_binary=False)]) == ()


def test_a_workflow_beside_an_honest_change_holds_the_whole(
    remote: Remote, place: CiEnvironment, result: WorkResult
) -> None:
    held(remote, place, result.patch + new_file(".github/workflows/x.yml"), ".github/workflows/x.yml")


def test_renaming_something_into_a_workflow_is_seen(remote: Remote, place: CiEnvironment) -> None:
    moved = (
        "diff --git a/larder/expiry.py b/.github/workflows/ci.yml\nsimilarity index 100%\n"
        "rename from larder/expiry.py\nrename to .github/workflows/ci.yml\n"
    )
    held(remote, place, moved, ".github/workflows/ci.yml")


def test_headers_that_lie_are_not_believed(remote: Remote, place: CiEnvironment) -> None:
    """The title names one file, the lines that count name another."""
    lie = new_file(".github/workflows/ci.yml").replace(
        "diff --git a/.github/workflows/ci.yml b/.github/workflows/ci.yml", "diff --git a/README.md b/README.md"
    )
    found = prepared(remote, place, lie)
    assert isinstance(found, HeldPatch)


def test_paths_out_of_the_tree_do_not_apply(remote: Remote, place: CiEnvironment, tmp_path: Path) -> None:
    before = sorted(map(str, tmp_path.rglob("*")))
    for path in (".git/hooks/x", ".git/config", "../outside.py", "/etc/cron.d/x", "a/../../b", "sub/.GIT/config"):
        assert isinstance(prepared(remote, place, new_file(path)), HeldPatch), path
    assert sorted(map(str, tmp_path.rglob("*"))) == before


def test_links_and_submodules_are_kept_out(remote: Remote, place: CiEnvironment) -> None:
    held(remote, place, new_file("link", "/etc/passwd", "120000"), "links or submodules")
    held(remote, place, new_file("inner", "larder", "120000"), "links or submodules")
    sub = f"Subproject commit {'1' * 40}\n"
    held(remote, place, new_file("module", sub, "160000"), "links or submodules")


def test_what_nobody_can_read_is_kept_out(remote: Remote, place: CiEnvironment, larder: Path) -> None:
    (larder / "blob.bin").write_bytes(bytes(range(256)))
    subprocess.run(["git", "add", "blob.bin"], cwd=larder, check=True)
    made = subprocess.run(["git", "diff", "--cached", "--binary"], cwd=larder, capture_output=True, check=True)
    binary = made.stdout.decode()
    assert "GIT binary patch" in binary
    held(remote, place, binary, "changes binary files")
    held(remote, place, new_file("a.py", "ok = '\u202e'\n"), "turn the direction")
    held(remote, place, new_file("a\u202eb.py"), "not what they look like")
    held(remote, place, new_file("NUL:x.py"), "not what they look like")


def test_secrets_are_kept_out(remote: Remote, place: CiEnvironment) -> None:
    held(remote, place, new_file("a.py", f"KEY = 'ghp_{'a1' * 18}'\n"), "secret")


def test_size_is_bounded(remote: Remote, place: CiEnvironment) -> None:
    held(remote, place, "".join(new_file(f"f{number}.py") for number in range(101)), "101 files")


@pytest.mark.parametrize("patch", ["", "nothing", "diff --git a/x b/x\n", "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"])
def test_what_is_no_patch_or_does_not_fit(remote: Remote, place: CiEnvironment, patch: str) -> None:
    assert isinstance(prepared(remote, place, patch), HeldPatch)


def test_an_executable_is_said(remote: Remote, place: CiEnvironment) -> None:
    found = prepared(remote, place, new_file("tool.sh", "#!/bin/sh\n", "100755"))
    assert isinstance(found, PreparedPatch) and found.notes == ("it makes `tool.sh` executable",)


def test_nothing_of_the_repository_runs(
    remote: Remote, place: CiEnvironment, larder: Path, bare: Path, tmp_path: Path
) -> None:
    """Attributes that name a filter, hooks wherever git might look for them, and settings that allow all of it."""
    trap = tmp_path / "sprung"
    home = tmp_path / "home"
    (home / ".gitconfig").write_text(
        f'[core]\n\thooksPath = {home}\n[filter "x"]\n\tclean = touch {trap}\n\tsmudge = touch {trap}\n'
        f'[diff "x"]\n\ttextconv = touch {trap}\n\tcommand = touch {trap}\n'
    )
    for name in ("reference-transaction", "pre-push", "post-index-change", "pre-commit"):
        (home / name).write_text(f"#!/bin/sh\ntouch {trap}\n")
        (home / name).chmod(0o755)
    (larder / ".gitattributes").write_text("* filter=x diff=x\n")
    who = ("-c", "user.name=T", "-c", "user.email=t@localhost", "-c", "core.hooksPath=/dev/null")
    run = ["git", *who, "-c", "filter.x.clean=cat", "-c", "filter.x.smudge=cat"]
    subprocess.run([*run, "add", "--all"], cwd=larder, check=True)
    subprocess.run([*run, "commit", "-qm", "trap"], cwd=larder, check=True)
    subprocess.run([*run, "push", "-q", str(bare), "HEAD:main"], cwd=larder, check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=larder, capture_output=True, check=True).stdout
    trap.unlink(missing_ok=True)
    found = prepare(remote, head.decode().strip(), new_file("a.py"), "m", AT)
    assert isinstance(found, PreparedPatch)
    remote.push(found.commit, "refs/heads/new")
    assert not trap.exists()


def test_branches_are_named_by_numbers_alone() -> None:
    assert branch_of(7, "1001-1") == "scrout/issue-7-1001-1"
    with pytest.raises(ForgeError):
        branch_of(7, "1 --force")
