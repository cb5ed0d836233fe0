"""Issue texts from templates and an observed failure. They name neither the wrong line nor the fix."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from scrout.batch.make.scripts import FailingScript, NotedFailure
from scrout.text import clip

MOST_SHOWN = 400
"""Maximum length of a value or a message, in characters."""
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


@dataclass(frozen=True)
class ObservedFailure:
    """A script that fails with the bug and passes without it, and the failure."""

    script: FailingScript
    got: str = ""
    """repr of the value of the script's left side; empty: there is none."""
    expected: str = ""
    error: str = ""
    """Type of the exception that ended the script, unless its own check raised it."""
    message: str = ""


def issue_with_code(seen: ObservedFailure, rng: random.Random) -> str:
    script = seen.script
    name = f"`{script.call}`" if script.call else "An example"
    if script.raises and not seen.error:
        title = f"{name} accepts what it should refuse"
        return _join(title, "This should raise, and does not:", _block(script.text), f"Expected: `{script.raises}`.")
    if seen.error:
        title = f"{seen.error} from {name}" if script.call else f"Unexpected {seen.error}"
        said = _block(clip(f"{seen.error}: {seen.message}".rstrip(": "), MOST_SHOWN), "")
        return _join(title, "To reproduce:", _block(script.text), "It ends with", said, "I expected no exception.")
    if not script.left or not seen.got or len(seen.got) + len(seen.expected) > MOST_SHOWN:
        return _join(f"{name} gives a wrong result", "This assertion should hold, but fails:", _block(script.text))
    got, expected = _short(seen.got), _short(seen.expected)
    title = f"{name} returns {got} instead of {expected}" if got and expected else f"{name} gives a wrong result"
    form = rng.choice(("assert", "values", "comment"))
    if form == "assert":
        words = f"The assertion fails: the left side is `{seen.got}`."
        return _join(title, "To reproduce:", _block(script.text), words)
    start = f"{script.setup}\n\n" if script.setup else ""
    if form == "values" or "\n" in seen.expected:
        code = _block(f"{start}print(repr({script.left}))")
        return _join(title, code, "Actual:", _block(seen.got, ""), "Expected:", _block(seen.expected, ""))
    code = _block(f"{start}{script.left}  # should be {seen.expected}")
    return _join(title, f"Since recently {name} is wrong:", code, f"I get `{seen.got}`.")


def issue_without_code(package: str, failure: NotedFailure, done: str, call: str) -> str:
    """An issue that describes the failure in words, for failures that no short script shows."""
    what = re.sub(r"^test_?", "", failure.test.partition("[")[0].rpartition("::")[2]).replace("_", " ").strip()
    about = f"`{call}`" if call else package
    title = f"Problem with {about}: {what}" if what else f"Problem with {about}"
    values = [f"{name} = {_ADDRESS.sub('', clip(value, MOST_SHOWN))}" for name, value in failure.params.items()]
    steps = ("Roughly what I do:", _block(done, "")) if done else ()
    given = ("With these values:", _block("\n".join(values), "")) if values else ()
    if failure.type in ("AssertionError", "Failed"):
        said = "A check that should hold fails:"
    else:
        said = f"I get an unexpected {failure.type}:"
    message = _ADDRESS.sub("", clip(failure.message.strip() or failure.type, MOST_SHOWN))
    return _join(title, *steps, *given, said, _block(message, ""), f"Seen with {package}.")


def gives_away(text: str, path: str, changed: list[str]) -> bool:
    """Whether an issue names the wrong file, or contains a line that the mutation removed or left."""
    squeezed = "".join(text.split())
    lines = ("".join(line.split()) for line in changed)
    return path in text or any(len(line) >= 12 and line in squeezed for line in lines)


def _join(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"


def _block(text: str, language: str = "python") -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text.strip()}\n{fence}"


def _short(text: str) -> str:
    """Text for a title; empty: too long for one."""
    line = " ".join(text.split())
    return f"`{line}`" if len(line) <= 60 and "`" not in line else ""
