"""Fine-tuning: a LoRA adapter on packed demonstrations, with trl's trainer.

A run is a folder. `run.json` says what it is: base model, pack and settings; `losses.jsonl` has every step's loss;
`checkpoints` what a run that was cut off goes on from; `adapter` the result. The same command in the same folder goes
on where the last one stopped, and on a CPU takes the same steps to the bit.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from scrout import __version__
from scrout.base import FrozenModel, TaskError
from scrout.files import JsonLines, atomic_folder, lock_folder, write_atomic
from scrout.lab.train.lora import Precision, library_errors, load_model, with_adapter
from scrout.lab.train.pack import Pack, PackedBlock, tokenizer_digest
from scrout.lab.train.run_card import keep_card
from scrout.lab.train.tokenization import ChatTokenizer, needs_extra
from scrout.scout.hidden_state.checkpoint import digest

if TYPE_CHECKING:
    from transformers import TrainerCallback, TrainingArguments

RUN, LOSSES, CHECKPOINTS, ADAPTER = "run.json", "losses.jsonl", "checkpoints", "adapter"
WHOLE = "whole"
"""In a checkpoint whose every file is written."""
UNLEARNED = -100
"""The label of a token that nothing is learned from."""


class SftSettings(FrozenModel):
    """How a model is fine-tuned."""

    rank: int = Field(default=16, ge=1, le=4096)
    alpha: int = Field(default=32, ge=1, le=65_536)
    dropout: float = Field(default=0.0, ge=0, lt=1)
    precision: Precision = "bfloat16"
    learning_rate: float = Field(default=2e-4, gt=0)
    min_lr_ratio: float = Field(default=0.1, ge=0, le=1)
    """Share of the learning rate that the cosine ends at."""
    warmup_ratio: float = Field(default=0.03, ge=0, lt=1)
    """Share of the steps in which it rises."""
    epochs: float = Field(default=2, gt=0, le=10_000)
    steps: int | None = Field(default=None, ge=1)
    """Optimizer steps, whatever the epochs say; None: as many as they take."""
    batch_size: int = Field(default=1, ge=1)
    """Blocks that go through the model together."""
    gradient_accumulation: int = Field(default=8, ge=1)
    """Micro-batches of a step."""
    gradient_checkpointing: bool = True
    """Compute activations again rather than keep them."""
    save_steps: int = Field(default=50, ge=1)
    """Steps between checkpoints."""
    seed: int = Field(default=3407, ge=0, lt=2**32)

    def step_count(self, blocks: int) -> int:
        """Optimizer steps that a run takes."""
        micro_batches = -(-blocks // self.batch_size)
        each = max(-(-micro_batches // self.gradient_accumulation), 1)
        return self.steps or max(int(-(-each * self.epochs // 1)), 1)


PAPER = SftSettings(rank=64, alpha=128, learning_rate=1e-4)
"""Appendix of arXiv 2608.04804: Qwen2.5-Coder-7B-Instruct, blocks of 32,768 tokens, all linear projections."""
PRESETS = {"small": SftSettings(), "paper": PAPER}


class SftRun(FrozenModel):
    """What a run's folder holds."""

    scrout: str = __version__
    base: str
    """Folder or file of the base model."""
    base_digest: str
    pack_sha256: str
    settings: SftSettings
    steps: int
    held_out_sha256: str = ""
    """Of the pack that the loss is measured on; empty: none."""


class SftStep(FrozenModel):
    """One line of losses.jsonl."""

    step: int
    loss: float
    """Mean over the learned tokens of the step."""
    grad_norm: float
    learning_rate: float


class SftResult(FrozenModel):
    run: SftRun
    first_loss: float
    last_loss: float
    """Mean over the last tenth of the steps; the first likewise."""
    held_out_before: float | None
    held_out_after: float | None
    adapter: str


