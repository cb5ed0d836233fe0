"""A tiny model through fine-settings: steps, a kill, going on, export."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

pytest.importorskip("trl")

import torch

from scrout.base import ConfigError, TaskError
from scrout.cli.train.export import command as export_command
from scrout.cli.train.sft import command
from scrout.config.settings import SearcherSettings
from scrout.lab.train.lora import export, library_errors, load_model
from scrout.lab.train.pack import Pack, pack
from scrout.lab.train.sft import PAPER, SftRun, SftSettings, collate, finetune, read_losses
from scrout.lab.train.tokenization import ChatTokenizer

MakeDemonstration = Callable[..., dict[str, Any]]
MakeCorpus = Callable[..., Path]
SmallDisk = Callable[[int, str], subprocess.CompletedProcess[str]]
SETTINGS = SearcherSettings(context_tokens=1024, max_tokens=128, margin_tokens=16)
QUICK = SftSettings(precision="float32", steps=6, gradient_accumulation=2, save_steps=2, learning_rate=1e-2)


@pytest.fixture(scope="module")
def blocks(
    tiny: Path, tmp_path_factory: pytest.TempPathFactory, demonstration: MakeDemonstration, corpus: MakeCorpus
) -> Path:
    folder = tmp_path_factory.mktemp("blocks")
    rows = [demonstration(number, turns=number % 3) for number in range(9)]
    pack(corpus(folder / "corpus", *rows), folder / "pack", ChatTokenizer.load(tiny), SETTINGS)
    return folder / "pack"


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory, checkpoint: Callable[..., Path]) -> Path:
    """A checkpoint of another shape."""
    return checkpoint(tmp_path_factory.mktemp("other"), layers=1)


@pytest.fixture(scope="module")
def tuned(tiny: Path, blocks: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nobody disturbed."""
    run = tmp_path_factory.mktemp("run") / "run"
    done = finetune(tiny, blocks, run, QUICK, held_out=blocks)
    assert done.held_out_before is not None
    assert done.held_out_after is not None
    assert done.held_out_after < done.held_out_before
    assert done.last_loss < done.first_loss
    return run


def read(run: Path) -> SftRun:
    return SftRun.model_validate_json((run / "run.json").read_bytes())


def test_documents_of_a_block_do_not_see_each_other(tiny: Path, blocks: Path) -> None:
    model = load_model(tiny, "float32", "cpu").eval()
    block = next(one for one in map(Pack(blocks).__getitem__, range(3)) if np.sum(one.positions == 0) > 1)
    with torch.inference_mode():
        together = model(**{k: v for k, v in collate([block]).items() if k != "labels"}, use_cache=False).logits[0]
        starts = [*np.flatnonzero(block.positions == 0), len(block.ids)]
        for first, last in pairwise(starts):
            alone = model(torch.from_numpy(block.ids[first:last].astype(np.int64))[None], use_cache=False).logits[0]
            torch.testing.assert_close(together[first:last], alone, atol=1e-5, rtol=1e-4)


def test_labels_are_the_learned_tokens_and_nothing_else(blocks: Path) -> None:
    pack_ = Pack(blocks)
    tensors = collate([pack_[0], pack_[1]])
    ids = np.concatenate([pack_[0].ids, pack_[1].ids])
    learned = np.concatenate([pack_[0].loss_mask, pack_[1].loss_mask])
    labels = tensors["labels"][0].numpy()
    assert tensors["input_ids"][0].tolist() == ids.tolist()
    assert (labels[learned] == ids[learned]).all()
    assert (labels[~learned] == -100).all()
    # The first token of a document would be predicted from the last one of another.
    assert (labels[tensors["position_ids"][0].numpy() == 0] == -100).all()


def test_the_loss_is_that_of_the_learned_tokens(tiny: Path, blocks: Path, tmp_path: Path) -> None:
    finetune(tiny, blocks, tmp_path / "run", QUICK.model_copy(update={"steps": 1, "gradient_accumulation": 99}))
    model, pack_ = load_model(tiny, "float32", "cpu").eval(), Pack(blocks)
    total, tokens = 0.0, 0
    for number in range(len(pack_)):
        inputs = collate([pack_[number]])
        labels = inputs.pop("labels")[0, 1:]
        with torch.inference_mode():
            logits = model(**inputs, use_cache=False).logits[0, :-1]
        total += float(torch.nn.functional.cross_entropy(logits, labels, ignore_index=-100, reduction="sum"))
        tokens += int((labels != -100).sum())
    (step,) = read_losses(tmp_path / "run")
    assert step.loss == pytest.approx(total / tokens, rel=1e-5)


