"""What a fine-settings run will take, before it starts: memory, hours, dollars.

For a device that is here, a part of the model is tried: two layers and eight, with random weights, on blocks of the
pack, each in a process of its own. Memory and time grow with the layers in a straight line, which says what all of
them take. Where that says that a few micro-batches of the whole model fit and do not take long, the whole is tried too,
and nothing has to be extended.

For a GPU that is not here it is arithmetic. Memory: weights, adapter with its optimizer, what is kept of every layer,
and what one layer keeps for its backward pass, counted on a layer of that shape. Time: operations over what the GPU
does in a second, times the share of it that training reaches. That share comes from the one run with published hours.
"""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from scrout.base import ConfigError, FrozenModel
from scrout.lab.train.lora import library_errors, with_adapter
from scrout.lab.train.pack import Pack
from scrout.lab.train.sft import SftSettings, collate
from scrout.lab.train.tokenization import needs_extra, pretrained
from scrout.money import Usd
from scrout.text import percent, usd

GB = 1e9
TRIED = (2, 8)
"""Layers. The further apart, the less a disturbance of one counts in what all of them are said to take."""
WARMED, TIMED = 2, 3
"""Micro-batches: the first ones, with the longest block for the peak of memory, then those whose median counts."""
WHOLE_S = 180.0
"""What a trial of all layers may take."""
WHOLE_SHARE = 0.8
"""Of the memory that is there, which such a trial may need."""
COUNTED_TOKENS = 256
ADAPTER_BYTES = 16
"""Of a trained number: itself, its gradient and the optimizer's two, in float32."""
RUNTIME_GB = 1.0
"""What a GPU's runtime and its allocator's gaps hold."""
PUBLISHED_USD_PER_HOUR = Decimal("2.70")
"""arXiv 2608.04804: $86 for 31.8 hours."""
UTILIZATION = 0.39
"""Share of an H100's speed at which that run's operations take its 31.8 hours (bench/plan.py recomputes it)."""


@dataclass(frozen=True)
class Gpu:
    """As its maker's data sheet has it."""

    memory_gb: float
    flops: float
    """Of bfloat16 a second, dense."""


GPUS = {
    "rtx4090": Gpu(24, 165e12),
    "l40s": Gpu(48, 362e12),
    "a100": Gpu(80, 312e12),
    "h100": Gpu(80, 989e12),
    "h200": Gpu(141, 989e12),
}


class TrainingPlan(FrozenModel):
    """What a run will take."""

    device: str
    parameters: int
    trained: int
    steps: int
    tokens_per_step: float
    memory_gb: dict[str, float]
    peak_gb: float
    has_gb: float | None
    """What the device has; None: unknown."""
    hours: float
    usd: Usd | None
    notes: tuple[str, ...]


def plan_run(
    checkpoint: Path,
    pack: Path,
    settings: SftSettings,
    gpu: str = "",
    usd_per_hour: Decimal | None = None,
    device: str = "",
    attention: str = "",
    progress: Callable[[str], None] = lambda words: None,
) -> TrainingPlan:
    """What fine-settings this checkpoint on this pack takes, here or on a GPU of that name."""
    if gpu and gpu not in GPUS:
        raise ConfigError(f"--gpu {gpu} is not known. Use one of {', '.join(GPUS)}.")
    with needs_extra():
        import torch
        from transformers import AutoConfig
    with library_errors(f"{checkpoint} cannot be read"):
        config = AutoConfig.from_pretrained(**pretrained(checkpoint))
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    blocks = Pack(pack)
    with library_errors("the model's shape cannot be worked out"):
        work = Work.of(config, blocks, settings)
    on_gpu = torch.cuda.is_available() and not device.startswith("cpu")
    has_gb: float | None
    if gpu:
        memory, seconds, notes = by_arithmetic(config, work, settings, GPUS[gpu], progress)
        name, has_gb = gpu, GPUS[gpu].memory_gb
    else:
        device = device or ("cuda" if on_gpu else "cpu")
        memory, seconds, notes = _by_trial(config, work, settings, pack, device, attention, progress)
        name, has_gb = device, _has_gb(device)
    peak, hours = sum(memory.values()), seconds / 3600
    rate = usd_per_hour if usd_per_hour is not None else (PUBLISHED_USD_PER_HOUR if gpu else None)
    if rate is not None and usd_per_hour is None:
        notes = (*notes, f"Dollars at {usd(rate)} an hour, as in the published run; --usd-per-hour says yours.")
    if has_gb is not None and peak > has_gb:
        notes = (*notes, f"It needs {peak:.1f} GB and {name} has {has_gb:.0f}: use shorter blocks or another device.")
    return TrainingPlan(
        device=name,
        parameters=work.parameters,
        trained=work.trained,
        steps=work.steps,
        tokens_per_step=work.tokens_per_step,
        memory_gb={part: round(gb, 3) for part, gb in memory.items()},
        peak_gb=round(peak, 3),
        has_gb=has_gb,
        hours=round(hours, 6),
        usd=None if rate is None else round(rate * Decimal(str(round(hours, 6))), 2),
        notes=notes,
    )


