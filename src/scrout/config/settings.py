"""What can be set, and the defaults: one frozen Settings whose digest is stored with every run."""

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
    """auto: the strongest tier this machine has. unsafe isolates nothing and is never taken unless named."""
    image: str = ""
    """For the container tier; empty: there is none."""
    timeout_s: float = Field(default=60, gt=0)
    """For one command, unless a stage asks for less."""
    memory_mb: int = Field(default=4096, ge=64)
    """Writable memory of each process."""
    total_memory_mb: int = Field(default=8192, ge=64)
    """Memory of all processes of a command together."""
    processes: int = Field(default=256, ge=8)
    file_mb: int = Field(default=512, ge=1)
    """The largest file a command may write, and the size of its /tmp."""
    disk_mb: int = Field(default=2048, ge=1)
    """What a workspace may grow by."""
    repo_paths: int = Field(default=200_000, ge=1)
    """Files and folders that a repository may have at the commit that is worked on."""
    repo_mb: int = Field(default=20_000, ge=1)
    """Their size together, and the most that the packed history may have."""

    @field_validator("tier")
    @classmethod
    def _tier_is_known(cls, tier: str) -> str:
        return _must_be_known(tier, TIERS, "auto")


class EnvironmentSettings(FrozenModel):
    venv: str = ""
    """A virtual environment, relative to the repository; empty: .venv or venv in it, a built one, else the caller's."""
    setup: str = ""
    """Shell commands that install what the project needs; empty: found out from its files."""
    build: bool = False
    """Build what is missing before a run. It runs the project's own code with network, so it is a choice."""
    timeout_s: float = Field(default=1800, gt=0)
    """For one build."""
    keep: int = Field(default=20, ge=1)
    """Built environments kept; beyond it the least recently used ones go."""


class Sampling(FrozenModel):
    """How an endpoint draws tokens. None: not sent, and the endpoint's own default applies."""

    temperature: float | None = Field(default=None, ge=0)
    top_p: float | None = Field(default=None, gt=0, le=1)
    top_k: int | None = Field(default=None, ge=-1)
    """-1: all. Few endpoints know it."""
    repetition_penalty: float | None = Field(default=None, gt=0)
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    """None: one is drawn for each episode, sent and recorded."""
    return_token_ids: bool = False
    """Ask for the ids of the tokens too, which vLLM tells: a trace with them can be trained on exactly."""


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
"""What the preset `paper` changes: the protocol of the released 7B searcher (arXiv 2608.04804)."""


def read_key(key_env: str) -> str | None:
    """An endpoint's key; None: it wants none. Empty: it wants one, and the variable is not set."""
    return os.environ.get(key_env, "").strip() if key_env else None


def _must_be_set(key_env: str, who: str, instead: str) -> str | None:
    key = read_key(key_env)
    if key == "":
        raise ConfigError(f"{who} needs a key: the environment variable {key_env} is not set. Export it, or {instead}")
    return key


class SearcherSettings(FrozenModel):
    """The model searcher: one model that looks around for a number of turns."""

    preset: Literal["", "paper"] = ""
    """paper: the values of the paper for every key below that is not given."""
    model: str = ""
    """As the endpoint names it."""
    base_url: str = ""
    """OpenAI-compatible endpoint, up to and with /v1."""
    key_env: str = ""
    """Environment variable that holds the key; empty: the endpoint wants none."""
    price: Price | None = None
    """Dollars per million tokens; zeros for a model of one's own. Without it a dollar cap cannot hold."""
    cap_usd: Usd = Field(default=Decimal("0.50"), gt=0)
    """For one episode."""
    dialect: DialectName = "native"
    tools: tuple[ToolName, ...] = ("bash", "str_replace_editor", "search", "outline")
    shortlist: bool = True
    """Open with the files that recon would name."""
    prompts: str = ""
    """Folder with system, issue, forced, malformed and thought, each .md or .txt; empty: our own."""
    turns: int = Field(default=40, ge=1)
    max_tokens: int = Field(default=2048, ge=16)
    """Output limit of one turn."""
    context_tokens: int = Field(default=32768, ge=1024)
    margin_tokens: int = Field(default=256, ge=0)
    """Left free beside the prompt and the reply."""
    refit: float = Field(default=0.8, gt=0, lt=1)
    """Where the endpoint says that a request was too long, it is fitted once more into this share of the room."""
    tokenizer: str = ""
    """A tokenizer.json to count tokens with; empty: the endpoint's own where it offers one, else a safe estimate."""
    observation_chars: int = Field(default=8000, ge=100)
    command_s: float = Field(default=60, gt=0)
    """For a command that asks for no time of its own."""
    max_command_s: float = Field(default=120, gt=0)
    episode_s: float = Field(default=1200, gt=0)
    sampling: Sampling = Sampling()
    cache_salt: bool = False
    """Send a salt of the episode's own, so that no prompt prefix is shared between episodes (vLLM, SGLang)."""
    canary: bool = False
    """Check the server once before the first episode, and start none where it fails."""
    state: StateSource = "none"
    """Where the hidden state for the router comes from."""
    checkpoint: str = ""
    """Folder or GGUF file of the weights that the state is read from (transformers), or whose digest it carries."""
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
        """The endpoint's key; None: it wants none. One that is named and not set is a ConfigError."""
        return _must_be_set(
            self.key_env, f"the searcher {self.model!r}", "search without a model: -c scout.searcher=recon"
        )


