"""LiteLLM's own configuration files, read as they are; and files that are wrong, hostile or both."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from scrout.base import ConfigError
from scrout.fix.kinds.agent import AgentFixer
from scrout.fix.kinds.repair import RepairFixer
from scrout.models.model_list import MAX_BYTES, MAX_ENTRIES, MAX_KEYS, LeftOut, ListedModel, read
from scrout.money import Price

TYPICAL = """
general_settings:
  master_key: sk-1234567890
  database_url: "postgresql://user:secret@host/db"
litellm_settings: {drop_params: true}
router_settings: {routing_strategy: simple-shuffle}

x-costs: &costs
  input_cost_per_token: 0.0000025
  output_cost_per_token: 1e-5

model_list:
  - model_name: gpt-4o
    litellm_params:
      model: openai/gpt-4o
      api_key: os.environ/MY_OPENAI_KEY
      max_tokens: 8192
      temperature: 0.2
      <<: *costs
  - model_name: sonnet
    litellm_params:
      model: anthropic/claude-sonnet-4-5
      reasoning_effort: high
  - model_name: kimi
    litellm_params: {model: openrouter/moonshotai/kimi-k2, api_key: os.environ/OPENROUTER_API_KEY}
  - model_name: local
    litellm_params:
      model: hosted_vllm/Qwen/Qwen3-Coder
      api_base: http://localhost:8000/v1/
      api_key: none
    model_info:
      input_cost_per_token: 0
      output_cost_per_token: 0
  - model_name: deployed
    litellm_params:
      model: azure/my-deployment
      api_base: https://mine.openai.azure.com/
      api_version: "2025-01-01-preview"
      api_key: os.environ/AZURE_API_KEY
    model_info: {base_model: azure/gpt-4o, mode: chat}
  - model_name: claude-on-bedrock
    litellm_params: {model: bedrock/anthropic.claude-3-sonnet, aws_region_name: us-east-1}
  - model_name: gpt-4o
    litellm_params: {model: azure/gpt-4o-eu, api_base: "https://eu.openai.azure.com"}
