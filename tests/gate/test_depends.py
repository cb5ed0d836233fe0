"""Which statements of a script are about the repository's results."""

from __future__ import annotations

import textwrap
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.gate.depends import MAX_CHARS, catches, depends, raises, replaced
from scrout.gate.sources import deciding_word, own_sources
from scrout.handoff import Reproduction


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
    ],
)
def test_about_itself(source: str) -> None:
    assert not _judge(source)


@pytest.mark.parametrize(
    "source",
    [
        "import pkg\npkg.core.f = None",
        "import pkg as p\np.TABLE['a'] = 1",
        "from pkg import Thing\nThing.run = lambda self: 1",
        "from pkg import Thing\ndel Thing.run",
        "from pkg import Thing\nThing.count += 1",
        "import pkg\nsetattr(pkg, 'f', 1)",
        "from unittest.mock import patch\n@patch('pkg.f')\ndef test(f): pass",
        "import pkg\nfrom unittest import mock\nwith mock.patch.object(pkg.core, 'f'): pass",
        "import pkg\ndef test(monkeypatch):\n    monkeypatch.setattr(pkg.core, 'f', None)",
    ],
)
def test_replacing_the_repository_is_seen(source: str) -> None:
    assert replaced(source, _is_own)


@pytest.mark.parametrize(
    "source",
    [
        "import pkg\nthing = pkg.Thing()\nthing.name = 'x'",
        "import pkg\nresult = pkg.f()",
        "import os\nos.environ['A'] = 'pkg'",
        "from unittest.mock import patch\n@patch('time.time')\ndef test(now): pass",
    ],
)
def test_using_the_repository_is_not_replacing_it(source: str) -> None:
    assert replaced(source, _is_own) is None


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
    assert replaced(text, _is_own) is None or "pkg" in text


@pytest.mark.parametrize(
    "text",
    [
        "assert " + "(" * 5000,
        "x = " + "+".join(["pkg"] * 4000) + "\nassert x\n",
        "import pkg\n" + "".join(f"a{n} = a{n + 1}\n" for n in range(2500)) + "assert a0\n",
        "".join(" " * n + "if pkg:\n" for n in range(90)) + " " * 90 + "assert pkg\n",
        "\0" * 100,
        "x" * (MAX_CHARS + 1),
    ],
    ids=["brackets", "sum", "chain", "nested", "null", "long"],
)
def test_a_hostile_script_takes_no_time(text: str) -> None:
    started = time.monotonic()
    depends(text, text.count("\n"), _is_own)
    assert time.monotonic() - started < 5


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