class ScoutSettings(FrozenModel):
    searcher: str = "recon"
    """recon: embedded, needs no model. model: the one under [scout.model]."""
    model: SearcherSettings = SearcherSettings()
    max_files: int = Field(default=5, ge=1, le=50)
    reproduce: bool = True
    """Try to turn the issue's own code into a failing reproduction."""
    subtree: str = ""
    """Search only this folder, relative to the repository's root; empty: all of it."""

    @field_validator("subtree")
    @classmethod
    def _subtree_stays_inside(cls, folder: str) -> str:
        plain = posixpath.normpath(folder)
        if plain.startswith(("/", "../")) or plain == ".." or "\0" in plain or "\n" in plain:
            raise ValueError(f"{folder!r} is outside of the repository; name a folder relative to its root")
        return "" if plain == "." else plain

    @property
    def has_model(self) -> bool:
        """Whether the searcher asks the model under [scout.model], which costs money."""
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
    """How often a claim is replayed; outcomes that differ are flaky."""
    timeout_s: float = Field(default=60, gt=0)


EMBEDDED_TOKENS = 300_000
"""An issue of 16,384 characters with a token for each of their bytes, four times: a lost reply is asked for again."""


class EmbedderSettings(FrozenModel):
    """What turns an issue's text into the vector that the router compares."""

    preset: Literal["", "paper"] = ""
    """paper: Qwen3-Embedding-0.6B as the paper used it, unless `kind` is given."""
    kind: str = "auto"
    """auto: minilm where it is installed, else hashed. Résumés and heads fit the embedder that made them alone."""
    model: str = ""
    """As the endpoint names it."""
    base_url: str = ""
    """OpenAI-compatible endpoint, up to and with /v1; endpoint, or qwen3 on a vLLM server."""
    key_env: str = ""
    """Environment variable that holds the key; empty: the endpoint wants none."""
    dimensions: int | None = Field(default=None, ge=1)
    """Asked of the endpoint; None: the model's own. Only some models can give fewer."""
    price: Price | None = None
    """Of the endpoint's tokens; None: unknown. For your own hardware, zeros."""
    checkpoint: str = ""
    """Folder of the weights; qwen3 only."""
    path: str = ""
    """Model file; gguf only."""
    pooling: Literal["", "mean", "cls", "last"] = ""
    """How a text's vector follows from those of its tokens; empty: as the file says. gguf only."""

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
        """Whether an endpoint embeds, which may bill for it."""
        return self.kind == "endpoint" or (self.kind == "qwen3" and bool(self.base_url))

    @property
    def max_cost_usd(self) -> Decimal:
        """The most that a choice of a fixer may cost; 0 also where no price is known."""
        return self.price.cost(Usage(input_tokens=EMBEDDED_TOKENS)) if self.has_endpoint and self.price else Decimal(0)

    def key(self) -> str | None:
        """The endpoint's key; None: it wants none. One that is named and not set is a ConfigError."""
        return _must_be_set(
            self.key_env, f"the embedder {self.model!r}", "embed without an endpoint: -c route.embedder.kind=hashed"
        )


class RouteSettings(FrozenModel):
    policy: Literal["paper", "value"] = "value"
    """`paper`: the cheapest fixer whose probability reaches theta, else the anchor. `value`: weighs what a solve
    costs.
    """
    theta: float = Field(default=0.30, ge=0, le=1)
    """For `paper`, where none was calibrated: the cheapest fixer whose predicted probability reaches this is taken."""
    min_solve: float | None = Field(default=None, ge=0, le=1)
    """For `value`: the cheapest fixer with at least this probability."""
    max_usd: Usd | None = Field(default=None, ge=0)
    """For `value`: the likeliest fixer that is expected to cost no more than this."""
    dial: float | None = Field(default=None, ge=0, le=1)
    """For `value`: from 0, the cheapest, to 1, the strongest."""
    solve_usd: Usd | None = Field(default=None, ge=0)
    """For `value`: what a solve is worth. With none of the four: the calibrated worth, else a dial of 0.5."""
    anchor: str = ""
    """The fixer to fall back to; empty: the likeliest agent where all probabilities are known, else the most
    expensive.
    """
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
    """Candidates tried at once; 0: one for each core."""
    seed: int = 0
    """Decides the order among edits that are equally likely."""


