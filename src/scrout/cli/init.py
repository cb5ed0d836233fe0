"""`scrout init`: a scrout.toml with what this machine has, and every key commented."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import click

from scrout.base import ConfigError
from scrout.cli import render
from scrout.cli.options import config_folder
from scrout.config.folders import FILE_NAME, user_file
from scrout.config.loading import load, trust
from scrout.config.settings import Fixer
from scrout.files import is_foreign_link, write_plain
from scrout.fix.discovery import Discovery, discover
from scrout.fix.pool import completed
from scrout.pipeline import router
from scrout.text import usd

TYPICAL_ISSUE = "A function raises a TypeError for an empty list. It should return an empty result."
"""What the pool's usual costs are asked for: those of a short report."""

TEMPLATE = """\
# scrout.toml. Every key is shown with its default; remove the # in front of what you change.
# `scrout doctor` says what this machine has; `-c section.key=value` overrides one key for one command.

[sandbox]
# tier = "auto"          # the strongest isolation this machine has; bubblewrap, container, sandlock, seatbelt, unsafe
# image = ""             # for the container tier, with bash, git and the project's dependencies
# timeout_s = 60.0       # for one command, unless a stage asks for less
# memory_mb = 4096       # writable memory of each process
# total_memory_mb = 8192 # of all processes of a command together
# processes = 256
# file_mb = 512          # the largest file a command may write, and the size of its /tmp
# disk_mb = 2048         # what a workspace may grow by
# repo_paths = 200000    # files and folders that a repository may have
# repo_mb = 20000        # their size together

[environment]
# venv = ""              # relative to the repository; empty: .venv or venv, a built one, else the Python on your PATH
# setup = ""             # shell commands that install what the project needs; empty: found out from its files
# build = false          # build what is missing before a run: it runs the project's own code with network
# timeout_s = 1800.0     # for one build
# keep = 20              # built environments kept; beyond it the least recently used ones go

[scout]
# searcher = "recon"     # no model, no network, $0; "model": the one under [scout.model]
# max_files = 5
# reproduce = true       # try to turn the issue's own code into a failing reproduction
# subtree = ""           # search only this folder, relative to the repository's root; empty: all of it

# The model searcher. It needs model, base_url and price (in dollars per million tokens, for a model of your own
# price={ input=0.0, output=0.0 }); docs/research/searcher.md has whole examples.
[scout.model]
# preset = ""            # "paper": the published protocol for every key that is not given
# model = ""             # as the endpoint names it
# base_url = ""          # up to and with /v1
# key_env = ""           # the variable that holds the key; empty: the endpoint wants none
# cap_usd = 0.50         # for one episode
# dialect = "native"     # how calls are written: native, xml, fenced, json
# tools = ["bash", "str_replace_editor", "search", "outline"]
# shortlist = true       # open with the files that recon would name
# prompts = ""           # folder with five prompts; empty: scrout's own
# turns = 40
# max_tokens = 2048      # of one reply
# context_tokens = 32768
# margin_tokens = 256
# refit = 0.8            # share of the room that a request is fitted into again, where it was too long
# tokenizer = ""         # a tokenizer.json to count with; empty: the endpoint counts, or an estimate
# observation_chars = 8000
# command_s = 60.0
# max_command_s = 120.0
# episode_s = 1200.0
# canary = false         # check the server once before the first episode
# cache_salt = false     # for vLLM and SGLang: share no prompt prefix between episodes
# state = "none"         # hidden state for the router: transformers, vllm, sglang
# checkpoint = ""        # folder or GGUF file of the weights that the state comes from
# state_layer = -4

# Not sent unless given: temperature, top_p, top_k, repetition_penalty, presence_penalty, frequency_penalty, seed.
[scout.model.sampling]
# stop = []
# return_token_ids = false   # ask for the ids of the tokens too, which vLLM tells

[gate]
# runs = 2               # how often a claim is replayed; outcomes that differ are flaky
# timeout_s = 60.0

# For policy "value", at most one of: min_solve (the cheapest fixer with at least this probability), max_usd (the
# likeliest that is expected to cost no more), dial (0 the cheapest, 1 the strongest), solve_usd (what a solve is
# worth).
[route]
# policy = "value"       # by what a further solve costs; paper: the cheapest fixer whose probability reaches theta
# theta = 0.3            # for paper, where none was calibrated
# anchor = ""            # the fixer to fall back to; empty: the likeliest agent, else the most expensive
# resumes = ""           # folder with résumés; empty: scrout/resumes in your data folder

# Not asked for unless given: dimensions, for an endpoint whose model can give fewer numbers.
[route.embedder]
# preset = ""            # paper: Qwen3-Embedding-0.6B as the paper used it
# kind = "auto"          # hashed, minilm, gguf, endpoint, qwen3; auto: minilm where it is installed, else hashed
# model = ""             # as the endpoint names it
# base_url = ""          # OpenAI-compatible, up to and with /v1
# key_env = ""           # environment variable that holds the key; empty: the endpoint wants none
# checkpoint = ""        # folder of qwen3's weights
# path = ""              # gguf's model file
# pooling = ""           # of gguf: mean, cls, last; empty: as the file says

[fix]
# free_first = true      # where the gate verified a reproduction, free fixers try before the chosen one
# escalate = false       # when the check proves a patch wrong, let the next fixer try; free ones go first then
# caps = "hard"          # held for before each call; paper: looked at after each, so that the last one may pass them
# handoff = "full"       # what of the handoff a fixer gets: full, files-only, none, auto
# prices = ""            # file with prices of your own; empty: prices.toml in your configuration folder
# model_list = ""        # a LiteLLM configuration whose model_list joins the pool

[repair]
# max_candidates = 5000
# max_seconds = 60.0
# jobs = 0               # candidates tried at once; 0: one for each core
# seed = 0               # breaks ties between edits that look equally likely

[ledger]
# path = ""              # SQLite file; empty: scrout/ledger.db in your data folder
# url = ""               # PostgreSQL for writers on many machines; better in SCROUT_LEDGER_URL: it may hold a password

[retention]
# days: unset           # older traces are removed by `scrout runs prune`; unset: none for its age
# text = true            # false: prompts and answers are cut out of trajectories
# max_gb: unset         # of all traces together; unset: no limit

[api]
# idle_s = 300           # a conversation of scrout/auto that is quiet for so long gives back what was held for it
# keep_days = 7          # how long finished jobs are kept, and their idempotency keys
# callers = []           # who may use `scrout api`, by tokens; none: only this machine, and for nothing that costs

[telemetry]
# enabled = false        # spans and metrics for an OpenTelemetry collector; needs pip install 'scrout[otel]'
# endpoint = ""          # its OTLP/HTTP address, such as http://127.0.0.1:4318; empty: as OTEL_* variables say
# content = false        # send the issue, prompts, answers and patches too
# service_name = ""      # empty: OTEL_SERVICE_NAME, else scrout

# The pool. `repair` is embedded and costs nothing.
[[fixers]]
name = "repair"
kind = "repair"

# A model behind any endpoint, with scrout's own agent. mini-SWE-agent is kind "mini"; Claude Code, Codex, aider and
# opencode are kind "command" with a preset, and any other program with a command of yours (docs/fixers.md). The key is
# read from the variable that key_env names, on the host; it never enters the sandbox. Prices are dollars per million
# tokens; without them they are looked up, and where none is known a dollar cap could not hold, and no call is made.
# A file in a repository may have come with a clone and could send your key elsewhere, so it counts with --config, or
# once you have run `scrout trust` after a change. One in your configuration folder (`scrout init --user`) always
# counts.
# [[fixers]]
# name = "my-model"
# kind = "agent"
# model = "the-model-name"
# effort = ""            # how hard the model is told to think, such as low or high; empty: not sent
# resume = ""            # the résumé to go by, as `scrout fixers list` names it; empty: its own
# base_url = "http://127.0.0.1:8000/v1"
# key_env = "MY_API_KEY"
# price = { input = 0.50, output = 2.00, cache_read = 0.05 }
# price_date = "2026-01-31"
# subscription = false   # true: no call has a price; calls and time are capped
# handoff = "full"       # for this fixer alone
# cap_calls = 50
# cap_usd = 2.00
# cap_seconds = 1200.0
# max_tokens = 4096
"""


