from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrout.redact import redact, redact_json

from .conftest import assert_linear

PEM = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n" + "QUJD" * 16 + "\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    "secret",
    [
        "sk-proj-A1b2C3d4E5f6G7h8I9j0",
        "sk-ant-api03-" + "aB3" * 20,
        "ghp_" + "a1B2" * 9,
        "github_pat_11ABCDE_" + "x9" * 20,
        "AKIAIOSFODNN7EXAMPLE",
        "xoxb-123456789012-abcdefGHIJ",
        "AIza" + "Sy0-_" * 7,
        PEM,
        PEM.replace("\n", "\n+"),
        PEM[: PEM.index("Proc")] + "QUJD" * 16 + "\n" + "QUJD" * 16,
    ],
)
def test_known_shapes_are_cut_out_and_the_text_around_them_stays(secret: str) -> None:
    assert redact(f"before {secret} after") == "before [secret] after"


@pytest.mark.parametrize(
    "before", ["\\n", "\\\\t", "\\u00e9", "é", "\x1b[31m", "\x1b[1;31m", "\x1b[0m\x1b[K", "\x1b[m"]
)
def test_a_shape_behind_an_escape_or_a_colour_is_cut_out_too(before: str) -> None:
    assert redact(f"a{before}ghp_{'a1B2' * 9} b") == f"a{before}[secret] b"


def test_a_bearer_token_goes_and_the_word_stays() -> None:
    assert redact("Authorization: Bearer abc.DEF-123_456/789+x==") == "Authorization: Bearer [secret]"


@pytest.mark.parametrize(
    "text",
    [
        'headers = {"Authorization": "Bearer " + token}',
        "<div class='sk-estimator-doc-link-fitted'>",
        "task-sk-1",
        "if text.startswith('-----BEGIN RSA PRIVATE KEY-----'): return parse(text)",
        "the monkey has a token",
        "",
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(
    "name", ["OPENAI_API_KEY", "GITHUB_TOKEN", "client_secret", "PGPASSWORD", "DB_CREDENTIALS", "API_KEY_2", "KEY"]
)
def test_values_of_secret_variables_are_cut_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "hunter2hunter2")
    assert redact("it printed hunter2hunter2!") == "it printed [secret]!"


def test_a_line_end_around_a_secret_variable_is_no_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", "hunter2hunter2\n")
    monkeypatch.setenv("BLANK_TOKEN", " " * 10)
    assert redact(f"it printed hunter2hunter2!{' ' * 20}") == f"it printed [secret]!{' ' * 20}"


def test_secrets_that_the_caller_knows_are_cut_out() -> None:
    assert redact("a plain-value-12 b", ["plain-value-12"]) == "a [secret] b"
    assert redact("true", ["true", ""]) == "true"
    document = {"plain-value-12": ["plain-value-12"]}
    assert json.loads(redact_json(json.dumps(document), ["plain-value-12"])) == {"[secret]": ["[secret]"]}


def test_short_values_other_variables_and_paths_stay(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SOME_TOKEN", "sevench")
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "parallel-run")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path))
    text = f"sevench parallel-run {tmp_path}/x"
    assert redact(text) == text


def test_a_secret_within_another_leaves_no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", "abcdefgh")
    monkeypatch.setenv("B_KEY", "abcdefgh-tail")
    assert redact("x abcdefgh-tail y") == "x [secret] y"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(value=json_values)
def test_json_without_secrets_comes_back_as_it_was(value: object) -> None:
    assert redact_json(json.dumps(value)) == json.dumps(value)


@given(value=json_values, around=st.tuples(st.text(alphabet=' \n"\\{}é'), st.text(alphabet=' \n"\\{}é')))
def test_a_secret_in_any_string_goes_and_the_document_stays_valid(value: object, around: tuple[str, str]) -> None:
    before, after = around
    text = json.dumps({"deep": [value, {"s": f"{before}{PEM}{after}"}]})
    assert json.loads(redact_json(text)) == {"deep": [value, {"s": f"{before}[secret]{after}"}]}


@given(value=json_values)
def test_a_secret_in_a_key_goes(value: object) -> None:
    secret = "ghp_" + "a1B2" * 9
    assert json.loads(redact_json(json.dumps({"said": {f"of {secret}": value}}))) == {"said": {"of [secret]": value}}


@pytest.mark.parametrize(
    "unit", ["sk-", "-----BEGIN PRIVATE KEY-----", "-----BEGIN ", "Bearer ", "A" * 50 + "-", "xoxb-", "AKIA", "- "]
)
def test_hostile_text_does_not_slow_it_down(unit: str) -> None:
    assert_linear(redact, unit)


@pytest.mark.parametrize("variable", ["SCROUT_LEDGER_URL", "DATABASE_URL", "SENTRY_DSN", "mongo_uri"])
def test_the_password_of_an_address_in_the_environment_is_cut_out(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "postgresql://me:open%20sesame@localhost/books")
    assert redact("psql postgresql://me:open%20sesame@localhost/books") == "psql postgresql://[secret]@localhost/books"
    assert redact("'open sesame' or open%20sesame on localhost") == "'[secret]' or [secret] on localhost"
    monkeypatch.setenv(variable, "postgresql://localhost/books")
    assert redact("psql postgresql://localhost/books") == "psql postgresql://localhost/books"
