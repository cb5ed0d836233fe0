"""Any model behind an OpenAI-compatible `/embeddings`.

The key is sent in one header and appears in no message. An endpoint may bill, so its calls go through the meter. The
server that scrout starts for a model file is called directly.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import httpx
import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, Field, ValidationError

from scrout.base import RouteError
from scrout.config.settings import EmbedderSettings
from scrout.models.chat import certificates, secrets_of, shown
from scrout.models.chat_response import retry_after_s
from scrout.models.context_overflow import too_long
from scrout.money import Price
from scrout.route.embedder import MAX_CHARS, Embedder, Vectors
from scrout.route.embedder_account import metered
from scrout.route.embedding_cache import CachedEmbedder

BATCH = 64
TRIES = 4
FIRST_WAIT_S = 1.0
CONNECT_TIMEOUT_S = 15.0
TIMEOUT_S = 120.0
"""For one try, from the connection to the last byte."""
MAX_ANSWER_BYTES = 64_000_000
MAX_EXCERPT = 300
METERED = "http://meter/v1/embeddings"
MIN_CHARS = 256
"""Minimum length when a text is shortened to fit: if this does not fit, something else is wrong."""

_NEXT_STEPS = {
    400: "Check model, and dimensions if it is set.",
    401: "Check the key in key_env.",
    403: "The key in key_env may not use this model.",
    404: "Check base_url and model.",
    429: "The endpoint limits the rate; try later.",
    503: "Is it running? Try later.",
}
_PASSING = frozenset({408, 429})

Input = str | list[int]
"""A text, or its token numbers."""


@dataclass(frozen=True)
class _Fault:
    message: str
    passing: bool = False
    """Whether a retry may help."""
    too_long: bool = False
    wait_s: float | None = None
    """The wait that the endpoint requests."""


class EndpointEmbedder:
    """One model at one endpoint. Rows are normalized here; a text of spaces gives zeros without a request."""

    def __init__(
        self,
        base_url: str,
        model: str,
        key: str | None,
        *,
        dimensions: int | None = None,
        name: str = "",
        size: int = 0,
        tokenize: Callable[[str], list[int]] | None = None,
        price: Price | None = None,
        own_server: bool = False,
        timeout_s: float = TIMEOUT_S,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.base_url = base_url
        self.model = model
        self.dimensions = dimensions
        """Sent with every request; None: the model's default. Only some models support it."""
        self.timeout_s = timeout_s
        self.price = price
        self.own_server = own_server
        """Whether scrout started it, so that it bills nothing."""
        self._key = key
        self._name = name
        self._size = dimensions or size
        """0: as in the first answer."""
        self._tokenize = tokenize
        """Tokenizes here instead of on the server; None: texts are sent."""
        self._sleep = sleep

    @property
    def name(self) -> str:
        """The endpoint does not tell its weights, so its URL identifies them."""
        address = hashlib.sha256(shown(self.base_url).rstrip("/").encode()).hexdigest()[:8]
        return self._name or f"endpoint-{self.model}-{self.dimensions or 'full'}-{address}"

    @property
    def size(self) -> int:
        """Requested from the endpoint if it is still unknown."""
        if not self._size:
            self.embed(["size"])
        return self._size

    def embed(self, texts: Sequence[str]) -> Vectors:
        inputs: list[Input] = [self._input(text) for text in texts]
        asked = [number for number, said in enumerate(inputs) if said]
        found = self._all_vectors([inputs[number] for number in asked]) if asked else []
        rows = np.zeros((len(texts), self.size), dtype=np.float32)
        for number, row in zip(asked, found, strict=True):
            rows[number] = row
        return rows

    def _all_vectors(self, inputs: Sequence[Input]) -> list[Vectors]:
        with self._client() as client:
            batches = (inputs[start : start + BATCH] for start in range(0, len(inputs), BATCH))
            return [row for batch in batches for row in self._vectors(client, batch)]

    def _input(self, text: str) -> Input:
        if not text.strip():
            return ""
        # Command output may contain lone surrogates, which have no UTF-8 bytes.
        return self._tokenize(text) if self._tokenize else text[:MAX_CHARS].encode("utf-8", "replace").decode("utf-8")

    def _vectors(self, client: httpx.Client, inputs: Sequence[Input]) -> list[Vectors]:
        """Rows for one batch; a text that is too long for the model is halved until it fits."""
        outcome = self._ask(client, inputs)
        if not isinstance(outcome, _Fault):
            return outcome
        if outcome.too_long and len(inputs) > 1:
            # One by one, so that the length of a text does not depend on its neighbours.
            return [row for one in inputs for row in self._vectors(client, [one])]
        if outcome.too_long and isinstance(inputs[0], str) and len(inputs[0]) > MIN_CHARS:
            return self._vectors(client, [inputs[0][: len(inputs[0]) // 2]])
        raise RouteError(outcome.message)

    def _ask(self, client: httpx.Client, inputs: Sequence[Input]) -> list[Vectors] | _Fault:
        """One request, with limited retries of temporary failures."""
        tried = 0
        while True:
            outcome = self._try(client, inputs)
            tried += 1
            if not isinstance(outcome, _Fault) or not outcome.passing or tried == TRIES:
                return outcome
            wait_s = FIRST_WAIT_S * 2 ** (tried - 1) * random.uniform(0.5, 1)
            self._sleep(wait_s if outcome.wait_s is None else outcome.wait_s)

    def _try(self, client: httpx.Client, inputs: Sequence[Input]) -> list[Vectors] | _Fault:
        body: dict[str, object] = {"model": self.model, "input": list(inputs), "encoding_format": "float"}
        if self.dimensions:
            body["dimensions"] = self.dimensions
        deadline = time.monotonic() + self.timeout_s
        try:
            with client.stream("POST", self._url() if self.own_server else METERED, json=body) as response:
                answer = bytearray()
                for chunk in response.iter_bytes():
                    answer += chunk
                    if len(answer) > MAX_ANSWER_BYTES:
                        return self._fault(f"the answer is longer than {MAX_ANSWER_BYTES:,} bytes", "Check base_url.")
                    if time.monotonic() > deadline:
                        # A read timeout alone would let a server send single bytes forever.
                        raise httpx.ReadTimeout("")
        except (httpx.NetworkError, httpx.ConnectTimeout, httpx.RemoteProtocolError) as error:
            what = f"the connection failed ({type(error).__name__})"
            return self._fault(what, "Is it running?", passing=True)
        except httpx.TimeoutException:
            return self._fault(f"no whole answer within {self.timeout_s:g} s", "Is it overloaded?")
        except httpx.HTTPError as error:
            return self._fault(f"the request failed ({type(error).__name__})", "Check base_url.")
        if response.status_code == 200:
            return self._rows(bytes(answer), len(inputs))
        return self._refusal(response, answer.decode("utf-8", "replace"))

    def _refusal(self, response: httpx.Response, said: str) -> _Fault:
        status = response.status_code
        next_step = _NEXT_STEPS.get(status, "Try later." if status >= 500 else "Check base_url.")
        return self._fault(
            f"status {status}",
            next_step,
            said,
            passing=(status in _PASSING or status >= 500) and not too_long(status, said),
            too_long=too_long(status, said),
            wait_s=retry_after_s(response.headers.get("retry-after", "")),
        )

    def _rows(self, answer: bytes, count: int) -> list[Vectors] | _Fault:
        """The answer's vectors in the order of the texts, or the problem with them."""
        try:
            parsed = _Answer.model_validate_json(answer)
        except ValidationError as error:
            said = answer.decode("utf-8", "replace")
            what = f"status 200 and no embeddings ({error.error_count()} faults in the answer)"
            return self._fault(what, "Check base_url and model.", said, too_long=too_long(None, said))
        numbers = [place if row.index is None else row.index for place, row in enumerate(parsed.data)]
        if sorted(numbers) != list(range(count)):
            return self._fault(f"{len(numbers)} embeddings for {count} texts, or not one for each", "Check base_url.")
        ordered = [row.embedding for _, row in sorted(zip(numbers, parsed.data, strict=True), key=_first)]
        size = self._size or len(ordered[0])
        if odd := next((len(one) for one in ordered if len(one) != size), None):
            what = f"an embedding of {odd} numbers instead of {size}"
            return self._fault(what, "Check model, and dimensions if it is set.")
        table = np.array(ordered, dtype=np.float64)
        if not np.isfinite(table).all():
            return self._fault("an embedding with a number that is not finite", "Check model.")
        self._size = size
        return list(_unit_rows(table))

    @contextmanager
    def _client(self) -> Iterator[httpx.Client]:
        """A client for scrout's own server, or for the endpoint through the meter."""
        self._url()  # report an invalid URL or key before an account is opened
        headers = self._headers()
        timeout = httpx.Timeout(self.timeout_s, connect=min(CONNECT_TIMEOUT_S, self.timeout_s))
        if self.own_server:
            with httpx.Client(headers=headers, verify=certificates(), timeout=timeout) as client:
                yield client
            return
        with metered(self.base_url, self.model, self._key, self.price) as socket:
            way = httpx.HTTPTransport(uds=str(socket), verify=False)
            with httpx.Client(transport=way, timeout=timeout) as client:
                yield client

    def _url(self) -> httpx.URL:
        try:
            url = httpx.URL(self.base_url)
            url = url.copy_with(path=url.path.rstrip("/") + "/embeddings")
        except httpx.InvalidURL:
            url = httpx.URL("")
        if url.scheme not in ("http", "https") or not url.host:
            raise RouteError(
                self._explain("base_url is not an http(s) URL", "Write it like http://127.0.0.1:8000/v1.", "")
            )
        return url

    def _headers(self) -> dict[str, str]:
        if self._key is None:
            return {}
        # The HTTP library quotes a header that it rejects, including the key, so it must never see an invalid one.
        if not self._key or not all("!" <= character <= "~" for character in self._key):
            what = "the key is empty or contains characters that an HTTP header cannot carry"
            raise RouteError(self._explain(what, "Export it again.", ""))
        return {"authorization": f"Bearer {self._key}"}

    def _fault(
        self,
        what: str,
        next_step: str,
        said: str = "",
        *,
        passing: bool = False,
        too_long: bool = False,
        wait_s: float | None = None,
    ) -> _Fault:
        return _Fault(self._explain(what, next_step, said), passing, too_long, wait_s)

    def _explain(self, what: str, next_step: str, said: str) -> str:
        for secret in secrets_of(self.base_url, self._key):
            said = said.replace(secret, "[key]")
        said = "".join(c if c.isprintable() else " " for c in said[: 4 * MAX_EXCERPT])
        quote = " ".join(said.split())[:MAX_EXCERPT]
        return f"the embedder {self.model} at {shown(self.base_url)}: {what}. {next_step}" + (
            f" It said: {quote}" if quote else ""
        )


class _Row(BaseModel):
    embedding: list[float] = Field(min_length=1)
    index: int | None = None


class _Answer(BaseModel):
    data: list[_Row]


def _unit_rows(table: npt.NDArray[np.float64]) -> Vectors:
    """Normalized rows, or zeros."""
    largest = np.abs(table).max(axis=1, keepdims=True)
    table = table / np.where(largest > 0, largest, 1)  # otherwise, the squares of large numbers overflow
    length = np.linalg.norm(table, axis=1, keepdims=True)
    return (table / np.where(length > 0, length, 1)).astype(np.float32)


def _first(pair: tuple[int, _Row]) -> int:
    return pair[0]


def open_embedder(settings: EmbedderSettings) -> Embedder:
    key, dimensions, price = settings.key(), settings.dimensions, settings.price
    return CachedEmbedder(EndpointEmbedder(settings.base_url, settings.model, key, dimensions=dimensions, price=price))


PART = open_embedder
