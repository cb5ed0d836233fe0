"""The rollout server, over real HTTP: one text for one request, whatever is cached; vLLM's forms; refusals."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from scrout.base import ConfigError
from scrout.config.settings import Sampling
from scrout.lab.train.serving import CheckpointServer
from scrout.models.chat import Chat, Message, Overflow

USER = [{"role": "user", "content": "The report is about this repository."}]


@pytest.fixture(scope="module")
def adapters(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two adapters, `one` and `two`, of weights that say something else."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    folder = tmp_path_factory.mktemp("adapters")
    for seed, name in enumerate(("one", "two")):
        torch.manual_seed(seed)
        config = LoraConfig(r=4, target_modules=["q_proj", "v_proj", "down_proj"], init_lora_weights=False)
        get_peft_model(AutoModelForCausalLM.from_pretrained(tiny), config).save_pretrained(folder / name)
    return folder


@pytest.fixture(scope="module")
def server(tiny: Path, adapters: Path) -> Iterator[CheckpointServer]:
    with CheckpointServer(tiny, name="tiny", adapters=adapters, threads=1) as running:
        yield running


def post(server: CheckpointServer, path: str = "/v1/chat/completions", **body: Any) -> httpx.Response:
    if path.endswith("completions"):
        body = {"messages": USER, "max_tokens": 24, "temperature": 0} | body
    return httpx.post(server.base_url.removesuffix("/v1") + path, json=body, timeout=60)


def reply(server: CheckpointServer, **body: Any) -> dict[str, Any]:
    response = post(server, **body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def said(server: CheckpointServer, **body: Any) -> str:
    return str(reply(server, **body)["choices"][0]["message"]["content"])


def own_greedy(folder: Path, messages: list[dict[str, str]], most: int) -> list[int]:
    """What transformers' own loop writes, as the judge of ours."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder).eval()
    text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    prompt = tokenizer(text, add_special_tokens=False, return_tensors="pt")
    with torch.inference_mode():
        written = model.generate(**prompt, max_new_tokens=most, do_sample=False)
    ids: list[int] = written[0, prompt["input_ids"].shape[1] :].tolist()
    return ids


def test_greedy_is_what_transformers_itself_writes(server: CheckpointServer, tiny: Path) -> None:
    answer = reply(server, return_token_ids=True)
    choice = answer["choices"][0]
    assert choice["token_ids"] == own_greedy(tiny, USER, 24)
    assert answer["usage"]["prompt_tokens"] == len(answer["prompt_token_ids"])
    assert answer["usage"]["completion_tokens"] == len(choice["token_ids"])
    assert choice["finish_reason"] == "length"