class FixerKey(FrozenModel):
    """What a fixer is, whatever its entry in a pool is called: outcomes of equal keys belong together."""

    agent: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")
    """The program that drives the model: `agent` is the built-in one."""
    model: str = Field(default="", pattern=r"^[^\s@]*$")
    """Empty: it has none."""
    effort: str = Field(default="", pattern=r"^[a-z0-9-]*$")
    """How hard the model is told to think; empty: its default."""

    def __str__(self) -> str:
        return self.agent + (f"/{self.model}" if self.model else "") + (f"@{self.effort}" if self.effort else "")

    @classmethod
    def parse(cls, text: str) -> FixerKey:
        """`agent/model@effort`, the last two where there are some."""
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
"""A way to talk with a model over HTTP; empty: not known."""


class Fixer(FrozenModel):
    """One entry of the pool, as far as all kinds have the same keys. All but name and kind are for fixers with a model.

    A kind adds keys of its own in a subclass (scrout.fix.kind), and says about itself what others need to know.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,63}$")
    kind: str
    model: str = ""
    """As the endpoint names it."""
    effort: str = Field(default="", pattern=r"^[a-z0-9-]*$")
    """How hard the model is told to think, such as low or high; empty: not sent, and its default applies."""
    resume: str = ""
    """The résumé to go by, as `scrout fixers list` names it; empty: that of its own agent, model and effort."""
    base_url: str = ""
    """The endpoint, up to and with /v1, whichever API the agent speaks with it."""
    model_file: str = ""
    """A GGUF file that scrout serves itself while it is needed, in place of `base_url` (extra `local`)."""
    context_tokens: int = Field(default=16384, ge=512)
    """The longest conversation with that file. More takes more memory."""
    threads: int = Field(default=0, ge=0)
    """What the file is served with; 0: half of the processor's cores."""
    key_env: str = ""
    """Environment variable that holds the key; empty: the endpoint wants none."""
    auth: Literal["", "bearer", "x-api-key"] = ""
    """The header that carries the key; empty: x-api-key for the messages API, bearer for the others."""
    extra: dict[str, JsonValue] = Field(default={})
    """Added to the body of each request, such as the pin of a provider."""
    price: Price | None = None
    """Dollars per million tokens; None: looked up. Without one a dollar cap cannot hold, and no call is made."""
    price_date: str = ""
    """When the price was looked up, or in which list: prices drift."""
    subscription: bool = False
    """True: paid by the month, so no call has a price and only calls and time are capped."""
    handoff: HandoffMode | None = None
    """What of the handoff it gets; None: as `fix.handoff` says."""
    cap_calls: int = Field(default=50, ge=1)
    cap_usd: Usd = Field(default=Decimal("2.00"), gt=0)
    cap_seconds: float = Field(default=1200, gt=0)

    has_model: ClassVar[bool] = True
    """False: it calls no model, so it costs nothing and needs no endpoint, price or cap."""
    api: ClassVar[ChatApi] = ""
    """Which API its endpoint is known to speak."""

    @property
    def agent(self) -> str:
        """The program that drives the model."""
        return self.kind

    def missing(self) -> str:
        """Why it cannot run on this machine; empty: nothing is missing."""
        return ""

    @property
    def max_cost_usd(self) -> Decimal:
        """What an attempt may cost: nothing without a model or a price, and a subscription has no price per call."""
        is_free = self.subscription or (self.price is not None and self.price.is_free)
        return self.cap_usd if self.has_model and not is_free else Decimal(0)

    @property
    def key(self) -> FixerKey:
        """What its outcomes are kept under."""
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
    """An entry of the pool as its kind; what is no table stays what it is, for pydantic to refuse."""
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
    """Where the gate verified a reproduction, fixers without a model try before the chosen one. Only a patch that
    passed the check ends the run there."""
    escalate: bool = False
    """When the check proves a patch wrong, let the next fixer try. The free ones always go first then."""
    cap_usd: Usd | None = Field(default=None, gt=0)
    """For all attempts at one task together; None: as much as the chosen fixer's own cap."""
    caps: Literal["hard", "paper"] = "hard"
    """hard: the most a call is asked to use is held before it. paper: looked at after each, so the last may pass it."""
    handoff: HandoffMode = "full"
    """What of the handoff a fixer gets. auto: all of it unless the task looks easy for the fixer; then none."""
    prices: str = ""
    """File with prices of your own; empty: scrout/prices.toml in the user's configuration folder, if there is one."""
    model_list: str = ""
    """A LiteLLM configuration whose model_list joins the pool; empty: none."""


