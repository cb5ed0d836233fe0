"""What every folder of tests may use: real repositories, the real sandbox, and folders that are not the user's own."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import time
import venv
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from importlib.util import find_spec
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

import scrout.programs
from scrout.config.folders import cache_folder
from scrout.config.settings import Settings
from scrout.files import Lock
from scrout.sandbox.probe import probe
from scrout.sandbox.task_sandbox import TaskSandbox, open_task_sandbox
from scrout.sandbox.tier import Tier
from scrout.sandbox.workspace import Base, base_key, find_source, make_base, private_folder
from scrout.task import Task

MakeRepo = Callable[..., Path]
OpenTaskSandbox = Callable[..., AbstractContextManager[TaskSandbox]]

# A shell starts what it puts into the background with interrupts ignored, and every process below would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Few examples, the same ones each time, by default; many random ones in `make test-all`.
_EVERY_PROFILE = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
}
hypothesis_settings.register_profile("few", max_examples=20, derandomize=True, **_EVERY_PROFILE)
hypothesis_settings.register_profile("many", max_examples=150, **_EVERY_PROFILE)
hypothesis_settings.load_profile("few")

TESTS = Path(__file__).parent
PARTS = {
    "lab/study": ("slow", "sklearn"),
    "lab/train/grpo": ("torch", "torch"),
    "lab/train/test_evaluate.py": ("torch", "torch"),
    "lab/train/test_pack.py": ("torch", "transformers"),
    "lab/train/test_plan.py": ("torch", "trl"),
    "lab/train/test_serving.py": ("torch", "torch"),
    "lab/train/test_sft.py": ("torch", "trl"),
    "lab/train/test_tokens.py": ("torch", "transformers"),
    "lab/train/test_walk.py": ("torch", "trl"),
    "server/dashboard/test_browser.py": ("browser", "playwright"),
}
"""Folders and files whose tests all have one marker, and the package that they import."""

MANY_CASES = {
    "batch/test_grade.py": 2,
    "check/test_check.py": 2,
    "gate/test_claims.py": 3,
    "gate/test_counterfactual.py": 3,
    "gate/test_own_failures.py": 3,
    "gate/test_tampering.py": 3,
    "models/proxy/test_bounds.py": 2,
    "scout/test_reproduce.py": 2,
}
"""Files with many cases of one kind, each of which starts a process: one case in so many runs by default, and all in
`make test-all`."""

LONGEST_FIRST = ("model", "ray", "agents", "torch", "slow", "browser", "postgres")

collect_ignore = [path for path, (_, package) in PARTS.items() if find_spec(package) is None]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for path in collect_ignore:
        terminalreporter.write_line(f"left out: tests/{path}: {PARTS[path][1]} is not installed")


@pytest.hookimpl(tryfirst=True)  # before pytest leaves out what is marked
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        below = item.path.relative_to(TESTS).as_posix()
        # By its name, so that a new case moves no other one.
        if hasattr(item, "callspec") and crc32(item.name.encode()) % MANY_CASES.get(below, 1):
            item.add_marker("slow")
        for path, (marker, _) in PARTS.items():
            if below == path or below.startswith(f"{path}/"):
                item.add_marker(marker)
    # Files with long tests come first, so that none is left to one worker at the end.
    longest = {item.path: len(LONGEST_FIRST) for item in items}
    for item in items:
        for rank, marker in enumerate(LONGEST_FIRST):
            if item.get_closest_marker(marker) is not None:
                longest[item.path] = min(longest[item.path], rank)
    items.sort(key=lambda item: longest[item.path])


IDENTITY = ("-c", "user.name=Test", "-c", "user.email=test@localhost", "-c", "commit.gpgSign=false")

# A small project whose tests pass and whose `total` is wrong, and an issue about it.
SHOP = {
    "shop/__init__.py": "",
    "shop/cart.py": '''"""A cart."""


def total(prices):
    """The sum of all prices."""
    result = 0
    for price in prices[1:]:
        result += price
    return result
''',
    "tests/__init__.py": "",
    "tests/test_cart.py": """import unittest