def test_a_conversation_that_goes_on_is_the_same_with_and_without_what_was_computed_before(
    server: CheckpointServer, tiny: Path
) -> None:
    talk = [{"role": "user", "content": f"Look around, then hand over what you found. {'grep ' * 40}"}]
    for turn in range(4):
        # No two salts share anything.
        warm = reply(server, messages=talk, cache_salt="talk", return_token_ids=True)
        cold = reply(server, messages=talk, cache_salt=f"cold {turn}", return_token_ids=True)
        assert warm["choices"][0]["token_ids"] == cold["choices"][0]["token_ids"] == own_greedy(tiny, talk, 24)
        assert cold["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
        assert (warm["usage"]["prompt_tokens_details"]["cached_tokens"] > 40) is (turn > 0)
        talk += [
            {"role": "assistant", "content": warm["choices"][0]["message"]["content"]},
            {"role": "user", "content": f"def total(prices): {turn}"},
        ]


def test_two_conversations_in_turns_keep_what_was_computed_of_each(server: CheckpointServer) -> None:
    talks = [[{"role": "user", "content": f"{word} " * 30}] for word in ("files", "notes")]
    for talk in talks:
        reply(server, messages=talk, cache_salt="pair")
    for talk in talks:
        again = reply(server, messages=talk, cache_salt="pair")["usage"]
        assert again["prompt_tokens_details"]["cached_tokens"] == again["prompt_tokens"] - 1


def test_a_seed_gives_its_text_again_and_another_seed_another(server: CheckpointServer) -> None:
    draws = [said(server, temperature=1, seed=seed, cache_salt=str(at)) for at, seed in enumerate((1, 2, 3, 1))]
    assert draws[0] == draws[3]
    assert len(set(draws)) == 3
    assert said(server, temperature=1) != said(server, temperature=1)


@pytest.mark.parametrize("limits", [{"top_k": 1}, {"top_p": 1e-9}])
def test_top_k_and_top_p_leave_only_the_likeliest(server: CheckpointServer, limits: dict[str, float]) -> None:
    assert said(server, temperature=5, seed=1, **limits) == said(server)
    assert said(server, temperature=5, seed=1) != said(server)


def test_a_stop_ends_the_text_before_it(server: CheckpointServer) -> None:
    whole = said(server)
    stop = whole[6:9]
    choice = reply(server, stop=stop, return_token_ids=True)["choices"][0]
    assert choice["message"]["content"] == whole[: whole.index(stop)]
    assert choice["finish_reason"] == "stop"
    assert len(choice["token_ids"]) < 24
    assert said(server, stop=["nowhere", stop]) == whole[: whole.index(stop)]


def test_special_tokens_end_a_reply_and_turns_of_one_seed_are_drawn_apart(
    tmp_path: Path, checkpoint: Callable[..., Path]
) -> None:
    """A model to which all tokens are alike: greedy it says its token 0, which is special and never in the text."""
    import torch
    from transformers import AutoModelForCausalLM

    folder = checkpoint(tmp_path / "zero")
    model = AutoModelForCausalLM.from_pretrained(folder)
    with torch.no_grad():
        model.lm_head.weight.fill_(0)
    model.save_pretrained(folder)
    with CheckpointServer(folder) as server:
        # All tokens are as likely here, so what is drawn shows the numbers it is drawn with.
        other = [{"role": "user", "content": "Another turn of the same episode."}]
        draws = [said(server, messages=talk, temperature=1, seed=1) for talk in (USER, other, USER)]
        assert draws[0] == draws[2] != draws[1]
        on, ended = (reply(server, stop=stop, return_token_ids=True)["choices"][0] for stop in ("x", "<|endoftext|>"))
    assert (on["finish_reason"], on["token_ids"], on["message"]["content"]) == ("length", [0] * 24, "")
    assert (ended["finish_reason"], ended["token_ids"], ended["message"]["content"]) == ("stop", [0], "")
    model.generation_config.eos_token_id = [0]
    model.save_pretrained(folder)
    with CheckpointServer(folder) as server:
        assert reply(server, return_token_ids=True)["choices"][0]["token_ids"] == [0]


def test_tokenize_counts_what_a_completion_reads(server: CheckpointServer) -> None:
    tools = [{"type": "function", "function": {"name": "bash", "parameters": {}}}]
    counted = post(server, "/tokenize", model="tiny", messages=USER, tools=tools).json()
    answer = reply(server, tools=tools, return_token_ids=True)
    assert counted["count"] == answer["usage"]["prompt_tokens"]
    assert counted["tokens"] == answer["prompt_token_ids"]
    assert counted["max_model_len"] == 4096


def test_past_calls_reach_the_template_as_objects(server: CheckpointServer) -> None:
    function = {"name": "bash", "arguments": '{"command": "ls"}'}
    call = {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "type": "function", "function": function}]}
    parsed = {**call, "tool_calls": [{"id": "1", "function": {**function, "arguments": {"command": "ls"}}}]}
    counts = [post(server, "/tokenize", messages=[*USER, one]).json()["tokens"] for one in (call, parsed)]
    assert counts[0] == counts[1]


