"""How to call known CLI agents: each preset was tested with the real program, at the version that scripts/add-agents
installs.

An agent runs inside the sandbox with all permissions; its only connection is the meter. Model calls besides the task
and telemetry are switched off, and its settings mention no budget. A repository's own settings and instructions for an
agent are ignored if the agent allows it: every fixer gets the same task, and the repository's author is not trusted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from scrout.config.settings import ChatApi


@dataclass(frozen=True)
class Preset:
    """How one CLI agent is called.

    Placeholders: {model}, {effort}, {url} (the meter's root as the agent sees it, without /v1), {key} (a dummy, no
    secret) and {prompt_file} (the absolute path, inside of the sandbox, of a file with the task).
    """

    protocol: ChatApi
    command: tuple[str, ...]
    """The program's name on PATH, and its arguments. The task is also on its standard input."""
    install: str
    """How to install the program, in words."""
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    """Files to write before the start, by path relative to HOME."""
    with_effort: tuple[str, ...] = ()
    """More arguments if an effort is set."""
    runner: str = ""
    """A script beside this file that the program's own Python runs instead of the program."""
    leftovers: tuple[str, ...] = ()
    """Paths in the repository that it creates for itself.

    They are not part of its fix, unless the base has them too.
    """


def fill(preset: Preset, *, model: str, effort: str, url: str, key: str, prompt_file: str) -> Preset:
    """The preset with every placeholder filled in, and the arguments for the effort."""
    fields = {"model": model, "effort": effort, "url": url, "key": key, "prompt_file": prompt_file}
    # The files are JSON and TOML, and placeholders are inside of their quotes, which use the same escapes.
    quoted = {name: json.dumps(value)[1:-1] for name, value in fields.items()}
    return replace(
        preset,
        command=tuple(_filled(word, fields) for word in preset.command + (preset.with_effort if effort else ())),
        env={name: _filled(value, fields) for name, value in preset.env.items()},
        files={path: _filled(text, quoted) for path, text in preset.files.items()},
        with_effort=(),
    )


def _filled(text: str, fields: Mapping[str, str]) -> str:
    # Not str.format, because the files are full of other braces.
    return re.sub("|".join(rf"\{{{name}\}}" for name in fields), lambda found: fields[found[0][1:-1]], text)


_CLAUDE_CODE = Preset(
    protocol="messages",
    command=(
        *("claude", "--print", "--bare", "--model", "{model}"),
        *("--output-format", "stream-json", "--verbose"),
        *("--dangerously-skip-permissions", "--no-session-persistence", "--disable-slash-commands"),
        *("--setting-sources", "user", "--strict-mcp-config"),
    ),
    install="npm install --global @anthropic-ai/claude-code",
    env={
        "ANTHROPIC_BASE_URL": "{url}",
        "ANTHROPIC_API_KEY": "{key}",
        **{
            variable: "{model}"
            for variable in (
                "ANTHROPIC_MODEL",
                "ANTHROPIC_SMALL_FAST_MODEL",
                "ANTHROPIC_DEFAULT_HAIKU_MODEL",
                "ANTHROPIC_DEFAULT_SONNET_MODEL",
                "ANTHROPIC_DEFAULT_OPUS_MODEL",
                "CLAUDE_CODE_SUBAGENT_MODEL",
            )
        },
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
        # It refuses to skip permissions as root, and some tiers run commands as root.
        "IS_SANDBOX": "1",
    },
    with_effort=("--effort", "{effort}"),
)

_CODEX_OFF = (
    *("api_key_model_discovery", "apps", "browser_use", "browser_use_external", "computer_use"),
    *("enable_request_compression", "fast_mode", "goals", "image_generation", "in_app_browser", "multi_agent"),
    *("plugin_discovery_prefetch", "plugin_sharing", "plugins", "remote_compaction_v2", "remote_plugin"),
    *("shell_snapshot", "skill_mcp_dependency_install", "skill_search", "tool_suggest", "ultrafast_mode"),
    # Without an end, it would wait for a meter that is gone.
    "unbounded_connection_retries",
)

_CODEX = Preset(
    protocol="responses",
    command=(
        *("codex", "exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"),
        *("--ephemeral", "--ignore-rules", "--model", "{model}"),
    ),
    install="npm install --global @openai/codex",
    env={"ENDPOINT_KEY": "{key}"},
    files={
        ".codex/config.toml": """\
model_provider = "endpoint"
review_model = "{model}"
project_doc_max_bytes = 0
check_for_update_on_startup = false
web_search = "disabled"

[model_providers.endpoint]
name = "endpoint"
base_url = "{url}/v1"
env_key = "ENDPOINT_KEY"
wire_api = "responses"
supports_websockets = false

[analytics]
enabled = false

[history]
persistence = "none"

[skills.bundled]
enabled = false

[features]
"""
        + "".join(f"{feature} = false\n" for feature in _CODEX_OFF)
    },
    with_effort=("-c", 'model_reasoning_effort="{effort}"'),
)

