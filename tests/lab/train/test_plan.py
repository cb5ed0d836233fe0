"""What a run will take. How well the plan holds is measured in bench/plan.py; here, that it says what it should."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner

pytest.importorskip("trl")

from scrout.base import ConfigError
from scrout.cli.train.sft import command
from scrout.config.settings import SearcherSettings
from scrout.lab.train.lora import load_model, with_adapter
from scrout.lab.train.pack import Pack, pack
from scrout.lab.train.plan import GPUS, Gpu, Work, plan_run
from scrout.lab.train.sft import SftSettings
from scrout.lab.train.tokenization import ChatTokenizer

TUNING = SftSettings(precision="float32", steps=10, gradient_accumulation=2)


@pytest.fixture(scope="module")
def blocks(
    tiny: Path,
    tmp_path_factory: pytest.TempPathFactory,
    demonstration: Callable[..., dict[str, Any]],
    corpus: Callable[..., Path],
) -> Path:
    folder = tmp_path_factory.mktemp("blocks")
    rows = [demonstration(number, turns=number % 3) for number in range(9)]
    settings = SearcherSettings(context_tokens=1024, max_tokens=128, margin_tokens=16)
    pack(corpus(folder / "corpus", *rows), folder / "pack", ChatTokenizer.load(tiny), settings)
    return folder / "pack"


def test_parameters_are_counted_on_the_model_itself(tiny: Path, blocks: Path) -> None:
    model = load_model(tiny, "float32", "cpu")
    work = Work.of(model.config, Pack(blocks), TUNING)
    assert work.parameters == sum(one.numel() for one in model.parameters())
    tuned = with_adapter(model, TUNING.rank, TUNING.alpha, 0.0)
    assert work.trained == sum(one.numel() for one in tuned.parameters() if one.requires_grad)
    assert work.linear < work.parameters


@pytest.mark.slow
def test_a_plan_for_this_machine(tiny: Path, blocks: Path) -> None:
    arguments = [str(tiny), str(blocks), "--plan", "-s", "steps=10", "-s", "precision=float32", "--device", "cpu"]
    told = CliRunner().invoke(command, [*arguments, "--usd-per-hour", "3.60", "--json"])
    assert told.exit_code == 0, told.output
    plan = json.loads(told.stdout)
    assert (plan["device"], plan["steps"]) == ("cpu", 10)
    assert plan["peak_gb"] == pytest.approx(sum(plan["memory_gb"].values()), abs=0.01)
    assert plan["notes"][0].startswith("Tried on cpu, with 2 of 2 layers"), "so small a model is tried as a whole"
    assert plan["hours"] > 0
    assert plan["usd"] == pytest.approx(plan["hours"] * 3.6, abs=0.01)


class TriedOnce(ProcessPoolExecutor):
    """Runs the trial of each number of layers once: a process of its own takes long to begin."""

    trials: ClassVar[dict[int, Future[Any]]] = {}

    def submit(self, trial: Callable[..., Any], config: Any, layers: int, *more: Any) -> Future[Any]:  # type: ignore[override]
        if layers not in self.trials:
            self.trials[layers] = super().submit(trial, config, layers, *more)
        return self.trials[layers]


@pytest.mark.slow
def test_a_model_that_fits_is_tried_as_a_whole_and_another_is_extended(
    blocks: Path, tmp_path: Path, checkpoint: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # several wait for each other wherever something else runs too
    monkeypatch.setattr("scrout.lab.train.plan.ProcessPoolExecutor", TriedOnce)
    monkeypatch.setattr("scrout.lab.train.plan.WHOLE_S", math.inf)
    deep = checkpoint(tmp_path / "deep", layers=20)
    whole = plan_run(deep, blocks, TUNING, device="cpu")
    assert whole.notes[0].startswith("Tried on cpu, with 2, 8, 20 of 20 layers")
    monkeypatch.setattr("scrout.lab.train.plan.WHOLE_S", 0.0)
    extended = plan_run(deep, blocks, TUNING, device="cpu")
    assert extended.notes[0].startswith("Tried on cpu, with 2, 8 of 20 layers")
    assert whole.memory_gb.keys() == extended.memory_gb.keys() == {"layers", "all else"}
    assert extended.peak_gb == pytest.approx(whole.peak_gb, rel=0.2)


def test_twice_the_steps_take_twice_the_hours(tiny: Path, blocks: Path) -> None:
    one = plan_run(tiny, blocks, TUNING, "h100")
    two = plan_run(tiny, blocks, TUNING.model_copy(update={"steps": 2_000_000}), "h100")
    assert two.peak_gb == one.peak_gb
    assert two.hours > 0
    assert two.usd is not None
    assert any("2.70 an hour" in note for note in two.notes)
    half = TUNING.model_copy(update={"steps": 1_000_000})
    assert plan_run(tiny, blocks, half, "h100").hours == pytest.approx(two.hours / 2, rel=0.01)


def test_keeping_activations_takes_more_memory_and_less_time(tiny: Path, blocks: Path) -> None:
    many = TUNING.model_copy(update={"steps": 2_000_000})
    again = plan_run(tiny, blocks, many, "a100")
    kept = plan_run(tiny, blocks, many.model_copy(update={"gradient_checkpointing": False}), "a100")
    # Of two layers, all is kept of both, against what is between them and one that is being computed.
    assert kept.memory_gb["activations"] > again.memory_gb["activations"]
    assert kept.hours < again.hours


def test_what_does_not_fit_is_said(tiny: Path, blocks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(GPUS, "rtx4090", Gpu(memory_gb=1, flops=1e12))
    assert any("rtx4090 has 1" in note for note in plan_run(tiny, blocks, TUNING, "rtx4090").notes)


def test_an_unknown_gpu_is_named(tiny: Path, blocks: Path) -> None:
    with pytest.raises(ConfigError, match="Use one of rtx4090"):
        plan_run(tiny, blocks, TUNING, "abacus")