@dataclass(frozen=True)
class Work:
    """How much there is to do, in the units that both ways count with."""

    layers: int
    hidden: int
    vocabulary: int
    parameters: int
    linear: int
    """Parameters of the layers' projections."""
    trained: int
    steps: int
    micro_batches: int
    block_tokens: int
    """Of the longest micro-batch."""
    tokens_per_step: float
    document_tokens: float
    """Of the document that a token is in, on average."""
    loss_share: float
    """Share of the tokens."""

    @classmethod
    def of(cls, config: Any, blocks: Pack, settings: SftSettings) -> Work:
        import torch
        from transformers import AutoModelForCausalLM

        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
            parameters = sum(one.numel() for one in model.parameters())
            head = model.get_output_embeddings()
            linear = sum(
                one.weight.numel() for one in model.modules() if isinstance(one, torch.nn.Linear) and one is not head
            )
            tuned = with_adapter(model, settings.rank, settings.alpha, 0.0)
            trained = sum(one.numel() for one in tuned.parameters() if one.requires_grad)
        text = config.get_text_config()
        lengths, documents = blocks.lengths(), blocks.documents()
        steps, an_epoch = settings.step_count(len(blocks)), -(-len(blocks) // settings.batch_size)
        # The last step of an epoch takes what is left.
        epochs, more = divmod(steps, -(-an_epoch // settings.gradient_accumulation))
        micro_batches = epochs * an_epoch + more * settings.gradient_accumulation
        return cls(
            layers=text.num_hidden_layers,
            hidden=text.hidden_size,
            vocabulary=text.vocab_size,
            parameters=parameters,
            linear=linear,
            trained=trained,
            steps=steps,
            micro_batches=micro_batches,
            block_tokens=int(np.sort(lengths)[-settings.batch_size :].sum()),
            tokens_per_step=float(lengths.mean()) * settings.batch_size * micro_batches / steps,
            document_tokens=float((documents.astype(float) ** 2).sum() / documents.sum()),
            loss_share=blocks.card.loss_tokens / blocks.card.tokens,
        )

    def flops_per_token(self, *, checkpointing: bool) -> float:
        """Forward, and once more where activations are not kept; backward through frozen weights costs as much again,
        for the adapter's twice. Attention's backward pass is two and a half times its forward pass."""
        passes = 2 + checkpointing
        body = 2 * self.linear * passes + 2 * self.trained * (passes + 1)
        attention = 2 * self.layers * self.hidden * self.document_tokens * (passes + 1.5)
        return body + attention + 2 * self.hidden * self.vocabulary * 3 * self.loss_share


def by_arithmetic(
    config: Any, work: Work, settings: SftSettings, gpu: Gpu, progress: Callable[[str], None] = lambda words: None
) -> tuple[dict[str, float], float, tuple[str, ...]]:
    """Memory in GB by what it is for, seconds, and the assumptions, on a GPU that is not here."""
    width = 2 if settings.precision == "bfloat16" else 4
    progress("counting what a layer keeps")
    kept = _kept_per_token(config, settings) * work.block_tokens
    between = work.layers * work.block_tokens * work.hidden * width
    memory = {
        "weights": work.parameters * width / GB,
        "adapter and optimizer": work.trained * ADAPTER_BYTES / GB,
        "activations": (between + kept if settings.gradient_checkpointing else work.layers * kept) / GB,
        "runtime": RUNTIME_GB,
    }
    tokens = work.steps * work.tokens_per_step
    flops = tokens * work.flops_per_token(checkpointing=settings.gradient_checkpointing)
    speed = gpu.flops * (1 if settings.precision == "bfloat16" else 0.5)
    note = (
        f"By arithmetic, for a GPU that is not here: {flops:.2e} operations at {percent(UTILIZATION, 0)} of "
        f"{speed / 1e12:,.0f} TFLOP/s, which is what the published run reached if it ran on an H100. Needs flash "
        "attention."
    )
    return memory, flops / (speed * UTILIZATION), (note,)


def _kept_per_token(config: Any, settings: SftSettings) -> float:
    """Bytes that one layer keeps for its backward pass, of each token."""
    import torch

    model = _part(config, 1, settings, "", vocabulary=16)
    own = {one.untyped_storage().data_ptr() for one in model.parameters()}
    sizes: dict[int, int] = {}

    def count(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    ids = torch.zeros((1, COUNTED_TOKENS), dtype=torch.long)
    with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
        output = model.get_base_model().base_model(input_ids=ids, use_cache=False)
    del output
    return sum(sizes.values()) / COUNTED_TOKENS


def _by_trial(
    config: Any,
    work: Work,
    settings: SftSettings,
    pack: Path,
    device: str,
    attention: str,
    progress: Callable[[str], None],
) -> tuple[dict[str, float], float, tuple[str, ...]]:
    found: dict[int, tuple[float, float]] = {}
    has_gb = _has_gb(device)

    def trial(layers: int) -> None:
        progress(f"trying {layers} of {work.layers} layers")
        # Processes of their own: memory that was had once is not given back.
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool, library_errors("the trial failed"):
            found[layers] = pool.submit(_try, config.to_dict(), layers, settings, pack, device, attention).result()

    for layers in TRIED if work.layers > TRIED[-1] else (work.layers,):
        trial(layers)
    memory, micro_batch_s = _extended(found, work.layers)
    fits = has_gb is not None and sum(memory.values()) < WHOLE_SHARE * has_gb
    if work.layers not in found and fits and micro_batch_s * (WARMED + TIMED) < WHOLE_S:
        trial(work.layers)
        memory, micro_batch_s = _extended({TRIED[0]: found[TRIED[0]], work.layers: found[work.layers]}, work.layers)
    tried = ", ".join(map(str, found))
    note = f"Tried on {device}, with {tried} of {work.layers} layers: {micro_batch_s:.2f} s a micro-batch."
    return memory, micro_batch_s * work.micro_batches, (note,)


def _extended(found: Mapping[int, tuple[float, float]], layers: int) -> tuple[dict[str, float], float]:
    """Memory in GB and seconds of a micro-batch with so many layers, on the line through what was tried."""
    (few, (few_gb, few_s)), (more, (more_gb, more_s)) = min(found.items()), max(found.items())
    if few == more:
        return {"the whole model": more_gb}, more_s
    layer_gb, layer_s = (more_gb - few_gb) / (more - few), (more_s - few_s) / (more - few)
    memory = {"layers": layer_gb * layers, "all else": more_gb - more * layer_gb}
    return memory, more_s + layer_s * (layers - more)


def _try(
    config: dict[str, Any], layers: int, settings: SftSettings, pack: Path, device: str, attention: str
) -> tuple[float, float]:
    """The peak of memory in GB and the seconds of a micro-batch, as the trainer does it."""
    import torch
    from transformers import AutoConfig
    from trl.trainer.utils import add_fused_lm_head

    own = AutoConfig.for_model(config["model_type"], **{k: v for k, v in config.items() if k != "model_type"})
    model = _part(own, layers, settings, attention).to(device).train()
    add_fused_lm_head(model.get_base_model(), outputs=("log_probs", "entropy", "is_top1"))
    if settings.gradient_checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=0.0)
    blocks = Pack(pack)
    lengths = blocks.lengths()
    usual = np.argsort(np.abs(lengths - lengths.mean()))[: settings.batch_size]
    longest = np.argsort(-lengths)[: settings.batch_size]
    times = []
    for number in range(WARMED + TIMED):
        chosen = usual if number else longest
        inputs = {name: value.to(device) for name, value in collate([blocks[int(one)] for one in chosen]).items()}
        started = time.perf_counter()
        with torch.autocast(device.partition(":")[0], torch.bfloat16, enabled=settings.precision == "bfloat16"):
            output = model(**inputs, use_cache=False, fused_lm_head=True)
        (-output.log_probs.sum()).backward()
        optimizer.step()
        optimizer.zero_grad()
        if device.startswith("cuda"):
            torch.cuda.synchronize()
        times.append(time.perf_counter() - started)
    if device.startswith("cuda"):
        return torch.cuda.max_memory_reserved() / GB + RUNTIME_GB, float(np.median(times[WARMED:]))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GB, float(np.median(times[WARMED:]))


def _part(config: Any, layers: int, settings: SftSettings, attention: str, vocabulary: int | None = None) -> Any:
    """A model of that shape with fewer layers, random weights, and the adapter."""
    import torch
    from transformers import AutoModelForCausalLM

    part = type(config).from_dict(config.to_dict())
    text = part.get_text_config()
    text.num_hidden_layers = layers
    if getattr(text, "layer_types", None):
        text.layer_types = (text.layer_types * layers)[:layers]
    if vocabulary is not None:
        text.vocab_size = vocabulary
        text.pad_token_id = text.bos_token_id = text.eos_token_id = None
    how = {"attn_implementation": attention} if attention else {}
    model = AutoModelForCausalLM.from_config(part, dtype=getattr(torch, settings.precision), **how)
    return with_adapter(model, settings.rank, settings.alpha, 0.0)


def _has_gb(device: str) -> float | None:
    if device.startswith("cuda"):
        import torch

        return float(torch.cuda.get_device_properties(device).total_memory / GB)
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 / GB for line in lines if line.startswith("MemAvailable:")), None)
