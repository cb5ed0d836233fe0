"""The page of a scouting: what it shows, where that comes from, and that nothing hostile gets through."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.handoff import FileRef, Handoff, Reproduction
from scrout.records import Scouting
from scrout.sandbox.workspace import find_source, make_base
from scrout.scout.report import MAX_FILES, MAX_PAGE_BYTES, MAX_REGION_LINES, page, read_sources
from scrout.task import Task

EVIL = "\"'></pre></style></title><script>alert(1)</script><img src=x onerror=alert(1)><a href='javascript:1'>"
OURS = re.compile(
    "html|head|meta|title|style|body|a|main|p|h[123]|[uo]l|li|b|section|div|span|pre|code|mark|svg|rect|details|summary"
    "|header|dl|dt|dd"
)
HARMLESS = re.compile(
    "charset|http-equiv|content|name|lang|href|class|id|title|tabindex|data-line|viewbox|preserveaspectratio"
    "|aria-hidden|width|height|rx"
)
VOID = {"meta"}


class Seen(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.marked: set[str] = set()
        self.style = ""
        self.rows: dict[int, str] = {}
        self.hits: set[int] = set()
        self._row: tuple[int, int] | None = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        found = {name: value or "" for name, value in attrs}
        self.attributes += found.items()
        if tag not in VOID:
            self.open.append(tag)
        if "data-line" in found:
            self._row = (int(found["data-line"]), len(self.open))
            self.rows[self._row[0]] = ""
            if found.get("class") == "hit":
                self.hits.add(self._row[0])

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        if self._row and len(self.open) < self._row[1]:
            self._row = None

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["style"]:
            self.style += data
            return
        self.words.append(data)
        if self.open[-1:] == ["mark"]:
            self.marked.add(data)
        if self._row:
            self.rows[self._row[0]] += data

    @property
    def text(self) -> str:
        return "".join(self.words)


def assert_inert(seen: Seen) -> None:
    assert not seen.open
    assert not {tag for tag in seen.tags if not OURS.fullmatch(tag)}
    assert not {name for name, _ in seen.attributes if not HARMLESS.fullmatch(name)}
    assert all(value.startswith("#") for name, value in seen.attributes if name == "href")


def task(text: str = "It breaks\n\nSometimes.") -> Task:
    return Task(id="t", text=text, repo=Path("/srv/shop"), base_commit="c" * 40)


def scouting(*refs: FileRef, **parts: object) -> Scouting:
    handoff = Handoff.model_validate({"files": refs, **parts})
    return Scouting(handoff=handoff, text="", seconds=0.5)


def hostile(evil: str, confidence: float | None = 0.5) -> str:
    found = scouting(
        FileRef(path=f"src/{evil}.py", regions=((1, 2),), confidence=confidence, why=f"because {evil} and `{evil}`"),
        FileRef(path=evil, why=evil),
        reproduction=Reproduction(files={evil: evil}, command=evil, claim=True, observed=evil),
        dead_ends=(evil,),
        notes=evil,
    )
    code = f"x = 1  # {evil}\ny = '''{evil}'''\n{evil}\n"
    return page(task(f"{evil}\n\n{evil}\n```\n{evil}\n```\n`{evil}`"), found, {f"src/{evil}.py": code}, where=evil)


def test_nothing_planted_becomes_markup() -> None:
    seen = Seen(hostile(EVIL))
    assert_inert(seen)
    # In the title, the heading, the issue, the path, the reason, the code and all the rest.
    assert seen.text.count("<script>alert(1)</script>") > 15


@given(st.text(max_size=60) | st.text("<>\"'`&/ \n=abcON!-[]", max_size=60), st.none() | st.floats(0, 1))
def test_no_text_becomes_markup(evil: str, confidence: float | None) -> None:
    written = hostile(evil, confidence)
    assert_inert(Seen(written))
    assert not re.search("[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", written)


def test_the_policy_allows_our_style_and_nothing_else() -> None:
    seen = Seen(hostile(EVIL))
    digest = base64.b64encode(hashlib.sha256(seen.style.encode()).digest()).decode()
    policy = next(value for name, value in seen.attributes if name == "content" and "default-src" in value)
    assert policy.split("; ")[:2] == ["default-src 'none'", f"style-src 'sha256-{digest}'"]
    assert "url(" not in seen.style and "@import" not in seen.style


def test_lines_have_their_real_numbers_and_regions_are_tinted() -> None:
    # Only a line feed ends a line: not a form feed, a lone carriage return or a separator inside a string.
    lines = [
        "import os",
        "\x0c",
        "a = '\r'",
        "b = '\u2028'",
        "",
        'c = """',
        "</pre>",
        '"""',
        *["pass"] * 300,
        "end = 1",
    ]
    for name in ("a.py", "a.unknown"):
        seen = Seen(page(task(), scouting(FileRef(path=name, regions=((3, 4), (309, 309)))), {name: "\n".join(lines)}))
        assert seen.hits == {3, 4, 309}
        assert seen.rows[1] == "import os" and seen.rows[7] == "</pre>" and seen.rows[309] == "end = 1"
        assert seen.rows[3] == "a = '\ufffd'" and seen.rows[4] == "b = '\ufffd'"


