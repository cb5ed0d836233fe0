"""`scrout train`: a searcher of one's own, from trajectories to the evaluation. Each command is loaded when it is needed."""

from __future__ import annotations

from importlib import import_module

import click

# name -> what it does, in the order of the work. The module of the same name holds the command.
COMMANDS = {
    "distill": "Let recon search tasks whose fix is known, as a teacher.",
    "corpus": "Cut demonstrations of searching out of trajectories of agents.",
    "pack": "Make blocks of tokens of a corpus, for one model's tokenizer.",
    "sft": "Fine-tune a model on packed demonstrations.",
    "export": "Write what was trained as a server takes it.",
    "serve": "Serve a checkpoint on this machine, with transformers.",
    "reward": "Say what saved episodes are worth, before anything is trained on it.",
    "grpo": "Train on episodes of the model's own, by their reward.",
    "evaluate": "Measure a searcher on held-out tasks, greedy against sampled.",
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
    """Train a searcher of your own: corpus, packing, fine-tuning, reinforcement, evaluation."""