"""


def written(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "litellm.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def entry(**params: str) -> str:
    return yaml.safe_dump({"model_list": [{"model_name": "m", "litellm_params": params}]})


def only(tmp_path: Path, **params: str) -> ListedModel:
    listed, left_out = read(written(tmp_path, entry(**params)))
    assert not left_out
    return listed[0]


def reason(tmp_path: Path, **params: str) -> str:
    listed, left_out = read(written(tmp_path, entry(**params)))
    assert not listed
    return left_out[0].reason


def refused(tmp_path: Path, text: str | bytes) -> str:
    with pytest.raises(ConfigError) as error:
        read(written(tmp_path, text))
    assert "litellm.yaml" in str(error.value)
    return str(error.value)


def test_a_typical_file(tmp_path: Path) -> None:
    listed, left_out = read(written(tmp_path, TYPICAL))
    zero = Price(input=Decimal(0), output=Decimal(0))
    assert listed == (
        ListedModel(
            name="gpt-4o",
            model="gpt-4o",
            base_url="https://api.openai.com/v1",
            key_env="MY_OPENAI_KEY",
            protocol="chat",
            price=Price(input=Decimal("2.5"), output=Decimal(10)),
            priced_as="gpt-4o",
            max_tokens=8192,
            effort="",
        ),
        ListedModel(
            name="sonnet",
            model="claude-sonnet-4-5",
            base_url="https://api.anthropic.com/v1",
            key_env="ANTHROPIC_API_KEY",
            protocol="messages",
            price=None,
            priced_as="claude-sonnet-4-5",
            max_tokens=None,
            effort="high",
        ),
        ListedModel(
            name="kimi",
            model="moonshotai/kimi-k2",
            base_url="https://openrouter.ai/api/v1",
            key_env="OPENROUTER_API_KEY",
            protocol="chat",
            price=None,
            priced_as="moonshotai/kimi-k2",
            max_tokens=None,
            effort="",
        ),
        ListedModel(
            name="local",
            model="Qwen/Qwen3-Coder",
            base_url="http://localhost:8000/v1",
            key_env="",
            protocol="chat",
            price=zero,
            priced_as="Qwen/Qwen3-Coder",
            max_tokens=None,
            effort="",
        ),
        ListedModel(
            name="deployed",
            model="my-deployment",
            base_url="https://mine.openai.azure.com/openai/v1",
            key_env="AZURE_API_KEY",
            protocol="chat",
            price=None,
            priced_as="azure/gpt-4o",
            max_tokens=None,
            effort="",
        ),
    )
    assert [left.name for left in left_out] == ["claude-on-bedrock", "gpt-4o"]
    assert "'bedrock/anthropic.claude-3-sonnet' names no provider" in left_out[0].reason
    assert "an earlier entry has the same name" in left_out[1].reason


@pytest.mark.parametrize(
    ("model", "api_base", "base_url", "sent"),
    [
        ("gpt-4o", "", "https://api.openai.com/v1", "gpt-4o"),
        ("o3-mini", "", "https://api.openai.com/v1", "o3-mini"),
        ("claude-opus-4-6", "", "https://api.anthropic.com/v1", "claude-opus-4-6"),
        ("openai/x", "http://10.0.0.1:4000", "http://10.0.0.1:4000/v1", "x"),
        ("openai/x", "http://10.0.0.1/openai/v1/", "http://10.0.0.1/openai/v1", "x"),
        ("openai/x", "https://gate.example/v1/chat/completions", "https://gate.example/v1", "x"),
        ("openai/x", "https://gate.example/api/v4", "https://gate.example/api/v4", "x"),
        ("anthropic/x", "https://gate.example", "https://gate.example/v1", "x"),
        ("anthropic/x", "https://gate.example/anthropic", "https://gate.example/anthropic/v1", "x"),
        ("anthropic/x", "https://gate.example/v1/messages", "https://gate.example/v1", "x"),
        ("deepseek/deepseek-chat", "", "https://api.deepseek.com/v1", "deepseek-chat"),
        ("ollama/llama3.1:8b", "", "http://localhost:11434/v1", "llama3.1:8b"),
        ("ollama_chat/llama3.1:8b", "http://box:11434", "http://box:11434/v1", "llama3.1:8b"),
        (
            "azure/o_series/x",
            "https://a.openai.azure.com/openai/deployments/x",
            "https://a.openai.azure.com/openai/v1",
            "x",
        ),
        ("fireworks_ai/kimi", "", "https://api.fireworks.ai/inference/v1", "accounts/fireworks/models/kimi"),
        ("gemini/gemini-2.5-pro", "", "https://generativelanguage.googleapis.com/v1beta/openai", "gemini-2.5-pro"),
    ],
)
def test_where_a_model_is(tmp_path: Path, model: str, api_base: str, base_url: str, sent: str) -> None:
    listed = only(tmp_path, model=model, api_base=api_base)
    assert (listed.base_url, listed.model) == (base_url, sent)
    assert listed.protocol == ("messages" if "claude" in model or model.startswith("anthropic/") else "chat")


def test_a_provider_may_be_named_apart_from_the_model(tmp_path: Path) -> None:
    listed = only(tmp_path, model="meta/llama", custom_llm_provider="openai", api_base="http://localhost:1/v1")
    assert listed.model == "meta/llama"


def test_an_address_may_be_in_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    params = {"model": "hosted_vllm/x", "api_base": "os.environ/WHERE_IT_IS"}
    monkeypatch.delenv("WHERE_IT_IS", raising=False)
    assert "'WHERE_IT_IS', which is not set" in reason(tmp_path, **params)
    monkeypatch.setenv("WHERE_IT_IS", "http://localhost:8000")
    assert only(tmp_path, **params).base_url == "http://localhost:8000/v1"


def test_a_key_is_named_and_never_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_KEY", "sk-very-secret")
    listed = only(tmp_path, model="openai/gpt-4o", api_key="os.environ/THE_KEY")
    assert listed.key_env == "THE_KEY"
    assert "sk-very-secret" not in repr(listed)


def test_a_providers_usual_key_goes_to_its_own_host_alone(tmp_path: Path) -> None:
    assert only(tmp_path, model="openai/x").key_env == "OPENAI_API_KEY"
    assert only(tmp_path, model="openai/x", api_base="https://api.openai.com/v1").key_env == "OPENAI_API_KEY"
    assert only(tmp_path, model="openai/x", api_base="https://gate.example/v1").key_env == ""
    assert only(tmp_path, model="azure/x", api_base="https://mine.openai.azure.com").key_env == "AZURE_API_KEY"
    assert only(tmp_path, model="azure/x", api_base="https://azure.com.example").key_env == ""


@pytest.mark.parametrize("key", ["sk-proj-0123456789abcdef", "os.environ/not a name", "OPENAI_API_KEY", "sk-1234"])
@pytest.mark.parametrize("model", ["openai/gpt-4o", "bedrock/x", "openai/*"])
def test_a_key_in_the_file_is_refused_and_not_repeated(tmp_path: Path, key: str, model: str) -> None:
    said = refused(tmp_path, entry(model=model, api_key=key))
    assert key not in said
    assert "os.environ/NAME" in said
    assert "entry 1 of model_list ('m')" in said


def test_a_key_is_refused_in_a_repeated_entry_too(tmp_path: Path) -> None:
    again = "  - {model_name: sonnet, litellm_params: {model: openai/x, api_key: sk-9876543210}}\n"
    said = refused(tmp_path, TYPICAL + again)
    assert "sk-9876543210" not in said
    assert "entry 8 of model_list ('sonnet')" in said


def test_a_broken_line_with_a_key_is_not_repeated(tmp_path: Path) -> None:
    said = refused(tmp_path, "model_list:\n  - api_key: sk-9876543210: oh\n")
    assert "sk-9876543210" not in said
    assert "line 2" in said


@pytest.mark.parametrize(
    "address", ["http://me:sk-9876543210@host/v1", "https://host/v1?key=sk-9876543210", "http://host/#sk-9876543210"]
)
def test_a_secret_in_an_address_is_refused_and_not_repeated(tmp_path: Path, address: str) -> None:
    assert "sk-9876543210" not in refused(tmp_path, entry(model="openai/x", api_base=address))


def test_a_price_is_exact_and_long_prompts_set_it(tmp_path: Path) -> None:
    listed = only(
        tmp_path,
        model="openai/x",
        input_cost_per_token="0.0000001",
        input_cost_per_token_above_200k_tokens="2e-7",
        input_cost_per_token_above_200k_tokens_priority="9e-7",
        output_cost_per_token="0.0000006",
        cache_read_input_token_cost="1.5e-08",
        cache_creation_input_token_cost="0.000000125",
        output_cost_per_reasoning_token="0.0000007",
    )
    assert listed.price == Price(
        input=Decimal("0.2"),
        output=Decimal("0.6"),
        cache_read=Decimal("0.015"),
        cache_write=Decimal("0.125"),
        reasoning=Decimal("0.7"),
    )


def test_a_price_of_the_parameters_goes_before_one_of_the_info(tmp_path: Path) -> None:
    listed, _ = read(
        written(
            tmp_path,
            """
