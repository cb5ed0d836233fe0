"""`scrout train`: train a searcher, from trajectories to its evaluation. Each command is loaded when it is needed."""

from __future__ import annotations

import click

from scrout.cli.groups import LazyGroup

# In the order of the work.
COMMANDS = {
    "distill": "Let recon search tasks whose fix is known, as a teacher.",
    "corpus": "Cut demonstrations of searching from agents' trajectories.",
    "pack": "Pack a corpus into blocks of tokens, for one tokenizer.",
    "sft": "Fine-tune a model on packed demonstrations.",
    "export": "Export trained weights as an inference server loads them.",
    "serve": "Serve a checkpoint on this machine, with transformers.",
    "reward": "Compute the reward of saved episodes, before GRPO.",
    "grpo": "Train on the model's own episodes, by their reward.",
    "evaluate": "Evaluate a searcher on held-out tasks.",
}


@click.group(name="train", cls=LazyGroup, package=__name__, sections={"Commands": COMMANDS})
def command() -> None:
    """Example: scrout train corpus trajectories/ --out corpus

    Train a searcher of your own: corpus, packing, fine-tuning, GRPO, evaluation.
    """