async def test_scrouts_client_talks_to_it(server: CheckpointServer) -> None:
    sampling = Sampling(temperature=0.9, top_p=1.0, top_k=-1, repetition_penalty=1.0, presence_penalty=0.0, seed=3)
    async with Chat(server.base_url, "tiny", None, sampling=sampling, cache_salt="episode") as chat:
        messages = [Message("system", "You look around."), Message("user", "grep")]
        answer = await chat.complete(messages, (), 16)
        assert await chat.count(messages, ()) == answer.usage.input_tokens + answer.usage.cache_read_tokens  # type: ignore[union-attr]
        with pytest.raises(Overflow):
            await chat.complete([Message("user", "total " * 5000)], (), 16)


def test_requests_wait_for_their_turn(server: CheckpointServer) -> None:
    alone = [said(server, temperature=1, seed=seed) for seed in range(4)]
    together: dict[int, str] = {}

    def ask(seed: int) -> None:
        together[seed] = said(server, temperature=1, seed=seed)

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [together[seed] for seed in range(4)] == alone


def test_who_leaves_does_not_hold_up_the_others(tmp_path: Path, checkpoint: Callable[..., Path]) -> None:
    """A reply of the whole context takes minutes here; the next one does not wait for it."""
    with CheckpointServer(checkpoint(tmp_path / "long", context=200_000)) as server:
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{server.base_url}/chat/completions", json={"messages": USER, "temperature": 0}, timeout=0.5)
        assert said(server, max_tokens=2) is not None


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"messages": []}, "messages: List should have at least 1 item"),
        ({"messages": "hello"}, "messages: Input should be a valid list"),
        ({"temperature": -1}, "temperature: Input should be greater than or equal to 0"),
        ({"top_p": 0}, "top_p"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"n": 2}, "n: this server knows only 1"),
        ({"stream": True}, "stream: this server knows only false"),
        ({"presence_penalty": 0.5}, "presence_penalty: this server knows only 0"),
        ({"response_format": {"type": "json_schema"}}, "response_format"),
        ({"messages": [{"role": "user", "content": "total " * 5000}]}, "maximum context length is 4096 tokens"),
        ({"max_tokens": 5000}, "maximum context length is 4096 tokens"),
        ({"messages": [{"role": "user", "content": {"a": 1}, "tool_calls": [1]}]}, "chat template"),
    ],
)
def test_a_bad_request_is_refused_with_the_reason(server: CheckpointServer, body: dict[str, Any], words: str) -> None:
    response = post(server, **body)
    assert response.status_code == 400
    assert words in response.json()["error"]["message"]
    assert "Traceback" not in response.text


def test_what_is_no_json_or_no_path_or_no_model_is_refused(server: CheckpointServer) -> None:
    url = f"{server.base_url}/chat/completions"
    for body in (b"{", b"[]", b"\xff", b"[" * 100_000):
        assert "no JSON object" in httpx.post(url, content=body).json()["error"]["message"]
    assert httpx.get(f"{server.base_url}/nothing").status_code == 404
    missing = post(server, model="gpt")
    assert (missing.status_code, "there is tiny" in missing.text) == (404, True)


def test_adapters_are_loaded_swapped_and_told_apart(server: CheckpointServer, adapters: Path, tiny: Path) -> None:
    bare = said(server, model="tiny")

    def load(path: Path, **more: bool) -> httpx.Response:
        return post(server, "/v1/load_lora_adapter", lora_name="policy.v1", lora_path=str(path), **more)

    assert post(server, model="policy.v1").status_code == 404
    assert load(adapters / "one").status_code == 200
    one = said(server, model="policy.v1")
    assert one != bare
    again = load(adapters / "two")
    assert (again.status_code, "load_inplace" in again.text) == (400, True)
    assert said(server, model="policy.v1") == one
    assert load(adapters / "two", load_inplace=True).status_code == 200
    two = said(server, model="policy.v1")
    assert two not in (one, bare)
    assert said(server, model="tiny") == bare
    listed = httpx.get(f"{server.base_url}/models").json()["data"]
    assert [model["id"] for model in listed] == ["tiny", "policy.v1"]
    with CheckpointServer(tiny, adapter=adapters / "two") as other:
        assert other.model == "two"
        assert said(other) == said(other, model="two") == two