@click.command(name="init")
@click.option("--user", is_flag=True, help="Write it into your configuration folder, for every repository.")
@click.option("--force", is_flag=True, help="Replace a file that exists.")
@click.option("--bare", is_flag=True, help="Look for nothing: only the embedded repair is in the pool.")
def command(user: bool, force: bool, bare: bool) -> int:
    """Example: scrout init

    Write a commented scrout.toml into the current folder, with the agents, keys and local models of this machine.

    It looks for programs on your PATH, for keys by their names, and for model servers on this machine's usual ports.
    It contacts no other machine.
    """
    # The user's own may be a link of the user's own. One in a repository could lead to any file.
    path = user_file().resolve() if user else Path(FILE_NAME)
    if is_foreign_link(path):
        raise ConfigError(f"{path} is a symlink, and scrout follows none in a repository. Remove it first.")
    path.parent.mkdir(parents=True, exist_ok=True)
    config_folder(Path())  # from now on no program of this repository counts
    found = Discovery((), ()) if bare else discover()
    text = TEMPLATE + "".join(f"\n{fixer.toml()}" for fixer in found.fixers)
    try:
        write_plain(path, text.encode(), replace=force)
    except FileExistsError:
        raise ConfigError(f"{path} exists. Edit it, or replace it with --force.") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}. Check the folder.") from None
    if user:
        render.say(f"wrote {path}")
    else:
        trust(path.absolute())
        render.say(f"wrote {path}. Run `scrout trust` when you have changed it.")
    for note in found.notes:
        render.say(f"note: {note}")
    _tell_costs(path)
    return 0


def _tell_costs(path: Path) -> None:
    """The pool of the new file, cheapest first, and what one issue would cost."""
    settings = completed(load(path), render.say)
    if len(settings.fixers) == 1:
        render.say("The pool is repair alone: it costs nothing and makes small edits. Add a model for more.")
        return
    decision = router(settings).route(TYPICAL_ISSUE, None)
    render.say("The pool, cheapest first:")
    costs = {one.fixer: one.expected_cost_usd for one in decision.candidates}
    most = {fixer.name: _max_cost_usd(fixer) for fixer in settings.fixers}
    for fixer in sorted(settings.fixers, key=lambda one: (most[one.name], costs.get(one.name) or most[one.name])):
        usual = "" if costs.get(fixer.name) is None else f"about {usd(costs[fixer.name])} per attempt, "
        render.say(
            f"  {fixer.name}: {usual}{usd(most[fixer.name])} at most" if most[fixer.name] else f"  {fixer.name}: $0.00"
        )
    render.say(f"One issue costs {usd(max(most.values()))} at most. Try: scrout fix --issue 123")


def _max_cost_usd(fixer: Fixer) -> Decimal:
    """What an attempt may cost: nothing where tokens cost nothing, whatever the cap."""
    free = fixer.price is not None and not fixer.price.input and not fixer.price.output
    return Decimal(0) if free else fixer.max_cost_usd