def test_names_of_the_issue_are_marked_and_words_are_not() -> None:
    text = "the total is wrong\n\n`apply_tax`, parseRate or round_up() with Cart.\n\n```python\nimport shop\n```\n"
    code = "import shop\ntotal = apply_tax(parseRate(the), round_up, Cart, print)  # apply_tax\n"
    seen = Seen(page(task(text), scouting(FileRef(path="a.py", regions=((1, 2),))), {"a.py": code}))
    assert seen.marked == {"Names", "apply_tax", "parseRate", "round_up", "shop"}


def test_a_page_tells_all() -> None:
    found = scouting(
        FileRef(path="new.py", why="the issue asks for it"),
        reproduction=Reproduction(command="python check.py", claim=True, observed="ValueError: 7"),
        dead_ends=("the cache is not involved",),
        notes="Look at rounding.",
    )
    text = Seen(page(task(), found, {}, where="bubblewrap sandbox")).text
    told = "It breaks|Sometimes.|the issue asks for it|Not a text file|$ python check.py|failed when run|ValueError: 7"
    for words in f"{told}|the cache is not involved|Look at rounding.|bubblewrap sandbox|0.50 s|{'c' * 40}".split("|"):
        assert words in text, words


@pytest.mark.slow
def test_a_page_is_bounded() -> None:
    code = "value = compute(other, 'text')  # <<<<<<<<<<<<<<<<<<<<<<<<\n" * 5000
    regions = tuple((start, start + 999) for start in range(1, 5000, 1000))
    refs = [FileRef(path=f"f{n}.py", regions=regions, why="w" * 5000) for n in range(MAX_FILES + 5)]
    found = scouting(*refs, notes="&" * 100_000, dead_ends=("&" * 10_000,) * 100)
    written = page(task("t\n" + "'" * 500_000), found, {ref.path: code for ref in refs})
    assert len(written.encode()) <= MAX_PAGE_BYTES
    seen = Seen(written)
    assert ("id", f"file-{MAX_FILES}") in seen.attributes and ("id", f"file-{MAX_FILES + 1}") not in seen.attributes
    assert "5 more are not shown" in seen.text and "the page is full" in seen.text
    assert len(seen.hits) == len(regions) * MAX_REGION_LINES


def test_sources_are_those_of_the_commit(make_repo: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    repo = make_repo({"a.py": "committed = 1\n", "b.bin": b"\0\1", "big.txt": "x" * 1_100_000})
    base = make_base(repo, find_source(repo).head)
    (repo / "a.py").write_text("uncommitted = 1\n")
    wanted = ["a.py", "b.bin", "big.txt", "gone.py", "../secret.txt", str(tmp_path / "secret.txt"), "--help", ":/a.py"]
    assert read_sources(base, wanted) == {"a.py": "committed = 1\n"}


def test_a_link_is_not_followed(make_repo: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    inner = make_repo({"real.py": "x = 1\n"}, name="inner")
    (inner / "link.py").symlink_to(tmp_path / "secret.txt")
    base = make_base(inner, find_source(inner).head, dirty=True)
    assert base.git("ls-tree", base.commit, "link.py").startswith(b"120000")
    assert read_sources(base, ["link.py", "real.py"]) == {"real.py": "x = 1\n"}