model_list:
  - model_name: m
    litellm_params: {model: openai/x, input_cost_per_token: 0.000002}
    model_info: {input_cost_per_token: 0.000001, output_cost_per_token: 0.000003, id: "7"}
""",
        )
    )
    assert listed[0].price == Price(input=Decimal(2), output=Decimal(3))


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"model": "vertex_ai/gemini-pro"}, "'vertex_ai/gemini-pro' names no provider"),
        ({"model": "sagemaker/x"}, "'sagemaker/x' names no provider"),
        ({"model": "mystery"}, "'mystery' names no provider"),
        ({"model": "openai/*"}, "does not name one model"),
        ({"model": "openai/"}, "does not name one model"),
        ({"model": "hosted_vllm/x"}, "hosted_vllm needs an api_base"),
        ({"model": "azure/x"}, "azure needs an api_base"),
        ({"model": "openai/responses/gpt-5"}, "responses API"),
        ({"model": "openai/x", "litellm_credential_name": "mine"}, "credential_list"),
    ],
)
def test_what_no_fixer_can_use_is_left_out_with_a_reason(tmp_path: Path, params: dict[str, str], said: str) -> None:
    assert said in reason(tmp_path, **params)


def test_a_model_that_does_not_chat_is_left_out(tmp_path: Path) -> None:
    text = "model_list: [{model_name: e, litellm_params: {model: openai/e}, model_info: {mode: embedding}}]"
    assert read(written(tmp_path, text)) == (
        (),
        (LeftOut("e", "its mode is 'embedding', and a fixer needs a chat model"),),
    )


def test_an_entry_that_was_left_out_does_not_stand_for_its_name(tmp_path: Path) -> None:
    text = """
model_list:
  - {model_name: m, litellm_params: {model: bedrock/x}}
  - {model_name: m, litellm_params: {model: openai/y}}