from shop.cart import total


class CartTest(unittest.TestCase):
    def test_empty(self):
        self.assertEqual(total([]), 0)
""",
}
SHOP_ISSUE = """total() leaves out the first price

```python
from shop.cart import total

assert total([1, 2]) == 3, total([1, 2])
```

```
AssertionError: 2
```
"""


def assert_linear(work: Callable[[str], object], text: str | Callable[[int], str], size: int = 20_000) -> None:
    """Four times the text takes about four times the CPU time, where a rule that takes the square needs sixteen.

    `text` is repeated up to the size, or makes a text of a size. Whatever else the machine does can slow one try down,
    not every one: the best of a few counts.
    """
    make = (lambda length: text * (length // len(text))) if isinstance(text, str) else text
    small, large = make(size), make(4 * size)
    tries = []
    for _ in range(5):
        once, four_times = cpu_seconds(work, small), cpu_seconds(work, large)
        # Below a few milliseconds the clock says more than the work.
        if four_times < 11 * max(once, 0.004):
            return
        tries.append((once, four_times))
    raise AssertionError(f"seconds for {len(small)} and {len(large)} characters: {tries}")


def cpu_seconds(work: Callable[[str], object], text: str) -> float:
    """Of this thread alone, without what the collector of garbage finds in others' memory."""
    gc.disable()
    try:
        began = time.thread_time()
        work(text)
        return time.thread_time() - began
    finally:
        gc.enable()


def run_git(repo: Path, *args: str, stdin: bytes | None = None) -> bytes:
    """git as a user would run it, with an identity."""
    return subprocess.run(["git", *IDENTITY, *args], cwd=repo, input=stdin, check=True, capture_output=True).stdout