def finetune(
    checkpoint: Path,
    pack: Path,
    out: Path,
    settings: SftSettings,
    held_out: Path | None = None,
    device: str = "",
    attention: str = "",
    progress: Callable[[str], None] = lambda words: None,
) -> SftResult:
    """Fine-tune, or go on with what was begun in `out`."""
    blocks, template = _pack_for(pack, checkpoint)
    judged = _pack_for(held_out, checkpoint)[0] if held_out else None
    run = SftRun(
        base=str(checkpoint),
        base_digest=digest(checkpoint),
        pack_sha256=blocks.digest,
        settings=settings,
        steps=settings.step_count(len(blocks)),
        held_out_sha256=judged.digest if judged else "",
    )
    progress("loading the model")
    model = load_model(checkpoint, settings.precision, device, attention)
    with lock_folder(out), library_errors("the run stopped"):
        _begin(out, run)
        trainer = _trainer(model, template, blocks, out, run, progress)
        before = _measured_once(out / "held_out_before.json", lambda: _held_out(trainer, judged, progress))
        trainer.train(resume_from_checkpoint=_last_whole(out / CHECKPOINTS))
        after = _measured_once(out / "held_out_after.json", lambda: _held_out(trainer, judged, progress))
        _save(trainer.model, out / ADAPTER)
    losses = [step.loss for step in read_losses(out)]
    tenth = max(len(losses) // 10, 1)
    return SftResult(
        run=run,
        first_loss=sum(losses[:tenth]) / tenth,
        last_loss=sum(losses[-tenth:]) / tenth,
        held_out_before=before,
        held_out_after=after,
        adapter=str(out / ADAPTER),
    )


def read_losses(folder: Path) -> list[SftStep]:
    """Every step that is done. The last line may have been cut off by a kill."""
    return JsonLines(folder / LOSSES, SftStep).read()


def collate(blocks: Sequence[PackedBlock]) -> dict[str, Any]:
    """One row of tensors. Positions that begin anew keep documents apart: attention reads it from them."""
    import numpy as np
    import torch

    ids, learned, positions = (
        np.concatenate(parts)
        for parts in zip(*((one.ids, one.loss_mask, one.positions) for one in blocks), strict=True)
    )
    labels = np.where(learned, ids, UNLEARNED)
    return {
        "input_ids": torch.from_numpy(ids.astype(np.int64))[None],
        "labels": torch.from_numpy(labels.astype(np.int64))[None],
        "position_ids": torch.from_numpy(positions)[None],
    }


def _pack_for(folder: Path, checkpoint: Path) -> tuple[Pack, ChatTokenizer]:
    template, pack = ChatTokenizer.load(checkpoint), Pack(folder)
    if pack.card.tokenizer_sha256 != tokenizer_digest(template):
        raise TaskError(
            f"{folder} was packed with another tokenizer or chat template than {checkpoint} has. Pack the corpus "
            "again: scrout train pack."
        )
    return pack, template


def _begin(out: Path, run: SftRun) -> None:
    """Write the run's card, or compare it with the one there. A run without a step may still become another."""
    if not read_losses(out):
        for name in (RUN, "held_out_before.json", "held_out_after.json"):
            (out / name).unlink(missing_ok=True)
    keep_card(out / RUN, run, ("base", "scrout"))


def _trainer(
    model: Any, template: ChatTokenizer, pack: Pack, out: Path, run: SftRun, progress: Callable[[str], None]
) -> Any:
    with needs_extra():
        import torch
        from datasets import Dataset
        from transformers import PrinterCallback
        from trl import SFTConfig, SFTTrainer
    settings = run.settings
    torch.manual_seed(settings.seed)
    tuned = with_adapter(model, settings.rank, settings.alpha, settings.dropout)
    on_cpu = next(model.parameters()).device.type == "cpu"
    arguments = SFTConfig(
        output_dir=str(out / CHECKPOINTS),
        max_steps=run.steps,
        per_device_train_batch_size=settings.batch_size,
        gradient_accumulation_steps=settings.gradient_accumulation,
        gradient_checkpointing=settings.gradient_checkpointing,
        learning_rate=settings.learning_rate,
        lr_scheduler_type="cosine_with_min_lr",
        lr_scheduler_kwargs={"min_lr_rate": settings.min_lr_ratio},
        warmup_steps=round(settings.warmup_ratio * run.steps),
        bf16=settings.precision == "bfloat16",
        use_cpu=on_cpu,
        seed=settings.seed,
        data_seed=settings.seed,
        logging_steps=1,
        logging_nan_inf_filter=False,
        save_steps=settings.save_steps,
        # The one before the last too: a kill may hit the midst of writing the last.
        save_total_limit=2,
        report_to="none",
        disable_tqdm=True,
        max_length=None,
        dataset_kwargs={"skip_prepare_dataset": True},
        remove_unused_columns=False,
        dataloader_pin_memory=not on_cpu,
    )

    class Trainer(SFTTrainer):  # type: ignore[misc]
        """Without the page about itself that the library puts beside every checkpoint."""

        def create_model_card(self, *args: object, **more: object) -> None:
            pass

    # The library shuffles and skips rows of a data set; what a row's number stands for is looked up when it is needed.
    rows = Dataset.from_dict({"block": list(range(len(pack)))})
    trainer = Trainer(
        model=tuned,
        args=arguments,
        train_dataset=rows,
        processing_class=template.tokenizer,
        data_collator=lambda given: collate([pack[row["block"]] for row in given]),
        callbacks=[_callback(out, run, progress)],
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def _callback(out: Path, run: SftRun, progress: Callable[[str], None]) -> TrainerCallback:
    from transformers import TrainerCallback

    class StepCallback(TrainerCallback):  # type: ignore[misc]
        """Writes every step down, and marks the checkpoints that are whole."""

        def on_train_begin(self, args: TrainingArguments, state: Any, control: Any, **more: Any) -> None:
            # Steps after the checkpoint are taken again, and written again.
            done = [step for step in read_losses(out) if step.step <= state.global_step]
            write_atomic(out / LOSSES, "".join(step.model_dump_json() + "\n" for step in done))

        def on_log(self, args: TrainingArguments, state: Any, control: Any, logs: dict[str, Any], **more: Any) -> None:
            if "loss" not in logs:
                return
            if not math.isfinite(logs["loss"]):
                raise TaskError(
                    f"the loss of step {state.global_step} is {logs['loss']}: the steps were too large. Begin a new "
                    "run with a lower learning_rate."
                )
            step = SftStep(
                step=state.global_step,
                loss=logs["loss"],
                grad_norm=logs["grad_norm"],
                learning_rate=logs["learning_rate"],
            )
            JsonLines(out / LOSSES, SftStep, durable=True).append(step)
            progress(f"step {step.step} of {run.steps}, loss {step.loss:.4f}")

        def on_save(self, args: TrainingArguments, state: Any, control: Any, **more: Any) -> None:
            (out / CHECKPOINTS / f"checkpoint-{state.global_step}" / WHOLE).touch()

    return StepCallback()


def _last_whole(folder: Path) -> str | None:
    """The newest checkpoint to go on from. Others, newer and half-written, are removed."""
    found = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]), reverse=True)
    for path in found:
        if (path / WHOLE).exists():
            return str(path)
        shutil.rmtree(path)
    return None


