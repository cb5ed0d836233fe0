"""What can go wrong, in terms that a cook understands.

Everything derives from LarderError, so that the command line can print the message and leave the traceback out.
"""

from __future__ import annotations


class LarderError(Exception):
    """Something is wrong with what was asked for, or with the file it was asked of."""


class QuantityError(LarderError):
    """An amount that cannot be read, or that makes no sense."""


class UnitError(QuantityError):
    """A unit nobody knows, or two that do not convert into each other."""


class DateError(LarderError):
    """A date that cannot be read."""


class RecipeError(LarderError):
    """A recipe whose text does not follow the format."""


class StoreError(LarderError):
    """A stock file that is damaged or comes from a newer version."""


class UnknownItem(LarderError):
    """Something that has never been in the larder."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there has never been any {name} in the larder")
        self.name = name


class NotEnough(LarderError):
    """More was asked for than can be used."""

    def __init__(self, name: str, wanted: object, available: object) -> None:
        super().__init__(f"not enough {name}: {wanted} wanted, {available} there")
        self.name = name
        self.wanted = wanted
        self.available = available