def point_folders_to(folder: Path, environment: pytest.MonkeyPatch) -> None:
    environment.setenv("HOME", str(folder / "home"))
    for variable in ("XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        environment.setenv(variable, str(folder / variable.lower()))


@pytest.fixture(autouse=True)
def no_repository_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process of one's own: programs below a repository that was looked at are not taken any more."""
    monkeypatch.setattr(scrout.programs, "_foreign", set())


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bases, workspaces, ledgers and configuration land under tmp_path, never in the user's folders."""
    (tmp_path / "home").mkdir()
    point_folders_to(tmp_path, monkeypatch)


@pytest.fixture
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """For tests that exhaust processes or memory: one at a time, whichever of pytest's workers runs them."""
    # Each worker has a folder of its own below the one they share.
    lock = Lock(tmp_path_factory.getbasetemp().parent / "alone.lock")
    lock.take(wait=True)
    yield
    lock.release()


@pytest.fixture(scope="session")
def tier(tmp_path_factory: pytest.TempPathFactory) -> Tier:
    """The strongest isolation of this machine; tests that need one are skipped where there is none."""
    with pytest.MonkeyPatch.context() as environment:
        point_folders_to(tmp_path_factory.mktemp("probe"), environment)
        probed = probe()
    if probed.tier is None:
        pytest.skip(f"no isolation tier here: {probed.detail}. {probed.remedy}")
    return probed.tier


@pytest.fixture(scope="session")
def empty_repo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository without a commit, to be copied: that takes a tenth of the time of `git init`."""
    repo = tmp_path_factory.mktemp("empty") / "repo"
    subprocess.run(["git", "init", "-q", "-b", "main", "--template=", repo], check=True)
    return repo


@pytest.fixture(scope="session")
def venv_with_pytest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with pytest alone: without the plugins of this one a run starts in a sixth of the time."""
    folder = tmp_path_factory.mktemp("pytest") / "venv"
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for name in ("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments"):
        spec = find_spec(name)
        assert spec is not None and spec.origin is not None
        if spec.submodule_search_locations is None:
            shutil.copy2(spec.origin, packages)
            continue
        source = Path(spec.origin).parent
        for part in (source, *source.parent.glob(f"{name}-*.dist-info")):
            shutil.copytree(part, packages / part.name)
    return folder


@pytest.fixture(scope="session")
def light_python(venv_with_pytest: Path) -> Path:
    """The folder of its programs, for PATH."""
    return venv_with_pytest / "bin"


@pytest.fixture
def make_repo(tmp_path: Path, empty_repo: Path) -> MakeRepo:
    """make_repo(files, name="repo"): a git repository with these files in one commit."""

    def make(files: Mapping[str, str | bytes], name: str = "repo") -> Path:
        repo = tmp_path / name
        _commit_files(empty_repo, repo, files)
        return repo

    return make


def _commit_files(empty_repo: Path, repo: Path, files: Mapping[str, str | bytes]) -> None:
    shutil.copytree(empty_repo, repo)
    for path, content in files.items():
        (repo / path).parent.mkdir(parents=True, exist_ok=True)
        (repo / path).write_bytes(content if isinstance(content, bytes) else content.encode())
    run_git(repo, "add", "--all")
    run_git(repo, "commit", "-q", "--allow-empty", "-m", "base")


@pytest.fixture(scope="session")
def shared_base(empty_repo: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Base]:
    """shared_base(files): the base of a repository with these files, made once. Tests only read both."""
    made: dict[frozenset[tuple[str, str | bytes]], Base] = {}

    def get(files: Mapping[str, str | bytes]) -> Base:
        key = frozenset(files.items())
        if key not in made:
            folder = tmp_path_factory.mktemp("shared").resolve()
            _commit_files(empty_repo, folder / "repo", files)
            with pytest.MonkeyPatch.context() as environment:
                point_folders_to(folder, environment)
                made[key] = make_base(folder / "repo", run_git(folder / "repo", "rev-parse", "HEAD").decode().strip())
        return made[key]

    return get


@pytest.fixture
def task_sandbox(tier: Tier, light_python: Path, monkeypatch: pytest.MonkeyPatch) -> OpenTaskSandbox:
    """task sandbox(repo, settings=Settings()): a TaskSandbox at the repository's HEAD, as a context manager."""
    monkeypatch.setenv("PATH", str(light_python), prepend=os.pathsep)

    def opened(repo: Path, settings: Settings | None = None) -> AbstractContextManager[TaskSandbox]:
        source = find_source(repo)
        task = Task(id="task", text="an issue", repo=source.repo, base_commit=source.head)
        return open_task_sandbox(task, tier, settings or Settings())

    return opened


@pytest.fixture
def task_sandbox_over(
    tier: Tier, light_python: Path, shared_base: Callable[..., Base], monkeypatch: pytest.MonkeyPatch
) -> OpenTaskSandbox:
    """task_sandbox_over(files, settings=Settings()): as `task sandbox`, over a base that tests share: it takes no
    git.
    """
    monkeypatch.setenv("PATH", str(light_python), prepend=os.pathsep)

    def opened(
        files: Mapping[str, str | bytes], settings: Settings | None = None
    ) -> AbstractContextManager[TaskSandbox]:
        base = shared_base(files)
        known = private_folder(cache_folder() / "bases") / base_key(base.repo, base.commit)
        if not known.exists():
            known.symlink_to(base.tree.parent)
        task = Task(id="task", text="an issue", repo=base.repo, base_commit=base.commit)
        return open_task_sandbox(task, tier, settings or Settings())

    return opened


@pytest.fixture
def shop(task_sandbox_over: OpenTaskSandbox) -> Iterator[TaskSandbox]:
    """A task sandbox over a repository with one file, for tests that do not care which."""
    with task_sandbox_over({"file.txt": "tracked\n"}) as opened:
        yield opened


@pytest.fixture
def shop_repo(make_repo: MakeRepo) -> Path:
    """A project whose tests pass and whose `total` is wrong."""
    return make_repo(SHOP)