def _held_out(trainer: Any, pack: Pack | None, progress: Callable[[str], None]) -> float | None:
    """Mean loss over all learned tokens of another pack."""
    if pack is None:
        return None
    import torch

    model = trainer.model
    was_training = model.training
    model.eval()
    total, tokens = 0.0, 0
    with torch.inference_mode(), trainer.compute_loss_context_manager():
        for number in range(len(pack)):
            progress(f"held-out block {number + 1} of {len(pack)}")
            inputs = {name: value.to(model.device) for name, value in collate([pack[number]]).items()}
            output = model(**inputs, use_cache=False, fused_lm_head=True)
            total -= float(output.log_probs.double().sum())
            tokens += int(output.label_mask.sum())
    model.train(was_training)
    return total / tokens


def _measured_once(path: Path, measure: Callable[[], float | None]) -> float | None:
    """What was measured before a kill is not measured again: the model is another by then."""
    if path.exists():
        kept = json.loads(path.read_text(encoding="utf-8"))
        return float(kept) if kept is not None else None
    loss = measure()
    if loss is not None:
        write_atomic(path, json.dumps(loss))
    return loss


def _save(model: Any, folder: Path) -> None:
    with atomic_folder(folder) as part:
        model.save_pretrained(str(part))
        shutil.rmtree(folder, ignore_errors=True)