def test_only_whole_adapters_below_the_named_folder_are_loaded(
    server: CheckpointServer, adapters: Path, tiny: Path, tmp_path: Path
) -> None:
    def load(path: object, name: str = "other") -> httpx.Response:
        return post(server, "/v1/load_lora_adapter", lora_name=name, lora_path=str(path), load_inplace=True)

    (adapters / "link").symlink_to(tmp_path)
    (adapters / "empty").mkdir()
    (adapters / "broken").mkdir()
    config = json.loads((adapters / "one" / "adapter_config.json").read_text())
    (adapters / "broken" / "adapter_config.json").write_text(json.dumps(config))
    (adapters / "broken" / "adapter_model.safetensors").write_bytes(b"no weights")
    for path in (tmp_path, adapters / ".." / "x", adapters / "link", "/"):
        refused = load(path)
        assert (refused.status_code, "not below" in refused.text) == (400, True)
    assert load(adapters / "empty").status_code == 404
    assert "does not load" in load(adapters / "broken").text
    assert load(adapters / "one", "tiny").status_code == 400
    assert said(server)
    with CheckpointServer(tiny, adapters=adapters) as first:
        bare = said(first)
        broken = post(first, "/v1/load_lora_adapter", lora_name="x", lora_path=str(adapters / "broken"))
        assert (broken.status_code, said(first)) == (400, bare)
        one = post(first, "/v1/load_lora_adapter", lora_name="x", lora_path=str(adapters / "one"))
        assert (one.status_code, said(first) == bare, said(first, model="x") == bare) == (200, True, False)
    with CheckpointServer(tiny) as closed:
        refused = post(closed, "/v1/load_lora_adapter", lora_name="x", lora_path=str(adapters / "one"))
    assert (refused.status_code, "--adapters" in refused.text) == (400, True)


def test_the_command_serves_until_it_is_interrupted(tiny: Path) -> None:
    started = [
        sys.executable,
        "-c",
        "from scrout.cli.main import main; main()",
        "train",
        "serve",
        str(tiny),
        "--port=0",
    ]
    with subprocess.Popen(started, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = "".join(process.stdout.readline() for _ in range(8))
        model = tomllib.loads(told)["scout"]["model"]
        answer = httpx.post(f"{model['base_url']}/chat/completions", json={"messages": USER, "max_tokens": 2})
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
    assert model["base_url"].startswith("http://127.0.0.1:")
    assert answer.json()["model"] == model["model"] == tiny.name
    assert (process.returncode, "Traceback" in errors) == (130, False)


def test_commands_load_no_torch_before_they_work() -> None:
    code = "import sys, scrout.cli.train.serve, scrout.cli.train.evaluate; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def test_what_cannot_be_served_is_said_with_the_next_step(
    tiny: Path, tmp_path: Path, server: CheckpointServer, checkpoint: Callable[..., Path]
) -> None:
    with pytest.raises(ConfigError, match="is no folder and no file"), CheckpointServer(tmp_path / "none"):
        pass
    (tmp_path / "hollow").mkdir()
    with pytest.raises(ConfigError, match="holds no tokenizer that loads"), CheckpointServer(tmp_path / "hollow"):
        pass
    mute = checkpoint(tmp_path / "mute")
    for file in ("chat_template.jinja", "tokenizer_config.json"):
        path = mute / file
        if file.endswith("jinja"):
            path.unlink(missing_ok=True)
        else:
            config = json.loads(path.read_text())
            config.pop("chat_template", None)
            path.write_text(json.dumps(config))
    with pytest.raises(ConfigError, match="has no chat template"), CheckpointServer(mute):
        pass
    with pytest.raises(ConfigError, match=r"no adapter_config\.json"), CheckpointServer(tiny, adapter=tmp_path):
        pass
    port = int(re.findall(r":(\d+)/", server.base_url)[0])
    with pytest.raises(ConfigError, match=f"port {port} .* Pass another"), CheckpointServer(tiny, port=port):
        pass
