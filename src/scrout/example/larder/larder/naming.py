"""Names of things: "Eggs", "egg" and " EGGS " are the same item.

The plural rules are English and rough. They only have to bring two spellings of one thing to one key; the key itself is
never shown.
"""

from __future__ import annotations

import re
import unicodedata

# Words that look like plurals and are none.
_SINGULARS = frozenset({"couscous", "hummus", "asparagus", "swiss", "molasses", "haggis", "citrus"})
_IRREGULAR = {"leaves": "leaf", "loaves": "loaf", "halves": "half"}


def slug(name: str) -> str:
    """Lower-case ASCII words, joined by hyphens."""
    decomposed = unicodedata.normalize("NFKD", name)
    plain = "".join(char for char in decomposed if not unicodedata.combining(char))
    return "-".join(re.findall(r"[a-z0-9]+", plain.lower()))


def singular(word: str) -> str:
    """The singular of an English word, or the word itself."""
    if word in _SINGULARS or len(word) <= 3:
        return word
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("oes", "shes", "ches", "sses", "xes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith("ss"):
        return word[:-1]
    return word


def key(name: str) -> str:
    """What an item is filed under."""
    *first, last = slug(name).split("-")
    return "-".join([*first, singular(last)])


def display(name: str) -> str:
    """A name as it is shown: single spaces, and the case it was first written in."""
    return " ".join(name.split())