_AIDER = Preset(
    protocol="chat",
    command=(
        *("aider", "--model", "openai/{model}", "--weak-model", "openai/{model}", "--editor-model", "openai/{model}"),
        # As arguments, because a .env in the repository would override variables; litellm reads both of these.
        *("--set-env", "OPENAI_BASE_URL={url}/v1", "--openai-api-base", "{url}/v1", "--openai-api-key", "{key}"),
        *("--message-file", "{prompt_file}", "--yes-always", "--edit-format", "diff"),
        *("--no-auto-commits", "--no-dirty-commits", "--no-gitignore", "--no-auto-test", "--no-watch-files"),
        *("--no-check-update", "--no-show-release-notes", "--no-analytics", "--no-detect-urls", "--disable-playwright"),
        *("--no-show-model-warnings", "--no-check-model-accepts-settings", "--no-suggest-shell-commands"),
        *("--no-fancy-input", "--no-pretty", "--no-restore-chat-history", "--no-notifications"),
        *("--input-history-file", "/dev/null", "--chat-history-file", "/dev/null"),
    ),
    install="python3 -m pip install aider-install && aider-install, or pip install aider-chat into an environment",
    env={"LITELLM_LOCAL_MODEL_COST_MAP": "True"},
    # A price table, which it would otherwise download. One without entries counts as none.
    files={".aider/caches/model_prices_and_context_window.json": '{"sample_spec": {}}\n'},
    with_effort=("--reasoning-effort", "{effort}"),
    leftovers=(".aider.tags.cache.v4",),
)

_OPENCODE = Preset(
    protocol="chat",
    command=(
        *("opencode", "run", "--format", "json", "--pure", "--auto"),
        # With a title given, it does not ask a model for one.
        *("--model", "endpoint/{model}", "--title", "task"),
    ),
    install="npm install --global opencode-ai",
    env={
        f"OPENCODE_DISABLE_{name}": "1"
        for name in (
            *("AUTOUPDATE", "CLAUDE_CODE", "DEFAULT_PLUGINS", "EXTERNAL_SKILLS", "LSP_DOWNLOAD", "MODELS_FETCH"),
            *("PROJECT_CONFIG", "SHARE"),
        )
    },
    files={
        ".config/opencode/opencode.json": """\
{
  "model": "endpoint/{model}",
  "small_model": "endpoint/{model}",
  "enabled_providers": ["endpoint"],
  "share": "disabled",
  "autoupdate": false,
  "snapshot": false,
  "permission": "allow",
  "tools": {"webfetch": false},
  "agent": {"title": {"disable": true}, "summary": {"disable": true}},
  "provider": {
    "endpoint": {
      "npm": "@ai-sdk/openai-compatible",
      "name": "endpoint",
      "options": {"baseURL": "{url}/v1", "apiKey": "{key}"},
      "models": {
        "{model}": {
          "name": "{model}",
          "tool_call": true,
          "limit": {"context": 200000, "output": 32000},
          "variants": {"{effort}": {"reasoningEffort": "{effort}"}}
        }
      }
    }
  }
}
"""
    },
    with_effort=("--variant", "{effort}"),
)

_MINI = Preset(
    protocol="chat",
    command=(
        *("mini", "--model", "{model}", "--url", "{url}", "--key", "{key}"),
        *("--task", "{prompt_file}", "--out", "~/mini.traj.json"),
    ),
    install="python3 -m pip install 'scrout[mini]'",
    env={
        "MSWEA_SILENT_STARTUP": "1",
        "MSWEA_CONFIGURED": "true",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    },
    with_effort=("--effort", "{effort}"),
    runner="mini_runner.py",
    leftovers=("patch.txt",),
)

HOMES = {
    "claude-code": {"base_url": "https://api.anthropic.com/v1", "key_env": "ANTHROPIC_API_KEY"},
    "codex": {"base_url": "https://api.openai.com/v1", "key_env": "OPENAI_API_KEY"},
}
"""The endpoint of an agent's maker, for entries without base_url."""

PRESETS: dict[str, Preset] = {
    "claude-code": _CLAUDE_CODE,
    "codex": _CODEX,
    "aider": _AIDER,
    "opencode": _OPENCODE,
    "mini": _MINI,
}
