"""`scrout train`: train a searcher, from trajectories to its evaluation. Each command is loaded when it is needed."""

from __future__ import annotations

from importlib import import_module

import click

# name -> what it does, in the order of the work. The module of the same name holds the command.
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


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = import_module(f"scrout.cli.train.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(name="train", cls=_Commands)
def command() -> None:
    """Example: scrout train corpus trajectories/ --out corpus

    Train a searcher of your own: corpus, packing, fine-tuning, GRPO, evaluation.
    """
