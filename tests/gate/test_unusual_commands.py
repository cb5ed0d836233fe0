"""Claims whose command checks, passes on or cuts what a program did."""

from __future__ import annotations

import pytest

from scrout.gate.dataflow import printed_results
from scrout.gate.execution_trace import _without_isolation
from scrout.gate.printed import read_check
from scrout.gate.sources import deciding_word
from scrout.records import KEPT

from ..conftest import assert_linear
from .test_claims import Claim, Till, _gate

SHOWS = "print(till.split(10, 3))\n"
FAILS = "assert sum(till.split(10, 3)) == 10\n"
WANTED = {"wanted.txt": "[4, 3, 3]\n"}

TRUE = [
    Claim("cmp", "real_failure", SHOWS, "python shows_it.py > got.txt; cmp got.txt wanted.txt", WANTED),
    Claim("diff", "real_failure", "till.mean([])\n", "diff <(python shows_it.py 2>&1) wanted.txt", WANTED),
    Claim("grep for a whole line", "real_failure", SHOWS, "python shows_it.py | grep -qxF -- '[4, 3, 3]'"),
    Claim(
        "brackets around several lines",
        "real_failure",
        command="[[ \"$(python -c 'import till\nprint(till.mean([]))')\" == '\"'0'\"' ]] || { echo wrong; exit 1; }",
    ),
    Claim("an exit code kept", "real_failure", FAILS, 'python shows_it.py; code=$?; echo "exit $code"; exit $code'),
    Claim("an exit code given", "real_failure", FAILS, "python shows_it.py || { echo 'reproduced'; exit 1; }"),
    Claim(
        "an exception behind tail and cut",
        "real_failure",
        "till.mean([])\n",
        "python shows_it.py > out.log 2>&1; code=$?; tail -n 1 out.log | cut -c1-9; exit $code",
    ),
    Claim("isolated", "real_failure", "till.mean([])\n", "python -B -E -s shows_it.py"),
    Claim(
        "a here-document in a script",
        "real_failure",
        command="bash check.sh",
        files={
            "check.sh": "set -e\n# It's wrong.\ntrap 'echo cleaning up' EXIT\npython - <<'END'\nimport till\n"
            "parts = till.split(10, 3)\nassert sum(parts) == 10, parts\nEND\necho passed\n"
        },
    ),
    Claim(
        "a value in a sentence",
        "reproduced_exit_zero",
        "got = till.split(10, 3)\nwanted = [4, 3, 3]\nif got != wanted:\n"
        "    print(f'BUG: {got!r} instead of {wanted!r}')\nelse:\n    print('OK')\n",
    ),
    Claim(
        "a value between words",
        "reproduced_exit_zero",
        "print('We got', till.split(10, 3), 'and want', [4, 3, 3])\n",
    ),
]

FALSE = [
    Claim("cmp of a right value", "nonzero_other", "print(till.mean([1]))\n", TRUE[0].command, WANTED),
    Claim("cmp of a constant", "nonzero_other", "till.mean([1])\nprint('[3, 3, 3]')\n", TRUE[0].command, WANTED),
    Claim("diff of its own failure", "nonzero_other", "till.mean([1])\n1 / 0\n", TRUE[1].command, WANTED),
    Claim("an exit code changed", "nonzero_other", SHOWS, "python shows_it.py; code=$?; code=1; exit $code"),
    Claim("an own failure passed on", "own_error", "till.mean([1])\n1 / 0\n", TRUE[4].command),
    Claim("an own failure, isolated", "own_error", "till.mean([1])\n1 / 0\n", "python -E shows_it.py"),
    Claim(
        "a here-document with a failure of its own",
        "unrelated_failure",
        command="bash check.sh",
        files={"check.sh": "python - <<'END'\nimport till\ntill.mean([1])\nassert 1 == 2\nEND\n"},
    ),
    Claim(
        "two scripts of one name",
        "unrelated_failure",
        command="bash check.sh",
        files={
            "check.sh": "python - <<'END'\nimport till\nassert till.mean([1]) == 1\nEND\n"
            "python - <<'END'\nimport till\nassert 1 == 2\nEND\n"
        },
    ),
    Claim(
        "a constant in a sentence",
        "passed",
        "got = [3, 3, 3]\nprint(f'BUG: {got!r} instead of {till.mean([1])!r}')\n",
    ),
]


@pytest.mark.parametrize("claim", TRUE, ids=lambda claim: claim.name)
async def test_true_claim_is_kept(till: Till, claim: Claim) -> None:
    gated = await _gate(till, claim)
    assert (gated.verdict, gated.reason) == (claim.verdict, gated.reason)


@pytest.mark.parametrize("claim", FALSE, ids=lambda claim: claim.name)
async def test_false_claim_is_not_kept(till: Till, claim: Claim) -> None:
    gated = await _gate(till, claim)
    assert (gated.verdict, gated.reason) == (claim.verdict, gated.reason)
    assert gated.verdict not in KEPT


