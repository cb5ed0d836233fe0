"""A forge's JSON answers, read into records that hold what we need of them."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from scrout.integrations.forge import ForgeError


class Part(BaseModel):
    """Some fields of an answer that has many more."""

    model_config = ConfigDict(frozen=True, extra="ignore")


P = TypeVar("P", bound=Part)


def parsed(kind: type[P], answer: JsonValue) -> P:
    try:
        return kind.model_validate(answer)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part)[:40] for part in first["loc"][:6]) or "as a whole"
        what = kind.__name__.strip("_").lower()
        raise ForgeError(
            f"the forge's answer is no {what} ({where}: {first['msg']}). Check the address of the API."
        ) from None


def listed(kind: type[P], answer: JsonValue) -> list[P]:
    if not isinstance(answer, list):
        raise ForgeError("the forge's answer is no list. Check the address of the API.")
    return [parsed(kind, one) for one in answer]
