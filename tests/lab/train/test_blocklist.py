"""The gate in front of training: every way to write a blocked repository down is caught, and nothing else is."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from scrout.base import TaskError
from scrout.lab.train.blocklist import BLOCKED, blocked_by, blocked_in, refuse_blocked

TASKS = Path(__file__).parents[4] / "shared" / "data" / "tasks"


@pytest.mark.parametrize(
    "planted",
    [
        "django/django",
        "Django/DJANGO",
        " django/django\n",
        "django/django.git",
        "django__django",
        "django+django",
        "django",
        "django__django-12345",
        "django__django@0123456789ab",
        "scikit-learn__scikit-learn-10297",
        "instance_ansible__ansible-f327e65d11bb905ed9f15996024f857a95592629-vba6da65a0f3baefda7a058ebbd0a8dcafb8512f5",
        "https://github.com/django/django",
        "https://github.com/django/django.git",
        "https://someone:word@github.com/Django/Django/tree/main",
        "git@github.com:django/django.git",
        "ssh://git@github.com/django/django.git",
        "github.com/psf/requests",
        "somebody/django",
        "kennethreitz/requests",
        "PyCQA/pylint",
        "vector-im/element-web",
        "vector-im/riot-web",
        "matrix-org/matrix-react-sdk",
        "pydata/xray",
        "NodeBB/NodeBB",
        "ProtonMail/WebClients",
        "/data/mirrors/django+django/repo",
        "/data/src/sympy",
        "someone/django-fork",
        "someone/my-Django-fork",
        "forked_requests",
        "https://github.com/someone/flask-mirror.git",
        "someone/scikit_learn",
    ],
)
def test_planted_row_is_caught_and_named(planted: str) -> None:
    with pytest.raises(TaskError) as caught:
        refuse_blocked(["pallets/click", planted])
    assert repr(planted) in str(caught.value)
    assert "pallets/click" not in str(caught.value)


@pytest.mark.parametrize(
    "innocent",
    [
        "pallets/click",
        "pytest-dev/pluggy",
        "django/channels",
        "ansible/ansible-lint",
        "django-extensions/django-extensions",
        "pylint-dev/astroid",
        "pylint-dev__astroid-1196",
        "https://github.com/django/channels.git",
        "/data/mirrors/pallets+click/repo",
        "someone/flask-login-fork",
        "someone/my-fork",
    ],
)
def test_innocent_row_passes(innocent: str) -> None:
    refuse_blocked([innocent])


@pytest.mark.parametrize(
    ("name", "blocked"),
    [
        ("swebench/sweb.eval.x86_64.django_1776_django-11099:latest", "django/django"),
        ("docker.io/someone/sweb.eval.x86_64.sympy_s_sympy-24102", "sympy/sympy"),
        ("someone/swesmith.x86_64.pylint-dev_1776_pylint.abcdef12", "pylint-dev/pylint"),
        (f"someone/sweap-images:nodebb.nodebb-NodeBB__NodeBB-{'a' * 40}", "nodebb/nodebb"),
        ("someone/sympy_final:0123456789abcdef", "sympy/sympy"),
        ("swebench/sweb.eval.x86_64.pallets_1776_click-2.1:latest", None),
        ("~nobody/of-that-name", None),
        (f"me__shop-{'x' * 5_000}", None),
        (f"me__{'x/' * 3_000}shop", None),
        ("me__shop\0", None),
    ],
)
def test_what_a_data_set_calls_a_row_is_a_name_and_never_a_folder(name: str, blocked: str | None) -> None:
    assert blocked_in(name) == blocked


def test_every_blocked_repository_is_caught() -> None:
    assert len(BLOCKED) == 23
    assert {blocked_by(repo) for repo in BLOCKED} == BLOCKED


def test_a_clone_is_known_by_its_remotes(tmp_path: Path) -> None:
    clone = tmp_path / "mine"
    (clone / ".git").mkdir(parents=True)
    (clone / "sub").mkdir()
    refuse_blocked([str(clone)])
    (clone / ".git" / "config").write_text('[remote "up"]\n\turl = git@github.com:sympy/sympy.git\n')
    for path in (clone, clone / "sub", tmp_path):
        assert blocked_by(str(path)) == "sympy/sympy"


@pytest.mark.parametrize(
    ("name", "blocked"),
    [("swebench_lite", True), ("swebench_verified", True), ("swebench_dev", False), ("swebench_multilingual", False)],
)
def test_task_sets(name: str, blocked: bool) -> None:
    path = TASKS / f"{name}.jsonl.gz"
    if not path.is_file():
        pytest.skip(f"{name} is not in ../shared/data/tasks")
    with gzip.open(path, "rt") as lines:
        rows = [json.loads(line) for line in lines]
    for row in rows:
        assert (blocked_by(row["repo"]) is not None) is blocked
        assert (blocked_by(row["instance_id"]) is not None) is blocked