"""
    listed, left_out = read(written(tmp_path, text))
    assert [model.model for model in listed] == ["y"]
    assert len(left_out) == 1


def test_names_become_names_of_fixers_and_differ(tmp_path: Path) -> None:
    called = ["llama3.1:8b", "llama3.1@8b", "llama3.1 8b", "*/x", "ü", "é", "a" * 90, "a" * 91]
    entries = [{"model_name": name, "litellm_params": {"model": "openai/x"}} for name in called]
    listed, _ = read(written(tmp_path, yaml.safe_dump({"model_list": entries}, allow_unicode=True)))
    names = [model.name for model in listed]
    assert names[:6] == ["llama3.1-8b", "llama3.1-8b-2", "llama3.1-8b-3", "x", "model", "model-2"]
    assert len(set(names)) == len(called)
    for name in names:
        RepairFixer(name=name)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no entries under `model_list:`"),
        ("[]", "no entries under `model_list:`"),
        ("model_list: []", "no entries under `model_list:`"),
        ("model_list: {a: b}", "no entries under `model_list:`"),
        ("model_list: [a]", "entry 1 of model_list is not a mapping"),
        ("model_list: [{litellm_params: {model: openai/x}}]", "has no model_name"),
        ("model_list: [{model_name: [a], litellm_params: {}}]", "`model_name` must be a single value"),
        ("model_list: [{model_name: m}]", "has no `litellm_params.model`"),
        ("model_list: [{model_name: m, litellm_params: x}]", "`litellm_params` is not a mapping"),
        ("model_list: [", "is not valid YAML at line 1"),
        ("a: 1\n\tb: 2", "is not valid YAML at line 2"),
        ("a: *b", "is not valid YAML"),
        ("&a [*a]", "is not valid YAML"),
        ("[" * 50_000, "cannot be read as YAML"),
        (b"\xff\xfe\x00", "is not a text file"),
        (b"a: \x00", "is not valid YAML"),
        ('"\\UFFFFFFFF"', "cannot be read as YAML"),
        ("#" * (MAX_BYTES + 1), "has over 256,000 bytes"),
        ("model_list:\n" + "- {}\n" * (MAX_ENTRIES + 1), f"lists {MAX_ENTRIES + 1} models"),
        (entry(model="openai/x y"), "has blanks"),
        (entry(model="openai/x", api_base="ftp://host"), "is not an http or https address"),
        (entry(model="openai/x", api_base="localhost:8000"), "is not an http or https address"),
        (entry(model="openai/x", api_base="http://[::1"), "is not an http or https address"),
        (entry(model="openai/x", api_base="http://host:99999"), "is not an http or https address"),
        (entry(model="openai/x", input_cost_per_token="1e-6"), "Give both or neither"),
        (entry(model="openai/x", input_cost_per_token="2.5"), "`input_cost_per_token` is not a price per token"),
        (entry(model="openai/x", input_cost_per_token="-1e-6"), "`input_cost_per_token` is not a price per token"),
        (entry(model="openai/x", input_cost_per_token=".nan"), "`input_cost_per_token` is not a price per token"),
        (entry(model="openai/x", output_cost_per_token="free"), "`output_cost_per_token` is not a price per token"),
        (entry(model="openai/x", max_tokens="many"), "`max_tokens` is not a number of tokens"),
        (entry(model="openai/x", max_tokens="0"), "`max_tokens` is not a number of tokens"),
        (entry(model="openai/x", reasoning_effort="Very High"), "`reasoning_effort` is not a single word"),
    ],
)
def test_a_file_that_is_wrong_is_an_error_that_names_the_place(tmp_path: Path, text: str | bytes, said: str) -> None:
    assert said in refused(tmp_path, text)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read(tmp_path / "litellm.yaml")
    with pytest.raises(ConfigError, match="Is a directory"):
        read(tmp_path)


def test_tags_make_no_objects(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    text = (
        f'model_list: [{{model_name: !!python/object/apply:os.mkdir ["{mark}"], litellm_params: {{model: openai/x}}}}]'
    )
    refused(tmp_path, text)
    assert not mark.exists()


@pytest.mark.parametrize("sources", [2, 4])
def test_merges_that_unfold_are_refused(tmp_path: Path, sources: int) -> None:
    lines = ["a0: &a0 {model: openai/x}"]
    for level in range(1, 60):
        merged = ", ".join([f"*a{level - 1}"] * sources)
        lines.append(f"a{level}: &a{level} {{'<<': [{merged}]}}")
    lines.append("model_list: [{model_name: m, litellm_params: *a59}]")
    assert "merges too many keys" in refused(tmp_path, "\n".join(lines))


def test_many_keys_are_refused(tmp_path: Path) -> None:
    keys = ", ".join(f"k{number}: v" for number in range(MAX_KEYS + 1))
    assert f"more than {MAX_KEYS} keys" in refused(
        tmp_path, f"model_list: [{{model_name: m, litellm_params: {{{keys}}}}}]"
    )


def test_lists_that_unfold_cost_nothing(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x]"]
    lines += [f"a{level}: &a{level} [*a{level - 1}, *a{level - 1}]" for level in range(1, 60)]
    lines.append("model_list: [{model_name: *a59}]")
    # Written out, the value would have 2 to the 60th items; an error that showed it would never end.
    assert "`model_name` must be a single value" in refused(tmp_path, "\n".join(lines))


WORDS = st.sampled_from(
    [
        "model",
        "model_name",
        "litellm_params",
        "model_info",
        "mode",
        "api_key",
        "api_base",
        "base_model",
        "custom_llm_provider",
        "max_tokens",
        "reasoning_effort",
        "input_cost_per_token",
        "output_cost_per_token",
        "<<",
    ]
)
VALUES = st.sampled_from(
    [
        "openai/x",
        "anthropic/x",
        "azure/x",
        "bedrock/x",
        "os.environ/KEY",
        "os.environ/",
        "http://h",
        "https://h:0/v1",
        "http://a@b",
        "//h",
        "http://[",
        "1e-6",
        "1e999999999",
        "-0",
        "NaN",
        "null",
        "chat",
        "high",
    ]
)
NODES = st.recursive(
    VALUES | st.text(max_size=12) | st.integers() | st.floats() | st.none() | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.text(max_size=6), inner, max_size=5),
    max_leaves=12,
)
PARAMS = st.dictionaries(WORDS, VALUES | NODES, max_size=8).map(lambda params: {"model": "openai/x"} | params)
ENTRIES = st.fixed_dictionaries(
    {"model_name": st.text(min_size=1, max_size=9)},
    optional={"litellm_params": PARAMS | NODES, "model_info": NODES, "<<": NODES},
)
FILES = (
    st.binary(max_size=300)
    | st.text(max_size=300).map(lambda text: text.encode("utf-8", "surrogatepass"))
    | st.text("[]{}:,-&*!|>'\"%@` \n?#ab<1~", max_size=120).map(str.encode)
    | NODES.map(lambda node: yaml.safe_dump({"model_list": node}).encode())
    | st.lists(ENTRIES, max_size=4).map(lambda entries: yaml.safe_dump({"model_list": entries}).encode())
)


@given(FILES)
def test_whatever_the_file_holds_there_are_entries_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(content)
    try:
        listed, left_out = read(path)
    except ConfigError as error:
        assert str(path) in str(error)
        return
    assert listed or left_out
    for model in listed:
        # What a pool makes of it, without the kind's own needs.
        AgentFixer(
            name=model.name,
            model=model.model,
            base_url=model.base_url,
            key_env=model.key_env,
            price=model.price or Price(input=Decimal(1), output=Decimal(1)),
            effort=model.effort,
        )


@given(st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=12, max_size=60), st.data())
def test_no_key_is_ever_repeated(tmp_path_factory: pytest.TempPathFactory, secret: str, data: st.DataObject) -> None:
    text = entry(model=data.draw(VALUES), api_key=f"sk-{secret}", api_base=data.draw(VALUES))
    at = data.draw(st.integers(min_value=0, max_value=len(text)))
    path = tmp_path_factory.getbasetemp() / "secret.yaml"
    path.write_text(text[:at] + data.draw(st.text("[]{}:,-&*!\n\t'\"", max_size=3)) + text[at:], encoding="utf-8")
    try:
        found = repr(read(path))
    except ConfigError as error:
        found = str(error)
    assert secret not in found


def test_the_example_in_the_guide_is_a_list(tmp_path: Path) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "metering.md").read_text(encoding="utf-8")
    listed, left_out = read(written(tmp_path, guide.partition("```yaml\n")[2].partition("```")[0]))
    assert [model.name for model in listed] == ["sonnet", "local"]
    assert not left_out