KILLED = """
import os, signal, sys
from pathlib import Path
from scrout.lab.train.sft import SftSettings, finetune

def end(words):
    if words.startswith(sys.argv[5]):
        os.kill(os.getpid(), signal.SIGKILL)

settings = SftSettings.model_validate_json(sys.argv[4])
finetune(*map(Path, sys.argv[1:4]), settings, held_out=Path(sys.argv[2]), progress=end)
"""


def kill(tiny: Path, blocks: Path, run: Path, settings: SftSettings, at: str) -> None:
    """A run in a process of its own that is killed when it says these words."""
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(tiny), str(blocks), str(run), settings.model_dump_json(), at],
        capture_output=True,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},  # as here: another number adds in another order
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()


def same(run: Path, other: Path) -> bool:
    weights = "adapter/adapter_model.safetensors"
    return read_losses(run) == read_losses(other) and (run / weights).read_bytes() == (other / weights).read_bytes()


def test_a_killed_run_goes_on_to_the_same_bits(tiny: Path, blocks: Path, tuned: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    kill(tiny, blocks, run, QUICK, "step 5")
    assert len(read_losses(run)) == 5
    # What a kill in the midst of writing a checkpoint leaves.
    half = run / "checkpoints" / "checkpoint-5"
    half.mkdir()
    (half / "trainer_state.json").write_text("{")
    finetune(tiny, blocks, run, QUICK, held_out=blocks)
    assert same(run, tuned)
    assert not half.exists()


@pytest.mark.slow
def test_killed_at_every_step_and_more_than_once_it_ends_alike(tiny: Path, blocks: Path, tmp_path: Path) -> None:
    """With dropout, whose chance has to go on too."""
    settings = QUICK.model_copy(update={"dropout": 0.1, "precision": "bfloat16"})
    finetune(tiny, blocks, tmp_path / "whole", settings, held_out=blocks)
    places = ["loading", "held-out block 1", *(f"step {step}" for step in range(1, 7))]
    for at in places:
        run = tmp_path / at
        kill(tiny, blocks, run, settings, at)
        finetune(tiny, blocks, run, settings, held_out=blocks)
        assert same(run, tmp_path / "whole"), at
    often = tmp_path / "often"
    for at in places[3:]:
        kill(tiny, blocks, often, settings, at)
    finetune(tiny, blocks, often, settings, held_out=blocks)
    assert same(often, tmp_path / "whole")


FULL = """
import resource, sys
from pathlib import Path
import datasets, peft, torch, trl
from scrout.lab.train.sft import SftSettings, finetune

used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 150_000_000, -1))
finetune(*map(Path, sys.argv[1:4]), SftSettings.model_validate_json(sys.argv[4]))
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="Linux alone says there how much is in use")
def test_full_memory_is_named_and_leaves_nothing_half_written(tiny: Path, blocks: Path, tmp_path: Path) -> None:
    large = QUICK.model_copy(update={"rank": 4096, "steps": 1})
    run = tmp_path / "run"
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tiny), str(blocks), str(run), large.model_dump_json()],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert "ConfigError: the run stopped: out of memory" in done.stderr and "`--plan` says" in done.stderr
    assert not read_losses(run) and not (run / "adapter").exists()
    # Where there is room it goes on in the same folder.
    assert len(read_losses(Path(finetune(tiny, blocks, run, large).adapter).parent)) == 1


def test_a_full_disk_is_named_and_the_run_goes_on_once_there_is_room(
    tiny: Path, blocks: Path, tuned: Path, tmp_path: Path, small_disk: SmallDisk
) -> None:
    flags = "-s precision=float32 -s steps=6 -s gradient_accumulation=2 -s save_steps=2 -s learning_rate=0.01"
    run = f"train sft {tiny} {blocks} --out DISK/run {flags}"
    # The first checkpoint fits, and the second does not.
    size = sum(path.stat().st_size for path in (tuned / "checkpoints" / "checkpoint-4").iterdir()) * 3 // 2 // 1024
    done = small_disk(size, f"{run}; ls -A DISK/run; room 9999; {run} --json >/dev/null && cp -r DISK/run {tmp_path}")
    assert "the disk is full. Make room and run the same command again" in done.stderr
    assert "adapter" not in done.stdout.split()
    assert same(tmp_path / "run", tuned)


def test_a_full_disk_leaves_no_export(tiny: Path, tuned: Path, small_disk: SmallDisk) -> None:
    lines = (f"train export {tuned} --base {tiny} --out DISK/{form} --form {form}" for form in ("merged", "adapter"))
    done = small_disk(30, "; ".join([*lines, "ls -A DISK"]))
    assert done.stderr.count("the disk is full") == 2, done.stderr
    assert not done.stdout.strip()


def test_a_finished_run_is_not_run_again(tiny: Path, blocks: Path, tuned: Path) -> None:
    before = read_losses(tuned)
    said: list[str] = []
    finetune(tiny, blocks, tuned, QUICK, held_out=blocks, progress=said.append)
    assert read_losses(tuned) == before
    assert not any(words.startswith("step") for words in said)


def test_a_folder_keeps_to_one_run(tiny: Path, blocks: Path, tuned: Path) -> None:
    with pytest.raises(TaskError, match=r"settings\.rank 16, and now it is 4"):
        finetune(tiny, blocks, tuned, QUICK.model_copy(update={"rank": 4}))


def test_a_pack_of_another_tokenizer_is_refused(tiny: Path, blocks: Path, tmp_path: Path) -> None:
    card = json.loads((blocks / "pack.json").read_text()) | {"tokenizer_sha256": "0"}
    other = tmp_path / "pack"
    other.mkdir()
    for path in blocks.iterdir():
        (other / path.name).write_bytes(path.read_bytes())
    (other / "pack.json").write_text(json.dumps(card))
    with pytest.raises(TaskError, match="another tokenizer"):
        finetune(tiny, other, tmp_path / "run", QUICK)
    assert not (tmp_path / "run").exists()


def test_merged_weights_say_what_the_adapter_says(tiny: Path, tuned: Path, blocks: Path, tmp_path: Path) -> None:
    from peft import PeftModel

    done = export(tiny, tuned / "adapter", tmp_path / "merged", "merged", "float32")
    assert "vllm serve" in done.serve
    adapted = PeftModel.from_pretrained(load_model(tiny, "float32", "cpu"), str(tuned / "adapter")).eval()
    merged, plain = load_model(tmp_path / "merged", "float32", "cpu").eval(), load_model(tiny, "float32", "cpu").eval()
    ids = torch.from_numpy(Pack(blocks)[0].ids[:50].astype(np.int64))[None]
    with torch.inference_mode():
        torch.testing.assert_close(merged(ids).logits, adapted(ids).logits, atol=1e-4, rtol=1e-4)
        assert not torch.allclose(merged(ids).logits, plain(ids).logits, atol=1e-3)
    assert ChatTokenizer.load(tmp_path / "merged").count([{"role": "user", "content": "a"}]) > 0


def test_an_adapter_is_exported_with_its_base_and_rank(tiny: Path, tuned: Path, tmp_path: Path) -> None:
    told_ = CliRunner().invoke(
        export_command, [str(tuned), "--out", str(tmp_path / "only"), "--form", "adapter", "--json"]
    )
    assert told_.exit_code == 0, told_.output
    assert f"--max-lora-rank=16 --lora-modules only={tmp_path / 'only'}" in json.loads(told_.stdout)["serve"]
    config = json.loads((tmp_path / "only" / "adapter_config.json").read_text())
    assert (config["r"], config["base_model_name_or_path"]) == (16, str(tiny))
    with pytest.raises(TaskError, match="there already"):
        export(tiny, tuned / "adapter", tmp_path / "only", "adapter")


def test_no_adapter_nothing_is_written(tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no adapter_config.json"):
        export(tiny, tmp_path, tmp_path / "out", "merged")
    assert not (tmp_path / "out").exists()


def test_an_adapter_of_another_model_is_not_merged(tiny: Path, tuned: Path, tmp_path: Path, other: Path) -> None:
    with pytest.raises(TaskError, match="another model"):
        export(
            other,
            tuned / "adapter",
            tmp_path / "out",
            "merged",
            trained_on=SftRun.model_validate_json((tuned / "run.json").read_bytes()).base_digest,
        )
    with pytest.raises(ConfigError, match="does not fit this model"):
        export(other, tuned / "adapter", tmp_path / "out", "merged")
    assert not (tmp_path / "out").exists()


def test_held_out_figures_are_of_the_pack_that_is_named(
    tiny: Path, blocks: Path, tmp_path: Path, demonstration: MakeDemonstration, corpus: MakeCorpus
) -> None:
    one_step = QUICK.model_copy(update={"steps": 1, "gradient_accumulation": 1})
    finetune(tiny, blocks, tmp_path / "run", one_step, held_out=blocks)
    pack(corpus(tmp_path / "corpus", demonstration(77, 2)), tmp_path / "pack", ChatTokenizer.load(tiny), SETTINGS)
    with pytest.raises(TaskError, match="started with held_out_sha256"):
        finetune(tiny, blocks, tmp_path / "run", one_step, held_out=tmp_path / "pack")


def test_a_loss_that_is_no_number_ends_the_run(tiny: Path, blocks: Path, tmp_path: Path) -> None:
    wild = QUICK.model_copy(update={"learning_rate": 1e30, "steps": 4, "gradient_accumulation": 1, "warmup_ratio": 0.0})
    with pytest.raises(TaskError, match="lower learning_rate"):
        finetune(tiny, blocks, tmp_path / "run", wild)
    assert all(np.isfinite(step.loss) for step in read_losses(tmp_path / "run"))


def test_a_checkpoint_brings_no_code_and_no_pickles(tiny: Path, tmp_path: Path) -> None:
    hostile = tmp_path / "hostile"
    shutil.copytree(tiny, hostile)
    config = json.loads((hostile / "config.json").read_text())
    mapped = {"AutoConfig": "mine.Config", "AutoModelForCausalLM": "mine.Model"}
    (hostile / "config.json").write_text(json.dumps(config | {"model_type": "mine", "auto_map": mapped}))
    (hostile / "mine.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    with pytest.raises(ConfigError, match="cannot be loaded"):
        load_model(hostile, "float32", "cpu")
    assert not (tmp_path / "ran").exists()
    (hostile / "config.json").write_text(json.dumps(config))
    (hostile / "model.safetensors").unlink()
    torch.save({}, hostile / "pytorch_model.bin")
    with pytest.raises((ConfigError, TaskError), match="cannot be loaded"):
        load_model(hostile, "float32", "cpu")


def test_a_truncated_checkpoint_is_named(tiny: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut"
    shutil.copytree(tiny, cut)
    weights = (cut / "model.safetensors").read_bytes()
    (cut / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    with pytest.raises((ConfigError, TaskError), match="cannot be loaded"):
        load_model(cut, "float32", "cpu")


def recipe(*changes: str) -> list[str]:
    return [part for change in changes for part in ("-s", change)]


def test_the_command_goes_through(tiny: Path, blocks: Path, tmp_path: Path) -> None:
    arguments = [str(tiny), str(blocks), *recipe("steps=2", "gradient_accumulation=1", "precision=float32")]
    told_ = CliRunner().invoke(command, [*arguments, "--out", str(tmp_path / "run"), "--json"])
    assert told_.exit_code == 0, told_.output
    assert json.loads(told_.stdout)["run"]["steps"] == 2
    assert read(tmp_path / "run").settings.rank == 16
    bad = CliRunner().invoke(command, [*arguments, "--out", str(tmp_path / "x"), "-s", "rank=0"])
    assert isinstance(bad.exception, ConfigError)
    assert "recipe's rank" in str(bad.exception)
    assert CliRunner().invoke(command, arguments).exit_code == 2


def test_the_paper_s_table() -> None:
    """`fine_tuning` of the published figures: 12,723 blocks in two epochs are its 3,182 steps."""
    assert (PAPER.rank, PAPER.alpha, PAPER.dropout, PAPER.learning_rate) == (64, 128, 0, 1e-4)
    assert (PAPER.min_lr_ratio, PAPER.warmup_ratio, PAPER.epochs) == (0.1, 0.03, 2)
    assert (PAPER.batch_size, PAPER.gradient_accumulation) == (1, 8)
    assert (PAPER.precision, PAPER.gradient_checkpointing, PAPER.seed) == ("bfloat16", True, 3407)
    assert PAPER.step_count(12_723) == 3_182


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (RuntimeError("CUDA out of memory. Tried to allocate 20 GiB"), "out of memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate"), "--plan"),
        (OSError(errno.ENOSPC, "No space left on device"), "disk is full"),
        (RuntimeError("Error while serializing: No space left on device"), "disk is full"),
        (ValueError("Unrecognized model"), "a kind that transformers knows"),
    ],
)
def test_failures_of_the_libraries_are_named(error: Exception, words: str) -> None:
    with pytest.raises((ConfigError, TaskError), match=words), library_errors("the run stopped"):
        raise error
