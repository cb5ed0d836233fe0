"""Which statements of a script are about the repository's results."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.gate.dataflow import MAX_CHARS, catches, depends, fixtures, raises
from scrout.gate.sources import deciding_word, own_sources
from scrout.handoff import Reproduction

from ..conftest import assert_linear


def _is_own(package: str) -> bool:
    return package == "pkg"


def _judge(source: str) -> bool:
    """Of the statement marked with `# here`, in a script that imports pkg."""
    text = "import pkg, sys, subprocess\n" + textwrap.dedent(source)
    return depends(text, next(n for n, line in enumerate(text.splitlines(), 1) if "# here" in line), _is_own)


@pytest.mark.parametrize(
    "source",
    [
        "assert pkg.f() == 1  # here",
        "x = pkg.f()\ny = [x]\nassert y == [1]  # here",
        "a, *b = pkg.f()\nassert b  # here",
        "items = [3, 1]\npkg.sort(items)\nassert items == [1, 3]  # here",
        "seen = []\npkg.each(1, seen.append)\nseen.append(pkg.f())\nassert seen == [1]  # here",
        "for x in pkg.f():\n    assert x  # here",
        "if pkg.f() != 1:\n    raise RuntimeError('wrong')  # here",
        "ok = False\ntry:\n    pkg.f()\nexcept ValueError:\n    ok = True\nassert ok  # here",
        "try:\n    pkg.f()\nexcept ValueError as error:\n    assert 'x' in str(error)  # here",
        "try:\n    pkg.f()\n    raise AssertionError('no error')  # here\nexcept ValueError:\n    pass",
        "def check(got, want):\n    if got != want:\n        raise AssertionError(got)  # here\ncheck(pkg.f(), 1)",
        "def run():\n    return pkg.f()\nassert run() == 1  # here",
        "import io, contextlib\nout = io.StringIO()\nwith contextlib.redirect_stdout(out):\n    pkg.f()\n"
        "assert out.getvalue() == ''  # here",
        "done = subprocess.run([sys.executable, '-m', 'pkg'])\nassert done.returncode == 0  # here",
        "class T:\n    def setUp(self):\n        self.x = pkg.f()\n    def test(self):\n"
        "        self.assertEqual(self.x, 1)  # here",
        "def test_output(capsys):\n    pkg.f()\n    assert capsys.readouterr().out == ''  # here",
        "while pkg.f():\n    sys.exit(1)  # here",
        "sys.exit(0 if pkg.f() else 1)  # here",
        "from . import thing\nassert thing()  # here",
        "@pytest.mark.parametrize('f', [pkg.f])\ndef test(f):\n    assert f() == 2  # here",
        "@pytest.mark.parametrize('x', [[3, 1]])\ndef test(x):\n    pkg.sort(x)\n    assert x == [1, 3]  # here",
        "@pytest.fixture\ndef ask():\n    return lambda: pkg.f()\ndef test(ask):\n    assert ask() == 1  # here",
        "@pytest.fixture\ndef ask():\n    def inner():\n        return pkg.f()\n    return inner\n"
        "class T:\n    def test(self, ask):\n        assert ask() == 1  # here",
        "@pytest.fixture\ndef x():\n    return pkg.f()\n@pytest.fixture\ndef y(x):\n    return [x]\n"
        "def test(y):\n    assert y == [1]  # here",
        "@pytest.fixture\ndef out(tmp_path):\n    return tmp_path / 'out'\n"
        "def test(out):\n    pkg.write(str(out))\n    assert out.read_text() == ''  # here",
        "x = pkg.f()\nif x != 1:\n    raise RuntimeError(x)  # here\nprint('fine')",
        "x = pkg.f()\nif x == 1:\n    sys.exit(0)\nraise RuntimeError(x)  # here",
        "def test():\n    try:\n        pkg.f()\n    except ValueError:\n        return\n"
        "    raise AssertionError  # here",
        "try:\n    pkg.f()\nexcept ValueError:\n    sys.exit('the bug')  # here\nsys.exit('something else')",
    ],
)
def test_about_the_repository(source: str) -> None:
    assert _judge(source)


@pytest.mark.parametrize(
    "source",
    [
        "assert False  # here",
        "pkg.f()\nassert 1 == 2  # here",
        "x = pkg.f()\nraise AssertionError(x)  # here",
        "x = pkg.f()\nassert False, x  # here",
        "pkg.f()\nsys.exit(1)  # here",
        "n = 1\npkg.f(n)\nassert n == 2  # here",
        "print(pkg.f())\ntotal = sum([1, 2])\nassert total == 4  # here",
        "if 1 < 2:\n    pkg.f()\n    raise RuntimeError  # here",
        "try:\n    pkg.f()\nfinally:\n    sys.exit(1)  # here",
        "class T:\n    def test(self):\n        x = pkg.f()\n        self.assertTrue(False, x)  # here",
        "class T:\n    def test(self):\n        x = pkg.f()\n        self.assertEqual(1, 2, x)  # here",
        "class T:\n    def test(self):\n        x = pkg.f()\n        self.fail(x)  # here",
        "x = pkg.f(); assert False  # here",
        "assert pkg.f() or True; assert False  # here",
        "import other\nassert other.f() == 1  # here",
        "@pytest.mark.parametrize('x', [1])\ndef test(x):\n    print(pkg.f())\n    assert x == 2  # here",
        "@pytest.mark.parametrize(['x', 'y'], [(1, 2)])\ndef test(x, y):\n    pkg.f()\n    assert x == y  # here",
        "@pytest.fixture\ndef x():\n    return 1\ndef test(x):\n    pkg.f()\n    assert x == 2  # here",
        "@pytest.fixture(name='x')\ndef make():\n    return 1\ndef test(x):\n    pkg.f()\n    assert x == 2  # here",
        "@pytest.fixture(params=[1])\ndef x(request):\n    return request.param\n"
        "def test(x):\n    pkg.f()\n    assert x == 2  # here",
        "def test(x=1):\n    pkg.f()\n    assert x == 2  # here",
        "x = pkg.f()\nif x:\n    raise RuntimeError(x)  # here\nraise RuntimeError('nothing')",
        "try:\n    x = pkg.f()\n    if x:\n        raise RuntimeError(x)  # here\n    raise RuntimeError('nothing')\n"
        "finally:\n    print('done')",
        "x = pkg.f()\nif x:\n    sys.exit('got it')\nelse:\n    sys.exit('got nothing')  # here",
        "def test():\n    if pkg.f():\n        pytest.fail('x')\n    pytest.fail('y')  # here",
    ],
)
def test_about_itself(source: str) -> None:
    assert not _judge(source)


def test_fixtures_of_another_file() -> None:
    made = "import pkg\n@pytest.fixture\ndef ask():\n    return lambda: pkg.f()\n"
    made += "@pytest.fixture\ndef one():\n    return 1\n"
    known = fixtures(made, _is_own)
    assert known == {"ask": True, "one": False}
    assert depends("def test(ask):\n    assert ask() == 1\n", 2, _is_own, fixtures=known)
    assert not depends("import pkg\ndef test(one):\n    pkg.f()\n    assert one == 2\n", 4, _is_own, fixtures=known)


def test_who_catches() -> None:
    caught = "try:\n    f()\nexcept ValueError:\n    print(1)\nf()\n"
    assert catches(caught, 2, "ValueError") and catches(caught, 2, "UnicodeDecodeError")
    assert catches(caught, 2, "TheirOwn")
    assert not catches(caught, 2, "KeyError")
    assert not catches("try:\n    f()\nexcept TheirOwn:\n    print(1)\n", 2, "KeyError")
    assert catches("try:\n    f()\nexcept (TypeError, LookupError):\n    print(1)\n", 2, "KeyError")
    assert catches("try:\n    f()\nexcept:\n    print(1)\n", 2, "KeyError")
    assert not catches(caught, 5, "ValueError")
    assert not catches("try:\n    f()\nexcept ValueError:\n    raise\n", 2, "ValueError")
    assert not catches("try:\n    f()\nexcept ValueError:\n    exit(1)\n", 2, "ValueError")
    assert not catches("try:\n    f()\nfinally:\n    g()\n", 2, "ValueError")


@given(st.text(max_size=300), st.integers(-5, 50))
def test_any_text_has_an_answer(text: str, line: int) -> None:
    assert depends(text, line, _is_own) in (True, False)
    assert raises(text, line) in (True, False)


NESTED = "".join(" " * n + "if pkg:\n" for n in range(90)) + " " * 90 + "assert pkg\n"


@pytest.mark.parametrize(
    "made",
    [
        lambda n: "assert " + "(" * n,
        lambda n: "x = " + "+".join(["pkg"] * n) + "\nassert x\n",
        lambda n: "import pkg\n" + "".join(f"a{i} = a{i + 1}\n" for i in range(n)) + "assert a0\n",
        lambda n: NESTED * (n // 500),
        lambda n: "\0" * n,
        lambda n: "x" * (MAX_CHARS + n),
    ],
    ids=["brackets", "sum", "chain", "nested", "null", "long"],
)
def test_the_time_for_a_hostile_script_grows_as_its_length(made: Callable[[int], str]) -> None:
    assert_linear(lambda text: depends(text, text.count("\n"), _is_own), made, 600)


def test_sources_are_found_wherever_python_stands() -> None:
    claim = Reproduction(
        files={"a.py": "1\n", "notes.txt": "no"},
        command="cat > /tmp/b.py <<'END'\n2\nEND\npython -u - <<EOF\n3\nEOF\n"
        "env X=1 python3 -c 'import pkg; \"4\"' | tail",
    )
    sources = own_sources(claim, {"sub/c.py": "5\n"})
    assert sources.of("a.py") == ("1\n",)
    assert sources.of("/tmp/b.py") == ("2\n",)
    assert sources.of("<stdin>") == ("3\n",)
    assert sources.of("<string>") == ('import pkg; "4"',)
    assert sources.of("c.py") == ("5\n",)
    assert sources.of("notes.txt") == ()


@pytest.mark.parametrize(
    ("command", "word"),
    [
        ("python a.py", None),
        ("python a.py || exit 1", None),
        ("cd x && python a.py 2>&1 | tail -3", None),
        ("echo 'exit 1; false' && python a.py", None),
        ("python - <<EOF\nexit(1)\nEOF", None),
        ("python a.py; false", "false"),
        ("python a.py\nexit 3", "exit"),
        ("X=1 grep a b", "grep"),
        ("python a.py | grep FAIL", "grep"),
        ("(python a.py; exit 1)", "exit"),
        ("! python a.py", "!"),
        ("[ -f a.py ]", "["),
    ],
)
def test_word_that_decides_the_exit_code(command: str, word: str | None) -> None:
    assert deciding_word(command) == word


@given(st.text(alphabet="ab'\"\\;|&<>()$`\n -c", max_size=80))
def test_any_command_can_be_looked_at(command: str) -> None:
    deciding_word(command)
    own_sources(Reproduction(command=command), {})


@pytest.mark.parametrize(
    ("text", "depends_"),
    [
        ("from pkg import g\ndef f(x):\n    return 5\nassert f(g()) == 6  # here\n", False),
        ("from pkg import g\nf = lambda x: 5\nassert f(g()) == 6  # here\n", False),
        ("from pkg import g\ndef f(x):\n    y = x\n    return 5\nassert f(g()) == 6  # here\n", False),
        ("from pkg import g\ndef f(x):\n    return x + 1\nassert f(g()) == 6  # here\n", True),
        ("from pkg import g\nf = lambda x: x\nassert f(g()) == 6  # here\n", True),
        ("from pkg import g\ndef f(x):\n    if x:\n        return 5\n    return 6\nassert f(g()) == 6  # here\n", True),
        ("from pkg import g\ndef f():\n    return g()\nassert f() == 6  # here\n", True),
        ("from pkg import g\ndef f(x):\n    yield x\nassert list(f(g())) == [6]  # here\n", True),
        ("from pkg import g\ndef f(x):\n    return 5\nassert f(1) == g()  # here\n", True),
    ],
)
def test_a_stub_in_between_breaks_the_chain(text: str, depends_: bool) -> None:
    assert _judge(text) is depends_
