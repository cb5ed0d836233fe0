"""Doctests of touched modules judge a patch as tests do."""

from __future__ import annotations

FIXED = "sed -i 's/ + 1//' numbers_.py"
SHOWN = "from numbers_ import double\nassert double(2) == 4, double(2)\n"
PLAIN = "def double(n):\n    return n + n + 1\n"

DOCUMENTED = '''\
def double(n):
    """Twice the number.

    >>> double(0) >= 0
    True
    >>> double(3) > {least}
    True
    """
    return n + n + 1
'''
ELSEWHERE = '''

def half(n):
    """
    >>> half(4)
    2
    """
    return n // 2
'''


async def test_a_doctest_that_executes_the_changed_lines_agrees(task_sandbox_over, check_patch) -> None:
    with task_sandbox_over({"numbers_.py": DOCUMENTED.format(least=3)}) as shop:
        result = await check_patch(shop, FIXED, SHOWN)
    assert (result.outcome, result.tests, result.tests_run) == ("passed", "pass", 1)
    assert result.agreement == ("A passing doctest executes the changed lines: numbers_.py::double.",)


async def test_a_doctest_of_another_function_does_not_agree(task_sandbox_over, check_patch) -> None:
    with task_sandbox_over({"numbers_.py": PLAIN + ELSEWHERE}) as shop:
        result = await check_patch(shop, FIXED, SHOWN)
    assert (result.outcome, result.tests, result.agreement) == ("unverified", "pass", ())


async def test_a_broken_doctest_is_a_broken_test(task_sandbox_over, check_patch) -> None:
    with task_sandbox_over({"numbers_.py": DOCUMENTED.format(least=6)}) as shop:
        result = await check_patch(shop, FIXED, SHOWN)
    assert (result.outcome, result.tests) == ("failed", "fail")
    assert "1 doctest that passed before fail now: numbers_.py::double" in result.detail


async def test_a_rewritten_doctest_is_flagged(task_sandbox_over, check_patch) -> None:
    with task_sandbox_over({"numbers_.py": DOCUMENTED.format(least=6)}) as shop:
        result = await check_patch(shop, f"{FIXED}; sed -i 's/> 6/== 6/' numbers_.py", SHOWN)
    assert (result.outcome, result.tests) == ("unverified", "none")
    assert result.flags == ("changes what a doctest expects: numbers_.py::double",)


async def test_an_example_that_held_beside_one_that_does_not_is_a_test_too(task_sandbox_over, check_patch) -> None:
    """The docstring fails before the patch as a whole; that is no licence to break the rest of it."""
    source = DOCUMENTED.format(least=6).replace(
        "    >>> double(0) >= 0\n", "    >>> double(1)\n    2\n    >>> double(0) >= 0\n"
    )
    with task_sandbox_over({"numbers_.py": source}) as shop:
        result = await check_patch(shop, FIXED, SHOWN)
    assert (result.outcome, result.tests) == ("failed", "fail")


async def test_a_docstring_that_holds_in_part_does_not_agree(task_sandbox_over, check_patch) -> None:
    source = DOCUMENTED.format(least=3).replace("double(0) >= 0\n    True", "double(0) >= 0\n    Yes")
    with task_sandbox_over({"numbers_.py": source}) as shop:
        result = await check_patch(shop, FIXED, SHOWN)
    assert (result.outcome, result.agreement) == ("unverified", ())
