"""Reads LiteLLM's `model_list`: the model, endpoint, key variable and price of each entry.

It reads only the keys that a fixer needs: no router settings, no fallbacks, no headers. Every entry is either listed or
left out with a reason. A key is never read, only the name of the variable that holds it. LiteLLM itself is not needed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import SplitResult, urlsplit

import yaml

from scrout.base import ConfigError
from scrout.money import Price

MAX_BYTES = 256_000
MAX_ENTRIES = 1_000
MAX_MERGES = 4
"""Maximum number of mappings that one `<<` names."""
MAX_DEPTH = 2
"""Maximum depth of merges: without it, a few short lines could unfold into billions."""
MAX_KEYS = 200
"""Maximum number of keys of one mapping, including merged ones."""
MAX_NAME = 64
"""Maximum length of a fixer's name, in characters."""
DEAREST_TOKEN = Decimal("0.1")
"""Dollars. No token costs this much, but a price per million that is mistaken for one per token does."""

Protocol = Literal["chat", "messages"]
"""OpenAI's chat completions, or Anthropic's messages."""

Node: TypeAlias = "str | list[Node] | dict[str, Node]"
Fields: TypeAlias = dict[str, Node]


@dataclass(frozen=True)
class ListedModel:
    """One model, with everything that a fixer's entry needs."""

    name: str
    """The list's model_name, with the characters that a fixer's name may have. All are different."""
    model: str
    """The endpoint's name for it."""
    base_url: str
    """Up to and including /v1, or the provider's equivalent."""
    key_env: str
    """Environment variable with the key; empty: none is sent."""
    protocol: Protocol
    price: Price | None
    """None: not in the list; looked up by `priced_as`."""
    priced_as: str
    """The actual model, if the endpoint has another name for it, such as an Azure deployment."""
    max_tokens: int | None
    """Output limit of one call; None: not given."""
    effort: str
    """The model's reasoning effort; empty: not given."""


@dataclass(frozen=True)
class LeftOut:
    """An entry that cannot be a fixer."""

    name: str
    """The list's model_name."""
    reason: str


@dataclass(frozen=True)
class _Provider:
    base_url: str
    """Default api_base; empty: the entry needs one."""
    key_env: str = ""
    """LiteLLM's default variables for the api_key."""
    protocol: Protocol = "chat"