LEDGER_URL = "SCROUT_LEDGER_URL"
"""Environment variable with the address of a ledger, for settings that name none."""


class LedgerSettings(FrozenModel):
    path: str = ""
    """SQLite file; empty: scrout/ledger.db in the user's data folder."""
    url: SecretStr = SecretStr("")
    """Address of a PostgreSQL database, for writers on many machines; empty: that of the environment, else a file."""

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
        """Of the database, with its password; empty: the ledger is a file. A file that is named goes before the
        environment."""
        return self.url.get_secret_value() or ("" if self.path else os.environ.get(LEDGER_URL, "").strip())


class RetentionSettings(FrozenModel):
    """What `scrout runs prune` leaves of traces and trajectories. Runs and receipts are kept for ever."""

    days: float | None = Field(default=None, ge=0)
    """Older ones are removed; None: none for its age."""
    text: bool = True
    """False: what was asked and said is cut out of a trajectory as soon as nobody works on its run."""
    max_gb: float | None = Field(default=None, ge=0)
    """All of them together; the oldest are removed. None: no limit."""


Action = Literal["scout", "gate", "route", "fix", "auto"]
"""What the API does for a caller; `auto` is the model `scrout/auto`."""


class Caller(FrozenModel):
    """Who may use the API: for what, how often and for how much."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
    token_env: str = Field(min_length=1)
    """Environment variable with the token that every request of this caller carries."""
    may: tuple[Action, ...] = ("scout", "gate", "route")
    budget_usd: Usd = Field(default=Decimal(0), ge=0)
    """What it may spend in a day of UTC; zero: nothing that costs."""
    requests_a_minute: int = Field(default=1200, ge=1)
    jobs: int = Field(default=4, ge=1)
    """At the same time."""


class ApiSettings(FrozenModel):
    """Who may use `scrout api`."""

    callers: tuple[Caller, ...] = ()
    """None: only this machine may ask, without a token, and for nothing that costs."""
    idle_s: float = Field(default=300, gt=0)
    """A conversation of `scrout/auto` that has been quiet for so long gives back what was held for it."""
    keep_days: float = Field(default=7, gt=0)
    """How long finished jobs are kept, and their idempotency keys."""

    @field_validator("callers")
    @classmethod
    def _each_has_a_name(cls, callers: tuple[Caller, ...]) -> tuple[Caller, ...]:
        for field in ("name", "token_env"):
            for value, times in Counter(getattr(caller, field) for caller in callers).items():
                if times > 1:
                    raise ValueError(f"two callers have the {field} {value!r}")
        return callers


class TelemetrySettings(FrozenModel):
    """Spans and metrics for an OpenTelemetry collector. They tell of runs and shape none."""

    enabled: bool = False
    """Needs the extra `otel`."""
    endpoint: str = ""
    """A collector's OTLP/HTTP address, without /v1/traces; empty: OTEL_EXPORTER_OTLP_ENDPOINT, else port 4318 here."""
    content: bool = False
    """Send the issue, prompts, answers and patches too, without secrets and cut to a length."""
    service_name: str = ""
    """Empty: OTEL_SERVICE_NAME, else scrout."""

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
    """Everything that shapes a run."""

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
    """The pool. An empty one is an error."""

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
        if self.route.anchor and not self.fix.model_list:  # else it may be in that list
            self.fixer(self.route.anchor)
        return self

    def fixer(self, name: str) -> Fixer:
        """The pool's entry of that name."""
        for fixer in self.fixers:
            if fixer.name == name:
                return fixer
        known = ", ".join(fixer.name for fixer in self.fixers)
        raise ConfigError(f"no fixer is called {name!r}; the pool has {known}. Add it under [[fixers]] in {FILE_NAME}.")

    def only(self, name: str) -> Settings:
        """The same settings with a pool of one: there is nothing left to route."""
        route = self.route.model_copy(update={"anchor": ""})
        return self.model_copy(update={"fixers": (self.fixer(name),), "route": route})

    def digest(self) -> str:
        """Equal for equal settings. Where the ledger lies, how long traces are kept, who may ask over the network and
        who is told of runs changes no result, so none of it counts."""
        text = self.model_dump_json(exclude={"ledger", "retention", "api", "telemetry"})
        return hashlib.sha256(text.encode()).hexdigest()[:16]