@pytest.mark.parametrize(
    "command",
    [
        "python x.py; exit $?",
        'python x.py; code=$?; echo "$code"; exit "${code}"',
        "python x.py | tail -1; exit ${PIPESTATUS[0]}",
        "python x.py || { echo wrong; exit 1; }",
        "if ! python x.py; then echo wrong; exit 1; fi",
        "if ! python x.py\nthen\n  exit 1\nfi",
        "if python x.py; then echo fine; else echo wrong; exit 1; fi",
        "python x.py || (echo wrong; exit 1)",
        "set +e; python x.py; code=$?; set -e; test $code -eq 0",
        "python x.py; code=$?; if [ $code -ne 0 ]; then echo wrong; exit 1; fi",
    ],
)
def test_exit_code_is_passed_on(command: str) -> None:
    assert deciding_word(command) is None


@pytest.mark.parametrize(
    "command",
    [
        "python x.py; exit $code",
        "python x.py; code=$?; let code=1; exit $code",
        "python x.py; code=$?; ((code++)); exit $code",
        "python x.py; code=$?; exit $((1 - code))",
        "python x.py || { echo wrong; }; exit 1",
        "python x.py || { echo wrong; exit 1; } && exit 3",
        "false; code=$?; exit $code",
        "if python x.py; then exit 1; fi",
        "if ! python x.py; then echo wrong; else exit 1; fi",
        "if ! python x.py || true; then exit 1; fi",
        "if ! python x.py; then echo wrong; fi; exit 1",
        "grep -q x y || { echo wrong; exit 1; }",
        "if python x.py; then exit 1; else echo wrong; fi",
        "if python x.py; then if true; then echo; else exit 1; fi; fi",
        "if python x.py; then echo fine; else echo wrong; fi; exit 1",
        "python x.py || (echo wrong); exit 1",
        "(python x.py; exit 1)",
        "python x.py; code=$?; test $code -eq 1",
        "python x.py; code=$?; if [ $code -ne 1 ]; then exit 1; fi",
        "python x.py; code=$?; if [ $code -ne 0 ]; then echo wrong; fi; exit 1",
        "code=1; test $code -eq 0",
    ],
)
def test_exit_code_is_the_commands_own(command: str) -> None:
    assert deciding_word(command) is not None


@pytest.mark.parametrize(
    "command",
    [
        "python x.py > a.txt; cmp -s a.txt b.txt >/dev/null 2>&1",
        "python x.py > a.txt\ndiff -u b.txt a.txt || exit 1",
        "python x.py > a.txt && grep -qx '[4, 3]' a.txt",
        "python x.py | diff - b.txt",
        "diff b.txt <(python x.py)",
        "diff <(python x.py) <(echo 3)",
        "python x.py | grep -qxF -- False",
    ],
)
def test_check_of_one_program(command: str) -> None:
    check = read_check(command, {})
    assert check and check.program == "python x.py"


@pytest.mark.parametrize(
    "command",
    [
        "cmp a.txt <(echo 1)",
        "python x.py > a.txt; cmp b.txt c.txt",
        "python x.py > a.txt; false; cmp a.txt b.txt",
        "python x.py > a.txt; cmp a.txt b.txt; exit 1",
        "python x.py | diff a.txt b.txt",
        "diff <(python x.py) <(python y.py)",
        "diff <(python x.py; false) a.txt",
        "python x.py | grep -q y;false",
    ],
)
def test_more_than_a_check_of_one_program(command: str) -> None:
    assert read_check(command, {}) is None


@pytest.mark.parametrize(
    ("command", "watched"),
    [
        ("python -B -I x.py", "python -B -sP x.py"),
        ("python -IBc 'pass'", "python -sPBc 'pass'"),
        ("python3.11 -W error -E -m pkg", "python3.11 -W error -m pkg"),
        ("python x.py -I", "python x.py -I"),
        ("PYTHONPATH=y python -E x.py", "PYTHONPATH=y python -E x.py"),
    ],
)
def test_isolated_python_is_watched(command: str, watched: str) -> None:
    assert _without_isolation(command) == watched


@pytest.mark.parametrize(
    ("code", "line", "results"),
    [
        ("print(f'BUG: {pkg.f()!r} instead of {[4]!r}')", "BUG: [3] instead of [4]", ["[3]"]),
        ("x = pkg.f()\nprint('got', x, 'want', 4)", "got 3 want 4", ["3"]),
        ("print(f'{4}, not {pkg.f()}')", "4, not 3", ["3"]),
        ("print(f'{4}{pkg.f()}')", "43", []),
        ("print(f'got {pkg.f()}')", "we got 3", []),
        ("print(f'got {4}')", "got 4", []),
        ("print(f'{pkg.f()}!')", "3! and more", []),
    ],
)
def test_results_in_a_printed_line(code: str, line: str, results: list[str]) -> None:
    assert list(printed_results(f"import pkg\n{code}\n", lambda name: name == "pkg", [line])) == results


def test_the_time_to_read_a_printed_line_grows_as_its_length() -> None:
    code = "import pkg\nprint(f'" + "{pkg.f()}a" * 20 + "b')\n"
    assert_linear(
        lambda line: list(printed_results(code, lambda name: name == "pkg", [line])), lambda n: "a" * n, 2_000
    )