PROVIDERS = {
    "anthropic": _Provider("https://api.anthropic.com/v1", "ANTHROPIC_API_KEY", "messages"),
    "azure": _Provider("", "AZURE_API_KEY"),
    "cerebras": _Provider("https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    "custom_openai": _Provider(""),
    "dashscope": _Provider("https://dashscope.aliyuncs.com/compatible-mode/v1", "DASHSCOPE_API_KEY"),
    "deepinfra": _Provider("https://api.deepinfra.com/v1/openai", "DEEPINFRA_API_KEY"),
    "deepseek": _Provider("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    "fireworks_ai": _Provider("https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    "gemini": _Provider("https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
    "groq": _Provider("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "hosted_vllm": _Provider(""),
    "litellm_proxy": _Provider(""),
    "llamafile": _Provider("http://127.0.0.1:8080/v1"),
    "lm_studio": _Provider(""),
    "minimax": _Provider("https://api.minimax.io/v1", "MINIMAX_API_KEY"),
    "mistral": _Provider("https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    "moonshot": _Provider("https://api.moonshot.ai/v1", "MOONSHOT_API_KEY"),
    "nebius": _Provider("https://api.studio.nebius.ai/v1", "NEBIUS_API_KEY"),
    "novita": _Provider("https://api.novita.ai/v3/openai", "NOVITA_API_KEY"),
    "nvidia_nim": _Provider("https://integrate.api.nvidia.com/v1", "NVIDIA_NIM_API_KEY"),
    "ollama": _Provider("http://localhost:11434/v1"),
    "ollama_chat": _Provider("http://localhost:11434/v1"),
    "openai": _Provider("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "openai_like": _Provider(""),
    "openrouter": _Provider("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "sambanova": _Provider("https://api.sambanova.ai/v1", "SAMBANOVA_API_KEY"),
    "together_ai": _Provider("https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    "xai": _Provider("https://api.x.ai/v1", "XAI_API_KEY"),
    "zai": _Provider("https://api.z.ai/api/paas/v4", "ZAI_API_KEY"),
}
"""Keyed by LiteLLM's prefix of a model. Providers that support neither protocol are not here."""

_BARE = {"openai": re.compile(r"(ft:)?(gpt-|chatgpt-|o[1-9]\b)"), "anthropic": re.compile(r"claude-")}
"""Models that LiteLLM recognizes without a provider prefix."""

_FROM_ENVIRONMENT = "os.environ/"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NO_KEY = frozenset({"none", "empty", "dummy", "fake", "fake-key", "fake-api-key", "no-key", "not-needed", "anything"})
"""Usual placeholders for a self-hosted server without a key."""
_ABSENT = frozenset({"", "~", "null", "Null", "NULL"})
_ENDINGS = ("/chat/completions", "/messages")


class _Unusable(Exception):
    """This entry is left out, for the given reason."""


def read(path: Path) -> tuple[tuple[ListedModel, ...], tuple[LeftOut, ...]]:
    """The entries of the file, and those that no fixer can use."""
    listed: list[ListedModel] = []
    left_out: list[LeftOut] = []
    taken: set[str] = set()
    for number, node in enumerate(_entries(path), start=1):
        place = f"{path}, entry {number} of model_list"
        entry = _mapping(node, place)
        called = _text(entry, "model_name", place)
        if not called:
            raise ConfigError(f"{place} has no model_name. Give it one.")
        name = _unlike(called, {other.name for other in listed})
        try:
            found = _listed(name, entry, f"{place} ({called[:MAX_NAME]!r})")
            if called in taken:
                raise _Unusable("an earlier entry has the same name, and scrout does not balance load between entries")
        except _Unusable as reason:
            left_out.append(LeftOut(called, str(reason)))
        else:
            listed.append(found)
            taken.add(called)
    return tuple(listed), tuple(left_out)


def _entries(path: Path) -> list[Node]:
    try:
        # Scalars stay text: a price never becomes a float, and no tag creates an object.
        document: Node = yaml.load(_contents(path), Loader=yaml.BaseLoader)
    except yaml.YAMLError as error:
        # Of the parser's message, only the part that quotes no content: the line may contain a key.
        mark = getattr(error, "problem_mark", None)
        line = f" at line {mark.line + 1}" if mark is not None else ""
        raise ConfigError(f"{path} is not valid YAML{line}. Check it with LiteLLM.") from None
    except (RecursionError, ValueError, OverflowError):
        raise ConfigError(f"{path} cannot be read as YAML. Check it with LiteLLM.") from None
    entries = document.get("model_list") if isinstance(document, dict) else None
    if not isinstance(entries, list) or not entries:
        raise ConfigError(f"{path} has no entries under `model_list:`. Name a file that has some.")
    if len(entries) > MAX_ENTRIES:
        raise ConfigError(f"{path} lists {len(entries)} models; {MAX_ENTRIES} can be read. Split it.")
    return entries


def _contents(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise ConfigError(f"{path} has over {MAX_BYTES:,} bytes. Keep the models you want in a file of their own.")
        return content.decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}. Name LiteLLM's configuration file.") from None
    except ValueError:
        raise ConfigError(f"{str(path)!r} is not a text file. Name LiteLLM's configuration file.") from None


def _mapping(node: Node | None, place: str, depth: int = 0) -> Fields:
    """The node's keys and those that it merges (`<<`), its own winning; empty for a missing node."""
    if node is None or (isinstance(node, str) and node in _ABSENT):
        return {}
    if not isinstance(node, dict):
        raise ConfigError(f"{place} is not a mapping of keys to values. See LiteLLM's model_list.")
    merged = node.get("<<", [])
    sources = merged if isinstance(merged, list) else [merged]
    if len(sources) > MAX_MERGES or depth > MAX_DEPTH:
        raise ConfigError(f"{place} merges too many keys with `<<`. Write the keys out.")
    fields: Fields = {}
    for source in reversed(sources):
        fields |= _mapping(source, place, depth + 1)
    fields |= {key: value for key, value in node.items() if key != "<<"}
    if len(fields) > MAX_KEYS:
        raise ConfigError(f"{place} has more than {MAX_KEYS} keys. Remove those that do not describe the model.")
    return fields


def _text(fields: Fields, key: str, place: str) -> str:
    """Empty: not given."""
    value = fields.get(key, "")
    if not isinstance(value, str):
        raise ConfigError(f"{place}: `{key}` must be a single value. See LiteLLM's model_list.")
    return "" if value in _ABSENT else value.strip()


def _unlike(called: str, names: set[str]) -> str:
    """A fixer's name that is not in `names`."""
    stem = re.sub(r"[^A-Za-z0-9._/-]+", "-", called).lstrip("._/-")[:MAX_NAME] or "model"
    name, number = stem, 1
    while name in names:
        number += 1
        name = f"{stem[: MAX_NAME - len(str(number)) - 1]}-{number}"
    return name


def _listed(name: str, entry: Fields, place: str) -> ListedModel:
    params = _mapping(entry.get("litellm_params"), f"{place}: `litellm_params`")
    info = _mapping(entry.get("model_info"), f"{place}: `model_info`")
    # A literal key is refused everywhere, also in an entry that would be left out.
    named_key = _named_key(params, place)
    mode = _text(info, "mode", place)
    if mode not in ("", "chat"):
        raise _Unusable(f"its mode is {mode[:MAX_NAME]!r}, and a fixer needs a chat model")
    who, model = _provider(params, place)
    provider = PROVIDERS[who]
    base_url = _base_url(params, who, place)
    either = info | params
    return ListedModel(
        name=name,
        model=model,
        base_url=base_url,
        key_env=_own_key(who, base_url) if named_key is None else named_key,
        protocol=provider.protocol,
        price=_price(either, place),
        priced_as=_text(either, "base_model", place) or model,
        max_tokens=_max_tokens(params, place),
        effort=_effort(params, place),
    )


def _provider(params: Fields, place: str) -> tuple[str, str]:
    """The provider, and its name for the model."""
    whole = _text(params, "model", place)
    if not whole:
        raise ConfigError(f"{place} has no `litellm_params.model`. Give it one, such as openai/gpt-5.")
    if not whole.isprintable() or " " in whole:
        raise ConfigError(f"{place}: `litellm_params.model` has blanks or control characters. Correct it.")
    who, slash, model = whole.partition("/")
    told = _text(params, "custom_llm_provider", place)
    if told and told != who:
        who, slash, model = told, "/", whole
    if not slash:
        who, model = next((name for name, form in _BARE.items() if form.match(whole)), ""), whole
    if who not in PROVIDERS:
        raise _Unusable(
            f"{whole[:MAX_NAME]!r} names no provider that is known to speak OpenAI's or Anthropic's protocol; where it "
            "does, write openai/ before the model and give its api_base"
        )
    if model.startswith("responses/"):
        raise _Unusable(
            "it uses the responses API, which is not supported here; remove responses/ from its model to use it"
        )
    if not model or "*" in model:
        raise _Unusable(f"{whole[:MAX_NAME]!r} does not name one model")
    return who, _as_named(who, model)


def _as_named(who: str, model: str) -> str:
    """The model's name as LiteLLM would send it, without prefixes and with additions."""
    if who == "azure":
        return model.removeprefix("o_series/").removeprefix("gpt5_series/")
    if who == "fireworks_ai" and not model.startswith("accounts/"):
        return f"accounts/fireworks/models/{model}"
    return model


def _base_url(params: Fields, who: str, place: str) -> str:
    given = _text(params, "api_base", place) or _text(params, "base_url", place)
    if given.startswith(_FROM_ENVIRONMENT):
        variable = given.removeprefix(_FROM_ENVIRONMENT)
        given = _environment(variable)
        if not given:
            raise _Unusable(f"its api_base is in the environment variable {variable[:MAX_NAME]!r}, which is not set")
    if not given and not PROVIDERS[who].base_url:
        raise _Unusable(f"{who} needs an api_base, and has none")
    return _address(given, who, place) if given else PROVIDERS[who].base_url


def _environment(variable: str) -> str:
    return os.environ.get(variable, "").strip() if _VARIABLE.fullmatch(variable) else ""


def _address(given: str, who: str, place: str) -> str:
    """The api_base in the form of a fixer's base_url. Errors do not quote it, because it may contain a password."""
    url = _split(given)
    if url is None:
        raise ConfigError(
            f"{place}: `api_base` is not an http or https address. Write one such as http://localhost:8000/v1."
        )
    if "@" in url.netloc or url.query or url.fragment:
        raise ConfigError(f"{place}: `api_base` contains more than an address. Remove user, password and parameters.")
    path = url.path.rstrip("/")
    for ending in _ENDINGS:
        path = path.removesuffix(ending)
    if who == "azure":
        path = path.partition("/openai")[0] + "/openai/v1"
    # LiteLLM adds /v1 only for Anthropic; an OpenAI-compatible server without a path has its API there too.
    elif not path or (PROVIDERS[who].protocol == "messages" and not path.endswith("/v1")):
        path += "/v1"
    return f"{url.scheme}://{url.netloc}{path}"


def _split(address: str) -> SplitResult | None:
    try:
        url = urlsplit(address)
        usable = url.scheme in ("http", "https") and url.hostname and url.port != 0
    except ValueError:
        return None
    return url if usable and address.isprintable() and " " not in address else None


def _named_key(params: Fields, place: str) -> str | None:
    """The variable with the key; empty: no key; None: the entry does not say."""
    given = _text(params, "api_key", place)
    if not given:
        if _text(params, "litellm_credential_name", place):
            raise _Unusable(
                "its key is in credential_list, which scrout does not read; set its api_key to os.environ/NAME"
            )
        return None
    if given.lower() in _NO_KEY:
        return ""
    variable = given.removeprefix(_FROM_ENVIRONMENT)
    if variable == given or not _VARIABLE.fullmatch(variable):
        raise ConfigError(
            f"{place}: `api_key` contains a key. Keep secrets out of files: put the key into an environment variable "
            f"and write {_FROM_ENVIRONMENT}NAME."
        )
    return variable


def _own_key(who: str, base_url: str) -> str:
    """The provider's usual variable, for its own hosts only: that key must not be sent to another server."""
    host = urlsplit(base_url).hostname or ""
    own = host.endswith(".azure.com") if who == "azure" else host == urlsplit(PROVIDERS[who].base_url).hostname
    return PROVIDERS[who].key_env if own else ""


def _price(fields: Fields, place: str) -> Price | None:
    price_in = _per_million(fields, "input_cost_per_token", place)
    price_out = _per_million(fields, "output_cost_per_token", place)
    if price_in is None and price_out is None:
        return None
    if price_in is None or price_out is None:
        raise ConfigError(
            f"{place} has only one of input_cost_per_token and output_cost_per_token. Give both or neither."
        )
    return Price(
        input=price_in,
        output=price_out,
        cache_read=_per_million(fields, "cache_read_input_token_cost", place),
        cache_write=_per_million(fields, "cache_creation_input_token_cost", place),
        reasoning=_per_million(fields, "output_cost_per_reasoning_token", place),
    )


def _per_million(fields: Fields, key: str, place: str) -> Decimal | None:
    """Dollars, the highest rate if long prompts cost more, because a cap must hold; None: not given."""
    amounts = [_per_token(fields, tier, place) for tier in _tiers(fields, key)]
    return max((amount.scaleb(6) for amount in amounts if amount is not None), default=None)


def _tiers(fields: Fields, key: str) -> Iterator[str]:
    yield key
    for other in fields:
        if other.startswith(f"{key}_above_") and other.endswith("_tokens"):
            yield other


def _per_token(fields: Fields, key: str, place: str) -> Decimal | None:
    text = _text(fields, key, place)
    if not text:
        return None
    try:
        amount = Decimal(text)
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite() or not 0 <= amount <= DEAREST_TOKEN:
        raise ConfigError(
            f"{place}: `{key[:MAX_NAME]}` is not a price per token in dollars. Write one such as 0.00000125."
        )
    return amount


def _max_tokens(params: Fields, place: str) -> int | None:
    text = _text(params, "max_tokens", place) or _text(params, "max_completion_tokens", place)
    if not text:
        return None
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < 1:
        raise ConfigError(f"{place}: `max_tokens` is not a number of tokens. Write one such as 4096, or leave it out.")
    return int(text)


def _effort(params: Fields, place: str) -> str:
    given = params.get("reasoning_effort", "")
    effort = _text(given if isinstance(given, dict) else {"effort": given}, "effort", place)
    if not re.fullmatch(r"[a-z0-9-]*", effort):
        raise ConfigError(f"{place}: `reasoning_effort` is not a single word. Write one such as high, or leave it out.")
    return effort
