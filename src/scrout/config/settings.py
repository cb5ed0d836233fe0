"""The settings and their defaults: one frozen Settings, whose digest is stored with every run."""

from __future__ import annotations

import hashlib
import os
import posixpath
from collections import Counter
from decimal import Decimal
from pathlib import PurePath
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import (
    BeforeValidator,
    Field,
    JsonValue,
    SecretStr,
    SerializeAsAny,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import InitErrorDetails

from scrout.base import ConfigError, FrozenModel
from scrout.config.folders import FILE_NAME
from scrout.money import Price, Usage, Usd
from scrout.registry import Registry

TIERS: Registry[Any] = Registry("sandbox tier", "scrout.sandbox.tiers", "scrout.tiers")
SEARCHERS: Registry[Any] = Registry("searcher", "scrout.scout.searchers", "scrout.searchers")
EMBEDDERS: Registry[Any] = Registry("embedder", "scrout.route.embedders", "scrout.embedders")


def _must_be_known(name: str, parts: Registry[Any], *others: str) -> str:
    known = (*others, *parts.names())
    if name not in known:
        raise ValueError(f"{name!r} is no {parts.sort}; there are {', '.join(known)}")
    return name


class SandboxSettings(FrozenModel):
    tier: str = "auto"
    """auto: the strongest tier of this machine. unsafe isolates nothing and is used only if you name it."""
    image: str = ""
    """Image for the container tier; empty: none."""
    timeout_s: float = Field(default=60, gt=0)
    """Default time limit of one command."""
    memory_mb: int = Field(default=4096, ge=64)
    """Writable memory of each process."""
    total_memory_mb: int = Field(default=8192, ge=64)
    """Memory of all processes of a command together."""
    processes: int = Field(default=256, ge=8)
    file_mb: int = Field(default=512, ge=1)
    """Largest file that a command may write, and the size of its /tmp."""
    disk_mb: int = Field(default=2048, ge=1)
    """Maximum growth of a workspace."""
    repo_paths: int = Field(default=200_000, ge=1)
    """Maximum number of files and folders in the repository at the commit."""
    repo_mb: int = Field(default=20_000, ge=1)
    """Maximum size of these files together, and of the packed history."""

    @field_validator("tier")
    @classmethod
    def _tier_is_known(cls, tier: str) -> str:
        return _must_be_known(tier, TIERS, "auto")


class EnvironmentSettings(FrozenModel):
    venv: str = ""
    """A virtual environment, relative to the repository; empty: .venv or venv in it, a built one, or the caller's."""
    setup: str = ""
    """Shell commands that install the project's dependencies; empty: detected from its files."""
    build: bool = False
    """Build missing environments before a run.

    Off by default, because a build runs the project's own code with network.
    """
    timeout_s: float = Field(default=1800, gt=0)
    """Time limit of one build."""
    keep: int = Field(default=20, ge=1)
    """Number of built environments to keep; the least recently used ones are removed."""


class Sampling(FrozenModel):
    """Sampling parameters. None: not sent, so the endpoint's default applies."""

    temperature: float | None = Field(default=None, ge=0)
    top_p: float | None = Field(default=None, gt=0, le=1)
    top_k: int | None = Field(default=None, ge=-1)
    """-1: all. Few endpoints support it."""
    repetition_penalty: float | None = Field(default=None, gt=0)
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    """None: a random seed for each episode, sent and recorded."""
    return_token_ids: bool = False
    """Request token ids, which vLLM supports: then a trace can be used for training exactly."""


DialectName = Literal["native", "xml", "fenced", "json"]
ToolName = Literal["bash", "str_replace_editor", "search", "outline"]
StateSource = Literal["none", "transformers", "vllm", "sglang"]

PAPER: dict[str, Any] = {
    "dialect": "xml",
    "tools": ["bash", "str_replace_editor"],
    "shortlist": False,
    "cache_salt": True,
    "canary": True,
    "sampling": {
        "temperature": 0.9,
        "top_p": 1.0,
        "top_k": -1,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "stop": ["<|im_end|>"],
    },
}
"""Values of the preset `paper`: the protocol of the released 7B searcher (arXiv 2608.04804)."""


def read_key(key_env: str) -> str | None:
    """An endpoint's key; None: it needs none. Empty: it needs one, but the variable is not set."""
    return os.environ.get(key_env, "").strip() if key_env else None


def _must_be_set(key_env: str, who: str, instead: str) -> str | None:
    key = read_key(key_env)
    if key == "":
        raise ConfigError(f"{who} needs a key: the environment variable {key_env} is not set. Export it, or {instead}")
    return key


class SearcherSettings(FrozenModel):
    """The model searcher: one model that explores the repository for a number of turns."""

    preset: Literal["", "paper"] = ""
    """paper: the paper's values for every key below that you do not set."""
    model: str = ""
    """The endpoint's name for it."""
    base_url: str = ""
    """OpenAI-compatible endpoint, up to and including /v1."""
    key_env: str = ""
    """Environment variable with the key; empty: the endpoint needs none."""
    price: Price | None = None
    """Dollars per million tokens; zeros for a self-hosted model. A dollar cap needs it."""
    cap_usd: Usd = Field(default=Decimal("0.50"), gt=0)
    """Of one episode."""
    dialect: DialectName = "native"
    tools: tuple[ToolName, ...] = ("bash", "str_replace_editor", "search", "outline")
    shortlist: bool = True
    """Start with the files that recon would name."""
    prompts: str = ""
    """Folder with system, issue, forced, malformed and thought, each .md or .txt; empty: scrout's prompts."""
    turns: int = Field(default=40, ge=1)
    max_tokens: int = Field(default=2048, ge=16)
    """Output limit of one turn."""
    context_tokens: int = Field(default=32768, ge=1024)
    margin_tokens: int = Field(default=256, ge=0)
    """Tokens to leave free besides the prompt and the reply."""
    refit: float = Field(default=0.8, gt=0, lt=1)
    """Share of the context to fit a request into after the endpoint said that it was too long."""
    tokenizer: str = ""
    """A tokenizer.json for counting tokens; empty: the endpoint's tokenizer if it offers one, otherwise a safe
    estimate.
    """
    observation_chars: int = Field(default=8000, ge=100)
    command_s: float = Field(default=60, gt=0)
    """Default time limit of one command."""
    max_command_s: float = Field(default=120, gt=0)
    episode_s: float = Field(default=1200, gt=0)
    sampling: Sampling = Sampling()
    cache_salt: bool = False
    """Send a salt for each episode, so that episodes do not share prompt prefixes (vLLM, SGLang)."""
    canary: bool = False
    """Check the server once before the first episode; if the check fails, start no episode."""
    state: StateSource = "none"
    """Source of the hidden state for the router."""
    checkpoint: str = ""
    """Folder or GGUF file of the model weights: the state is computed from it (transformers), or carries its digest."""
    state_layer: int = -4

    @model_validator(mode="before")
    @classmethod
    def _preset_fills_gaps(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("preset") == "paper":
            sampling = given.get("sampling") or {}
            if isinstance(sampling, Sampling):
                sampling = sampling.model_dump(exclude_unset=True)
            if isinstance(sampling, dict):
                given = given | {"sampling": PAPER["sampling"] | sampling}
            return PAPER | given
        return given

    @model_validator(mode="after")
    def _fits_its_context(self) -> SearcherSettings:
        if self.max_tokens + self.margin_tokens >= self.context_tokens:
            raise ValueError(
                f"max_tokens {self.max_tokens} and margin_tokens {self.margin_tokens} leave no room for a prompt in "
                f"context_tokens {self.context_tokens}"
            )
        return self

    @property
    def costs(self) -> bool:
        """Whether a call costs money."""
        return self.price is not None and any((self.price.input, self.price.output))

    def key(self) -> str | None:
        """The endpoint's key; None: it needs none. Raises a ConfigError if its variable is not set."""
        return _must_be_set(
            self.key_env, f"the searcher {self.model!r}", "search without a model: -c scout.searcher=recon"
        )


class ScoutSettings(FrozenModel):
    searcher: str = "recon"
    """recon: built in, needs no model. model: the one under [scout.model]."""
    model: SearcherSettings = SearcherSettings()
    max_files: int = Field(default=5, ge=1, le=50)
    reproduce: bool = True
    """Try to turn the issue's own code into a failing reproduction."""
    subtree: str = ""
    """Search only this folder, relative to the repository's root; empty: everywhere."""

    @field_validator("subtree")
    @classmethod
    def _subtree_stays_inside(cls, folder: str) -> str:
        plain = posixpath.normpath(folder)
        if plain.startswith(("/", "../")) or plain == ".." or "\0" in plain or "\n" in plain:
            raise ValueError(f"{folder!r} is outside of the repository; name a folder relative to its root")
        return "" if plain == "." else plain

    @property
    def has_model(self) -> bool:
        """Whether the searcher calls the model under [scout.model], which costs money."""
        return bool(SEARCHERS.get(self.searcher).has_model)

    @field_validator("searcher")
    @classmethod
    def _searcher_is_known(cls, searcher: str) -> str:
        return _must_be_known(searcher, SEARCHERS)

    @model_validator(mode="after")
    def _model_is_complete(self) -> ScoutSettings:
        if self.has_model:
            for field in ("model", "base_url", "price"):
                if not getattr(self.model, field):
                    raise ValueError(f'scout.searcher is "model" and needs `scout.model.{field}`')
        return self


class GateSettings(FrozenModel):
    runs: int = Field(default=2, ge=2, le=10)
    """How often to replay a claim; if the outcomes differ, it is flaky."""
    timeout_s: float = Field(default=60, gt=0)


EMBEDDED_TOKENS = 300_000
"""An issue of 16,384 characters with one token per byte, four times, because a lost reply is requested again."""


class EmbedderSettings(FrozenModel):
    """The embedder: turns an issue's text into the vector that the router compares."""

    preset: Literal["", "paper"] = ""
    """paper: Qwen3-Embedding-0.6B as in the paper, unless you set `kind`."""
    kind: str = "auto"
    """auto: minilm if it is installed, otherwise hashed. Résumés and heads only fit the embedder that made them."""
    model: str = ""
    """The endpoint's name for it."""
    base_url: str = ""
    """OpenAI-compatible endpoint, up to and including /v1; for endpoint, or qwen3 on a vLLM server."""
    key_env: str = ""
    """Environment variable with the key; empty: the endpoint needs none."""
    dimensions: int | None = Field(default=None, ge=1)
    """Dimensions to request from the endpoint; None: the model's default. Only some models support fewer."""
    price: Price | None = None
    """Price of the endpoint's tokens; None: unknown. Zeros for your own hardware."""
    checkpoint: str = ""
    """Folder of the weights; qwen3 only."""
    path: str = ""
    """Model file; gguf only."""
    pooling: Literal["", "mean", "cls", "last"] = ""
    """How to pool the token vectors; empty: as the file says. gguf only."""

    @model_validator(mode="before")
    @classmethod
    def _preset_fills_gaps(cls, given: Any) -> Any:
        paper = isinstance(given, dict) and given.get("preset") == "paper"
        return {"kind": "qwen3"} | given if paper else given

    @field_validator("kind")
    @classmethod
    def _kind_is_known(cls, kind: str) -> str:
        return _must_be_known(kind, EMBEDDERS, "auto")

    @model_validator(mode="after")
    def _endpoint_is_complete(self) -> EmbedderSettings:
        if self.kind == "endpoint":
            for field in ("model", "base_url"):
                if not getattr(self, field):
                    raise ValueError(f'route.embedder.kind is "endpoint" and needs `route.embedder.{field}`')
        return self

    @property
    def has_endpoint(self) -> bool:
        """Whether an endpoint computes the vectors, and may bill for it."""
        return self.kind == "endpoint" or (self.kind == "qwen3" and bool(self.base_url))

    @property
    def max_cost_usd(self) -> Decimal:
        """The maximum cost of choosing a fixer; 0 also if the price is unknown."""
        return self.price.cost(Usage(input_tokens=EMBEDDED_TOKENS)) if self.has_endpoint and self.price else Decimal(0)

    def key(self) -> str | None:
        """The endpoint's key; None: it needs none. Raises a ConfigError if its variable is not set."""
        return _must_be_set(
            self.key_env, f"the embedder {self.model!r}", "embed without an endpoint: -c route.embedder.kind=hashed"
        )


class RouteSettings(FrozenModel):
    policy: Literal["paper", "value"] = "value"
    """`paper`: the cheapest fixer whose probability reaches theta, otherwise the anchor.

    `value`: weighs cost against the worth of a solve.
    """
    theta: float = Field(default=0.30, ge=0, le=1)
    """For `paper`, if none was calibrated: take the cheapest fixer whose predicted probability reaches this."""
    min_solve: float | None = Field(default=None, ge=0, le=1)
    """For `value`: take the cheapest fixer with at least this probability."""
    max_usd: Usd | None = Field(default=None, ge=0)
    """For `value`: take the likeliest fixer with at most this expected cost."""
    dial: float | None = Field(default=None, ge=0, le=1)
    """For `value`: from 0, the cheapest, to 1, the strongest."""
    solve_usd: Usd | None = Field(default=None, ge=0)
    """For `value`: the worth of a solve. Without any of the four: the calibrated worth, otherwise a dial of 0.5."""
    anchor: str = ""
    """The fallback fixer; empty: the likeliest agent if all probabilities are known, otherwise the most expensive."""
    resumes: str = ""
    """Folder with résumés and a fitted head; empty: scrout/resumes in the user's data folder."""
    embedder: EmbedderSettings = EmbedderSettings()

    @model_validator(mode="after")
    def _one_goal_at_most(self) -> RouteSettings:
        goals = [key for key in ("min_solve", "max_usd", "dial", "solve_usd") if getattr(self, key) is not None]
        if len(goals) > 1:
            raise ValueError(f"{' and '.join(goals)} are both given; keep one of them")
        if goals and self.policy == "paper":
            raise ValueError(f'{goals[0]} is for policy "value", and policy "paper" uses theta; remove one of them')
        return self


class RepairSettings(FrozenModel):
    max_candidates: int = Field(default=5000, ge=1)
    max_seconds: float = Field(default=60, gt=0)
    jobs: int = Field(default=0, ge=0)
    """Candidates to try at once; 0: one per core."""
    seed: int = 0
    """Decides the order of equally likely edits."""


class FixerKey(FrozenModel):
    """The identity of a fixer, independent of its name in a pool: outcomes of equal keys belong together."""

    agent: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")
    """The program that drives the model; `agent` is the built-in one."""
    model: str = Field(default="", pattern=r"^[^\s@]*$")
    """Empty: none."""
    effort: str = Field(default="", pattern=r"^[a-z0-9-]*$")
    """The model's reasoning effort; empty: its default."""

    def __str__(self) -> str:
        return self.agent + (f"/{self.model}" if self.model else "") + (f"@{self.effort}" if self.effort else "")

    @classmethod
    def parse(cls, text: str) -> FixerKey:
        """Parse `agent/model@effort`; model and effort may be missing."""
        rest, _, effort = text.partition("@")
        agent, _, model = rest.partition("/")
        try:
            return cls(agent=agent, model=model, effort=effort)
        except ValidationError:
            raise ConfigError(
                f"{text!r} is not a fixer. Write agent/model or agent/model@effort, such as mini/claude-opus-4-6@high."
            ) from None


HandoffMode = Literal["auto", "full", "files-only", "none"]
ChatApi = Literal["", "chat", "responses", "messages"]
"""The API of a model endpoint; empty: unknown."""


class Fixer(FrozenModel):
    """One entry of the pool, with the keys that all kinds share. All but name and kind are for fixers with a model.

    A kind adds keys of its own in a subclass (scrout.fix.kind), and describes itself to other parts.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,63}$")
    kind: str
    model: str = ""
    """The endpoint's name for it."""
    effort: str = Field(default="", pattern=r"^[a-z0-9-]*$")
    """The model's reasoning effort, such as low or high; empty: not sent, so its default applies."""
    resume: str = ""
    """The résumé to use, as `scrout fixers list` names it; empty: that of its own agent, model and effort."""
    base_url: str = ""
    """The endpoint, up to and including /v1, for any API that the agent uses."""
    model_file: str = ""
    """A GGUF file that scrout serves itself while it is needed, instead of `base_url` (extra `local`)."""
    context_tokens: int = Field(default=16384, ge=512)
    """Context of that file in tokens. More takes more memory."""
    threads: int = Field(default=0, ge=0)
    """Threads for that file; 0: half of the processor's cores."""
    key_env: str = ""
    """Environment variable with the key; empty: the endpoint needs none."""
    auth: Literal["", "bearer", "x-api-key"] = ""
    """The header for the key; empty: x-api-key for the messages API, bearer for the others."""
    extra: dict[str, JsonValue] = Field(default={})
    """Added to the body of each request, for example to pin a provider."""
    price: Price | None = None
    """Dollars per million tokens; None: looked up. Without a price, no dollar cap can hold, so no call is made."""
    price_date: str = ""
    """When, or in which list, the price was looked up, because prices change."""
    subscription: bool = False
    """True: a monthly subscription. Calls have no price; only their number and time are capped."""
    handoff: HandoffMode | None = None
    """The part of the handoff it gets; None: as in `fix.handoff`."""
    cap_calls: int = Field(default=50, ge=1)
    cap_usd: Usd = Field(default=Decimal("2.00"), gt=0)
    cap_seconds: float = Field(default=1200, gt=0)

    has_model: ClassVar[bool] = True
    """False: it calls no model, so it is free and needs no endpoint, price or cap."""
    api: ClassVar[ChatApi] = ""
    """The API that its endpoint is known to use."""

    @property
    def agent(self) -> str:
        """The program that drives the model."""
        return self.kind

    def missing(self) -> str:
        """Why it cannot run on this machine; empty: it can."""
        return ""

    @property
    def max_cost_usd(self) -> Decimal:
        """The maximum cost of an attempt; zero without a model or a price. A subscription has no price per call."""
        is_free = self.subscription or (self.price is not None and self.price.is_free)
        return self.cap_usd if self.has_model and not is_free else Decimal(0)

    @property
    def key(self) -> FixerKey:
        """The key of its outcomes."""
        # Some endpoints write a model's date after an @, where a key has the effort.
        model = "-".join(self.model.replace("@", " ").split())
        return FixerKey(agent=self.agent, model=model, effort=self.effort)

    @field_validator("resume")
    @classmethod
    def _resume_is_a_key(cls, text: str) -> str:
        return str(FixerKey.parse(text)) if text else ""

    @model_validator(mode="before")
    @classmethod
    def _file_fills_gaps(cls, given: Any) -> Any:
        if not isinstance(given, dict) or not given.get("model_file"):
            return given
        return {"model": PurePath(str(given["model_file"])).stem, "price": {"input": 0, "output": 0}} | given

    @model_validator(mode="after")
    def _is_complete(self) -> Fixer:
        if self.model_file and self.base_url:
            raise ValueError(f"fixer {self.name!r} has both a `model_file` and a `base_url`; remove one")
        for field in ("model", "base_url") if self.has_model and not self.model_file else ():
            if not getattr(self, field):
                raise ValueError(f"fixer {self.name!r} of kind {self.kind} needs `{field}`")
        if self.subscription and self.price:
            raise ValueError(
                f"fixer {self.name!r} has a `price`, but is a subscription, which has no price per call; remove one"
            )
        return self


FIXERS: Registry[type[Fixer]] = Registry("kind of fixer", "scrout.fix.kinds", "scrout.fixers")


def make_fixer(entry: object) -> object:
    """An entry of the pool as its kind; a value that is not a table is returned for pydantic to refuse."""
    kind = entry.get("kind") if isinstance(entry, dict) else None
    if not isinstance(kind, str):
        return entry
    if kind not in FIXERS.names():
        *names, last = map(repr, FIXERS.names())
        expected = f"{', '.join(names)} or {last}"
        problem = InitErrorDetails(type="literal_error", loc=("kind",), input=kind, ctx={"expected": expected})
        raise ValidationError.from_exception_data("Fixer", [problem])
    return FIXERS.get(kind).model_validate(entry)


AnyFixer = Annotated[SerializeAsAny[Fixer], BeforeValidator(make_fixer)]


MOST_FIXERS = 500


class FixSettings(FrozenModel):
    free_first: bool = True
    """If the gate verified a reproduction, fixers without a model try before the chosen one.

    The run ends there only if their patch passes the check.
    """
    escalate: bool = False
    """If the check proves a patch wrong, let the next fixer try. The free ones then always go first."""
    cap_usd: Usd | None = Field(default=None, gt=0)
    """For all attempts at one task together; None: the chosen fixer's own cap."""
    caps: Literal["hard", "paper"] = "hard"
    """hard: reserve the maximum cost of a call before it. paper: check after each call, so the last may exceed the
    cap.
    """
    handoff: HandoffMode = "full"
    """The part of the handoff that a fixer gets. auto: all of it, or none if the task looks easy for the fixer."""
    prices: str = ""
    """File with your own prices; empty: scrout/prices.toml in the user's configuration folder, if it exists."""
    model_list: str = ""
    """A LiteLLM configuration whose model_list is added to the pool; empty: none."""


LEDGER_URL = "SCROUT_LEDGER_URL"
"""Environment variable with a ledger's address, used if the settings name none."""


class LedgerSettings(FrozenModel):
    path: str = ""
    """SQLite file; empty: scrout/ledger.db in the user's data folder."""
    url: SecretStr = SecretStr("")
    """Address of a PostgreSQL database, for writers on many machines; empty: the environment's, otherwise a file."""

    @field_validator("url")
    @classmethod
    def _url_is_an_address(cls, url: SecretStr) -> SecretStr:
        if url and not url.get_secret_value().startswith(("postgresql://", "postgres://")):
            raise ValueError("it is not a postgresql:// address; write postgresql://user@host/database")
        return url

    @model_validator(mode="after")
    def _one_place(self) -> LedgerSettings:
        if self.path and self.url:
            raise ValueError("ledger.path and ledger.url are both given; keep one of them")
        return self

    @property
    def address(self) -> str:
        """Address of the database, with its password; empty: the ledger is a file.

        A configured file takes precedence over the environment.
        """
        return self.url.get_secret_value() or ("" if self.path else os.environ.get(LEDGER_URL, "").strip())


class RetentionSettings(FrozenModel):
    """The traces and trajectories that `scrout runs prune` keeps. Runs and receipts are never removed."""

    days: float | None = Field(default=None, ge=0)
    """Remove older ones; None: no age limit."""
    text: bool = True
    """False: prompts and answers are removed from a trajectory once its run has ended."""
    max_gb: float | None = Field(default=None, ge=0)
    """Total size; the oldest are removed. None: no limit."""


Action = Literal["scout", "gate", "route", "fix", "auto"]
"""The services of the API; `auto` is the model `scrout/auto`."""


class Caller(FrozenModel):
    """A caller of the API: its services, rate limit and budget."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
    token_env: str = Field(min_length=1)
    """Environment variable with the token that each of its requests carries."""
    may: tuple[Action, ...] = ("scout", "gate", "route")
    budget_usd: Usd = Field(default=Decimal(0), ge=0)
    """Daily budget (UTC); zero: nothing that costs money."""
    requests_a_minute: int = Field(default=1200, ge=1)
    jobs: int = Field(default=4, ge=1)
    """Requests at the same time."""


class ApiSettings(FrozenModel):
    """Callers of `scrout api`."""

    callers: tuple[Caller, ...] = ()
    """None: only this machine may send requests, without a token, and for nothing that costs money."""
    idle_s: float = Field(default=300, gt=0)
    """A conversation of `scrout/auto` that is idle for this long releases its reserved budget."""
    keep_days: float = Field(default=7, gt=0)
    """How long to keep finished jobs and their idempotency keys."""

    @field_validator("callers")
    @classmethod
    def _each_has_a_name(cls, callers: tuple[Caller, ...]) -> tuple[Caller, ...]:
        for field in ("name", "token_env"):
            for value, times in Counter(getattr(caller, field) for caller in callers).items():
                if times > 1:
                    raise ValueError(f"two callers have the {field} {value!r}")
        return callers


class TelemetrySettings(FrozenModel):
    """Spans and metrics for an OpenTelemetry collector. They do not affect runs."""

    enabled: bool = False
    """Needs the extra `otel`."""
    endpoint: str = ""
    """A collector's OTLP/HTTP address, without /v1/traces; empty: OTEL_EXPORTER_OTLP_ENDPOINT, otherwise port 4318
    on this machine.
    """
    content: bool = False
    """Also send the issue, prompts, answers and patches, shortened and without secrets."""
    service_name: str = ""
    """Empty: OTEL_SERVICE_NAME, otherwise scrout."""

    @field_validator("endpoint")
    @classmethod
    def _endpoint_is_an_address(cls, endpoint: str) -> str:
        if not endpoint:
            return ""
        try:
            parts = urlsplit(endpoint)
            wrong = parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0
        except ValueError:
            wrong = True
        if wrong or parts.query or parts.fragment:
            raise ValueError("it is not the address of a collector; write one such as http://127.0.0.1:4318")
        if parts.username or parts.password:
            raise ValueError("it contains a user name or password; put credentials into OTEL_EXPORTER_OTLP_HEADERS")
        return endpoint.rstrip("/")


class Settings(FrozenModel):
    """All settings."""

    sandbox: SandboxSettings = SandboxSettings()
    environment: EnvironmentSettings = EnvironmentSettings()
    scout: ScoutSettings = ScoutSettings()
    gate: GateSettings = GateSettings()
    route: RouteSettings = RouteSettings()
    fix: FixSettings = FixSettings()
    repair: RepairSettings = RepairSettings()
    ledger: LedgerSettings = LedgerSettings()
    retention: RetentionSettings = RetentionSettings()
    api: ApiSettings = ApiSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    fixers: tuple[AnyFixer, ...] = Field(default=({"name": "repair", "kind": "repair"},), validate_default=True)
    """The pool. It must not be empty."""

    @field_validator("fixers", mode="before")
    @classmethod
    def _pool_is_short(cls, given: Any) -> Any:
        # Before its entries are looked at: of each it is asked which packages are installed.
        if isinstance(given, list | tuple) and len(given) > MOST_FIXERS:
            raise ValueError(f"the pool has {len(given):,} fixers; it may have {MOST_FIXERS}")
        return given

    @field_validator("fixers")
    @classmethod
    def _pool_is_usable(cls, pool: tuple[AnyFixer, ...]) -> tuple[AnyFixer, ...]:
        if not pool:
            raise ValueError("the pool is empty; add a [[fixers]] entry")
        for name, times in Counter(fixer.name for fixer in pool).items():
            if times > 1:
                raise ValueError(f"two fixers are called {name!r}")
        return pool

    @model_validator(mode="after")
    def _anchor_is_known(self) -> Settings:
        if self.route.anchor and not self.fix.model_list:  # otherwise, it may be in that list
            self.fixer(self.route.anchor)
        return self

    def fixer(self, name: str) -> Fixer:
        for fixer in self.fixers:
            if fixer.name == name:
                return fixer
        known = ", ".join(fixer.name for fixer in self.fixers)
        raise ConfigError(f"no fixer is called {name!r}; the pool has {known}. Add it under [[fixers]] in {FILE_NAME}.")

    def only(self, name: str) -> Settings:
        """The same settings with a pool of one, so there is no routing."""
        route = self.route.model_copy(update={"anchor": ""})
        return self.model_copy(update={"fixers": (self.fixer(name),), "route": route})

    def digest(self) -> str:
        """Equal for equal settings.

        Settings that do not change results do not count: the ledger's address, retention, API callers and telemetry.
        """
        text = self.model_dump_json(exclude={"ledger", "retention", "api", "telemetry"})
        return hashlib.sha256(text.encode()).hexdigest()[:16]
