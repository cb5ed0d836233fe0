"""The names of spans and metrics, from one version of the semantic conventions.

1.41.1 is the last release with generative AI: these conventions then moved to a separate repository without a release
yet. Names under `scrout.` are scrout's own.
"""

from __future__ import annotations

from opentelemetry.semconv.schemas import Schemas

SEMCONV_VERSION = "1.41.1"
SCHEMA_URL = Schemas.V1_41_1.value

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
MODEL = "gen_ai.request.model"
AGENT = "gen_ai.agent.name"
CONVERSATION = "gen_ai.conversation.id"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
"""All input tokens, cached or not."""
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
"""All generated tokens, reasoning included."""
CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS = "gen_ai.usage.cache_creation.input_tokens"
REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"
FINISH_REASONS = "gen_ai.response.finish_reasons"
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
TOOL = "gen_ai.tool.name"
TOOL_TYPE = "gen_ai.tool.type"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"
TOKEN_TYPE = "gen_ai.token.type"
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"
ERROR_TYPE = "error.type"

CHAT = "chat"
EMBEDDINGS = "embeddings"
INVOKE_AGENT = "invoke_agent"
EXECUTE_TOOL = "execute_tool"

TOKEN_USAGE = "gen_ai.client.token.usage"
TOKEN_BUCKETS = tuple(4**power for power in range(14))
OPERATION_DURATION = "gen_ai.client.operation.duration"
DURATION_BUCKETS = tuple(round(0.01 * 2**power, 2) for power in range(14))

RUNS = "scrout.runs"
RUN_COST = "scrout.run.cost"
COST_BUCKETS = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
RUN_DURATION = "scrout.run.duration"
RUN_BUCKETS = (1.0, 3.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 3600.0)

RUN = "scrout.run.id"
TASK = "scrout.task.id"
BATCH = "scrout.batch"
ARM = "scrout.arm"
OUTCOME = "scrout.outcome"
INTERRUPTED = "interrupted"
COST = "scrout.cost_usd"
SANDBOX = "scrout.sandbox"
RESUMED = "scrout.resumed"
REUSED = "scrout.reused"
FIXER = "scrout.fixer"
FIXER_KEY = "scrout.fixer.key"
ATTEMPTS = "scrout.attempts"
CALLS = "scrout.calls"
ESTIMATED = "scrout.estimated"
STOP = "scrout.stop"
SEARCHER = "scrout.searcher"
TURNS = "scrout.turns"
FILES = "scrout.files"
VERDICT = "scrout.verdict"
KEPT = "scrout.kept"
POLICY = "scrout.policy"
CANDIDATES = "scrout.candidates"
FALLBACK = "scrout.fallback"
HANDOFF_MODE = "scrout.handoff.mode"
PATCHED = "scrout.patched"
CHECK = "scrout.check"
TESTS = "scrout.tests"
TESTS_RUN = "scrout.tests_run"

ISSUE = "scrout.issue"
HANDOFF = "scrout.handoff"
PATCH = "scrout.patch"
DETAIL = "scrout.detail"

PROVIDERS = {
    "api.anthropic.com": "anthropic",
    "api.openai.com": "openai",
    "openai.azure.com": "azure.ai.openai",
    "services.ai.azure.com": "azure.ai.inference",
    "models.ai.azure.com": "azure.ai.inference",
    "amazonaws.com": "aws.bedrock",
    "api.cohere.com": "cohere",
    "api.cohere.ai": "cohere",
    "api.deepseek.com": "deepseek",
    "generativelanguage.googleapis.com": "gcp.gemini",
    "aiplatform.googleapis.com": "gcp.vertex_ai",
    "api.groq.com": "groq",
    "api.mistral.ai": "mistral_ai",
    "api.perplexity.ai": "perplexity",
    "api.x.ai": "x_ai",
}
"""By the suffix of an endpoint's host."""
